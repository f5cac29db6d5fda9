"""Sensitivity: closed forms of what a change of the missing cells does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vsae.data.schema import Schema, binary, categorical, count, ordinal, positive, real
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.mechanism.sensitivity import Audit, Point, Sensitivity, sensitivity
from vsae.model.config import VSAEConfig

SCHEMA = Schema(
    [
        real("a"),
        real("b"),
        count("visits"),
        positive("fee"),
        binary("coin"),
        categorical("town", 3),
        ordinal("grade", 4),
    ]
)
N = 400


def rows() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """a and b go together; the coin goes with nothing."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=N)
    columns = {"a": a, "b": a + 0.4 * rng.normal(size=N), "visits": rng.poisson(np.exp(0.5 * a))}
    columns |= {"fee": np.exp(a), "coin": rng.integers(2, size=N), "town": rng.integers(3, size=N)}
    columns["grade"] = np.clip(np.rint(a + 1.5), 0, 3).astype(int)
    return columns, rng.random((N, 7)) > 0.4


COLUMNS, MASK = rows()
MISSING = dict(zip(SCHEMA.names, 1 - MASK.mean(axis=0), strict=True))


@pytest.fixture(scope="module")
def model() -> FittedVSAE:
    return fit(SCHEMA, COLUMNS, MASK, VSAEConfig(steps=250, members=1), mechanism="ignorable")


def mean_of(name: str):
    return lambda table: (table[name].mean(), table[name].var(ddof=1) / N)


def share_of(name: str, level: int):
    return lambda table: float((table[name] == level).mean())


def estimates(found: Sensitivity) -> np.ndarray:
    return np.array(found.to_dict()["estimate"])


def test_delta_moves_the_mean_by_itself_times_the_share_missing(model: FittedVSAE) -> None:
    delta = np.array([-1.5, 0.0, 0.5, 2.0])
    found = sensitivity(model, COLUMNS, MASK, mean_of("a"), {"a": None}, delta=delta, n=5)
    np.testing.assert_allclose(estimates(found) - found.reference.estimate, delta * MISSING["a"], atol=1e-12)
    assert found.points[1] == found.reference
    assert found.audit.cells == {"a": int((~MASK[:, 0]).sum())}
    np.testing.assert_allclose(found.to_dict()["monte_carlo_error"], found.reference.monte_carlo_error, atol=1e-12)


def test_the_reference_is_that_of_plain_draws(model: FittedVSAE) -> None:
    found = sensitivity(model, COLUMNS, MASK, mean_of("a"), {"a": None}, delta=1.0, n=5, seed=3)
    means = [table["a"].mean() for table in model.draw(COLUMNS, MASK, 5, seed=3)]
    assert found.reference.estimate == pytest.approx(np.mean(means))
    assert found.reference.monte_carlo_error == pytest.approx(np.std(means, ddof=1) / np.sqrt(5))


def test_scale_multiplies_what_the_missing_cells_add(model: FittedVSAE) -> None:
    found = sensitivity(model, COLUMNS, MASK, mean_of("fee"), {"fee": None}, scale=[0.5, 1.0, 2.0], n=5)
    added = np.mean([t["fee"][~MASK[:, 3]].sum() / N for t in model.draw(COLUMNS, MASK, 5)])
    np.testing.assert_allclose(estimates(found) - found.reference.estimate, np.array([-0.5, 0.0, 1.0]) * added)


def test_rows_get_as_much_of_a_change_as_their_weight(model: FittedVSAE) -> None:
    weight, missing = np.linspace(-1, 1, N), ~MASK[:, 0]
    found = sensitivity(model, COLUMNS, MASK, mean_of("a"), {"a": None}, delta=2.0, scale=3.0, weight=weight, n=2)
    drawn = np.mean([table["a"] for table in model.draw(COLUMNS, MASK, 2)], axis=0)
    expected = (weight * (2 * drawn + 2))[missing].sum() / N
    assert found.points[0].estimate - found.reference.estimate == pytest.approx(expected)


def test_some_rows_only(model: FittedVSAE) -> None:
    weight = (np.arange(N) < 100) * 1.0
    found = sensitivity(model, COLUMNS, MASK, mean_of("a"), {"a": None}, delta=1.0, weight=weight, n=3)
    moved = found.points[0].estimate - found.reference.estimate
    assert moved == pytest.approx((~MASK[:100, 0]).sum() / N)
    assert found.audit.cells["a"] == (~MASK[:100, 0]).sum()
    tilted = sensitivity(
        model, COLUMNS, MASK, lambda t: t["coin"][100:].mean(), {"coin": 1}, delta=9, weight=weight, n=3
    )
    assert tilted.points[0].estimate == tilted.reference.estimate


