"""What a fitted model promises, on every kind at once; bad input; odd tables; files."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch

from conftest import PLAIN, every_kind, rows_of
from vsae.data.encoding import Encoding
from vsae.data.missingness import MCAR
from vsae.data.schema import (
    Attribute,
    Kind,
    Schema,
    SchemaError,
    Variable,
    binary,
    categorical,
    count,
    ordinal,
    positive,
    real,
)
from vsae.evaluation.metrics import mean_mode_fill, nrmse
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.imputation import point
from vsae.imputation.imputer import NoValue
from vsae.model.config import VSAEConfig
from vsae.storage import checkpoint

QUICK = VSAEConfig(**PLAIN, steps=30)
SCHEMA = every_kind()


@pytest.fixture(scope="module")
def fitted():
    columns, mask = rows_of(SCHEMA, 80)
    return fit(SCHEMA, columns, mask, QUICK.replace(members=2)), columns, mask


def equal(a, b) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


def test_observed_cells_come_back_bit_identical_and_holes_are_filled(fitted):
    model, columns, mask = fitted
    for filled in [model.impute(columns, mask), *model.draw(columns, mask, 3)]:
        for variable in SCHEMA.variables:
            seen = mask[:, SCHEMA.attribute_of[variable.name]]
            assert filled[variable.name].dtype == columns[variable.name].dtype
            assert np.array_equal(filled[variable.name][seen], columns[variable.name][seen])
            assert np.isfinite(filled[variable.name].astype(float)).all()


def test_filled_cells_are_of_their_kind(fitted):
    model, columns, mask = fitted
    rows, _ = model.generate(300)
    for table in [model.impute(columns, mask), model.draw(columns, mask, 1)[0], rows]:
        assert (table["amount"] > 0).all()
        assert ((table["share"] >= 0) & (table["share"] <= 1)).all()
        for name in ("times", "visits"):
            assert (table[name] == np.rint(table[name])).all()
            assert (table[name] >= 0).all()
        for variable in SCHEMA.variables:
            if variable.size > 1 and variable.kind is not Kind.VECTOR:
                assert set(np.unique(table[variable.name])) <= set(range(variable.size))


def test_what_is_hidden_is_never_read(fitted):
    model, columns, mask = fitted
    nothing = {name: x.copy() for name, x in columns.items()}
    for variable in SCHEMA.variables:
        hole = ~mask[:, SCHEMA.attribute_of[variable.name]]
        nothing[variable.name][hole] = -7 if nothing[variable.name].dtype.kind == "i" else np.nan
    assert equal(model.impute(columns, mask), model.impute(nothing, mask))


def test_permuting_rows_permutes_the_output_and_a_row_alone_gets_the_same(fitted):
    model, columns, mask = fitted
    order = np.random.default_rng(0).permutation(len(mask))
    shuffled = model.impute({name: x[order] for name, x in columns.items()}, mask[order])
    filled = model.impute(columns, mask)
    single = model.impute({name: x[5:6] for name, x in columns.items()}, mask[5:6])
    for name in filled:
        np.testing.assert_allclose(filled[name][order], shuffled[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(filled[name][5:6], single[name], rtol=1e-4, atol=1e-5)


def test_chunks_do_not_matter_for_point_imputations(fitted, monkeypatch):
    model, columns, mask = fitted
    whole = model.impute(columns, mask)
    monkeypatch.setattr("vsae.imputation.imputer.CHUNK_NUMBERS", 1)
    assert [length for _, length in model.ranges(3)] == [1, 1, 1]
    pieces = model.impute(columns, mask)
    monkeypatch.undo()
    monkeypatch.setattr("vsae.imputation.imputer._CACHE_NUMBERS", 1)
    smaller = model.impute(columns, mask)
    *most, _ = [piece.rows for piece in model.pieces_of(model.encoding.encode(columns, mask), 2)]
    assert set(most) == {32}  # not fewer: the weights of a wide table would be read again for each row
    for name in whole:
        np.testing.assert_allclose(whole[name], pieces[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(whole[name], smaller[name], rtol=1e-4, atol=1e-5)


def test_rows_and_columns_that_miss_nothing_are_not_estimated_and_change_no_other(fitted, monkeypatch):
    model, columns, mask = fitted
    whole, asked = model.impute(columns, mask), []
    estimate = point._estimate

    def noted(imputer, batch, noise, weighted, only):
        asked.append((batch.rows, set(only)))
        return estimate(imputer, batch, noise, weighted, only)

    some = mask.copy()
    some[::2] = True
    some[:, 0] = True
    every = point.completed(model, whole, some, model.estimates(whole, some))
    monkeypatch.setattr(point, "_estimate", noted)
    filled = model.impute(whole, some)
    first = {variable.name for variable in next(iter(SCHEMA)).variables}
    assert asked[0][0] == (~some.all(axis=1)).sum()
    assert asked[0][1] == {v.name for v in SCHEMA.variables if not some[:, SCHEMA.attribute_of[v.name]].all()}
    assert asked[0][1].isdisjoint(first)
    for name, x in whole.items():
        seen = some[:, SCHEMA.attribute_of[name]]
        assert equal({name: filled[name][seen]}, {name: x[seen]})
        np.testing.assert_allclose(filled[name][~seen], every[name][~seen], rtol=1e-5, atol=1e-5)
    again = model.impute(whole, np.ones_like(mask))
    assert equal(again, whole)
    assert len(asked) == 1
    assert not any(np.shares_memory(again[name], whole[name]) for name in whole)


def test_what_is_missing_and_has_no_value_is_refused(fitted):
    model, columns, mask = fitted
    imputed = model.impute(columns, mask)
    del imputed["amount"]
    with pytest.raises(KeyError, match="amount"):
        model.fill(columns, mask, imputed)


def test_draws_repeat_with_a_seed_and_differ_among_themselves(fitted):
    model, columns, mask = fitted
    one, two = model.draw(columns, mask, 4, seed=3), model.draw(columns, mask, 4, seed=3)
    assert all(equal(a, b) for a, b in zip(one, two, strict=True))
    assert not equal(one[0], one[1])
    assert not equal(one[0], model.draw(columns, mask, 4, seed=4)[0])


def test_generation_is_one_draw_of_masks_and_data(fitted):
    model, _, _ = fitted
    rows, masks = model.generate(501, seed=2)
    assert masks.shape == (501, len(SCHEMA))
    assert masks.dtype == bool
    assert np.array_equal(model.generate_masks(501, seed=2), masks)
    assert all(len(x) == 501 for x in rows.values())
    assert rows["signal"].shape == (501, 3)
    with pytest.raises(ValueError, match="at least 1"):
        model.generate(0)


def test_embedding_and_probabilities_have_their_shapes(fitted):
    model, columns, mask = fitted
    assert model.embed(columns, mask).shape == (80, len(SCHEMA), 3)
    missing = model.missing_probability(columns, mask)
    assert missing.shape == mask.shape
    assert ((missing > 0) & (missing < 1)).all()
    for name, share in model.probabilities(columns, mask).items():
        size = next(v.size for v in SCHEMA.variables if v.name == name)
        assert share.shape == (80, size)
        np.testing.assert_allclose(share.sum(1), 1.0, atol=1e-5)


def test_point_of_a_level_is_its_likeliest(fitted):
    model, columns, mask = fitted
    filled, shares = model.impute(columns, mask), model.probabilities(columns, mask)
    hole = ~mask[:, SCHEMA.names.index("town")]
    assert np.array_equal(filled["town"][hole], shares["town"].argmax(1)[hole])


def test_probabilities_are_scaled_only_where_they_are_asked_for(fitted, monkeypatch):
    model, columns, mask = fitted
    whole, asked = model.impute(columns, mask), []
    estimates = type(model.calibration).estimates

    def noted(calibration, found, scaled=None):
        asked.append(scaled)
        return estimates(calibration, found, scaled)

    monkeypatch.setattr(type(model.calibration), "estimates", noted)
    assert equal(model.impute(columns, mask), whole)
    model.probabilities(columns, mask)
    assert asked == [model.tilts.levels, None]


def test_no_mask_model_no_masks():
    columns, mask = rows_of(SCHEMA, 60)
    model = fit(SCHEMA, columns, mask, QUICK.replace(mask_modelling=False))
    assert (model.generate(10, given={"sex": 1})[0]["sex"] == 1).all()
    assert model.generate(10)[1].all()
    for ask in (lambda: model.generate_masks(3), lambda: model.missing_probability(columns, mask)):
        with pytest.raises(ValueError, match="mask_modelling"):
            ask()


@pytest.mark.parametrize("proposal", ["selective", "collective", "attributive"])
@pytest.mark.parametrize("preset", [VSAEConfig.paper, VSAEConfig])
def test_every_ablation_trains_and_imputes(proposal, preset):
    columns, mask = rows_of(SCHEMA, 60)
    config = preset(proposal=proposal, steps=5, e_step_samples=3, e_step_warmup=0, e_step_latents="collective")
    model = fit(SCHEMA, columns, mask, config)
    filled = model.impute(columns, mask)
    assert all(np.isfinite(x.astype(float)).all() for x in filled.values())
    assert equal(filled, model.impute(columns, mask))


def test_it_learns_a_correlated_gaussian():
    """VAEs have been called poor on 1000 × 10 Gaussian data; the bar is the exact conditional mean."""
    rng = np.random.default_rng(0)
    loading = rng.normal(size=(10, 3))
    covariance = loading @ loading.T + 0.3 * np.eye(10)
    x = rng.multivariate_normal(np.zeros(10), covariance, size=1000)
    mask = MCAR(0.3).sample(x, rng)
    exact = x.copy()
    for i, seen in enumerate(mask):
        gain = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        exact[i, ~seen] = gain @ x[i, seen]
    schema = Schema([real(f"x{j}") for j in range(10)])
    columns = {f"x{j}": x[:, j] for j in range(10)}
    filled = fit(schema, columns, mask, VSAEConfig(steps=300)).impute(columns, mask)
    ours = float(nrmse(x, np.stack(list(filled.values()), axis=1), mask))
    best = float(nrmse(x, exact, mask))
    trivial = float(nrmse(x, mean_mode_fill(x, mask, np.zeros(10, dtype=bool)), mask))
    assert best < ours < best + 0.25 * (trivial - best)


# --- files


def test_a_saved_model_imputes_bit_identically(fitted, tmp_path):
    model, columns, mask = fitted
    model.save(tmp_path / "m.vsae")
    again = FittedVSAE.load(tmp_path / "m.vsae")
    assert equal(model.impute(columns, mask), again.impute(columns, mask))
    assert equal(model.draw(columns, mask, 1)[0], again.draw(columns, mask, 1)[0])
    assert equal(model.generate(20)[0], again.generate(20)[0])
    assert again.history.records == model.history.records
    assert [p.name for p in tmp_path.iterdir()] == ["m.vsae"]


@pytest.mark.parametrize(
    "damage",
    [
        "truncated",
        "flipped header",
        "text",
        "empty",
        "newer",
        "other purpose",
        "lacks a tensor",
        "flipped bit",
    ],
)
def test_a_bad_file_is_refused_in_one_line(fitted, tmp_path, damage):
    model, _, _ = fitted
    path = tmp_path / "m.vsae"
    model.save(path)
    raw = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(raw[: len(raw) // 2])
    elif damage == "flipped header":
        path.write_bytes(raw[:30] + bytes([raw[30] ^ 0xFF]) + raw[31:])
    elif damage == "flipped bit":  # somewhere in the weights
        path.write_bytes(raw[:-100] + bytes([raw[-100] ^ 1]) + raw[-99:])
    elif damage == "text":
        path.write_text("name,age\n")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "newer":
        path.write_bytes(edit_header(raw, lambda h: h["__metadata__"].update(
            format=json.dumps({"name": "vsae", "purpose": "model", "version": 99}))))  # fmt: skip
    elif damage == "other purpose":
        checkpoint.write(path, "training state", {}, {})
    else:
        tensors, content = checkpoint.read(path, "model")
        checkpoint.write(path, "model", dict(list(tensors.items())[1:]), content)
    with pytest.raises(checkpoint.FileFormatError, match=r"m\.vsae") as caught:
        FittedVSAE.load(path)
    if damage == "newer":
        assert "newer" in str(caught.value)


def edit_header(raw: bytes, change) -> bytes:
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + raw[8 + size :]


def test_a_failed_write_leaves_the_old_file_alone(fitted, tmp_path, monkeypatch):
    model, _, _ = fitted
    path = tmp_path / "m.vsae"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


# --- bad input: one line that names the attribute, and nothing changes


GOOD = Schema([real("a"), categorical("c", 3), positive("p"), count("k", max=9), binary("b")])


def good_rows():
    columns = {
        "a": np.ones(4),
        "c": np.array([0, 1, 2, 0]),
        "p": np.ones(4),
        "k": np.arange(4),
        "b": np.zeros(4, int),
    }
    return columns, np.ones((4, 5), dtype=bool)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, m: (c | {"a": np.array([1, np.nan, 1, 1])}, m), "attribute 'a', row 1: nan"),
        (lambda c, m: (c | {"a": np.array([1, 2, np.inf, 1])}, m), "attribute 'a', row 2: inf"),
        (lambda c, m: (c | {"c": np.array([0, 1, 3, 0])}, m), "attribute 'c', row 2: 3 is not a level"),
        (lambda c, m: (c | {"c": np.array([0, -1, 1, 0])}, m), "attribute 'c', row 1: -1"),
        (lambda c, m: (c | {"c": np.array([0, 0.5, 1, 0])}, m), "attribute 'c', row 1: 0.5"),
        (lambda c, m: (c | {"p": np.array([1, 1, 1, 0.0])}, m), "attribute 'p', row 3: 0.0 is not above zero"),
        (lambda c, m: (c | {"k": np.array([1, 1, 1.5, 0.0])}, m), "attribute 'k', row 2: 1.5 is no whole number"),
        (lambda c, m: (c | {"k": np.array([1, 10, 1, 0])}, m), "attribute 'k', row 1: 10.0 lies outside"),
        (lambda c, m: (c | {"a": np.ones(3)}, m), r"attribute 'a' has shape \(3,\)"),
        (lambda c, m: (c | {"a": np.ones((4, 2))}, m), r"attribute 'a' has shape \(4, 2\)"),
        (lambda c, m: ({k: v for k, v in c.items() if k != "p"}, m), "attribute 'p' is in the schema but not"),
        (lambda c, m: (c, m.astype(int)), "boolean array with True = observed, not int64"),
        (lambda c, m: (c, m.astype(float)), "boolean array with True = observed, not float64"),
        (lambda c, m: (c, m.tolist()), "boolean array with True = observed, not list"),
        (lambda c, m: (c, m[:, :3]), r"the mask has shape \(4, 3\); expected \(rows, 5\)"),
        (lambda c, m: ({k: v[:0] for k, v in c.items()}, m[:0]), "the table has no rows"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(change, message):
    columns, mask = good_rows()
    encoding = Encoding.fit(GOOD, columns, mask)
    bad_columns, bad_mask = change(columns, mask)
    copies = {name: np.array(x) for name, x in bad_columns.items()}
    for act in (
        lambda: encoding.encode(bad_columns, bad_mask),
        lambda: fit(GOOD, bad_columns, bad_mask, QUICK),
    ):
        with pytest.raises(SchemaError, match=message) as caught:
            act()
        assert "\n" not in str(caught.value)
    for name, x in bad_columns.items():
        np.testing.assert_array_equal(x, copies[name])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema([real("a"), real("a")]), "attribute 'a' appears twice"),
        (lambda: Schema([]), "at least one attribute"),
        (lambda: Variable("a", "colour"), "unknown kind 'colour'; use one of real"),
        (lambda: categorical("a", 0), "size must be at least 1"),
        (lambda: Variable("a", Kind.BINARY, 3), "2 levels"),
        (lambda: Variable("a", Kind.REAL, 3), "use a vector"),
        (lambda: Variable("a", Kind.POSITIVE, max=3), "bounds are for reals and counts"),
        (lambda: real("a", min=2, max=1), "min 2 is not below max 1"),
        (lambda: Attribute("a", ()), "no variables"),
    ],
)
def test_bad_schema_is_refused(make, message):
    with pytest.raises(SchemaError, match=message):
        make()


# --- odd tables work


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        (Schema([real("a")]), 30),
        (Schema([categorical("c", 1)]), 30),
        (Schema([real("a"), categorical("c", 1), ordinal("o", 1)]), 20),
        (every_kind(), 1),
        (every_kind(), 2),
    ],
)
def test_few_rows_few_attributes_few_levels(schema, rows):
    columns, mask = rows_of(schema, rows)
    model = fit(schema, columns, mask, QUICK)
    filled = model.impute(columns, mask)
    assert all(np.isfinite(x.astype(float)).all() for x in filled.values())
    model.generate(3)


@pytest.mark.parametrize(
    "preset", [VSAEConfig(steps=20), VSAEConfig.paper(steps=20, e_step_warmup=0, e_step_samples=5)]
)
def test_all_missing_rows_and_attributes_and_constants(preset):
    schema = every_kind()
    columns, mask = rows_of(schema, 60)
    mask[:10] = False
    mask[:, [0, 2, 3, 4]] = False
    columns["height"][:] = 3.0
    columns["visits"][:] = 2
    columns["town"][:] = 5
    filled = fit(schema, columns, mask, preset).impute(columns, mask)
    assert all(np.isfinite(x.astype(float)).all() for x in filled.values())
    np.testing.assert_allclose(filled["height"], 3.0, atol=2.0)


def test_nothing_observed_at_all():
    schema = every_kind()
    columns, mask = rows_of(schema, 20)
    model = fit(schema, columns, np.zeros_like(mask), QUICK)
    assert all(np.isfinite(x.astype(float)).all() for x in model.impute(columns, np.zeros_like(mask)).values())


def test_enormous_and_tiny_numbers():
    rng = np.random.default_rng(0)
    schema = Schema([real("big"), real("tiny"), positive("wide"), real("far"), count("large")])
    columns = {
        "big": 1e99 * rng.normal(size=50),
        "tiny": 1e-300 * rng.normal(size=50),
        "wide": 10.0 ** rng.uniform(-300, 100, 50),
        "far": 1e15 + rng.integers(0, 50, 50).astype(float),
        "large": rng.integers(0, 2**50, 50).astype(float),
    }
    mask = rng.random((50, 5)) < 0.7
    filled = fit(schema, columns, mask, QUICK).impute(columns, mask)
    for name in columns:
        assert np.isfinite(filled[name]).all()
    assert (filled["wide"] > 0).all()
    assert (np.abs(filled["far"] - 1e15) < 1e4).all()


def test_models_move_between_devices_by_file(fitted, tmp_path):
    model, columns, mask = fitted
    model.save(tmp_path / "m.vsae")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    moved = FittedVSAE.load(tmp_path / "m.vsae", device=device)
    assert moved.device.type == device
    np.testing.assert_allclose(
        moved.impute(columns, mask)["height"], model.impute(columns, mask)["height"], rtol=1e-3, atol=1e-3
    )


def test_conditions_are_kept_and_pull_the_rest_along():
    rng = np.random.default_rng(0)
    group_ = rng.integers(0, 2, 800)
    x = 4.0 * group_ + rng.normal(size=800)
    hidden = rng.random(800) < np.where(group_ == 1, 0.6, 0.1)  # x is mostly missing in group 1
    schema = Schema([binary("group"), real("x")])
    columns, mask = {"group": group_, "x": x}, np.stack([np.ones(800, dtype=bool), ~hidden], axis=1)
    model = fit(schema, columns, mask, VSAEConfig(steps=400))
    means, missing = [], []
    for level in (0, 1):
        rows, masks = model.generate(400, given={"group": level})
        assert (rows["group"] == level).all()
        assert masks[:, 0].all()
        means.append(rows["x"].mean())
        missing.append(1 - masks[:, 1].mean())
    assert means[1] - means[0] > 2.0  # 4 in truth
    assert missing[1] - missing[0] > 0.1  # .5 in truth: the Gaussian prior blurs it
    rows, masks = model.generate(400, missing=["x"])
    assert not masks[:, 1].any()
    assert rows["group"].mean() > 0.7  # P(group 1 | x missing) = .86
    for bad, message in (
        ({"given": {"y": 1}}, "no variable 'y'"),
        ({"missing": ["y"]}, "no attribute 'y'"),
        ({"given": {"x": 1}, "missing": ["x"]}, "'x' can not be both given and missing"),
    ):
        with pytest.raises(SchemaError, match=message):
            model.generate(3, **bad)
    with pytest.warns(UserWarning, match="the condition is rare"):
        model.generate(400, given={"x": 400.0})


def test_quantiles_bracket_the_draws(fitted):
    model, columns, mask = fitted
    low, high = model.quantiles(columns, mask, [0.05, 0.95])
    hole = ~mask[:, SCHEMA.names.index("height")]
    assert (low["height"][hole] < high["height"][hole]).all()
    assert np.array_equal(low["height"][~hole], columns["height"][~hole])
    inside = [
        (d["height"] >= low["height"]) & (d["height"] <= high["height"]) for d in model.draw(columns, mask, 50, seed=9)
    ]
    assert np.mean([x[hole] for x in inside]) == pytest.approx(0.9, abs=0.05)


def test_an_integer_column_of_reals_is_rounded_not_cut():
    rng = np.random.default_rng(0)
    columns, mask = {"a": rng.integers(90, 110, 200)}, rng.random((200, 1)) < 0.5
    model = fit(Schema([real("a")]), columns, mask, QUICK)
    exact = model.impute({"a": columns["a"].astype(float)}, mask)["a"]
    np.testing.assert_array_equal(model.impute(columns, mask)["a"], np.rint(exact).astype(int))


def test_a_condition_on_one_variable_of_a_group_says_nothing_of_the_others(fitted):
    model, columns, _ = fitted
    rows, masks = model.generate(300, given={"amount": float(columns["amount"][3])})
    assert (rows["amount"] == columns["amount"][3]).all()
    assert masks[:, SCHEMA.names.index("dose")].all()
    assert rows["times"].std() > 0


def test_loading_and_fitting_leave_the_global_randomness_alone(fitted, tmp_path):
    model, columns, mask = fitted
    model.save(tmp_path / "m.vsae")
    before = torch.get_rng_state()
    FittedVSAE.load(tmp_path / "m.vsae")
    fit(SCHEMA, columns, mask, QUICK.replace(members=2))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("preset", [VSAEConfig(steps=20), VSAEConfig.paper(steps=20)])
def test_an_outlier_in_new_rows_leaves_no_hole(preset):
    rng = np.random.default_rng(0)
    schema, columns = Schema([real("a"), real("b")]), {"a": rng.normal(size=60), "b": rng.normal(size=60)}
    model = fit(schema, columns, rng.random((60, 2)) < 0.8, preset)
    filled = model.impute({"a": np.array([1e100]), "b": np.array([np.nan])}, np.array([[True, False]]))
    assert np.isfinite(filled["b"]).all()
    assert filled["a"][0] == 1e100


@pytest.mark.parametrize(
    "bad",
    [{"members": 0}, {"batch_size": 0}, {"steps": -5}, {"warmup": 1.0}, {"patience": 0}, {"validation_share": 1.5}],
)
def test_settings_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must lie between"):
        VSAEConfig(**bad)


def test_draws_of_all_members_spread_as_the_truth_does():
    """Members with one σ a column stop early with a σ that is far too wide; calibration mends it."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=500)
    b = a + 0.2 * rng.normal(size=500)
    mask = np.stack([np.ones(500, dtype=bool), rng.random(500) < 0.7], axis=1)
    columns = {"a": 50 + 15 * a, "b": 3 + 0.9 * b}
    model = fit(Schema([real("a"), real("b")]), columns, mask, VSAEConfig(steps=300, members=2))
    widths = [(d["b"] - columns["b"])[~mask[:, 1]].std() for d in model.draw(columns, mask, 6)]
    truth = 0.2 * 0.9 * np.sqrt(2)  # of a draw against the value it stands for
    assert max(widths) < 2.2 * truth  # errors before the refit, after few steps, were larger than those after it
    assert min(widths) > 0.6 * truth


