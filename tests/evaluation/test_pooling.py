"""Rubin's rules against arithmetic done by hand, against formulas written another way, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vsae.evaluation.pooling import pool

pytestmark = pytest.mark.filterwarnings("error")


def test_a_barnard_rubin_example_worked_out_by_hand():
    # m = 5 estimates 10, 12, 11, 13, 14 with variances 4, 5, 4, 5, 2, and 20 complete-data degrees of freedom.
    pooled = pool([10, 12, 11, 13, 14], [4, 5, 4, 5, 2], dfcom=20, level=0.95)
    # Q̄ = 60 / 5 = 12
    assert pooled.estimate == 12
    # Ū = 20 / 5 = 4
    assert pooled.within == 4
    # B = (4 + 0 + 1 + 1 + 4) / 4 = 2.5
    assert pooled.between == 2.5
    # (1 + 1/5) B = 3;  T = 4 + 3 = 7;  √7 = 2.645751
    assert pooled.total == 7
    assert pooled.std_error == pytest.approx(2.645751, abs=1e-6)
    # r = 3 / 4;  λ = 3 / 7
    assert pooled.relative_increase == pytest.approx(0.75)
    assert pooled.lambda_ == pytest.approx(3 / 7)
    # ν_old = 4 / (3/7)² = 4 · 49/9 = 196/9;  ν_obs = (4/7) · 20 · 21/23 = 1680/161 = 240/23
    # 1/ν = 9/196 + 23/240 = (9·60 + 23·49) / 11760 = 1667/11760;  ν = 11760/1667 = 7.054589
    assert pooled.df == pytest.approx(11760 / 1667)
    # γ = (0.75 + 2 / 10.054589) / 1.75 = (0.75 + 0.198914) / 1.75 = 0.542237
    assert pooled.fraction_missing == pytest.approx(0.542237, abs=1e-6)
    # t quantile at 0.975 lies between the tables' 2.3646 (ν = 7) and 2.3060 (ν = 8): 2.3609
    low, high = pooled.interval
    assert (high - low) / 2 / pooled.std_error == pytest.approx(2.3609, abs=5e-4)
    assert (low + high) / 2 == pytest.approx(12)
    assert (pooled.m, pooled.level) == (5, 0.95)


def by_other_formulas(q, u, dfcom, level):
    """The same in terms of r alone (Rubin 1987, p. 77; Barnard and Rubin 1999, p. 949), one coefficient."""
    m = len(q)
    centre = sum(q) / m
    inside = sum(u) / m
    between = sum((value - centre) ** 2 for value in q) / (m - 1)
    r = (between + between / m) / inside
    df = (m - 1) * (1 + 1 / r) ** 2
    if dfcom is not None:
        observed = (dfcom + 1) / (dfcom + 3) * dfcom / (1 + r)
        df = df * observed / (df + observed)
    total = inside * (1 + r)
    low, high = stats.t.interval(level, df, loc=centre, scale=total**0.5)
    return centre, total, df, (r + 2 / (df + 3)) / (r + 1), low, high


@pytest.mark.parametrize("dfcom", [None, 3, 47.5, 1e9])
@pytest.mark.parametrize("m", [2, 5, 40])
def test_it_agrees_with_the_formulas_written_another_way(m, dfcom):
    rng = np.random.default_rng(m)
    q, u = rng.normal(size=(m, 2, 3)), rng.uniform(0.1, 2, size=(m, 2, 3))
    pooled = pool(q, u, dfcom=dfcom, level=0.9)
    assert pooled.estimate.shape == pooled.df.shape == pooled.interval[0].shape == (2, 3)
    for place in np.ndindex(2, 3):
        entry = (slice(None), *place)
        expected = by_other_formulas(q[entry].tolist(), u[entry].tolist(), dfcom, 0.9)
        mine = (pooled.estimate, pooled.total, pooled.df, pooled.fraction_missing, *pooled.interval)
        assert [values[place] for values in mine] == pytest.approx(list(expected), rel=1e-9)


def test_a_vector_is_its_coefficients_one_by_one():
    q, u = np.array([[1.0, 5.0], [2.0, 7.0], [4.0, 6.0]]), np.full((3, 2), 0.5)
    pooled = pool(q, u, dfcom=[10, 30])
    for number, df in enumerate([10, 30]):
        one = pool(q[:, number], u[:, number], dfcom=df)
        assert isinstance(one.estimate, float)
        assert isinstance(one.interval[0], float)
        assert one.df == pooled.df[number]
        assert one.std_error == pooled.std_error[number]
        assert one.interval == (pooled.interval[0][number], pooled.interval[1][number])


@pytest.mark.parametrize("dfcom", [None, 12])
def test_without_between_between_tables_the_complete_data_analysis_remains(dfcom):
    pooled = pool([0.1, 0.1, 0.1], [4.0, 4.0, 4.0], dfcom=dfcom)  # whose mean is not exactly 0.1
    assert pooled.df == (dfcom or np.inf)
    assert pooled.between == pooled.relative_increase == pooled.lambda_ == 0
    assert pooled.std_error == 2
    quantile = stats.norm.ppf(0.975) if dfcom is None else stats.t.ppf(0.975, dfcom)
    assert pooled.interval[1] - pooled.estimate == pytest.approx(2 * quantile)


def test_many_tables_leave_the_sum_of_both_variances_and_the_normal():
    rng = np.random.default_rng(0)
    pooled = pool(rng.normal(size=200_000), np.full(200_000, 3.0))
    assert pooled.total == pytest.approx(4.0, rel=0.01)
    assert pooled.df > 1e6
    assert pooled.fraction_missing == pytest.approx(pooled.lambda_, abs=1e-5) == pytest.approx(0.25, abs=0.01)
    assert pooled.interval[1] - pooled.estimate == pytest.approx(1.959964 * pooled.std_error, rel=1e-5)


def test_degenerate_variances_give_limits_and_no_warnings():
    nothing = pool([1.0, 1.0], [0.0, 0.0], dfcom=5)
    assert nothing.interval == (1.0, 1.0)
    assert nothing.lambda_ == 0
    only_between = pool([1.0, 3.0], [0.0, 0.0])
    assert only_between.relative_increase == np.inf
    assert only_between.lambda_ == only_between.fraction_missing == 1
    assert only_between.df == 1
    assert pool([1.0, 3.0], [0.0, 0.0], dfcom=5).interval == (-np.inf, np.inf)  # no information is left


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0], [1.0]), {}, "2 or more completed tables, not 1"),
        ((1.0, 1.0), {}, "2 or more completed tables, not 1"),
        (([], []), {}, "2 or more completed tables, not 0"),
        (([1.0, 2.0], [1.0, 2.0, 3.0]), {}, r"estimates \(2,\) and variances \(3,\) differ in shape"),
        (([1.0, np.nan], [1.0, 1.0]), {}, "estimates must be finite"),
        (([1.0, 2.0], [1.0, np.inf]), {}, "variances must be finite"),
        (([1.0, 2.0], [1.0, -1.0]), {}, "variances must not be negative; pass squared standard errors"),
        (([1.0, 2.0], [1.0, 1.0]), {"level": 95}, "level must lie between 0 and 1, not 95"),
        (([1.0, 2.0], [1.0, 1.0]), {"dfcom": 0}, "dfcom must be positive, not 0"),
        (([1.0, 2.0], [1.0, 1.0]), {"dfcom": [3, 4]}, r"dfcom \(2,\) does not fit"),
    ],
)
def test_bad_input_stops_in_one_line(arguments, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        pool(*arguments, **options)
    assert "\n" not in str(caught.value)


def tidy(estimates, names=("a", "b")):
    return {"term": list(names), "estimate": list(estimates), "std.error": [1.0, 2.0]}


@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "pyarrow"])
def test_tidy_tables_of_any_library_are_pooled_by_name(library):
    made = [tidy((1.0, 5.0)), tidy((6.0, 2.0), ("b", "a")) | {"std.error": [2.0, 1.0]}, tidy((3.0, 7.0))]
    if library != "dict":
        module = pytest.importorskip(library)
        made = [getattr(module, "DataFrame" if library != "pyarrow" else "table")(table) for table in made]
    ours = pool(made, dfcom=40)
    by_hand = pool([[1, 5], [2, 6], [3, 7]], [[1, 4]] * 3, dfcom=40)
    assert ours.terms == ("a", "b")
    assert ours.to_dict() == {"term": ["a", "b"], **by_hand.to_dict()}


def test_p_values_are_those_of_students_t():
    pooled = pool([[1.0, 0.2], [3.0, 0.1]], [[1.0, 4.0], [1.0, 4.0]], dfcom=30)
    expected = 2 * stats.t.sf(pooled.estimate / pooled.std_error, pooled.df)
    np.testing.assert_allclose(pooled.p_value(), expected, rtol=1e-12)
    np.testing.assert_allclose(pooled.p_value(2.0)[0], 1.0)
    assert pool([1.0, 1.0], [4.0, 4.0]).p_value() == pytest.approx(2 * stats.norm.sf(0.5))
    assert pool([1.0, 1.0], [0.0, 0.0]).p_value() == 0
    assert pool([1.0, 1.0], [0.0, 0.0]).p_value(1.0) == 1


def test_the_monte_carlo_error_is_what_other_draws_would_change():
    rng = np.random.default_rng(0)
    pooled = pool(rng.normal(scale=2, size=(10, 20_000)), np.ones((10, 20_000)))
    assert np.sqrt((pooled.monte_carlo_error**2).mean()) == pytest.approx(pooled.estimate.std(), rel=0.02)


@pytest.mark.parametrize("between", [0.2, 1.0])
def test_with_the_draws_needed_a_standard_error_varies_by_a_twentieth(between):
    rng = np.random.default_rng(1)
    many = pool(rng.normal(scale=between**0.5, size=100_000), np.ones(100_000))  # so that γ is known
    needed = many.draws_needed()
    errors = pool(rng.normal(scale=between**0.5, size=(needed, 20_000)), np.ones((needed, 20_000))).std_error
    assert errors.std() / errors.mean() == pytest.approx(0.05, rel=0.1)
    assert many.draws_needed(variation=0.01) > 20 * needed
    assert many.enough


def test_few_draws_ask_for_more_than_many_would():
    """γ is then known less well; the log odds of its upper end are those of it and 1.96 √(2 / m)."""
    pooled = pool([10, 12, 11, 13, 14], [4, 5, 4, 5, 2], dfcom=20)
    odds = 0.542237 / 0.457763 * np.exp(1.959964 * np.sqrt(2 / 5))
    assert pooled.draws_needed() == np.ceil(1 + 0.5 * (odds / (1 + odds) / 0.05) ** 2) == 131
    assert not pooled.enough
    assert "5 draws, 95 % intervals. Take 131 draws or more" in str(pooled)
    untouched = pool([1.0, 1.0], [4.0, 4.0], dfcom=10)  # by missing cells
    assert untouched.draws_needed() == 1
    assert "These are enough" in str(untouched)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "2 or more completed tables, not 0"),
        ([tidy((1.0, 2.0))], "2 or more completed tables, not 1"),
        ([1.0, 2.0], "table with columns term, estimate and std.error; not float"),
        ([{"term": ["a"], "estimate": [1.0]}] * 2, "term, estimate and std.error; this one has term, estimate"),
        ([tidy((1.0, 2.0)), tidy((1.0, 2.0), ("a", "c"))], "term '[bc]' is not in the answer of table [12]"),
        ([tidy((1.0, 2.0), ("a", "a"))] * 2, "a term appears twice"),
        ([tidy((1.0, 2.0)) | {"std.error": [1.0, -1.0]}] * 2, "standard errors must not be negative"),
    ],
)
def test_answers_that_cannot_be_pooled_stop_in_one_line(answers, message):
    with pytest.raises(ValueError, match=message) as caught:
        pool(answers)
    assert "\n" not in str(caught.value)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """The mean of n normal rows of which half are missing, with proper draws of mean and variance."""
    rng = np.random.default_rng(1)
    repeats, n, kept, m = 2000, 30, 15, 10
    seen = rng.normal(size=(repeats, kept))
    shape = (m, repeats, 1)
    # Posterior draws under the usual flat prior: σ² is scaled inverse χ², μ is normal given it.
    variance = seen.var(1, ddof=1)[:, None] * (kept - 1) / rng.chisquare(kept - 1, size=shape)
    mean = seen.mean(1)[:, None] + rng.normal(size=shape) * np.sqrt(variance / kept)
    drawn = mean + np.sqrt(variance) * rng.normal(size=(m, repeats, n - kept))
    complete = np.concatenate([np.broadcast_to(seen, (m, *seen.shape)), drawn], axis=2)  # (m, repeats, n)
    pooled = pool(complete.mean(2), complete.var(2, ddof=1) / n, dfcom=n - 1)
    low, high = pooled.interval
    assert np.mean((low < 0) & (high > 0)) == pytest.approx(0.95, abs=0.015)
    # Treating the first completed table as if it were data is what pooling is there to prevent.
    narrow = 1.96 * complete[0].std(1, ddof=1) / n**0.5
    assert np.mean(np.abs(complete[0].mean(1)) < narrow) < 0.9
