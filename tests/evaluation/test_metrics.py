"""Each score equals a number worked out by hand, a plain loop or a closed form; none skips in silence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from vsae.evaluation.metrics import (
    NRMSE_DEFINITIONS,
    Score,
    crps,
    energy_score,
    interval_coverage,
    mask_fidelity,
    mean_mode,
    mean_mode_fill,
    mse,
    nrmse,
    pfc,
)

RNG = np.random.default_rng


@pytest.fixture
def case() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, imputed and mask, (40, 5): column 3 is constant, column 4 has no hidden cell."""
    rng = RNG(0)
    truth = rng.normal(size=(40, 5)) * [1, 10, 0.1, 0, 5] + [0, 100, 0, 0.1, 0]
    mask = rng.random((40, 5)) < 0.6
    mask[:, 4] = True
    imputed = np.where(mask, 1e6, truth + rng.normal(size=(40, 5)))  # observed cells must not be looked at
    return truth, imputed, mask


def loop_rmse(truth: np.ndarray, imputed: np.ndarray, mask: np.ndarray, j: int) -> float:
    errors = [(truth[i, j] - imputed[i, j]) ** 2 for i in range(len(truth)) if not mask[i, j]]
    return math.sqrt(sum(errors) / len(errors))


class TestNrmse:
    def test_column_is_the_loop(self, case: tuple[np.ndarray, ...]) -> None:
        truth, imputed, mask = case
        expected = [loop_rmse(truth, imputed, mask, j) / np.std(truth[:, j]) for j in range(3)]
        score = nrmse(truth, imputed, mask)
        np.testing.assert_allclose(score.per_column, [*expected, np.nan, np.nan])
        assert score.value == pytest.approx(np.mean(expected))
        assert score.skipped == 2

    def test_range_is_the_loop(self, case: tuple[np.ndarray, ...]) -> None:
        truth, imputed, mask = case
        expected = [loop_rmse(truth, imputed, mask, j) / np.ptp(truth[:, j]) for j in range(3)]
        score = nrmse(truth, imputed, mask, definition="range")
        np.testing.assert_allclose(score.per_column, [*expected, np.nan, np.nan])
        assert score.value == pytest.approx(np.mean(expected))
        assert score.skipped == 2

    def test_pooled_is_missforests(self, case: tuple[np.ndarray, ...]) -> None:
        truth, imputed, mask = case
        expected = np.sqrt(np.mean((truth - imputed)[~mask] ** 2) / np.var(truth[~mask]))
        score = nrmse(truth, imputed, mask, definition="pooled")
        assert score.value == pytest.approx(expected)
        assert score.skipped == 1  # only the column without hidden cells: a constant one is pooled too
        cells = (~mask).sum(axis=0)[:4]
        assert np.average(score.per_column[:4] ** 2, weights=cells) == pytest.approx(expected**2)

    def test_by_hand(self) -> None:
        truth = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, 20.0]])
        imputed = np.array([[2.0, 0.0], [0.0, 24.0], [3.0, 28.0]])
        mask = np.array([[False, True], [True, False], [False, False]])
        # RMSE √(5/2) and √(100/2); std √(8/3) and √(200/3); range 4 and 20
        column = [math.sqrt(2.5 * 3 / 8), math.sqrt(50 * 3 / 200)]
        assert float(nrmse(truth, imputed, mask)) == pytest.approx(sum(column) / 2)
        ranged = [math.sqrt(2.5) / 4, math.sqrt(50) / 20]
        assert float(nrmse(truth, imputed, mask, definition="range")) == pytest.approx(sum(ranged) / 2)
        pooled = math.sqrt(105 / 4 / np.var([1, 5, 30, 20]))
        assert float(nrmse(truth, imputed, mask, definition="pooled")) == pytest.approx(pooled)

    def test_the_column_mean_scores_one_when_all_is_hidden(self) -> None:
        truth = RNG(1).gamma(2.0, size=(50, 4)) * [1, 10, 100, 1000]
        imputed = np.broadcast_to(truth.mean(axis=0), truth.shape)
        np.testing.assert_allclose(nrmse(truth, imputed, np.zeros((50, 4), bool)).per_column, 1.0)

    @pytest.mark.parametrize("definition", ["column", "range"])
    def test_units_do_not_matter(self, definition: str, case: tuple[np.ndarray, ...]) -> None:
        truth, imputed, mask = case
        scale = np.array([1e-6, 1, 1e6, 3, 1])
        before = nrmse(truth, imputed, mask, definition=definition).value
        assert nrmse(truth * scale, imputed * scale, mask, definition=definition).value == pytest.approx(before)

    @pytest.mark.parametrize("definition", NRMSE_DEFINITIONS)
    def test_cells_unknown_from_the_start(self, definition: str, case: tuple[np.ndarray, ...]) -> None:
        truth, imputed, mask = (array[:, :3].copy() for array in case)
        row = int(np.flatnonzero(mask[:, 1])[0])
        truth[row, 1] = np.nan
        known = np.delete(truth[:, 1:2], row, axis=0)
        rest = nrmse(known, np.delete(imputed[:, 1:2], row, axis=0), np.delete(mask[:, 1:2], row, axis=0))
        score = nrmse(truth, imputed, mask, definition=definition)
        assert score.skipped == 0
        assert math.isfinite(score.value)
        if definition == "column":
            assert score.per_column[1] == pytest.approx(rest.value)

    @pytest.mark.parametrize("definition", NRMSE_DEFINITIONS)
    @pytest.mark.parametrize("hidden", [True, False])
    def test_nothing_to_score_is_nan_and_counted(self, definition: str, hidden: bool) -> None:
        # .1 repeated: a std of 1e-17 must not pass for a scale
        truth = np.full((7, 3), 0.1) if hidden else RNG(0).normal(size=(7, 3))
        score = nrmse(truth, truth + 1, np.full((7, 3), not hidden), definition=definition)
        assert math.isnan(score.value)
        assert score.skipped == 3
        assert np.isnan(score.per_column).all()

    def test_unknown_definition(self) -> None:
        with pytest.raises(ValueError, match="'sd'; use one of column, pooled, range"):
            nrmse(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), bool), definition="sd")