def test_a_mean_stays_inside_what_was_seen():
    """The mean of a log-normal with a wide σ lies far beyond its column."""
    columns = {"a": np.repeat([0.5, 1.0, 2.0, 40.0], 5), "b": np.repeat([-3.0, 0.0, 1.0, 2.0], 5)}
    mask = np.ones((20, 2), dtype=bool)
    encoding = Encoding.fit(Schema([positive("a"), real("b")]), columns, mask)
    far = np.array([[50.0, 50.0], [-50.0, -50.0]])
    assert encoding.expected("gaussian", far, np.ones((2, 2))) == pytest.approx(np.array([[40.0, 2.0], [0.5, -3.0]]))
    wide = encoding.expected("gaussian", np.zeros((1, 2)), np.full((1, 2), 9.0))
    assert 0.5 <= wide[0, 0] <= 40.0


def test_a_model_whose_weights_are_not_finite_fills_nothing():
    rng = np.random.default_rng(0)
    schema, columns = Schema([real("a"), binary("b")]), {"a": rng.normal(size=60), "b": rng.integers(0, 2, 60)}
    mask = rng.random((60, 2)) < 0.8
    model = fit(schema, columns, mask, QUICK)
    for weight in model.model.data_network.parameters():
        weight.data.fill_(torch.nan)
    for use in (model.impute, model.median, lambda *cells: model.draw(*cells, 1)):
        with pytest.raises(NoValue, match=r"column '.': the model gives no finite value"):
            use(columns, mask)
    with pytest.raises(NoValue, match="no finite value"):
        model.generate(20)


