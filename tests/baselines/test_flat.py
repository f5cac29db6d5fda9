"""Rows as vectors: there and back, and gradients that pass drawn levels."""

from __future__ import annotations

import torch

from conftest import bars, every_kind, rows_of
from vsae.baselines.flat import FlatRows
from vsae.data.encoding import Encoding
from vsae.data.schema import DISCRETE, Family, Schema, categorical, ordinal
from vsae.model.likelihoods.levels import CategoricalHead


def encoded(schema, columns, mask):
    mask = mask | True
    return Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()


def test_every_kind_comes_back_as_it_went():
    schema = every_kind()
    batch, rows = encoded(schema, *rows_of(schema, 40)), FlatRows(schema)
    flat = rows(batch.values)
    assert flat.shape == (1, 40, rows.width)
    back = rows.certain(flat)
    for block in schema.blocks:
        x = batch.values[block.name]
        x = x[..., 0] if block.family is Family.INTERVAL else x
        assert torch.equal(back[block.name].mode, x)
        if block.family in DISCRETE:
            assert torch.equal(back[block.name].sample(), x)


def test_images_are_pixels():
    schema, columns, mask = bars(5)
    batch, rows = encoded(schema, columns, mask), FlatRows(schema)
    flat = rows(batch.values)
    assert flat.abs().max() < 2
    (block,) = schema.image_blocks
    torch.testing.assert_close(rows.certain(flat)[block.name].mean, batch.values[block.name].float(), atol=2e-4, rtol=0)


def test_what_is_said_of_attributes_reaches_their_entries():
    schema = every_kind()
    rows = FlatRows(schema)
    batch = encoded(schema, *rows_of(schema, 4))
    for i in range(len(schema)):
        mask = torch.arange(len(schema)) != i
        hidden = batch.with_mask(mask.expand(1, 4, -1))
        changed = rows.visible(hidden, 7.0) == 7.0
        assert torch.equal(changed, (rows.owner == i).expand_as(changed))


def test_a_drawn_level_is_one_that_is_there_and_has_the_gradient_of_its_probability():
    schema = Schema([categorical("a", 3)])
    rows, head = FlatRows(schema), CategoricalHead(schema.blocks[0], 1, "fixed")
    logits = torch.zeros(1, 3000, 3, requires_grad=True)
    drawn = rows.drawn({"categorical": head(logits)})
    assert set(drawn.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal((drawn > 0).sum(-1), torch.ones(1, 3000, dtype=torch.long))
    assert ((drawn > 0).float().mean((0, 1)) - 1 / 3).abs().max() < 0.05
    drawn[..., 0].sum().backward()
    p = torch.tensor(1 / 3)
    torch.testing.assert_close(logits.grad[0, 0], 2 * torch.stack([p * (1 - p), -p * p, -p * p]))


def test_ordered_levels_are_one_number():
    rows = FlatRows(Schema([ordinal("a", 5)]))
    flat = rows({"cumulative": torch.arange(5).view(1, 5, 1)})
    assert flat.flatten().tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert rows.certain(flat + 0.2)["cumulative"].mode.flatten().tolist() == [0, 1, 2, 3, 4]
    assert rows.certain(flat + 0.3)["cumulative"].mode.flatten().tolist() == [1, 2, 3, 4, 4]