@pytest.mark.parametrize("redraw", [False, True])
def test_log_odds_of_a_coin(model: FittedVSAE, redraw: bool) -> None:
    """What goes with nothing has the same odds in every row, and they are multiplied by exp(delta)."""
    missing = ~MASK[:, 4]
    found = sensitivity(
        model, COLUMNS, MASK, lambda t: t["coin"][missing].mean(), {"coin": None}, delta=[-2, -1, 0, 1, 2], n=20,
        redraw=redraw,
    )  # fmt: skip
    share = estimates(found)
    assert np.all(np.diff(share) > 0)
    expected = 1 / (1 + np.exp(-(np.log(share[2] / (1 - share[2])) + np.array([-2, -1, 0, 1, 2]))))
    np.testing.assert_allclose(share, expected, atol=0.05)


def test_levels_move_one_way_and_none_back(model: FittedVSAE) -> None:
    seen = []

    def keep(table: dict[str, np.ndarray]) -> float:
        seen.append((table["town"].copy(), table["grade"].copy()))
        return 0.0

    sensitivity(model, COLUMNS, MASK, keep, {"town": 1, "grade": None}, delta=[0, 0.5, 1, 3, 8], n=2)
    for i in (0, 1):
        town, grade = (np.array([tables[k] for tables in seen[i::2]]) for k in (0, 1))
        assert np.all(np.diff((town == 1).astype(int), axis=0) >= 0)
        assert np.all(np.diff(grade, axis=0) >= 0)
        assert (town[0] != town[2]).any()
        assert (grade[0] != grade[2]).any()
        assert np.array_equal(town[:, MASK[:, 5]], np.tile(COLUMNS["town"][MASK[:, 5]], (5, 1)))
        assert (town[-1][~MASK[:, 5]] == 1).mean() > 0.95


def test_other_missing_cells_follow_only_if_they_are_redrawn(model: FittedVSAE) -> None:
    grid = {"delta": [-2.0, 2.0], "n": 5}
    stay = sensitivity(model, COLUMNS, MASK, mean_of("b"), {"a": None}, **grid)
    follow = sensitivity(model, COLUMNS, MASK, mean_of("b"), {"a": None}, redraw=True, **grid)
    np.testing.assert_array_equal(estimates(stay), stay.reference.estimate)
    both = (~MASK[:, 0] & ~MASK[:, 1]).mean()
    slope = np.diff(estimates(follow))[0] / 4 / both
    assert 0.5 < slope < 1.35  # b = a + noise; trees know nothing beyond what was seen
    shifted = sensitivity(model, COLUMNS, MASK, mean_of("a"), {"a": None}, redraw=True, **grid)
    np.testing.assert_allclose(np.diff(estimates(shifted))[0], 4 * MISSING["a"])


def test_the_tipping_point_by_hand(model: FittedVSAE) -> None:
    """A shift leaves standard errors as they are, so p follows from those of the reference."""
    delta = np.round(np.arange(-2, 2.01, 0.1), 1)
    variance = 0.02
    found = sensitivity(model, COLUMNS, MASK, lambda t: (t["a"].mean(), variance), {"a": None}, delta=delta, n=5)
    r = found.reference
    p = 2 * stats.t.sf(np.abs(r.estimate + delta * MISSING["a"]) / r.std_error, r.df)
    np.testing.assert_allclose(found.to_dict()["p"], p, rtol=1e-6)
    assert r.p > 0.05
    first = min(np.abs(delta[p < 0.05]))
    assert abs(found.tipping_point.delta) == first
    assert f"delta {found.tipping_point.delta:g}" in str(found)
    near = sensitivity(model, COLUMNS, MASK, lambda t: (t["a"].mean(), variance), {"a": None}, delta=[0, 0.1], n=5)
    assert near.tipping_point is None


def test_the_tipping_point_is_the_smallest_change() -> None:
    def point(delta: float, p: float) -> Point:
        return Point(delta, 1.0, 0.0, 1.0, -1.0, 1.0, 9.0, p, 0.1)

    points = tuple(map(point, (-3, -1, 0, 2, 4), (0.2, 0.01, 0.001, 0.06, 0.3)))
    audit = Audit({}, {}, "", False, 2, 0, {})
    assert Sensitivity(points, points[2], 0.0, 0.05, audit).tipping_point == points[3]
    assert Sensitivity(points, points[2], 0.0, 0.005, audit).tipping_point == points[1]


