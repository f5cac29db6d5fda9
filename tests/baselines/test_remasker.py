"""ReMasker: tokens that are hidden carry nothing, and what is hidden is learned from what is shown."""

from __future__ import annotations

import numpy as np
import torch

from conftest import every_kind, rows_of
from vsae.baselines.remasker import ReMasker, TransformerBlock
from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, real
from vsae.fitting.baseline import fit_baseline
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.latent_model import Noise

CONFIG = VSAEConfig.paper(**ReMasker.settings).replace(collective=NetShape(16, 2), data_net=NetShape(16, 1))


def two_tables() -> tuple[Schema, Batch, Batch]:
    """The same mask and the same visible cells; all hidden cells differ."""
    schema = every_kind()
    (columns, mask), (others, _) = rows_of(schema, 30), rows_of(schema, 30, seed=9)
    mixed = {
        v.name: np.where(
            mask[:, schema.attribute_of[v.name]].reshape(-1, *[1] * (columns[v.name].ndim - 1)),
            columns[v.name],
            others[v.name],
        )
        for v in schema.variables
    }
    encoding = Encoding.fit(schema, columns, mask)
    full = np.ones_like(mask)
    one, other = (encoding.encode(table, full).for_members() for table in (columns, mixed))
    return schema, one.with_mask(torch.from_numpy(mask)[None]), other.with_mask(torch.from_numpy(mask)[None])


def test_what_hidden_cells_hold_changes_no_bit_of_the_encoded_tokens():
    schema, one, other = two_tables()
    model = ReMasker(schema, CONFIG)
    assert any(not torch.equal(one.values[name], other.values[name]) for name in one.values)
    with torch.no_grad():
        assert torch.equal(model.encode(one), model.encode(other))
        for name, x in model.reconstruct(one).items():
            assert torch.equal(x.mean, model.reconstruct(other)[name].mean)


def test_hidden_tokens_are_zeros_and_a_visible_cell_reaches_all_that_are_visible():
    schema, one, _ = two_tables()
    model = ReMasker(schema, CONFIG)
    with torch.no_grad():
        tokens = model.encode(one)
        assert tokens.shape == (1, 30, 1 + len(schema), 16)
        assert not tokens[:, :, 1:][~one.mask].any()
        height = schema.names.index("height")
        row = int((one.mask[0, :, height] & (one.mask[0].sum(1) > 2)).nonzero()[0])
        changed = {name: x.clone() for name, x in one.values.items()}
        changed["gaussian"][0, row, 0] += 1.0
        moved = (model.encode(Batch(changed, one.mask)) != tokens).any(-1)[0]
    assert torch.equal(moved[row, 1:], one.mask[0, row])
    assert moved[row, 0]
    moved[row] = False
    assert not moved.any()  # rows do not read each other


def test_a_row_without_a_visible_cell_is_encoded_all_the_same():
    schema, one, _ = two_tables()
    model = ReMasker(schema, CONFIG)
    blank = one.with_mask(torch.zeros_like(one.mask))
    with torch.no_grad():
        for x in model.reconstruct(blank).values():
            assert torch.isfinite(x.mean).all()
            torch.testing.assert_close(x.mean[:, 0], x.mean[:, 1])


def test_attention_is_that_of_torch():
    torch.manual_seed(0)
    block, h, shown = TransformerBlock(1, 16), torch.randn(1, 3 * 5, 16), torch.rand(1, 3, 5) < 0.6
    shown[..., 0] = True
    reference = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        reference.in_proj_weight.copy_(block.queries_keys_values.weight[0].T)
        reference.in_proj_bias.copy_(block.queries_keys_values.bias[0, 0])
        reference.out_proj.weight.copy_(block.mixed.weight[0].T)
        reference.out_proj.bias.copy_(block.mixed.bias[0, 0])
        rows = h.view(3, 5, 16)
        expected = reference(rows, rows, rows, key_padding_mask=~shown[0])[0]
        found = block.mixed(block._attend(block.queries_keys_values(h), shown)).view(3, 5, 16)
    torch.testing.assert_close(found, expected)


def test_half_of_the_observed_cells_are_hidden_in_a_step_and_all_of_them_are_scored(monkeypatch):
    schema, one, _ = two_tables()
    model = ReMasker(schema, CONFIG)
    shown = []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda visible: shown.append(visible.mask) or encode(visible))
    torch.manual_seed(0)
    terms, _ = model.bound(one, 0)
    (visible,) = shown
    assert not (visible & ~one.mask).any()
    assert 0.4 < visible.sum() / one.mask.sum() < 0.6
    scored = terms.x_observed != 0
    certain = torch.tensor([name == "single" for name in schema.names])  # one level, log p = 0
    assert torch.equal(scored[..., ~certain], one.mask[..., ~certain])


def test_a_hidden_cell_is_learned_from_those_that_go_with_it_and_drawn_with_its_spread():
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    columns = {"a": a, "b": a + 0.3 * rng.normal(size=400), "c": rng.normal(size=400)}
    schema, mask = Schema([real(name) for name in columns]), rng.random((400, 3)) < 0.8
    config = CONFIG.replace(epochs=None, steps=120, learning_rate=5e-3, schedule="cosine", evaluate_every=60)
    fitted = fit_baseline(ReMasker, schema, columns, mask, config)
    new = {"a": rng.normal(size=60), "b": np.zeros(60), "c": np.zeros(60)}
    shown = np.tile([True, False, False], (60, 1))
    filled = fitted.impute(new, shown)
    assert np.abs(filled["b"] - new["a"]).mean() < 0.25
    assert np.abs(filled["c"]).mean() < 0.25
    draws = np.stack([table["b"] for table in fitted.draw(new, shown, 30)])
    assert 0.2 < draws.std(axis=0).mean() < 0.55
    with torch.no_grad():  # what is drawn is the cell, not the network's word on it
        batch = fitted.encoding.encode(new, shown).for_members()
        said = fitted.model.draws(batch, Noise(1, 2, 60)).data["gaussian"].mean.unflatten(1, (2, 60))
    assert torch.equal(said[:, 0], said[:, 1])