class TestPfcAndMse:
    def test_pfc_is_the_mean_over_columns_not_cells(self) -> None:
        truth = np.array([[0, 1, 2], [1, 1, 2], [2, 0, 2], [3, 0, 2]])
        imputed = np.array([[0, 0, 9], [9, 1, 9], [9, 9, 9], [9, 9, 9]])
        mask = np.array([[0, 0, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1]], dtype=bool)
        score = pfc(truth, imputed, mask)
        np.testing.assert_array_equal(score.per_column, [0.75, 1.0, np.nan])
        assert score.value == 0.875
        assert score.skipped == 1

    def test_pfc_without_columns(self) -> None:
        score = pfc(np.zeros((3, 0)), np.zeros((3, 0)), np.zeros((3, 0), bool))
        assert math.isnan(score.value)
        assert score.skipped == 0

    def test_mse_is_the_mean_over_cells(self, case: tuple[np.ndarray, ...]) -> None:
        truth, imputed, mask = case
        score = mse(truth, imputed, mask)
        assert score.value == pytest.approx(np.mean((truth - imputed)[~mask] ** 2))
        np.testing.assert_allclose(score.per_column[0], loop_rmse(truth, imputed, mask, 0) ** 2)
        assert score.skipped == 1

    def test_mse_with_nothing_hidden(self) -> None:
        assert math.isnan(mse(np.zeros((2, 2)), np.zeros((2, 2)), np.ones((2, 2), bool)).value)


def loop_crps(y: float, draws: np.ndarray, fair: bool) -> float:
    count = len(draws)
    pairs = sum(abs(a - b) for a in draws for b in draws)
    return float(np.mean(np.abs(draws - y)) - pairs / 2 / (count * (count - 1) if fair else count**2))


