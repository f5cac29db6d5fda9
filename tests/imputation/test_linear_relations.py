"""Cells that others determine: found, borne out, exact; and left alone where they are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import vsae
from vsae import VSAEImputer
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, positive, real
from vsae.imputation.linear_relations import LinearRelations


def sums(n: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.gamma(3.0, 4.0, n).round(1), rng.normal(20.0, 5.0, n).round(1)
    return {"a": a, "b": b, "total": (a + b).round(1), "other": rng.normal(size=n)}


SCHEMA = Schema([positive("a"), real("b"), real("total"), real("other")])


def found_in(columns: dict[str, np.ndarray], known: np.ndarray) -> LinearRelations | None:
    return LinearRelations.fit(Encoding.fit(SCHEMA, columns, known), columns, known)


def test_columns_of_a_sum_are_found_and_no_other() -> None:
    columns, rng = sums(), np.random.default_rng(1)
    relations = found_in(columns, rng.random((400, 4)) < 0.7)
    assert relations is not None
    assert relations.names == ("a", "b", "total")


def test_columns_that_no_other_determines_have_no_relation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    noisy = {"a": np.exp(x), "b": x + rng.normal(size=400), "total": x + rng.normal(size=400), "other": -(x**2)}
    assert found_in(noisy, rng.random((400, 4)) < 0.7) is None


def borne_out(columns: dict[str, np.ndarray], estimates: dict[str, np.ndarray]) -> LinearRelations | None:
    rng = np.random.default_rng(2)
    known = rng.random((400, 4)) < 0.8
    withheld = known & (rng.random((400, 4)) < 0.2)
    relations = found_in(columns, known & ~withheld)
    assert relations is not None
    return relations.borne_out(columns, known, withheld, estimates)


def test_a_missing_cell_is_exact_where_the_rest_of_the_relation_is_known() -> None:
    columns = sums()
    relations = borne_out(columns, {name: np.full(400, x.mean()) for name, x in columns.items()})
    assert relations is not None
    mask = np.ones((400, 4), dtype=bool)
    mask[:200, 2], mask[200:300, 0], mask[300:, :2] = False, False, False
    model = {name: np.full(400, -1.0) for name in columns}
    filled = relations.estimates(columns, mask, model)
    assert (filled["total"][:200] == columns["total"][:200]).all()
    assert (filled["a"][200:300] == columns["a"][200:300]).all()
    assert (filled["a"][300:] == -1.0).all()  # two parts are missing: it is the model's
    drawn = relations.quantiles(columns, mask, {"total": np.full(400, 0.9)}, model)
    assert (drawn["total"][:200] == columns["total"][:200]).all()
    assert (drawn["total"][200:] == -1.0).all()  # observed: nothing to be said of it


def test_a_model_that_errs_less_keeps_its_cells() -> None:
    columns = sums()
    assert borne_out(columns, columns) is None


def test_what_a_column_cannot_hold_is_left_to_the_model() -> None:
    columns = sums()
    relations = borne_out(columns, {name: np.full(400, x.mean()) for name, x in columns.items()})
    assert relations is not None
    odd = {**columns, "total": columns["b"] - 5.0}  # a would be -5, and is positive
    mask = np.ones((400, 4), dtype=bool)
    mask[:, 0] = False
    assert (relations.estimates(odd, mask, {name: np.full(400, 3.0) for name in columns})["a"] == 3.0).all()


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(sums(600, seed=3))
    table["start"] = rng.uniform(0, 1000, 600).round(1)
    table["end"] = (table.start + rng.gamma(2.0, 4.0, 600)).round(1)
    return table, table.mask(rng.random(table.shape) < 0.15)


@pytest.fixture(scope="module")
def imputer(table: tuple[pd.DataFrame, pd.DataFrame]) -> VSAEImputer:
    return VSAEImputer(effort="fast", random_state=0).fit(table[1])


def test_imputations_and_draws_keep_the_relations_of_a_table(
    table: tuple[pd.DataFrame, pd.DataFrame], imputer: VSAEImputer
) -> None:
    true, given = table
    alone = given.total.isna() & given.a.notna() & given.b.notna()
    late = given.end.isna() & given.start.notna()
    for filled in (imputer.transform(given), *imputer.draw(given, 2)):
        np.testing.assert_allclose(filled.total[alone], true.total[alone], atol=1e-9)
        assert (filled.end[late] < filled.start[late]).mean() <= 0.03
    for bound in imputer.predict_interval(given):
        np.testing.assert_allclose(bound.total[alone], true.total[alone], atol=1e-9)


def test_relations_are_kept_in_a_file(
    table: tuple[pd.DataFrame, pd.DataFrame], imputer: VSAEImputer, tmp_path: object
) -> None:
    path = f"{tmp_path}/model.vsae"
    imputer.save(path)
    pd.testing.assert_frame_equal(vsae.load(path).transform(table[1]), imputer.transform(table[1]))
