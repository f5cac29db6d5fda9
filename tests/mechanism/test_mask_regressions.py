"""Masks of complete rows: as frequent as those of the table, and by the same columns."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.encoding import Encoding
from vsae.data.missingness import MCAR, LogisticMAR, LogisticNMAR, Mechanism
from vsae.data.schema import Schema, binary, real
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.mechanism.mask_regressions import MaskRegressions
from vsae.model.config import VSAEConfig

SCHEMA = Schema([*(real(f"x{j}") for j in range(5)), binary("level")])


def table(n: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(5).normal(size=(2, 6)) * 1.0
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) @ x + 0.6 * rng.normal(size=(n, 6))
    x[:, 5] = x[:, 5] > 0
    return x


def columns_of(x: np.ndarray) -> dict[str, np.ndarray]:
    return {v.name: x[:, j].astype(int if v.name == "level" else float) for j, v in enumerate(SCHEMA.variables)}


def fitted(mechanism: Mechanism, said: str) -> tuple[FittedVSAE, np.ndarray, np.ndarray, np.ndarray]:
    """A model, and rows that it has not seen, with masks of the same mechanism."""
    x = table(4000, seed=1)
    mask = mechanism.sample(x, np.random.default_rng(2))
    model = fit(SCHEMA, columns_of(x[:1500]), mask[:1500], VSAEConfig(steps=250, members=1), mechanism=said)
    return model, x[1500:], mask[1500:], mask[:1500]


def correlations(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Of each column's mask with each column's values."""
    found = np.corrcoef(np.concatenate([x, mask + 1e-9 * x], axis=1), rowvar=False)[:6, 6:]
    return np.where(mask.std(axis=0) > 0, found, 0.0)


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [(MCAR(0.3), "auto"), (LogisticMAR(0.3), "auto"), (LogisticNMAR(0.3), "self-masking")],
    ids=["MCAR", "MAR", "NMAR"],
)
def test_masks_are_like_those_of_the_table(mechanism: Mechanism, said: str) -> None:
    model, x, true, before = fitted(mechanism, said)
    columns, complete = columns_of(x), np.ones(true.shape, dtype=bool)
    mask = model.ampute(columns, complete, seed=3)
    np.testing.assert_allclose(mask.mean(axis=0), before.mean(axis=0), atol=0.05)
    assert np.abs(correlations(x, mask) - correlations(x, true)).max() < 0.15
    assert np.abs(correlations(x, mask) - correlations(x, true)).mean() < 0.05
    assert np.array_equal(mask, model.ampute(columns, complete, seed=3))
    assert not np.array_equal(mask, model.ampute(columns, complete, seed=4))
    if isinstance(mechanism, MCAR):
        return
    swapped = np.roll(true, 1, axis=0)
    own, other = (model.mask_log_likelihood(columns, m) for m in (true, swapped))
    differ = (true != swapped).any(axis=1)
    assert np.mean(own[differ] > other[differ]) > 0.7
    assert own.mean() > other.mean() + 0.5


def test_masks_that_change_places_are_as_many_and_follow_the_row() -> None:
    x, rng = table(2000, seed=8), np.random.default_rng(9)
    mask = np.ones(x.shape, dtype=bool)
    mask[:, 0] = rng.random(2000) > 1 / (1 + np.exp(-2 * x[:, 1]))
    columns = columns_of(x)
    found = MaskRegressions.fit(Encoding.fit(SCHEMA, columns, mask), [columns], mask)
    shuffled = rng.permuted(mask, axis=0)
    shuffled[:, 4] = False
    encoding = Encoding.fit(SCHEMA, columns, mask)
    dealt = found.deal(encoding, columns, shuffled, rng.random(mask.shape))
    assert np.array_equal(dealt.sum(axis=0), shuffled.sum(axis=0))
    true, ours, before = (np.corrcoef(x[:, 1], m[:, 0])[0, 1] for m in (mask, dealt, shuffled))
    assert ours == pytest.approx(true, abs=0.05)
    assert abs(before) < 0.1


def test_chance_is_not_taken_for_dependence() -> None:
    """Slopes of masks that depend on nothing are a fraction of their standard errors."""
    x, rng = table(1000, seed=10), np.random.default_rng(11)
    mask = rng.random(x.shape) > 0.3
    columns = columns_of(x)
    encoding = Encoding.fit(SCHEMA, columns, np.ones_like(mask))
    found = MaskRegressions.fit(encoding, [columns], mask)
    error = 1 / np.sqrt(1000 * 0.3 * 0.7)
    assert np.abs(found.masks).mean() < 0.3 * error
    np.testing.assert_allclose(found.intercept, np.log(0.3 / 0.7), atol=0.25)


def test_masks_of_one_row_go_together() -> None:
    """Two columns that are always missing together, and one that never is."""
    x, rng = table(1200, seed=4), np.random.default_rng(5)
    mask = np.ones(x.shape, dtype=bool)
    mask[:, 0] = mask[:, 1] = rng.random(1200) > 0.4
    model = fit(SCHEMA, columns_of(x), mask, VSAEConfig(steps=40, members=1))
    made = model.ampute(columns_of(x), np.ones_like(mask))
    assert np.mean(made[:, 0] == made[:, 1]) > 0.97
    assert made[:, 2:].all()
    odd = mask[:1].copy()
    odd[0, 0] = not odd[0, 1]
    first = {name: column[:1] for name, column in columns_of(x).items()}
    assert model.mask_log_likelihood(first, odd)[0] < model.mask_log_likelihood(first, mask[:1])[0] - 3


def test_what_is_missing_stays_missing_and_files_keep_it(tmp_path) -> None:
    x, rng = table(300, seed=6), np.random.default_rng(7)
    mask = rng.random(x.shape) > 0.2
    model = fit(SCHEMA, columns_of(x), mask, VSAEConfig(steps=20, members=1))
    made = model.ampute(columns_of(x), mask)
    assert not made[~mask].any()
    assert made.sum() < mask.sum()
    model.save(tmp_path / "model")
    again = FittedVSAE.load(tmp_path / "model")
    assert np.array_equal(again.ampute(columns_of(x), mask), made)
