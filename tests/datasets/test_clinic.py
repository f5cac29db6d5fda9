"""The clinic table: its columns depend on one another, and its missing cells follow the mechanism it states."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.schema import DISCRETE, Kind
from vsae.datasets import Clinic, make_clinic
from vsae.datasets.clinic import mechanism


@pytest.fixture(scope="module")
def clinic() -> Clinic:
    return make_clinic(n=6000, seed=0)


def seen(clinic: Clinic, attribute: str) -> np.ndarray:
    return clinic.mask[:, clinic.schema.names.index(attribute)]


def explained(y: np.ndarray, *columns: np.ndarray) -> float:
    """R² of the least-squares fit of y on the columns."""
    design = np.column_stack([np.ones(len(y)), *columns])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    return float(1 - np.var(y - design @ weights) / np.var(y))


def one_hot(codes: np.ndarray) -> np.ndarray:
    return np.eye(codes.max() + 1)[codes]


def test_columns_follow_the_schema(clinic: Clinic) -> None:
    assert list(clinic.truth) == [variable.name for variable in clinic.schema.variables]
    for variable in clinic.schema.variables:
        values = clinic.truth[variable.name]
        assert values.shape == (6000,)
        if variable.family in DISCRETE:
            assert values.dtype == np.int64
            assert set(values) == set(range(variable.size))  # every level occurs
            assert len(clinic.levels[variable.name]) == variable.size
        else:
            assert values.dtype == np.float64
            assert np.isfinite(values).all()
        if variable.kind is Kind.POSITIVE:
            assert (values > 0).all()
        if variable.kind is Kind.COUNT:
            assert (values == np.round(values)).all()
            assert (values >= 0).all()
    assert set(clinic.levels) == {v.name for v in clinic.schema.variables if v.family in DISCRETE}


def test_every_scalar_kind_is_there(clinic: Clinic) -> None:
    assert {variable.kind for variable in clinic.schema.variables} == set(Kind) - {Kind.VECTOR, Kind.IMAGE}


def test_values_are_plausible(clinic: Clinic) -> None:
    truth = clinic.truth
    assert (truth["age"] >= 18).all()
    assert (truth["age"] <= 90).all()
    assert (truth["systolic"] - truth["diastolic"] >= 15).all()
    days = truth["visit_date"].astype("int64").astype("datetime64[D]")
    assert days.min() >= np.datetime64("2021-01-01")
    assert days.max() <= np.datetime64("2023-12-31")


def test_columns_explain_one_another(clinic: Clinic) -> None:
    t = clinic.truth
    assert explained(t["systolic"], t["age"], t["bmi"], t["smoker"], t["sex"]) > 0.7
    assert explained(np.log(t["fee"]), one_hot(t["reason"]), t["pain"], one_hot(t["insurance"])) > 0.8
    assert explained(t["pain"], one_hot(t["reason"])) > 0.5  # a category explains an ordinal column
    assert explained(t["insurance"] == 1, np.log(t["income"])) > 0.25


def test_some_links_are_nonlinear(clinic: Clinic) -> None:
    t = clinic.truth
    day = 2 * np.pi * (t["visit_date"] - t["visit_date"].min()) / 365.25
    infection = t["reason"] == 1
    assert explained(infection, t["visit_date"]) < 0.05
    assert explained(infection, np.cos(day)) > 0.25
    income = np.log(t["income"])
    assert explained(income, t["age"], t["age"] ** 2) > explained(income, t["age"]) + 0.1


def test_missing_cells_are_frequent_but_no_row_is_empty(clinic: Clinic) -> None:
    rates = dict(zip(clinic.schema.names, 1 - clinic.mask.mean(axis=0), strict=True))
    assert 0.25 < 1 - clinic.mask.mean() < 0.30
    assert rates.pop("age") == rates.pop("sex") == 0
    assert all(0.05 < rate < 0.55 for rate in rates.values()), rates


def test_high_values_hide_themselves(clinic: Clinic) -> None:
    for name in ("income", "pain", "smoker"):
        values, shown = clinic.truth[name], seen(clinic, name)
        assert values[~shown].mean() > values[shown].mean()
    # the observed mean is off by far more than chance
    income, shown = clinic.truth["income"], seen(clinic, "income")
    assert income[shown].mean() < 0.85 * income.mean()


def test_cells_missing_completely_at_random_do_not_depend_on_the_row(clinic: Clinic) -> None:
    for name in ("visit_date", "reason", "insurance"):
        column = clinic.missing_probability[:, clinic.schema.names.index(name)]
        assert (column == column[0]).all()


def test_cells_missing_at_random_depend_on_always_seen_columns_only(clinic: Clinic) -> None:
    changed = {name: values[::-1] for name, values in clinic.truth.items()}
    changed |= {name: clinic.truth[name] for name in ("age", "sex")}
    columns = [clinic.schema.names.index(name) for name in ("education", "bmi", "pressure")]
    assert (mechanism(changed) == clinic.missing_probability)[:, columns].all()


def test_missing_probability_is_calibrated(clinic: Clinic) -> None:
    missing, probability = ~clinic.mask, clinic.missing_probability
    assert ((probability >= 0) & (probability < 1)).all()
    edges = np.linspace(0, 1, 11)
    for j, name in enumerate(clinic.schema.names):
        bins = np.digitize(probability[:, j], edges)
        for b in np.unique(bins):
            rows = bins == b
            p = probability[rows, j]
            error = 4 * np.sqrt((p * (1 - p)).sum()) / rows.sum()  # four standard errors
            assert abs(missing[rows, j].mean() - p.mean()) <= error + 1e-12, (name, b)


def test_mechanism_is_the_oracle(clinic: Clinic) -> None:
    assert (mechanism(clinic.truth) == clinic.missing_probability).all()
    billed_late = clinic.truth | {"visit_date": np.full(6000, 19400.0)}
    assert (mechanism(billed_late)[:, clinic.schema.names.index("fee")] == 0.15).all()


def test_only_hidden_cells_are_blank(clinic: Clinic) -> None:
    for variable in clinic.schema.variables:
        values, truth = clinic.incomplete[variable.name], clinic.truth[variable.name]
        shown = clinic.mask[:, clinic.schema.attribute_of[variable.name]]
        assert values.dtype == truth.dtype
        assert (values[shown] == truth[shown]).all()
        assert (values[~shown] == -1).all() if variable.family in DISCRETE else np.isnan(values[~shown]).all()


def test_pressure_is_one_attribute(clinic: Clinic) -> None:
    assert clinic.schema.attribute_of["systolic"] == clinic.schema.attribute_of["diastolic"]
    assert (np.isnan(clinic.incomplete["systolic"]) == np.isnan(clinic.incomplete["diastolic"])).all()


def test_same_seed_same_table() -> None:
    first, again, other = make_clinic(200, seed=3), make_clinic(200, seed=3), make_clinic(200, seed=4)
    assert (first.mask == again.mask).all()
    assert all((first.truth[name] == again.truth[name]).all() for name in first.truth)
    assert (first.mask != other.mask).any()
    assert (first.truth["income"] != other.truth["income"]).any()


def test_small_and_wrong_sizes() -> None:
    assert make_clinic(1).mask.shape == (1, 13)
    with pytest.raises(ValueError, match="n must be at least 1"):
        make_clinic(0)


@pytest.mark.parametrize("complete", [False, True])
def test_frame_is_what_a_user_has(clinic: Clinic, complete: bool) -> None:
    pd = pytest.importorskip("pandas")
    frame = clinic.frame(complete)
    assert list(frame.columns) == list(clinic.truth)
    dtypes = frame.dtypes
    assert dtypes["visit_date"].kind == "M"
    assert dtypes["smoker"] == pd.BooleanDtype()
    assert dtypes["age"] == dtypes["visits"] == pd.Int64Dtype()
    assert dtypes["income"] == dtypes["systolic"] == np.float64
    assert dtypes["pain"].ordered
    assert dtypes["education"].ordered
    assert not dtypes["reason"].ordered
    assert list(dtypes["pain"].categories) == ["none", "mild", "moderate", "severe"]
    expected = np.ones_like(clinic.mask) if complete else clinic.mask
    for name in frame:
        shown = expected[:, clinic.schema.attribute_of[name]]
        assert (frame[name].notna().to_numpy() == shown).all()


def test_frame_holds_the_truth() -> None:
    pytest.importorskip("pandas")
    clinic = make_clinic(50)
    frame = clinic.frame(complete=True)
    days = clinic.truth["visit_date"].astype("int64").astype("datetime64[D]")
    assert (frame["visit_date"].to_numpy() == days).all()
    assert frame["reason"].tolist() == [clinic.levels["reason"][code] for code in clinic.truth["reason"]]
    assert frame["smoker"].tolist() == [bool(code) for code in clinic.truth["smoker"]]
    assert (frame["visits"].to_numpy() == clinic.truth["visits"]).all()
