"""A table that comes in batches: from pyarrow's readers and datasets, polars' lazy frames, DuckDB's relations, or any
iterable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import narwhals.stable.v2 as nw

from vsae.table.errors import TableError, library


def batches_of(source: Any) -> Iterator[Any]:
    """The tables that a source hands out, one after the other; a batch of Arrow comes as a table of it.

    >>> import numpy as np
    >>> [len(batch["x"]) for batch in batches_of({"x": np.arange(i)} for i in (2, 3))]
    [2, 3]
    """
    for batch in _handed_out(source):
        yield as_table(batch)


def as_table(batch: Any) -> Any:
    """A batch of Arrow as a table; what is a table already, as it is."""
    if _is_record_batch(batch):
        return library("pyarrow").Table.from_batches([batch])
    return batch


def like(batch: Any, table: Any) -> Any:
    """The table as one batch of Arrow, where `batch` is one."""
    if not _is_record_batch(batch):
        return table
    pa = library("pyarrow")
    columns = [column.combine_chunks() for column in table.columns]
    chunks = [c.chunk(0) if isinstance(c, pa.ChunkedArray) and c.num_chunks else c for c in columns]
    if not table.num_rows:
        chunks = [pa.array([], type=field.type) for field in table.schema]
    return pa.RecordBatch.from_arrays(chunks, schema=table.schema)


def raw_batches_of(source: Any) -> Iterator[Any]:
    """As they come."""
    return _handed_out(source)


def _handed_out(source: Any) -> Iterator[Any]:
    native = nw.to_native(source, pass_through=True)
    if hasattr(native, "collect_batches"):  # polars' LazyFrame, which is computed as it is asked for
        return iter(native.collect_batches(maintain_order=True))
    whole = isinstance(nw.from_native(native, pass_through=True), nw.DataFrame)
    if not whole and hasattr(native, "to_batches"):  # datasets of pyarrow and their scanners, in the order of rows
        return iter(native.to_batches())
    if not whole and hasattr(native, "__arrow_c_stream__"):  # readers of pyarrow, relations of DuckDB
        return iter(library("pyarrow").RecordBatchReader.from_stream(native))
    if whole or isinstance(native, Mapping) or hasattr(native, "shape"):  # of which we would iterate columns or cells
        raise TableError("this is a whole table; call fit or transform, or give an iterable of tables")
    if not isinstance(native, Iterable) or isinstance(native, str | bytes):
        known = "a reader or dataset of Arrow, a lazy frame of polars or an iterable"
        raise TableError(f"batches come from {known}, not {type(source).__name__}")
    return iter(native)


def _is_record_batch(batch: Any) -> bool:
    return type(batch).__name__ == "RecordBatch" and type(batch).__module__.startswith("pyarrow")