class TestCrps:
    @pytest.mark.parametrize("fair", [False, True])
    def test_is_the_quadratic_loop(self, fair: bool) -> None:
        rng = RNG(2)
        truth, draws = rng.normal(size=(6, 2)) * [1, 100], rng.normal(size=(9, 6, 2)) * [1, 100] + 1e3
        draws[4] = draws[2]  # ties
        mask = np.zeros((6, 2), bool)
        mask[1:4, 1] = True
        expected = [
            np.mean([loop_crps(truth[i, j], draws[:, i, j], fair) for i in range(6) if not mask[i, j]])
            / np.std(truth[:, j])
            for j in range(2)
        ]
        score = crps(truth, draws, mask, fair=fair)
        np.testing.assert_allclose(score.per_column, expected)
        assert score.value == pytest.approx(np.mean(expected))

    @pytest.mark.parametrize("loc", [0.0, 1.3, -3.0])
    def test_gaussian_closed_form(self, loc: float) -> None:
        sigma, truth, mask = (
            2.0,
            np.array([[0.0], [1.0]]),
            np.array([[False], [True]]),
        )  # std of the column: ½
        draws = RNG(3).normal(loc, sigma, size=(200_000, 1, 1)) * np.ones((1, 2, 1))
        w = -loc / sigma
        exact = sigma * (w * (2 * norm.cdf(w) - 1) + 2 * norm.pdf(w) - 1 / math.sqrt(math.pi))
        assert crps(truth, draws, mask).value == pytest.approx(exact / 0.5, abs=0.04)

    def test_fair_is_unbiased_in_the_number_of_draws(self) -> None:
        rng = RNG(4)
        truth, mask = np.zeros((40_000, 1)), np.zeros((40_000, 1), bool)
        truth[0], mask[0] = 200.0, True  # std 1; row 0 is not scored
        draws = rng.normal(size=(3, 40_000, 1))
        exact = 2 * norm.pdf(0) - 1 / math.sqrt(math.pi)
        scale = np.std(truth)
        assert crps(truth, draws, mask, fair=True).value * scale == pytest.approx(exact, abs=0.015)
        assert crps(truth, draws, mask).value * scale == pytest.approx(exact + 1 / math.sqrt(math.pi) / 3, abs=0.015)

    def test_one_draw_is_the_absolute_error(self) -> None:
        truth, draws = np.array([[0.0], [2.0]]), np.array([[[3.0], [1.0]]])
        assert crps(truth, draws, np.zeros((2, 1), bool)).value == pytest.approx((3 + 1) / 2)
        with pytest.raises(ValueError, match="pass at least 2"):
            crps(truth, draws, np.zeros((2, 1), bool), fair=True)

    def test_constant_and_fully_observed_columns_are_counted(self) -> None:
        truth, mask = np.array([[0.1, 0.0, 1.0], [0.1, 1.0, 3.0]]), np.array([[False, True, False]] * 2)
        score = crps(truth, np.zeros((4, 2, 3)), mask)
        np.testing.assert_array_equal(np.isnan(score.per_column), [True, True, False])
        assert score.skipped == 2

    def test_refuses_other_shapes_and_nan(self) -> None:
        truth, mask = np.zeros((2, 1)), np.zeros((2, 1), bool)
        with pytest.raises(ValueError, match=r"draws must be \(S, 2, 1\)"):
            crps(truth, np.zeros((2, 1)), mask)
        with pytest.raises(ValueError, match="draws is NaN at 6 hidden cells"):
            crps(truth, np.full((3, 2, 1), np.nan), mask)
        with pytest.raises(ValueError, match="0 draws"):
            crps(truth, np.zeros((0, 2, 1)), mask)