def test_numbers_that_overflow_are_refused():
    schema, mask = Schema([real("a"), real("b")]), np.ones((3, 2), dtype=bool)
    with pytest.raises(SchemaError, match=r"'a', row 1: 1e\+200 is beyond"):
        fit(schema, {"a": np.array([0.5, 1e200, 1.5]), "b": np.zeros(3)}, mask, QUICK)


def test_the_median_of_a_number_with_few_values_is_one_of_them(tmp_path):
    rng = np.random.default_rng(4)
    dose, age = rng.choice([0.5, 1.0, 2.0], 150), rng.normal(40.0, 9.0, 150)
    columns = {"dose": dose, "age": age, "effect": 3.0 * dose + 0.1 * age + rng.normal(size=150)}
    mask = rng.random((150, 3)) < 0.7
    schema = Schema([real("dose"), real("age"), real("effect")])
    fitted = fit(schema, columns, mask, VSAEConfig(steps=20, members=1))
    filled = fitted.median(columns, mask)
    assert set(filled["dose"]) == {0.5, 1.0, 2.0}
    assert not set(filled["age"][~mask[:, 1]]) & set(age)
    assert not set(fitted.impute(columns, mask)["dose"][~mask[:, 0]]) <= {0.5, 1.0, 2.0}  # a mean is between them
    fitted.save(tmp_path / "model")
    again = FittedVSAE.load(tmp_path / "model").median(columns, mask)
    assert all(np.array_equal(again[name], filled[name]) for name in filled)
    more = fitted.encoding.widened({**columns, "dose": np.where(dose == 2.0, 1.7, dose)}, mask)
    assert "dose" in fitted.encoding.nearest_settings(columns)
    assert "dose" not in more.nearest_settings(columns)  # there are others by now
