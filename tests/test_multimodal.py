"""Rows as dicts: from PyTorch's datasets and loaders to columns, batches and fitted models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from conftest import SMALL, bars
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, SchemaError, categorical, group, image, real, vector
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE
from vsae.multimodal import Collate, columns_of, fit_rows, impute_rows
from vsae.training.em import learn


class Rows(Dataset):
    """`bars` as dicts, with None in the missing cells."""

    def __init__(self, n: int) -> None:
        self.schema, self.columns, self.mask = bars(n)

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, i: int) -> dict:
        cells = zip(self.schema.names, self.mask[i], strict=True)
        return {name: self.columns[name][i] if seen else None for name, seen in cells}


@pytest.fixture
def dataset() -> Rows:
    return Rows(24)


def same(rows: Rows, columns: dict, mask: np.ndarray) -> None:
    assert np.array_equal(mask, rows.mask)
    for i, name in enumerate(rows.schema.names):
        np.testing.assert_allclose(columns[name][mask[:, i]], rows.columns[name][mask[:, i]], rtol=1e-6)


def test_a_dataset_a_list_and_loaders_are_read_alike(dataset):
    same(dataset, *columns_of(dataset.schema, dataset))
    same(dataset, *columns_of(dataset.schema, [dataset[i] for i in range(len(dataset))]))
    same(dataset, *columns_of(dataset.schema, DataLoader(dataset, batch_size=5, collate_fn=list)))
    same(dataset, *columns_of(dataset.schema, DataLoader(dataset, batch_size=None)))


def test_stacked_batches_have_nan_for_what_is_missing(dataset):
    def stacked(rows):
        columns, mask = columns_of(dataset.schema, rows)
        out = {name: torch.as_tensor(x).double() for name, x in columns.items()}
        for i, name in enumerate(dataset.schema.names):
            out[name][~torch.as_tensor(mask[:, i])] = torch.nan
        return out

    same(dataset, *columns_of(dataset.schema, DataLoader(dataset, batch_size=7, collate_fn=stacked)))


@pytest.mark.parametrize("layout", ["channels first", "channels last", "tensor", "bytes"])
def test_images_come_in_several_layouts(layout):
    x = np.random.default_rng(0).integers(256, size=(3, 4, 5)).astype(np.uint8)
    given = {
        "channels first": x / 255,
        "channels last": np.moveaxis(x, 0, -1) / 255,
        "tensor": torch.as_tensor(x / 255),
        "bytes": x,
    }[layout]
    columns, mask = columns_of(Schema([image("a", (3, 4, 5))]), [{"a": given}, {}])
    assert mask.tolist() == [[True], [False]]
    assert columns["a"].dtype == (np.uint8 if layout == "bytes" else np.float32)
    np.testing.assert_allclose(columns["a"][0] / (255 if layout == "bytes" else 1), x / 255, rtol=1e-6)


def test_bytes_and_shares_in_one_column_mean_the_same():
    x = np.arange(4, dtype=np.uint8).reshape(1, 2, 2) * 60
    columns, _ = columns_of(Schema([image("a", (1, 2, 2))]), [{"a": x}, {"a": x / 255}])
    np.testing.assert_allclose(columns["a"][0], columns["a"][1], rtol=1e-6)


def test_a_group_is_missing_if_a_part_of_it_is():
    schema = Schema([group("both", real("a"), vector("v", 2)), categorical("c", 2)])
    _, mask = columns_of(schema, [{"a": 1.0, "v": [1.0, 2.0], "c": 1}, {"a": 1.0, "c": 0}, {"v": [1.0, 2.0]}])
    assert mask.tolist() == [[True, True], [False, True], [False, False]]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"a": np.zeros((3, 3))}, r"attribute 'a', row 0: shape \(3, 3\); the schema asks for \(1, 2, 2\)"),
        ({"a": "cat.png"}, "row 0: 'cat.png' is not a number"),
        ([1.0], "a row must be a dict"),
    ],
)
def test_a_wrong_row_is_refused_by_name(row, complaint):
    with pytest.raises(SchemaError, match=complaint):
        columns_of(Schema([image("a", (1, 2, 2))]), [row])


def test_fit_and_impute_rows(dataset):
    fitted = fit_rows(dataset.schema, dataset, VSAEConfig(**{**SMALL, "steps": 5}), seed=0)
    filled = impute_rows(fitted, [{"place": 1}, {"upright": dataset.columns["upright"][0]}])
    assert filled[0]["upright"].shape == (1, 8, 8)
    assert filled[0]["place"] == 1
    assert np.isfinite(filled[1]["number"])


def test_a_training_loop_of_ones_own(dataset):
    encoding = Encoding.fit(dataset.schema, *columns_of(dataset.schema, dataset))
    model = VSAE(dataset.schema, VSAEConfig(**SMALL, features="plain", gaussian=False))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for epoch in range(4):
        for batch in DataLoader(dataset, batch_size=8, collate_fn=Collate(encoding)):
            _, loss = learn(model, batch, epoch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