class TestEnergyScore:
    @pytest.mark.parametrize("fair", [False, True])
    def test_is_the_loop(self, fair: bool) -> None:
        rng = RNG(5)
        truth, draws = rng.normal(size=(4, 3)), rng.normal(size=(7, 4, 3))
        expected = []
        for i, y in enumerate(truth):
            distance = np.mean([np.linalg.norm(x[i] - y) for x in draws])
            pairs = sum(np.linalg.norm(a[i] - b[i]) for a, b in itertools.product(draws, draws))
            expected.append(distance - pairs / 2 / (7 * 6 if fair else 49))
        assert energy_score(truth, draws, fair=fair) == pytest.approx(np.mean(expected))

    def test_is_crps_in_one_dimension(self) -> None:
        rng = RNG(6)
        truth, draws = rng.normal(size=(30, 1)), rng.normal(size=(11, 30, 1))
        scaled = crps(truth, draws, np.zeros((30, 1), bool)).value
        assert energy_score(truth, draws) == pytest.approx(scaled * np.std(truth))

    def test_sees_the_dependence_that_margins_hide(self) -> None:
        rng = RNG(7)
        truth = np.repeat(rng.normal(size=(2000, 1)), 2, axis=1)
        same = np.repeat(rng.normal(size=(20, 2000, 1)), 2, axis=2)
        assert energy_score(truth, same) < energy_score(truth, rng.normal(size=(20, 2000, 2)))

    def test_one_draw_and_refusals(self) -> None:
        assert energy_score(np.array([[0.0, 0.0]]), np.array([[[3.0, 4.0]]])) == 5.0
        with pytest.raises(ValueError, match="pass at least 2"):
            energy_score(np.zeros((1, 2)), np.zeros((1, 1, 2)), fair=True)
        with pytest.raises(ValueError, match="at least one cell"):
            energy_score(np.zeros((0, 2)), np.zeros((3, 0, 2)))
        with pytest.raises(ValueError, match="truth is NaN"):
            energy_score(np.full((1, 2), np.nan), np.zeros((3, 1, 2)))


class TestIntervalCoverage:
    def test_by_hand_pooled_over_cells(self) -> None:
        truth = np.array([[0.0, 0.0, 9.0], [1.0, 1.0, 9.0], [2.0, 9.0, 9.0]])
        mask = np.array([[False, False, True], [False, True, True], [False, True, True]])
        score = interval_coverage(truth, np.full((3, 3), 1.0), np.full((3, 3), 2.0), mask)
        np.testing.assert_allclose(score.per_column, [2 / 3, 0.0, np.nan])  # the bounds belong to the interval
        assert score.value == pytest.approx(2 / 4)
        assert score.skipped == 1

    def test_gaussian_interval_has_its_nominal_coverage(self) -> None:
        truth = RNG(8).normal(size=(20_000, 2))
        bound = np.full(truth.shape, norm.ppf(0.95))
        score = interval_coverage(truth, -bound, bound, np.zeros(truth.shape, bool))
        assert score.value == pytest.approx(0.9, abs=0.01)

    def test_infinite_bounds_and_swapped_ones(self) -> None:
        truth, bound, mask = np.zeros((2, 1)), np.full((2, 1), np.inf), np.zeros((2, 1), bool)
        assert interval_coverage(truth, -bound, bound, mask).value == 1.0
        with pytest.raises(ValueError, match="lower is above upper at 2 hidden cells"):
            interval_coverage(truth, bound, -bound, mask)


class TestMaskFidelity:
    def test_is_the_loop(self) -> None:
        rng = RNG(9)
        real, sampled = rng.random((300, 4)) < [0.2, 0.5, 0.8, 2], rng.random((200, 4)) < [0.3, 0.5, 0.5, 0.9]
        real[:, 1] |= real[:, 0]
        sampled[:, 2] &= sampled[:, 1]

        def correlation(mask: np.ndarray, i: int, j: int) -> float:
            constant = mask[:, i].std() * mask[:, j].std() == 0
            return 0.0 if constant else float(np.corrcoef(mask[:, i], mask[:, j])[0, 1])

        gaps = [correlation(real, i, j) - correlation(sampled, i, j) for i, j in itertools.combinations(range(4), 2)]
        fidelity = mask_fidelity(real, sampled)
        assert fidelity.proportion == pytest.approx(real.mean() - sampled.mean())  # missing = 1 - observed
        assert fidelity.column_rate == pytest.approx(max(abs(real.mean(axis=0) - sampled.mean(axis=0))))
        assert fidelity.correlation == pytest.approx(max(map(abs, gaps)))

    def test_a_mask_matches_itself(self) -> None:
        mask = RNG(10).random((50, 3)) < 0.5
        assert mask_fidelity(mask, mask) == (0.0, 0.0, 0.0)

    def test_more_missing_cells_in_the_sample_is_positive(self) -> None:
        fidelity = mask_fidelity(np.ones((4, 1), bool), np.array([[True], [False]]))
        assert fidelity == (0.5, 0.5, 0.0)

    def test_refusals(self) -> None:
        mask = np.ones((2, 2), bool)
        with pytest.raises(ValueError, match="do not share their columns"):
            mask_fidelity(mask, np.ones((2, 3), bool))
        with pytest.raises(ValueError, match="no cells"):
            mask_fidelity(mask, np.ones((0, 2), bool))
        with pytest.raises(ValueError, match="sampled must be bool"):
            mask_fidelity(mask, np.ones((2, 2)))


