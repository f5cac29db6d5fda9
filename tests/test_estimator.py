"""`VSAEImputer` with its model: the promises of the README, on the clinic table and on odd ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import vsae
from vsae import MISSING, VSAEImputer, load
from vsae.datasets import make_clinic
from vsae.model.config import VSAEConfig
from vsae.storage.checkpoint import FORMAT_VERSION, FileFormatError, read
from vsae.table import Count, DataWarning, TableError

pd = pytest.importorskip("pandas")
QUICK = VSAEConfig(steps=60, evaluate_every=20)
CLINIC = make_clinic(300, seed=1)


@pytest.fixture(scope="module")
def imputer():
    return VSAEImputer(config=QUICK, random_state=0).fit(CLINIC.frame())


@pytest.fixture(scope="module")
def trained():
    """Long enough to know something."""
    clinic = make_clinic(1000, seed=0)
    return VSAEImputer(config=VSAEConfig(steps=400), random_state=0).fit(clinic.frame()), clinic


def same_but_filled(before, after) -> None:
    assert list(after.columns) == list(before.columns)
    assert after.index.equals(before.index)
    assert (after.dtypes == before.dtypes).all()
    assert not after.isna().any().any()
    for name in before:
        seen = before[name].notna()
        assert before[name][seen].equals(after[name][seen])


def test_a_raw_mixed_frame_just_works(imputer):
    frame = CLINIC.frame().set_index(pd.Index(range(1000, 1300), name="visit"))
    filled = imputer.transform(frame)
    same_but_filled(frame, filled)
    assert (filled["income"] > 0).all()
    assert (filled["visits"] >= 0).all()


@pytest.mark.parametrize("library", ["polars", "pyarrow", "dict", "numpy"])
def test_every_container_comes_back_as_it_came(library):
    frame = CLINIC.frame()[["age", "income", "bmi", "fee", "reason", "smoker"]]
    config = QUICK.replace(steps=10)
    if library == "polars":
        X = pytest.importorskip("polars").from_pandas(frame)
        filled = VSAEImputer(config=config).fit_transform(X)
        assert filled.schema == X.schema
        assert sum(filled.null_count().row(0)) == 0
    elif library == "pyarrow":
        X = pytest.importorskip("pyarrow").Table.from_pandas(frame)
        filled = VSAEImputer(config=config).fit_transform(X)
        assert filled.schema.equals(X.schema, check_metadata=True)
        assert sum(column.null_count for column in filled.columns) == 0
    elif library == "dict":
        X = CLINIC.table()
        filled = VSAEImputer(config=config).fit_transform(X)
        assert list(filled) == list(X)
        assert not any(pd.isna(x).any() for x in filled.values())
    else:
        X = frame[["age", "income", "bmi", "fee"]].astype(float).to_numpy()
        filled = VSAEImputer(config=config).fit_transform(X)
        assert filled.dtype == X.dtype
        assert not np.isnan(filled).any()
        assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_schema_is_shown_and_overridden():
    frame = pd.DataFrame(
        {"zip": [1010, 2020, 1010, None] * 15, "age": [31, -1, 52, 999] * 15, "note": ["a", "b", None, "c"] * 15}
    )
    imputer = VSAEImputer(
        schema={"zip": "categorical", "age": Count(min=0, max=120), "note": "keep"},
        missing_values={"age": [-1, 999]},
        config=QUICK.replace(steps=5),
        random_state=0,
    )
    filled = imputer.fit_transform(frame)
    assert "categorical" in repr(imputer.schema_)
    assert set(filled["zip"]) <= {1010, 2020}
    assert filled["age"].between(0, 120).all()
    assert filled["note"].isna().sum() == 15


def test_new_rows_never_refit(imputer):
    frame = CLINIC.frame()
    before = {name: value.clone() for name, value in imputer.fitted_.model.state_dict().items()}
    one = imputer.transform(frame.iloc[[7]])
    same_but_filled(frame.iloc[[7]], one)
    few = imputer.transform(frame[["bmi", "age"]].assign(extra=1.5))  # other order, absent and extra columns
    assert list(few.columns)[:3] == ["bmi", "age", "extra"]
    assert set(frame.columns) <= set(few.columns)
    assert not few.isna().any().any()
    assert (few["extra"] == 1.5).all()
    strange = frame.astype({"reason": object}).assign(reason="a new reason")
    with pytest.warns(DataWarning, match="'reason'.*a new reason"):
        assert (imputer.transform(strange)["reason"] == "a new reason").all()
    with pytest.raises(TableError, match="reason"):
        VSAEImputer(config=QUICK.replace(steps=2), handle_unknown="error").fit(frame).transform(strange)
    assert imputer.transform(frame.iloc[:0]).shape == (0, frame.shape[1])
    for name, value in imputer.fitted_.model.state_dict().items():
        assert value.equal(before[name])


def test_draws_are_draws(trained):
    """Binary draws vary with their probability; numeric draws spread wider where less is known."""
    imputer, clinic = trained
    frame = clinic.frame()
    draws = imputer.draw(frame, 60, random_state=1)
    missing = frame["smoker"].isna().to_numpy()
    share = np.mean([draw["smoker"].to_numpy(dtype=bool)[missing] for draw in draws], axis=0)
    probability = imputer.predict_proba(frame)["smoker"][True][missing]
    # drawn together with other cells that hide by their own value; a thresholded draw would be off by .3
    assert np.abs(share - probability).mean() < 0.12
    assert 0.05 < share.mean() < 0.95
    assert ((share > 0.02) & (share < 0.98)).mean() > 0.3

    blind = frame.iloc[:50].copy()
    blind[["systolic", "diastolic"]] = np.nan
    knowing = blind.copy()
    knowing["diastolic"] = clinic.frame(complete=True)["diastolic"].iloc[:50]
    spread = [np.std([d["systolic"] for d in imputer.draw(x, 60)], axis=0).mean() for x in (knowing, blind)]
    assert spread[0] < 0.95 * spread[1]  # half of the members have one σ a column


def test_a_callback_is_told_of_every_step_and_may_end_the_fit(few_steps):
    frame, told = CLINIC.frame()[["age", "bmi"]], []
    VSAEImputer(random_state=0, callback=told.append).fit(frame)
    assert [progress.step for progress in told] == list(range(1, len(told) + 1))
    assert len(told) >= few_steps
    assert told[-1].step <= told[-1].steps
    assert any(progress.record for progress in told)

    def impatient(progress):
        raise TimeoutError(f"step {progress.step}")

    imputer = VSAEImputer(random_state=0, callback=impatient)
    with pytest.raises(TimeoutError, match="step 1"):
        imputer.fit(frame)
    assert not hasattr(imputer, "fitted_")
    with pytest.raises(TypeError, match="callback must be a function of one step's progress, not 7"):
        VSAEImputer(callback=7).fit(frame)


def test_intervals_and_probabilities(trained):
    imputer, clinic = trained
    frame = clinic.frame().iloc[:200]
    low, high = imputer.predict_interval(frame, level=0.9)
    same_but_filled(frame, low)
    missing = frame["bmi"].isna()
    assert (low["bmi"][missing] < high["bmi"][missing]).all()
    truth = clinic.frame(complete=True)["bmi"].iloc[:200][missing]
    assert 0.6 < ((truth >= low["bmi"][missing]) & (truth <= high["bmi"][missing])).mean() <= 1.0
    for levels in imputer.predict_proba(frame).values():
        np.testing.assert_allclose(np.sum(list(levels.values()), axis=0), 1.0, atol=1e-5)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        imputer.predict_interval(frame, level=90)


def test_samples_masks_and_conditions(trained):
    imputer, clinic = trained
    frame = clinic.frame()
    rows = imputer.sample(500, random_state=3)
    assert (rows.dtypes == frame.dtypes).all()
    assert not rows.isna().any().any()
    incomplete = imputer.sample(2000, with_missing=True, random_state=3)
    assert np.abs(incomplete.isna().mean() - frame.isna().mean()).max() < 0.06
    masks = imputer.sample_mask(2000)
    assert masks.shape == (2000, frame.shape[1])
    women = imputer.sample(300, given={"sex": "female", "income": MISSING}, with_missing=True)
    assert (women["sex"] == "female").all()
    assert women["income"].isna().all()
    for bad, message in (({"height": 3}, "'height'"), ({"sex": "robot"}, "'sex'.*robot")):
        with pytest.raises(TableError, match=message):
            imputer.sample(3, given=bad)


def test_odd_rows_are_found_and_copies_told_from_new_rows(trained):
    imputer, clinic = trained
    frame = clinic.frame()
    complete = clinic.frame(complete=True)
    scores = imputer.score_samples(complete)
    assert scores.shape == (len(frame),)
    shuffled = complete.assign(systolic=complete["systolic"].to_numpy()[::-1], age=100 - complete["age"])
    assert (imputer.score_samples(shuffled) < scores).mean() > 0.75
    assert imputer.score_samples(frame.head(0)).shape == (0,)
    assert not imputer.distance_to_closest(imputer.sample(300, random_state=1), frame).suspicious
    assert imputer.distance_to_closest(complete, frame).suspicious
    assert imputer.distance_to_closest(frame.head(0), frame) is None


def test_the_mechanism_is_learned(trained):
    imputer, clinic = trained
    frame = clinic.frame()
    learned = imputer.missing_probability(frame)
    assert learned.shape == frame.shape
    rates = 1 - np.stack([clinic.mask[:, clinic.schema.attribute_of[name]] for name in frame], axis=1).mean(0)
    np.testing.assert_allclose(learned.mean(0), rates, atol=0.08)
    assert imputer.embed(frame).shape == (len(frame), frame.shape[1], VSAEConfig().latent_dim)


# --- why cells are missing


def test_the_report_names_columns_and_levels(trained):
    imputer, clinic = trained
    report = imputer.mechanism_report(clinic.frame())
    by = {column.name: column for column in report.columns}
    assert set(by) == set(clinic.frame().columns[clinic.frame().isna().any()])
    assert (by["bmi"].effects[0].name, by["bmi"].effects[0].level) == ("sex", "female")
    assert by["income"].own_gain > 0.5 * by["income"].others_gain > 10
    assert by["bmi"].own_gain < 0.5 * by["bmi"].others_gain
    assert imputer.mechanism_report(clinic.frame().head(0)).columns == ()


def test_the_report_shows_what_the_model_takes_for_granted():
    frame = make_clinic(500, seed=3).frame()
    told = VSAEImputer(mechanism={"income": "+", "pain": "self-masking", "bmi": "ignorable"}, config={"steps": 50})
    by = {column.name: column for column in told.fit(frame).mechanism_report(frame).columns}
    assert by["income"].tilt > 0
    assert by["pain"].tilt["severe"] > by["pain"].tilt["none"]
    assert by["bmi"].tilt is None


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict", "numpy"])
def test_every_container_gets_missing_cells(library):
    complete = make_clinic(200, seed=4).frame(complete=True)[["age", "income", "bmi", "reason", "smoker"]]
    X, fitted = complete, CLINIC.frame()[list(complete)]
    if library in ("polars", "pyarrow"):
        module = pytest.importorskip(library)
        of = module.from_pandas if library == "polars" else module.Table.from_pandas
        X, fitted = of(X), of(fitted)
    elif library == "dict":
        X, fitted = ({name: x[name].to_numpy() for name in x} for x in (X, fitted))
    elif library == "numpy":
        X, fitted = (x[["age", "income", "bmi"]].astype(float).to_numpy() for x in (X, fitted))
    imputer = VSAEImputer(config=QUICK.replace(steps=10), random_state=0).fit(fitted)
    amputed = imputer.ampute(X, random_state=1)
    assert type(amputed) is type(X)
    frame = amputed.to_pandas() if library in ("polars", "pyarrow") else pd.DataFrame(amputed)
    assert list(frame) == (list(complete) if library != "numpy" else [0, 1, 2])
    assert frame.iloc[:, 0].notna().all()  # age is never missing
    assert 0.2 < frame.iloc[:, 1].isna().mean() < 0.8
    seen = frame.iloc[:, 1].notna().to_numpy()
    np.testing.assert_array_equal(frame.iloc[:, 1].to_numpy()[seen].astype(float), complete["income"].to_numpy()[seen])
    assert imputer.mask_log_likelihood(amputed).shape == (200,)


def test_cells_that_come_back_as_they_are_stay_through_ampute(imputer):
    frame = make_clinic(100, seed=4).frame(complete=True)
    frame["reason"] = frame["reason"].astype(object)
    frame.loc[:, "reason"] = "unheard of"
    with pytest.warns(DataWarning, match="unheard of"):
        assert (imputer.ampute(frame)["reason"] == "unheard of").all()


def test_masks_of_other_rows_are_strange(trained):
    imputer, clinic = trained
    frame, complete = clinic.frame(), clinic.frame(complete=True)
    hidden = frame.isna()
    moved = complete.mask(pd.DataFrame(np.roll(hidden, 1, axis=0), columns=hidden.columns))
    own, other = imputer.mask_log_likelihood(frame), imputer.mask_log_likelihood(moved)
    assert own.mean() > other.mean() + 0.3
    assert imputer.mask_log_likelihood(frame.head(0)).shape == (0,)


def test_sensitivity_takes_and_gives_the_words_of_the_table(imputer):
    frame = CLINIC.frame()
    shift = imputer.sensitivity(frame, lambda t: (t["bmi"].mean(), t["bmi"].var() / 300), "bmi", delta=[-1, 0, 1], n=3)
    moved = np.diff(shift.to_dict()["estimate"])
    np.testing.assert_allclose(moved, frame["bmi"].isna().mean(), atol=1e-9)
    men = imputer.sensitivity(frame, lambda t: t["bmi"].mean(), ["bmi"], delta=1, by=lambda t: t["sex"] == "male", n=2)
    share = (frame["bmi"].isna() & (frame["sex"] == "male")).mean()
    assert men.points[0].estimate - men.reference.estimate == pytest.approx(share)
    heart = imputer.sensitivity(
        frame, lambda t: (t["reason"] == "heart").mean(), {"reason": "heart"}, delta=[-2, 0, 2], n=2, redraw=True
    )
    assert np.all(np.diff(heart.to_dict()["estimate"]) > 0)
    assert pd.DataFrame(heart.to_dict()).shape == (3, 9)
    days = imputer.sensitivity(
        frame, lambda t: t["visit_date"].astype("int64").mean(), "visit_date", delta=[0, 30], n=2
    )
    moved = pd.Timedelta(days=30 * frame["visit_date"].isna().mean()) / pd.Timedelta(1, "us")
    assert np.diff(days.to_dict()["estimate"])[0] == pytest.approx(moved, rel=0.01)
    with pytest.raises(TableError, match="'who' in columns is not a modelled column"):
        imputer.sensitivity(frame, len, "who")


# --- files


def test_a_saved_imputer_is_the_same_imputer(imputer, tmp_path):
    frame = CLINIC.frame()
    imputer.save(tmp_path / "clinic.vsae")
    again = load(tmp_path / "clinic.vsae")
    pd.testing.assert_frame_equal(again.transform(frame), imputer.transform(frame))
    pd.testing.assert_frame_equal(again.draw(frame, 2)[1], imputer.draw(frame, 2)[1])
    pd.testing.assert_frame_equal(again.sample(20, with_missing=True), imputer.sample(20, with_missing=True))
    assert repr(again.schema_) == repr(imputer.schema_)
    assert list(again.get_feature_names_out()) == list(frame.columns)


def test_a_model_is_not_an_imputer(imputer, tmp_path):
    imputer.fitted_.save(tmp_path / "core.vsae")
    with pytest.raises(FileFormatError, match="holds a vsae model, not a vsae imputer"):
        load(tmp_path / "core.vsae")
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "nowhere.vsae")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none; create it first"):
        imputer.save(tmp_path / "none" / "clinic.vsae")


def test_no_pickle_in_the_file(imputer, tmp_path):
    imputer.save(tmp_path / "clinic.vsae")
    raw = (tmp_path / "clinic.vsae").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    assert json.loads(header["__metadata__"]["format"])["version"] == FORMAT_VERSION
    assert b"pickle" not in raw
    assert b"cposix" not in raw


# --- odd tables, end to end


ODD = {
    "one row": pd.DataFrame({"a": [1.0], "b": ["x"]}),
    "one column": pd.DataFrame({"a": [1.0, None, 3.0] * 5}),
    "all-missing row": pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", None, "y"]}),
    "constant": pd.DataFrame({"a": [2.0, 2.0, None], "b": ["x", None, "x"]}),
    "huge and tiny": pd.DataFrame({"a": [1e100, None, -1e100], "b": [1e-300, 2e-300, None]}),
    "before 1970": pd.DataFrame({"d": pd.to_datetime(["1901-02-03", None, "1969-12-31"]), "a": [1, 2, 3]}),
    "int names": pd.DataFrame({0: [1.5, None, 2.5], 1: ["u", "v", None]}),
    "multi-index": pd.DataFrame({"a": [1.5, None]}, index=pd.MultiIndex.from_tuples([(0, "a"), (0, "b")])),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_tables_are_filled(name):
    same_but_filled(ODD[name], VSAEImputer(config=QUICK.replace(steps=3)).fit_transform(ODD[name]))


@pytest.mark.parametrize("huge", [1e200, -1.7976931348623157e308])
def test_one_huge_cell_is_named_and_every_hole_is_filled(huge):
    rng = np.random.default_rng(0)
    a = rng.normal(size=40)
    frame = pd.DataFrame({"a": a, "b": np.exp(a)})
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.loc[5, "a"] = huge
    with pytest.warns(DataWarning, match=r"column 'a': .* is beyond ±1e\+100"):
        filled = VSAEImputer(config=QUICK, random_state=0).fit_transform(frame)
    assert np.isfinite(filled.drop(index=5)).all(axis=None)
    assert filled["a"].drop(index=5).abs().max() < 10  # the others are imputed as if it were not there
    assert filled.loc[5, "a"] == huge


def test_an_all_missing_column_is_named_and_the_shape_stays():
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "empty": [None, None, None]}).astype({"empty": float})
    with pytest.warns(DataWarning, match="'empty'"):
        filled = VSAEImputer(config=QUICK.replace(steps=3)).fit_transform(frame)
    assert filled.shape == frame.shape
    assert filled["empty"].isna().all()


def test_two_thousand_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2000))
    X[rng.random(X.shape) < 0.1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled = VSAEImputer(config=QUICK.replace(steps=2, latent_draws=2, members=2)).fit_transform(X)
    assert not np.isnan(filled).any()


def test_public_names():
    for name in vsae.__all__:
        assert getattr(vsae, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        vsae.nothing  # noqa: B018


def test_the_import_is_quick():
    """It brings in nothing heavy above torch and scikit-learn: a fraction of a second."""
    code = """
