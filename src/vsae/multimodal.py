"""Rows as dicts, as PyTorch's datasets have them: `None`, NaN or nothing at all where something is missing.

Three ways in, from the most to the least convenient:

    fit_rows(schema, dataset)           a Dataset, a DataLoader or any iterable of dicts → a fitted model
    columns_of(schema, rows)            the columns and the mask that `vsae.fit` takes
    DataLoader(…, collate_fn=Collate(encoding))   batches for a loop of one's own around `vsae.training.em.learn`

Images may be arrays or tensors, (C, H, W), (H, W, C) or (H, W), in [0, 1] or bytes, or images of Pillow. Text comes
as a vector: an embedding from elsewhere, or `bag_of_tokens`.

>>> from vsae.data.schema import Schema, categorical, image
>>> schema = Schema([image("photo", (1, 2, 2)), categorical("label", 3)])
>>> columns, mask = columns_of(schema, [{"photo": np.ones((2, 2)), "label": None}, {"label": 2}])
>>> columns["photo"].shape, columns["label"], mask.tolist()
((2, 1, 2, 2), array([0, 2]), [[True, False], [False, True]])
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, IterableDataset

from vsae.data.batch import Batch
from vsae.data.columns import Mask
from vsae.data.encoding import Encoding
from vsae.data.schema import DISCRETE, Kind, Schema, SchemaError, Variable
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedModel, FittedVSAE
from vsae.model.config import VSAEConfig

Row = Mapping[str, Any]  # variable → value
Source = Dataset[Any] | DataLoader[Any] | Iterable[Row]


def fit_rows(schema: Schema, source: Source, config: VSAEConfig | None = None, **options: Any) -> FittedVSAE:
    """`vsae.fit` on rows that are dicts; they are read once, and kept in memory."""
    return fit(schema, *columns_of(schema, source), config, **options)


def impute_rows(fitted: FittedModel[Any], source: Source) -> list[dict[str, Any]]:
    """The rows, with nothing missing."""
    columns, mask = columns_of(fitted.schema, source)
    filled = fitted.impute(columns, mask)
    return [{name: x[i] for name, x in filled.items()} for i in range(len(mask))]


class Collate:
    """For a DataLoader: a list of rows → a `Batch` (1, B, …) in the units of an encoding.

    >>> from vsae.data.schema import Schema, real
    >>> rows = [{"a": 1.0, "b": None}, {"a": 3.0, "b": 5.0}]
    >>> schema = Schema([real("a"), real("b")])
    >>> encoding = Encoding.fit(schema, *columns_of(schema, rows))
    >>> for batch in DataLoader(rows, batch_size=2, collate_fn=Collate(encoding)):
    ...     print(batch.values["gaussian"], batch.mask.sum().item())
    tensor([[[-1.,  0.], [ 1.,  0.]]]) 3
    """

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    def __call__(self, rows: Sequence[Row]) -> Batch:
        return self.encoding.encode(*columns_of(self.encoding.schema, rows)).for_members()


def columns_of(schema: Schema, source: Source) -> tuple[dict[str, NDArray[Any]], Mask]:
    """Columns by variable, and the mask (n, M); an attribute is observed if all of its variables are there."""
    values: dict[str, list[Any]] = {variable.name: [] for variable in schema.variables}
    for row in _rows(schema, source):
        for variable in schema.variables:
            values[variable.name].append(_value(variable, row.get(variable.name), len(values[variable.name])))
    there = {name: np.array([value is not None for value in column], dtype=bool) for name, column in values.items()}
    mask = np.stack(
        [np.logical_and.reduce([there[v.name] for v in attribute.variables]) for attribute in schema], axis=1
    )
    return {v.name: _column(v, values[v.name]) for v in schema.variables}, mask


def bag_of_tokens(tokens: Iterable[str], width: int) -> NDArray[np.float64]:
    """How often each token occurs, as a vector of that width and of length 1: tokens share entries by their hash.

    >>> bag = bag_of_tokens("to be or not to be".split(), 64)
    >>> bag.shape, round(float((bag**2).sum()), 6), int((bag > 0).sum())
    ((64,), 1.0, 4)
    """
    bag = np.zeros(width)
    for token in tokens:
        bag[zlib.crc32(token.encode()) % width] += 1.0
    length = float(np.sqrt((bag**2).sum()))
    return bag / length if length else bag


def _rows(schema: Schema, source: Source) -> Iterator[Row]:
    """One after the other; what a DataLoader has stacked into batches is taken apart again."""
    items: Iterable[Any]
    if isinstance(source, Dataset) and not isinstance(source, IterableDataset):
        items = map(source.__getitem__, range(len(source)))  # type: ignore[arg-type]
    else:
        items = source
    for item in items:
        if isinstance(item, Mapping) and not (isinstance(source, DataLoader) and source.batch_size):
            yield item
        elif isinstance(item, Mapping):
            known = [name for name in schema.attribute_of if name in item]
            for i in range(len(item[known[0]]) if known else 0):
                yield {name: item[name][i] for name in known}
        elif isinstance(item, list | tuple) and all(isinstance(row, Mapping) for row in item):
            yield from item
        else:
            raise SchemaError(f"a row must be a dict of values by name, not {type(item).__name__}")


def _value(variable: Variable, value: Any, row: int) -> NDArray[Any] | None:
    """One cell as an array of the variable's shape; None where it is missing."""
    if value is None:
        return None
    x = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if x.dtype.kind not in "biuf":
        raise SchemaError(f"attribute {variable.name!r}, row {row}: {value!r} is not a number; give one or an array")
    if x.dtype.kind == "f" and np.isnan(x).all():
        return None
    return channels_first(variable, x, row) if variable.kind is Kind.IMAGE else _shaped(variable, x, row)


def channels_first(variable: Variable, x: NDArray[Any], row: int) -> NDArray[Any]:
    """An image as (C, H, W), its channels first or last or, if it has but one, not there."""
    assert variable.shape is not None
    channels, height, width = variable.shape
    if x.shape == (height, width) and channels == 1:
        return x[None]
    if x.shape == (height, width, channels) and x.shape != variable.shape:
        return np.moveaxis(x, -1, 0)
    return _shaped(variable, x, row)


def _shaped(variable: Variable, x: NDArray[Any], row: int) -> NDArray[Any]:
    if x.shape != variable.event:
        raise SchemaError(
            f"attribute {variable.name!r}, row {row}: shape {x.shape}; the schema asks for {variable.event}"
        )
    return x


def _column(variable: Variable, values: list[Any]) -> NDArray[Any]:
    """All cells stacked, zeros where they are missing; images stay bytes if all of them are."""
    there = [value for value in values if value is not None]
    dtype: Any = np.int64 if variable.family in DISCRETE else np.float64
    if variable.kind is Kind.IMAGE:
        dtype = np.uint8 if there and all(value.dtype == np.uint8 for value in there) else np.float32
    column = np.zeros((len(values), *variable.event), dtype=dtype)
    for i, value in enumerate(values):
        if value is not None:
            as_bytes = variable.kind is Kind.IMAGE and value.dtype.kind in "iu" and dtype != np.uint8
            column[i] = value / 255 if as_bytes else value
    return column


__all__ = ["Collate", "Source", "bag_of_tokens", "columns_of", "fit_rows", "impute_rows"]