class TestMeanModeFill:
    def test_by_hand(self) -> None:
        nan = np.nan
        x = np.array([[1.0, 2.0, nan, 5.0], [3.0, 2.0, nan, 5.0], [nan, 0.0, nan, 3.0], [8.0, nan, nan, 3.0]])
        mask = ~np.isnan(x)
        mask[3, 0] = False  # hidden but known to the caller: must not leak into the mean
        filled = mean_mode_fill(x, mask, np.array([False, True, False, True]))
        expected = [[1.0, 2.0, 0.0, 5.0], [3.0, 2.0, 0.0, 5.0], [2.0, 0.0, 0.0, 3.0], [2.0, 2.0, 0.0, 3.0]]
        np.testing.assert_array_equal(filled, expected)

    def test_the_smallest_code_wins_a_tie(self) -> None:
        assert mean_mode(np.array([[5], [3], [3], [5]]), np.ones((4, 1), bool), np.array([True])) == [3.0]

    def test_a_discrete_column_without_observed_cells_is_zero(self) -> None:
        assert mean_mode(np.full((2, 1), np.nan), np.zeros((2, 1), bool), np.array([True])) == [0.0]

    def test_refusals(self) -> None:
        mask = np.ones((2, 1), bool)
        with pytest.raises(ValueError, match="x is NaN at 2 observed cells"):
            mean_mode_fill(np.full((2, 1), np.nan), mask, np.array([False]))
        with pytest.raises(ValueError, match="shapes do not fit"):
            mean_mode_fill(np.zeros((2, 1)), mask, np.array([False, True]))
        with pytest.raises(ValueError, match="discrete must be bool"):
            mean_mode_fill(np.zeros((2, 1)), mask, np.array([0]))


@pytest.mark.parametrize("metric", [nrmse, pfc, mse])
class TestDoor:
    def test_nan_imputations_are_refused_not_skipped(self, metric: object) -> None:
        truth, mask = np.array([[0.0], [1.0]]), np.array([[False], [True]])
        with pytest.raises(ValueError, match="imputed is NaN at 1 hidden cells"):
            metric(truth, np.full((2, 1), np.nan), mask)  # type: ignore[operator]

    def test_nan_truth_is_refused_at_hidden_cells_only(self, metric: object) -> None:
        truth, mask = np.array([[0.0], [np.nan], [1.0]]), np.array([[False], [True], [False]])
        assert float(metric(truth, truth, mask)) == 0.0  # type: ignore[operator]
        with pytest.raises(ValueError, match="truth is NaN at 1 hidden cells"):
            metric(truth, np.zeros((3, 1)), ~mask)  # type: ignore[operator]

    def test_integer_masks_are_refused(self, metric: object) -> None:
        with pytest.raises(ValueError, match="mask must be bool, not int64"):
            metric(np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1), np.int64))  # type: ignore[operator]

    @pytest.mark.parametrize(
        ("truth", "imputed", "mask"),
        [((2, 1), (1, 2), (2, 1)), ((2, 1), (2, 1), (1, 2)), ((2,), (2,), (2,)), ((0, 1), (0, 1), (0, 1))],
    )
    def test_shapes(
        self, metric: object, truth: tuple[int, ...], imputed: tuple[int, ...], mask: tuple[int, ...]
    ) -> None:
        with pytest.raises(ValueError, match="shape"):
            metric(np.zeros(truth), np.zeros(imputed), np.zeros(mask, bool))  # type: ignore[operator]


def test_score_is_a_float_when_asked() -> None:
    score = Score(0.25, np.array([0.25]), 0)
    assert float(score) == 0.25
    assert f"{float(score):.2f}" == "0.25"
