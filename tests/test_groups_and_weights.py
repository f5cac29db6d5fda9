"""Weights, groups and order as users give them: errors, files, unseen groups, and what they are worth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vsae.estimator import VSAEImputer, load
from vsae.fitting.fit import fit
from vsae.fitting.presets import config_for
from vsae.table.errors import TableError
from vsae.table.survey import Survey

QUICK = {"steps": 60, "trees": 0, "latent_draws": 4, "members": 1}


@pytest.fixture(scope="module")
def visits():
    """What a patient has is the patient's; a third of it is missing."""
    rng = np.random.default_rng(0)
    patient = np.repeat([f"p{i}" for i in range(40)], 8)
    own = np.repeat(rng.normal(size=40), 8)
    table = pd.DataFrame({"patient": patient, "visit": np.tile(np.arange(8), 40)})
    table["a"] = 10 + 3 * own + rng.normal(size=320)
    table["b"] = own + 0.5 * rng.normal(size=320)
    table["c"] = np.where(own + 0.5 * rng.normal(size=320) > 0, "yes", "no")
    hidden = rng.random((320, 3)) < 0.33
    given = table.copy()
    for j, name in enumerate("abc"):
        given.loc[hidden[:, j], name] = None if name == "c" else np.nan
    return table, given, hidden


@pytest.fixture(scope="module")
def imputer(visits):
    return VSAEImputer(groups="patient", order="visit", config=QUICK, random_state=0).fit(visits[1])


def error(truth, filled, hidden):
    return float(np.sqrt(np.mean((truth["a"] - filled["a"])[hidden[:, 0]] ** 2)))


def test_groups_lower_the_error_and_leave_no_trace(visits, imputer):
    truth, given, hidden = visits
    filled = imputer.transform(given)
    assert list(filled.columns) == list(given.columns)
    assert not filled.isna().any().any()
    assert filled["patient"].equals(given["patient"])
    for name in given:
        seen = given[name].notna()
        assert filled[name][seen].equals(given[name][seen])
    plain = VSAEImputer(schema={"patient": "keep"}, config=QUICK, random_state=0).fit(given)
    assert error(truth, filled, hidden) < 0.9 * error(truth, plain.transform(given), hidden)


def test_unseen_groups_rows_in_any_order_and_rows_without_a_group(visits, imputer):
    _, given, _ = visits
    filled = imputer.transform(given)
    renamed = given.assign(patient="new " + given["patient"])
    pd.testing.assert_frame_equal(imputer.transform(renamed).drop(columns="patient"), filled.drop(columns="patient"))
    order = np.random.default_rng(1).permutation(len(given))
    pd.testing.assert_frame_equal(imputer.transform(given.iloc[order]).loc[given.index], filled)
    lonely = given.assign(patient=None).iloc[:10]
    assert not imputer.transform(lonely).drop(columns="patient").isna().any().any()
    assert imputer.transform(given.iloc[:0]).empty


def test_other_methods_speak_of_the_columns_of_the_table(visits, imputer):
    _, given, _ = visits
    columns = len(imputer.schema_.modelled)
    assert columns == 4
    assert imputer.missing_probability(given).shape == imputer.sample_mask(320).shape == (320, columns)
    assert imputer.embed(given).shape[:2] == (320, columns)
    assert list(imputer.sample(5).columns) == ["visit", "a", "b", "c"]
    assert {column.name for column in imputer.mechanism_report(given).columns} <= {"a", "b", "c"}
    assert len(imputer.draw(given, 2)) == 2
    assert imputer.predict_interval(given.iloc[:5]).lower.shape == (5, 5)


def test_a_saved_model_knows_its_groups(visits, imputer, tmp_path):
    _, given, _ = visits
    imputer.save(tmp_path / "model.vsae")
    pd.testing.assert_frame_equal(load(tmp_path / "model.vsae").transform(given), imputer.transform(given))


def test_withheld_cells_take_part_in_no_context(visits, monkeypatch):
    """Other values in the cells that are withheld change nothing that is trained on."""
    from vsae.data.context import GroupContext, Groups
    from vsae.fitting.steps import FitData, split
    from vsae.model.vsae import VSAE
    from vsae.table import Table

    table = Table.fit(visits[1], schema={"patient": "keep"})
    encoded = table.encode(visits[1])
    groups = Groups(np.repeat(np.arange(40), 8), np.tile(np.arange(8), 40))
    context = GroupContext.fit(table.schema, encoded.columns, encoded.mask, groups)
    columns, mask = context.beside(encoded.columns, encoded.mask, groups)
    config = config_for(context.schema, 320, "fast", **QUICK)

    def parts(columns):
        data = FitData.of(context.schema, columns, mask, config, "cpu", None, lambda c, m: context.beside(c, m, groups))
        other = FitData.of(
            context.schema,
            encoded.columns | context.beside(encoded.columns, encoded.mask, groups)[0],
            mask,
            config,
            "cpu",
        )
        return split(VSAE, data._replace(encoding=other.encoding), config, 0)[1]

    first = parts(columns)
    withheld = first.training.withheld.numpy()
    assert withheld.sum() > 20
    assert not withheld[:, context.schema.context].any()
    changed = dict(columns)
    at = context.schema.attribute_of["a"]
    changed["a"] = np.where(withheld[:, at], columns["a"] + 100, columns["a"])
    second = parts(changed)
    np.testing.assert_array_equal(second.training.withheld.numpy(), withheld)
    for name in context.schema.names:
        if name.startswith("a ("):
            np.testing.assert_array_equal(first.data.columns[name], second.data.columns[name])


