"""Regressions by formula, in every container, and pooled: results, marginal effects, predictions."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from vsae import Draws, TableError, pool
from vsae.analysis.formulas import formula_frame, regression

pd = pytest.importorskip("pandas")
smf = pytest.importorskip("statsmodels.formula.api", reason="regressions need statsmodels: pip install 'vsae[stats]'")
N = 80


def completed(seed: int) -> pd.DataFrame:
    fixed, own = np.random.default_rng(0), np.random.default_rng(seed)
    x = np.where(np.arange(N) < 30, own.normal(size=N), fixed.normal(size=N))
    return pd.DataFrame(
        {
            "y": x + fixed.normal(size=N),
            "x": x,
            "k": pd.array(fixed.poisson(2, N), dtype="Int64"),
            "ok": fixed.random(N) < 0.4,
            "dose": pd.Categorical(fixed.choice(["none", "low", "high"], N), categories=["none", "low", "high", "top"]),
            "sex": fixed.choice(["f", "m"], N),
        }
    )


TABLES = [completed(seed) for seed in range(6)]
DRAWS = Draws(TABLES, TABLES[0])


def test_it_is_the_pooled_statsmodels():
    fits = [smf.ols("y ~ x + sex", table).fit() for table in TABLES]
    ours = DRAWS.fit("y ~ x + sex")
    by_hand = pool([fit.params for fit in fits], [fit.bse**2 for fit in fits], dfcom=N - 3)
    assert ours.terms == ("Intercept", "sex[T.m]", "x")
    for field in ("estimate", "std_error", "df", "fraction_missing"):
        np.testing.assert_allclose(getattr(ours, field), getattr(by_hand, field))


def test_nullable_integers_are_numbers_and_levels_keep_their_order():
    terms = DRAWS.fit("y ~ k + dose").terms
    assert set(terms) == {"Intercept", "k", "dose[T.low]", "dose[T.high]"}  # none is the first; nobody has top


def test_a_boolean_outcome_is_the_chance_that_it_is_true():
    ours = DRAWS.fit("ok ~ 1", family="binomial")
    share = TABLES[0]["ok"].mean()
    assert ours.estimate[0] == pytest.approx(np.log(share / (1 - share)))
    assert DRAWS.fit("k ~ x", family="Poisson").terms == ("Intercept", "x")


def test_options_go_to_statsmodels_and_level_to_the_interval():
    plain, robust = DRAWS.fit("y ~ x"), DRAWS.fit("y ~ x", cov_type="HC3", level=0.5)
    np.testing.assert_allclose(plain.estimate, robust.estimate)
    assert not np.allclose(plain.std_error, robust.std_error)
    assert robust.level == 0.5


@pytest.mark.parametrize("container", ["polars", "pyarrow", "dict"])
def test_every_container_says_the_same(container):
    def convert(table):
        if container == "dict":
            return {name: table[name].to_numpy() for name in table}
        arrow = pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)
        return arrow if container == "pyarrow" else pytest.importorskip("polars").from_arrow(arrow)

    other = Draws(map(convert, TABLES), convert(TABLES[0]))
    formula = "y ~ x + k + ok + sex"
    np.testing.assert_allclose(other.fit(formula).to_dict()["p"], DRAWS.fit(formula).to_dict()["p"])


def test_marginal_effects_and_predictions_are_pooled_by_name():
    logits = [smf.logit("ok ~ x + k", formula_frame(table)).fit(disp=0) for table in TABLES]
    effects = [fit.get_margeff() for fit in logits]
    ours = pool(effects)
    assert ours.terms == ("x", "k")
    by_hand = pool([e.margeff for e in effects], [e.margeff_se**2 for e in effects], dfcom=N - 3)
    np.testing.assert_allclose(ours.df, by_hand.df)
    new = pd.DataFrame({"x": [0.0, 1.0], "k": [1.0, 2.0]}, index=["a", "b"])
    for fits, options in (
        ([regression(table, "y ~ x") for table in TABLES], {}),
        ([regression(table, "ok ~ x", "binomial") for table in TABLES], {}),
        (logits, {"which": "linear"}),
    ):
        predictions = [fit.get_prediction(new, **options) for fit in fits]
        expected = np.mean([fit.predict(new, **options) for fit in fits], axis=0)
        pooled = pool(predictions)
        np.testing.assert_allclose(pooled.estimate, expected)
        assert (pooled.fraction_missing > 0.01).all()


def test_a_model_of_several_equations_names_them():
    fits = [smf.mnlogit("z ~ x", table.assign(z=np.arange(N) % 3)).fit(disp=0) for table in TABLES]
    ours = pool(fits)
    assert ours.terms == ("0: Intercept", "1: Intercept", "0: x", "1: x")
    np.testing.assert_allclose(ours.estimate[2], np.mean([fit.params.loc["x", 0] for fit in fits]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            ("sex ~ x", "binomial"),
            ValueError,
            r"'sex' has levels; say which of them counts, .* I\(1 \* \(sex == '…'\)\)",
        ),
        (("y ~ weight",), ValueError, "formula 'y ~ weight': .*weight.*; the columns are y, x, k, ok, dose, sex"),
        (("y ~ x +",), ValueError, r"formula 'y ~ x \+': .*; the columns are y"),
        (("y ~ x", "normal"), ValueError, "family must be one of binomial, .*, not 'normal'"),
    ],
)
def test_bad_requests_stop_in_one_line(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        DRAWS.fit(*arguments)
    assert "\n" not in str(caught.value)


def test_the_remedy_for_levels_works():
    ours = DRAWS.fit("I(1 * (sex == 'm')) ~ 1", family="binomial")
    share = (TABLES[0]["sex"] == "m").mean()
    assert ours.estimate[0] == pytest.approx(np.log(share / (1 - share)))


def test_an_array_has_no_names():
    with pytest.raises(TableError, match="a formula needs names of columns"):
        Draws([np.ones((3, 2))], np.ones((3, 2))).fit("y ~ x")


def test_without_statsmodels_one_line_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "statsmodels"]:
        monkeypatch.delitem(sys.modules, name)

    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] == "statsmodels":
                raise ModuleNotFoundError(f"No module named {name!r}", name="statsmodels")

    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"regressions need statsmodels, .*; pip install 'vsae\[stats\]'"):
        DRAWS.fit("y ~ x")
