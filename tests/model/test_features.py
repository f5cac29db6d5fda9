"""What the proposal networks read of a number."""

from __future__ import annotations

import pytest
import torch

from vsae.model.features import NumberFeatures


def test_a_column_of_few_whole_numbers_has_them_all_told_apart():
    """However the cells are spread over them: education years, most of them 9, 10 or 13."""
    values = torch.arange(1.0, 17.0)
    column = torch.cat([values, torch.full((300,), 9.0), torch.full((200,), 10.0), torch.full((150,), 13.0)])[:, None]
    features = NumberFeatures(1, "rich")
    features.fit(column, torch.ones_like(column, dtype=torch.bool))
    assert (features.edges[0].diff() > 0).all()
    few = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 5.0]).repeat(5)[:, None]
    features.fit(few, torch.ones_like(few, dtype=torch.bool))
    bins = features(torch.tensor([[0.0], [1.0], [5.0]]))[:, 0, 2:]
    assert bins.sum(1).tolist() == pytest.approx([0.0, 1.0, 2.0], abs=1e-3)


def test_normal_scores_can_be_taken_back():
    column = torch.randn(500, 1).exp()
    features = NumberFeatures(1, "rich")
    features.fit(column, torch.ones_like(column, dtype=torch.bool))
    inside = column[(column > features.knots[0, 0]) & (column < features.knots[0, -1])][:, None]
    torch.testing.assert_close(features.number(features.score(features(inside))), inside, rtol=1e-3, atol=1e-3)