import sys, torch, sklearn.base, sklearn.utils.validation
before = set(sys.modules)
from vsae import VSAEImputer
print(*(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    packages = Counter(name.partition(".")[0] for name in done.stdout.split())
    assert packages.pop("sklearn", 0) <= 5
    assert packages.keys() <= {"vsae", "safetensors"}


def test_the_order_of_sets_decides_nothing_that_a_file_holds(tmp_path):
    """All but the seconds of the training are the same in processes whose sets have other orders."""
    code = """
import sys
from vsae import VSAEImputer
from vsae.datasets import make_clinic
config = {"steps": 3, "latent_dim": 1, "members": 1, "trees": 2}
VSAEImputer(config=config, random_state=0).fit(make_clinic(60).frame()).save(sys.argv[1])
"""
    found = []
    for seed in "12":
        path, environment = tmp_path / seed, {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, path], env=environment, check=False)
        assert done.returncode == 0
        tensors, content = read(path, "imputer")
        content["model"]["history"].pop("seconds")
        found.append((json.dumps(content), {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}))
    assert found[0] == found[1]


def test_a_fit_that_fails_changes_nothing():
    good = pd.DataFrame({"a": [1.5, None, 2.5] * 10, "b": ["x", "y", None] * 10})
    imputer = VSAEImputer(config=QUICK.replace(steps=3), schema={"a": "real"}).fit(good)
    with pytest.raises(TableError, match="'a'"):
        imputer.fit(good.drop(columns="a"))
    assert not imputer.transform(good).isna().any().any()
    fresh = VSAEImputer(schema={"nothing": "real"})
    with pytest.raises(TableError, match="nothing"):
        fresh.fit(good)
    with pytest.raises(NotFittedError):
        fresh.transform(good)


def test_no_rows_are_no_trouble(imputer):
    none = CLINIC.frame().iloc[:0]
    assert imputer.embed(none).shape == (0, 14, VSAEConfig().latent_dim)
    assert imputer.missing_probability(none).shape == (0, 14)
    assert len(imputer.predict_proba(none)["sex"]["female"]) == 0
    assert len(imputer.predict_interval(none).lower) == 0


def test_what_must_be_missing_is_and_a_constant_is_not_contradicted():
    df = pd.DataFrame({"k": [3.0] * 60, "x": np.random.default_rng(0).normal(size=60), "c": ["a", "b", None] * 20})
    imputer = VSAEImputer(effort="fast", config={"steps": 3}).fit(df)
    rows = imputer.sample(5, given={"c": MISSING})
    assert rows["c"].isna().all()
    assert rows["x"].notna().all()
    assert (imputer.sample(5, given={"k": 3.0})["k"] == 3.0).all()
    with pytest.raises(TableError, match="'k' in given"):
        imputer.sample(5, given={"k": 5.0})


def test_twins_are_refused_and_labels_may_be_mixed():
    x = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(TableError, match="'a' appears 2 times"):
        VSAEImputer().fit(pd.DataFrame(x, columns=["a", "a"]))
    df = pd.DataFrame(x)
    df["label"] = "a"
    imputer = VSAEImputer(effort="fast", config={"steps": 3}).fit(df)
    assert imputer.n_features_in_ == 3
    assert list(imputer.transform(df).columns) == [0, 1, "label"]


def test_generated_numbers_are_not_the_cells_of_the_table():
    df = pd.DataFrame({"a": np.random.default_rng(0).normal(size=250), "b": np.arange(250) % 7})
    imputer = VSAEImputer(effort="fast", random_state=0, config={"steps": 5}).fit(df)
    rows = imputer.sample(300)
    assert rows["a"].isin(df["a"]).mean() < 0.2
    assert rows["a"].between(df["a"].min(), df["a"].max()).all()
    assert rows["b"].isin(df["b"]).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda it: it.draw(CLINIC.frame(), 0), "n must be a whole number of at least 1, not 0"),
        (lambda it: it.draw(CLINIC.frame(), 2.5), "n must be a whole number of at least 1, not 2.5"),
        (lambda it: it.sample(-1), "n must be a whole number of at least 1, not -1"),
        (lambda it: it.sample_mask(1.5), "n must be a whole number of at least 1, not 1.5"),
        (lambda it: it.draw(CLINIC.frame(), 1, row_ids=[1, 2]), "row_ids must be a whole number for each of the"),
        (lambda it: it.set_params(strategy="mode").transform(CLINIC.frame()), "strategy must be one of mean, median"),
        (lambda it: it.draw(CLINIC.frame(), 1, random_state="x"), "random_state must be a whole number"),
        (lambda it: VSAEImputer(config={"stepz": 3}).fit(CLINIC.frame()), "config has no setting 'stepz'"),
        (lambda it: VSAEImputer(device="gpu").fit(CLINIC.frame()), "there is no device 'gpu'; use 'cpu' or 'cuda'"),
    ],
)
def test_odd_arguments_are_told_in_one_line(imputer, call, says):
    with pytest.raises((ValueError, TypeError), match=re.escape(says)) as told:
        call(imputer)
    assert "\n" not in str(told.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told(imputer, tmp_path):
    imputer.save(tmp_path / "it")
    for call in (lambda: VSAEImputer(device="cuda").fit(CLINIC.frame()), lambda: load(tmp_path / "it", device="cuda")):
        with pytest.raises(ValueError, match="torch finds no GPU here; use 'cpu'"):
            call()


def test_what_was_imputed_is_told(few_steps):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": [1.0, None, 3.5, 2.5] * 6, "b": list("xyxy") * 6, "note": [None, {}, None, {}] * 6})
    X.index = range(100, 124)
    with pytest.warns(vsae.DataWarning):
        imputer = VSAEImputer(random_state=0, add_indicator=True).fit(X)
    mask = imputer.imputed_mask(X)
    assert mask["a"].tolist() == X["a"].isna().tolist()
    assert not mask[["b", "note"]].any().any()
    assert (mask.index == X.index).all()
    filled = imputer.transform(X)
    assert list(filled.columns) == [*X.columns, "missingindicator_a"] == list(imputer.get_feature_names_out())
    assert filled["missingindicator_a"].tolist() == mask["a"].tolist()
    array = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, 5.0]])
    imputer = VSAEImputer(random_state=0, add_indicator=True).fit(array)
    assert imputer.transform(array).shape == (3, 3)
    assert imputer.imputed_mask(array).tolist() == np.isnan(array).tolist()
    with pytest.warns(vsae.DataWarning, match="'A' .*it knows 'a'"):
        VSAEImputer(random_state=0).fit(X[["a", "b"]]).transform(X[["a", "b"]].rename(columns={"a": "A"}))