def test_counts_stay_counts_and_bounds_hold(model: FittedVSAE) -> None:
    seen = []
    found = sensitivity(
        model, COLUMNS, MASK, lambda t: seen.append(t["visits"]) or 0.0, {"visits": None}, delta=[-1.4, 0], n=2
    )
    before, after = seen[2], seen[0]
    missing = ~MASK[:, 2]
    np.testing.assert_array_equal(after[missing], np.maximum(np.rint(before[missing] - 1.4), 0))
    assert found.audit.at_bounds["visits"] > 0


@pytest.mark.parametrize(
    ("changed", "said", "why"),
    [
        ({"fee": None}, {"delta": -100.0}, "change its scale"),
        ({"town": None}, {}, "without an order"),
        ({"a": 1}, {}, "no such level"),
        ({"coin": 2}, {}, "no such level"),
        ({"who": None}, {}, "'who'"),
        ({}, {}, "name a column"),
        ({"a": None}, {"scale": 0.0}, "scale above 0"),
        ({"a": None}, {"weight": np.ones(3)}, "by must give"),
        ({"a": None}, {"n": 1}, "2 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(model: FittedVSAE, changed, said, why) -> None:
    with pytest.raises(ValueError, match=why):
        sensitivity(model, COLUMNS, MASK, mean_of("a"), changed, **{"n": 2, **said})


def test_an_answer_is_a_number_or_two(model: FittedVSAE) -> None:
    with pytest.raises(ValueError, match="a number and its variance"):
        sensitivity(model, COLUMNS, MASK, lambda t: (1.0, 2.0, 3.0), {"a": None}, n=2)
    constant = sensitivity(model, COLUMNS, MASK, lambda t: 1.0, {"a": None}, n=2)
    assert constant.reference.p == 0.0
    assert sensitivity(model, COLUMNS, MASK, lambda t: 1.0, {"a": None}, n=2, null=1.0).reference.p == 1.0


# --- the published example of rbmi 1.5.2 (R): its vignette "advanced", section 8.1, at the last visit

#: Arm → patients, of these without an outcome, baseline: mean, standard deviation, mean of those without. As the
#: vignette's simulator, whose seed is 122, makes them; the shift of an analysis of covariance depends on nothing else.
ARMS = {0: (100, 8, 50.681801, 5.607528, 52.563167), 1: (100, 14, 49.867850, 5.582070, 51.800479)}
#: δ of each arm's imputed outcomes → printed treatment effect, and half a unit of its last digit.
PUBLISHED = {(0, 0): (-4.537, 5e-4), (5, 5): (-4.210, 5e-4), (-5, 15): (-1.99, 5e-3), (-1, 15): (-2.31, 5e-3)}


def baselines(n: int, missing: int, mean: float, std: float, mean_missing: float) -> np.ndarray:
    """With these moments; the first ones are of patients without an outcome."""
    group = np.repeat([mean_missing, (n * mean - missing * mean_missing) / (n - missing)], [missing, n - missing])
    within = np.resize([1.0, -1.0], n)  # adds up to 0 in both groups
    return group + within * np.sqrt(std**2 - group.var())


def effect(table: dict[str, np.ndarray]) -> float:
    """Of the arm, in an analysis of covariance with the baseline."""
    x = np.column_stack([np.ones(len(table["arm"])), table["arm"], table["baseline"]])
    return float(np.linalg.lstsq(x, table["change"], rcond=None)[0][1])


def test_delta_moves_the_effect_of_a_treatment_as_published_by_rbmi() -> None:
    arm = np.repeat([0, 1], [n for n, *_ in ARMS.values()])
    baseline = np.concatenate([baselines(*moments) for moments in ARMS.values()])
    observed = np.concatenate([np.arange(n) >= missing for n, missing, *_ in ARMS.values()])
    change = baseline / 10 - 4 * arm + np.random.default_rng(0).normal(size=len(arm))  # any will do: only shifts count
    columns, mask = {"arm": arm, "baseline": baseline, "change": change}, np.ones((len(arm), 3), dtype=bool)
    mask[:, 2] = observed
    schema = Schema([binary("arm"), real("baseline"), real("change")])
    trial = fit(schema, columns, mask, VSAEConfig(steps=20, members=1), mechanism="ignorable")
    before, rounding = PUBLISHED[0, 0]
    for deltas, (after, rounding_after) in PUBLISHED.items():
        weight = np.array(deltas, dtype=float)[arm]
        found = sensitivity(trial, columns, mask, effect, {"change": None}, delta=1.0, weight=weight, n=2)
        shift = found.points[0].estimate - found.reference.estimate
        assert shift == pytest.approx(after - before, abs=rounding + rounding_after)
