"""Rates are hit, seeds reproduce, and each mechanism looks only at what it is allowed to look at."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from vsae.data.missingness import (
    MCAR,
    LogisticMAR,
    LogisticNMAR,
    Mechanism,
    PaperMAR,
    PaperNMAR,
    PartlyNMAR,
    SelfMasking,
    _with_mean,
    by_name,
)

ALL = [MCAR(0.4), PaperMAR(), PaperNMAR(), LogisticMAR(0.4), LogisticNMAR(0.4), PartlyNMAR(0.4, (0, 2)), SelfMasking()]
LOGISTIC = [LogisticMAR, LogisticNMAR]


@pytest.fixture
def table() -> np.ndarray:
    """Correlated columns of different scales, (4000, 8), the last one a code."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 8)) @ rng.normal(size=(8, 8)) * 10.0 ** np.arange(-3, 5) + 7
    x[:, -1] = np.digitize(x[:, -1], np.quantile(x[:, -1], [0.3, 0.8]))
    return x


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: type(m).__name__)
class TestEveryMechanism:
    def test_a_mask_is_bool_and_reproduces(self, mechanism: Mechanism, table: np.ndarray) -> None:
        mask = mechanism.sample(table, generator())
        assert mask.shape == table.shape
        assert mask.dtype == bool
        np.testing.assert_array_equal(mask, mechanism.sample(table, generator()))

    def test_seeds_differ(self, mechanism: Mechanism, table: np.ndarray) -> None:
        same = np.array_equal(mechanism.sample(table, generator(1)), mechanism.sample(table, generator(2)))
        assert same == isinstance(mechanism, SelfMasking)

    def test_frequencies_follow_the_probabilities(self, mechanism: Mechanism, table: np.ndarray) -> None:
        probability = mechanism.missing_probability(table, generator())
        missing = ~mechanism.sample(table, generator())
        assert ((probability >= 0) & (probability <= 1)).all()
        np.testing.assert_allclose(missing.mean(axis=0), probability.mean(axis=0), atol=0.04)  # 5 sigma

    @pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1)])
    def test_small_tables(self, mechanism: Mechanism, shape: tuple[int, int]) -> None:
        mask = mechanism.sample(np.arange(6.0)[: shape[0] * shape[1]].reshape(shape), generator())
        assert mask.shape == shape

    def test_constant_columns_carry_no_signal(self, mechanism: Mechanism) -> None:
        # The mean of many .1s is not .1 in floats: rounding must not be taken for a signal.
        probability = mechanism.missing_probability(np.full((1001, 5), 0.1), generator())
        assert (np.ptp(probability, axis=0) == 0).all()

    def test_the_input_is_left_alone(self, mechanism: Mechanism, table: np.ndarray) -> None:
        before = table.copy()
        mechanism.sample(table, generator())
        np.testing.assert_array_equal(table, before)

    @pytest.mark.parametrize("shift", [-3.0, 1e3])
    def test_units_do_not_matter(self, mechanism: Mechanism, table: np.ndarray, shift: float) -> None:
        moved = mechanism.missing_probability(table * 4 + shift, generator())
        np.testing.assert_allclose(moved, mechanism.missing_probability(table, generator()), atol=1e-4)

    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (np.zeros(3), "shape"),
            (np.zeros((0, 3)), "at least one cell"),
            (np.array([[1.0, np.nan]]), "1 cells are not finite"),
            (np.array([[np.inf, np.nan]]), "2 cells are not finite"),
            (np.array([["red"]]), "encode categories"),
        ],
    )
    def test_refuses_what_is_no_complete_table(self, mechanism: Mechanism, x: np.ndarray, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            mechanism.sample(x, generator())


@pytest.mark.parametrize("make", [MCAR, LogisticMAR, LogisticNMAR])
class TestRate:
    @pytest.mark.parametrize("rate", [0.0, 0.01, 0.3, 0.5, 0.7])
    def test_is_hit(self, make: type, rate: float, table: np.ndarray) -> None:
        assert make(rate).missing_probability(table, generator()).mean() == pytest.approx(rate, abs=1e-9)
        assert (~make(rate).sample(table, generator())).mean() == pytest.approx(rate, abs=0.015)

    @pytest.mark.parametrize("rate", [-0.1, 1.0, np.nan])
    def test_out_of_range_is_refused(self, make: type, rate: float) -> None:
        with pytest.raises(ValueError, match="rate must be"):
            make(rate)


def test_mcar_is_independent_of_the_values_and_between_columns(table: np.ndarray) -> None:
    missing = ~MCAR(0.5).sample(table, generator())
    correlation = np.corrcoef(np.hstack([missing, table]).T)[:8]
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 0.08  # 5 / sqrt(4000)


@pytest.mark.parametrize(("columns", "expected"), [(1, 0), (2, 1), (3, 1), (4, 1), (7, 1), (8, 2), (13, 3)])
def test_paper_mar_keeps_a_quarter_of_the_columns(columns: int, expected: int) -> None:
    x = generator().normal(size=(200, columns))
    assert PaperMAR().sample(x, generator()).all(axis=0).sum() == expected


@pytest.mark.parametrize("missing", [True, False])
def test_paper_mar_is_the_formula(missing: bool, table: np.ndarray) -> None:
    probability = PaperMAR(missing).missing_probability(table, generator())
    observed = np.flatnonzero(probability.max(axis=0) == 0)
    scaled = (table - table.min(axis=0)) / (table.max(axis=0) - table.min(axis=0))
    expected = expit((1 if missing else -1) * sum(scaled[:, k] for k in observed) / 8)
    assert len(observed) == 2
    for i in set(range(8)) - set(observed):
        np.testing.assert_allclose(probability[:, i], expected)
    assert probability[:, probability.any(axis=0)].std() < 0.02  # what its docstring warns of


@pytest.mark.parametrize("missing", [True, False])
def test_paper_nmar_is_the_formula(missing: bool) -> None:
    x = np.array([[2.0, 5.0], [4.0, 5.0], [6.0, 5.0]])
    sign = 1 if missing else -1
    expected = expit(sign * np.array([[0, 0], [0.5, 0], [1, 0]]))
    np.testing.assert_allclose(PaperNMAR(missing).missing_probability(x, generator()), expected)


def scramble_the_rest(x: np.ndarray, kept: np.ndarray) -> np.ndarray:
    return np.where(kept, x, generator(9).gamma(2.0, size=x.shape))


@pytest.mark.parametrize("mechanism", [PaperMAR(), LogisticMAR(0.4)], ids=["paper", "logistic"])
def test_mar_looks_only_at_the_observed_columns(mechanism: Mechanism, table: np.ndarray) -> None:
    probability = mechanism.missing_probability(table, generator())
    observed = probability.max(axis=0) == 0
    elsewhere = mechanism.missing_probability(scramble_the_rest(table, observed), generator())
    np.testing.assert_array_equal(probability, elsewhere)
    other_observed = mechanism.missing_probability(scramble_the_rest(table, ~observed), generator())
    assert np.abs(probability - other_observed).max() > 0.005


@pytest.mark.parametrize("mechanism", [PaperNMAR(), LogisticNMAR(0.4)], ids=["paper", "logistic"])
def test_nmar_hides_high_values_in_every_column(mechanism: Mechanism, table: np.ndarray) -> None:
    mask = mechanism.sample(table, generator())
    for x, observed in zip(table.T, mask.T, strict=True):
        assert x[~observed].mean() > x[observed].mean()


def shift_given_the_observed(mask: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Standardised gap of hidden and observed values in columns 2…, regressed on columns 0 and 1."""
    known = np.column_stack([np.ones(len(x)), x[:, :2]])
    residual = x[:, 2:] - known @ np.linalg.lstsq(known, x[:, 2:], rcond=None)[0]
    pairs = zip(residual.T, mask[:, 2:].T, strict=True)
    return np.array([(r[~m].mean() - r[m].mean()) / r.std() for r, m in pairs])


def test_given_the_observed_columns_mar_does_not_see_the_hidden_value_and_nmar_does() -> None:
    rng = generator(3)
    x = rng.normal(size=(6000, 2))
    x = np.hstack([x, x @ rng.normal(size=(2, 6)) + rng.normal(size=(6000, 6))])
    # Seeds are tried until the always observed columns are 0 and 1, which the regression above supposes.
    seed = next(s for s in range(500) if LogisticMAR(0.4).sample(x, generator(s)).all(axis=0)[:2].all())
    mar = LogisticMAR(0.4).sample(x, generator(seed))
    assert (~mar[:, 2:]).any(axis=0).all()
    assert np.abs(shift_given_the_observed(mar, x)).max() < 0.13  # 5 sigma: the gap has std 1/sqrt(6000 pq)
    assert shift_given_the_observed(LogisticNMAR(0.4).sample(x, rng), x).min() > 0.3


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("strength", [0.0, 1.0, 500.0])
def test_bisection_agrees_with_scipy(rate: float, strength: float) -> None:
    logit = strength * generator().normal(size=(301, 3))
    probability = _with_mean(rate, logit)
    for column, solved in zip(logit.T, probability.T, strict=True):
        b = brentq(lambda b, c=column: expit(c + b).mean() - rate, -5000, 5000, xtol=1e-13, rtol=1e-14)
        np.testing.assert_allclose(solved, expit(column + b), atol=1e-8)


@pytest.mark.parametrize("make", LOGISTIC)
def test_strength_is_the_std_of_the_logit(make: type, table: np.ndarray) -> None:
    p = make(0.3, strength=1.5).missing_probability(table, generator())
    p = p[:, p.any(axis=0)]
    np.testing.assert_allclose(np.log(p / (1 - p)).std(axis=0), 1.5, rtol=1e-6)


@pytest.mark.parametrize("make", LOGISTIC)
def test_strength_zero_is_mcar_within_the_columns(make: type, table: np.ndarray) -> None:
    probability = make(0.3, strength=0.0).missing_probability(table, generator())
    np.testing.assert_allclose(np.ptp(probability, axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("make", LOGISTIC)
@pytest.mark.parametrize("strength", [-1.0, np.inf, np.nan])
def test_bad_strength_is_refused(make: type, strength: float) -> None:
    with pytest.raises(ValueError, match="strength"):
        make(0.3, strength=strength)


def test_nmar_own_column_wins_even_against_copies_of_itself() -> None:
    x = np.repeat(generator().normal(size=(2000, 1)), 5, axis=1)
    for seed in range(20):
        probability = LogisticNMAR(0.5).missing_probability(x, generator(seed))
        assert all(np.corrcoef(x[:, j], probability[:, j])[0, 1] > 0.5 for j in range(5))


def test_nmar_own_weight_is_twice_that_of_the_others_together() -> None:
    x = generator().normal(size=(500, 5))
    x = np.linalg.qr(x - x.mean(axis=0))[0]  # uncorrelated, of equal std: weights can be read off
    p = LogisticNMAR(0.5).missing_probability(x, generator())
    weights = x.T @ np.log(p / (1 - p))
    own = np.diag(weights).copy()
    np.fill_diagonal(weights, 0)
    np.testing.assert_allclose(own / np.linalg.norm(weights, axis=0), 2.0, rtol=1e-6)


def test_nmar_of_low_values_is_that_of_high_ones_turned_round(table: np.ndarray) -> None:
    low = LogisticNMAR(0.3, low=True).missing_probability(table, generator())
    np.testing.assert_allclose(low, LogisticNMAR(0.3).missing_probability(-table, generator()), atol=1e-9)
    assert all(np.corrcoef(x, p)[0, 1] < -0.3 for x, p in zip(table.T, low.T, strict=True))


def test_nmar_of_the_tail_leaves_the_lower_half_to_chance(table: np.ndarray) -> None:
    p = LogisticNMAR(0.3, tail=True).missing_probability(table, generator())
    np.testing.assert_allclose(p.mean(axis=0), 0.3, atol=1e-9)
    order = np.argsort(p, axis=0)
    np.testing.assert_allclose(np.ptp(np.take_along_axis(p, order[:1900], axis=0), axis=0), 0, atol=1e-12)
    assert (p.max(axis=0) > 2 * p.min(axis=0)).all()
    high = np.take_along_axis(table, order[-1000:], axis=0)[:, :7]  # the last column is a code
    assert (high.mean(axis=0) > table[:, :7].mean(axis=0)).all()


def test_partly_nmar_hides_by_the_own_value_only_where_it_is_told_to() -> None:
    x = generator().normal(size=(20_000, 8))
    mechanism = PartlyNMAR(0.3, self_masking=[1, 4, 6])
    p = mechanism.missing_probability(x, generator(3))
    always = p.max(axis=0) == 0
    assert always.sum() == 2
    assert not always[[1, 4, 6]].any()
    np.testing.assert_allclose(p[:, ~always].mean(axis=0), 0.4, atol=1e-9)  # 0.3 of the whole table
    own = np.array([0.0 if a else np.corrcoef(x[:, j], p[:, j])[0, 1] for j, a in enumerate(always)])
    assert (own[[1, 4, 6]] > 0.5).all()
    assert (np.abs(np.delete(own, [1, 4, 6])) < 0.05).all()  # columns are independent here
    alone = PartlyNMAR(0.3, range(8)).missing_probability(x, generator())
    np.testing.assert_array_equal(alone, LogisticNMAR(0.3).missing_probability(x, generator()))
    with pytest.raises(ValueError, match="out of reach with 1 of 2"):
        PartlyNMAR(0.6, (0,)).sample(x[:, :2], generator())


@pytest.mark.parametrize(("share", "expected"), [(0.01, 1), (0.25, 2), (0.3, 3), (0.99, 9)])
def test_logistic_mar_keeps_the_share(share: float, expected: int) -> None:
    x = generator().normal(size=(300, 10))
    mask = LogisticMAR(0.05, observed_share=share).sample(x, generator())
    assert mask.all(axis=0).sum() == expected


def test_logistic_mar_says_which_rate_can_be_reached() -> None:
    x = generator().normal(size=(300, 10))
    with pytest.raises(ValueError, match=r"rate 0.8 is out of reach with 5 of 10 .* below 0.5 or a smaller"):
        LogisticMAR(0.8, observed_share=0.5).sample(x, generator())


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_logistic_mar_refuses_a_share_that_is_none(share: float) -> None:
    with pytest.raises(ValueError, match="observed_share"):
        LogisticMAR(0.3, observed_share=share)


def test_self_masking_is_exact(table: np.ndarray) -> None:
    mask = SelfMasking().sample(table, generator())
    for j in range(8):
        hidden = {i for i, x in enumerate(table[:, j]) if j < 4 and x > table[:, j].mean()}
        assert set(np.flatnonzero(~mask[:, j])) == hidden


@pytest.mark.parametrize(("columns", "expected"), [(1, 0), (2, 1), (5, 2)])
def test_self_masking_takes_the_lower_half(columns: int, expected: int) -> None:
    mask = SelfMasking().sample(generator().normal(size=(20, columns)), generator())
    np.testing.assert_array_equal(mask.all(axis=0), np.arange(columns) >= expected)


def test_self_masking_is_not_fooled_by_a_mean_that_rounds_down() -> None:
    x = np.full((1001, 100), np.arange(100) / 10)
    assert (x > x.mean(axis=0)).any()  # else this test says nothing
    assert SelfMasking(columns=tuple(range(100))).sample(x, generator()).all()


def test_self_masking_takes_columns() -> None:
    x = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]])
    mask = SelfMasking(columns=[2]).sample(x, generator())  # type: ignore[arg-type]
    np.testing.assert_array_equal(mask, [[True, True, True], [True, True, False]])
    assert SelfMasking(columns=()).sample(x, generator()).all()
    with pytest.raises(ValueError, match=r"columns \[3\] .* from 0 to 2"):
        SelfMasking(columns=(0, 3)).sample(x, generator())


def test_by_name() -> None:
    names = ["mcar", "mar", "nmar", "paper-mar", "paper-nmar", "self"]
    kinds = [type(by_name(name, 0.2)).__name__ for name in names]
    assert kinds == ["MCAR", "LogisticMAR", "LogisticNMAR", "PaperMAR", "PaperNMAR", "SelfMasking"]
    assert [getattr(by_name(name, 0.2), "rate", None) for name in names] == [0.2, 0.2, 0.2, None, None, None]
    with pytest.raises(ValueError, match="unknown mechanism 'x'; use one of mcar, mar, nmar, paper-mar"):
        by_name("x", 0.2)


def test_mechanisms_are_frozen_values() -> None:
    assert MCAR(0.2) == MCAR(0.2)
    assert len({LogisticMAR(0.2), LogisticMAR(0.2), SelfMasking((1,)), SelfMasking((1,))}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        MCAR(0.2).rate = 0.3  # type: ignore[misc]