# --- weights


def strata(rows=400, seed=0):
    """y is 5 higher in rows that weigh 3, and nothing in the table tells which these are."""
    rng = np.random.default_rng(seed)
    heavy = rng.random(rows) < 0.3
    x = rng.normal(size=rows)
    table = pd.DataFrame({"x": x, "y": x + 5 * heavy + 0.3 * rng.normal(size=rows), "w": np.where(heavy, 3.0, 1.0)})
    table.loc[rng.random(rows) < 0.3, "y"] = np.nan
    return table


def mean_of_imputed(table, **settings):
    imputer = VSAEImputer(config=QUICK | {"steps": 150}, random_state=0, mechanism="ignorable", **settings)
    filled = imputer.fit(table).transform(table)
    return float(filled["y"][table["y"].isna()].mean())


def test_a_weighted_fit_is_one_to_rows_repeated_as_often():
    table = strata()
    plain, weighted = mean_of_imputed(table, schema={"w": "keep"}), mean_of_imputed(table, weights="w")
    repeated = mean_of_imputed(table.loc[table.index.repeat(table["w"].astype(int))], schema={"w": "keep"})
    assert abs(weighted - repeated) < 0.25 * abs(plain - repeated)
    assert abs(plain - repeated) > 0.5


def test_weights_come_as_an_array_too_and_only_their_proportions_count():
    table, w = strata(120), strata(120)["w"]
    bare = table[["x", "y"]]
    one, two = (
        VSAEImputer(config=QUICK, random_state=0).fit(bare, sample_weight=v).transform(bare) for v in (w, 7 * w)
    )
    pd.testing.assert_frame_equal(one, two)
    equal, none = (
        VSAEImputer(config=QUICK, random_state=0).fit(bare, sample_weight=v).transform(bare) for v in (0 * w + 2, None)
    )
    pd.testing.assert_frame_equal(equal, none)


def test_rows_of_weight_zero_are_imputed_and_not_learned_from():
    table = strata(200)[["x", "y"]]
    w = np.ones(200)
    w[100:] = 0
    odd = table.copy()
    odd.loc[100:, "y"] = odd.loc[100:, "y"] * 3
    filled = [
        VSAEImputer(config=QUICK, random_state=0, schema={"y": "real"}).fit(t, sample_weight=w).transform(t)
        for t in (table, odd)
    ]
    missing = table["y"].isna()
    assert not filled[0].isna().any().any()
    pd.testing.assert_series_equal(filled[0]["y"][missing], filled[1]["y"][missing])


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ([-1.0] + [1.0] * 9, "row 0 is below 0"),
        ([np.inf] + [1.0] * 9, "row 0 is not finite"),
        ([1.0] * 9 + [np.nan], "row 9 is missing"),
        ([0.0] * 10, "all weights are zero"),
    ],
)
def test_bad_weights_are_refused_in_one_line(weight, said):
    table = pd.DataFrame({"x": np.arange(10.0), "w": weight})
    for given in ({"weights": "w"}, {}):
        with pytest.raises(TableError, match=said) as caught:
            VSAEImputer(config=QUICK, **given).fit(table, sample_weight=None if given else weight)
        assert ("column 'w'" if given else "sample_weight") in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_bad_weight_in_a_sample_is_that_of_a_row_of_the_table():
    weight = np.where(np.arange(90) < 30, 1.0, np.nan)
    batches = [{"x": np.arange(start, start + 10.0), "w": weight[start : start + 10]} for start in range(0, 90, 10)]
    with pytest.raises(TableError, match="column 'w': the weight of row") as caught:
        VSAEImputer(config=QUICK, weights="w").fit_batches(batches, sample=40)
    sampled = Survey.of(batches, 40).row_numbers()
    first = sampled[sampled >= 30][0]
    assert f"row {first} is missing" in str(caught.value)
    assert int(np.flatnonzero(sampled == first)[0]) != first


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"groups": "who"}, "groups names 'who', which is not a column"),
        ({"groups": "x", "order": "when"}, "order names 'when'"),
        ({"order": "x"}, "name the groups"),
        ({"weights": "t"}, "column 't' in weights must hold numbers"),
    ],
)
def test_columns_that_are_not_there_are_named(settings, said):
    table = pd.DataFrame({"x": np.arange(10.0), "t": ["a", "b"] * 5, "y": np.arange(10.0)})
    with pytest.raises(TableError, match=said):
        VSAEImputer(config=QUICK, **settings).fit(table)


def test_the_core_takes_weights_of_rows():
    table = strata(100)
    from vsae.data.schema import Schema, real

    schema, y = Schema([real("x"), real("y")]), table["y"].to_numpy()
    mask = np.stack([np.ones(100, bool), ~np.isnan(y)], axis=1)
    columns = {"x": table["x"].to_numpy(), "y": np.nan_to_num(y)}
    config = config_for(schema, 100, "fast", **QUICK)
    heavy, light = (
        fit(schema, columns, mask, config, weight=w).impute(columns, mask)["y"]
        for w in (np.where(table["w"] > 1, 9.0, 1.0), None)
    )
    assert heavy[~mask[:, 1]].mean() > light[~mask[:, 1]].mean()
