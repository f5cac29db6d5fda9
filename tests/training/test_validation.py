"""The held-out score is of what a user would get."""

from __future__ import annotations

import numpy as np
import torch

from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, count, real
from vsae.fitting.fit import fit
from vsae.model.config import VSAEConfig
from vsae.training.validation import HeldOut


def zero_inflated(n=400):
    """Mostly zeros, which a bound of 0 makes stand for all that lies below."""
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(n) < 0.9, 0, rng.integers(500, 9000, n))
    return Schema([count("gain", min=0), real("other")]), {"gain": gain, "other": rng.normal(size=n) + (gain > 0)}


def test_a_mean_beyond_all_that_was_seen_counts_as_the_outermost():
    schema, columns = zero_inflated()
    mask = np.ones((400, 2), dtype=bool)
    rows = Encoding.fit(schema, columns, mask).encode(columns, mask)
    held_out = HeldOut.of(schema, Batch(rows.values, rows.mask, torch.rand(400, 2) < 0.3))
    zero = rows.values["interval"][..., 0].min()
    assert held_out._clamped("interval", torch.tensor([[[-1e3]]])).item() == zero
    assert held_out._clamped("gaussian", torch.tensor([[[1e3]]])).item() == rows.values["gaussian"].max()


def test_zeros_at_a_bound_do_not_stop_training_early():
    schema, columns = zero_inflated()
    mask = np.random.default_rng(1).random((400, 2)) < 0.7
    config = VSAEConfig(members=2, steps=200, evaluate_every=10)
    scores = [record["score"] for record in fit(schema, columns, mask, config).history.records]
    assert max(max(score) for score in scores[5:]) < 1.5
