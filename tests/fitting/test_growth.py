"""Forests: edges are seen at once, nothing is predicted from itself, and trees are fresh to one fold of the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.microaggregation import FEWEST, microaggregated
from vsae.data.schema import DISCRETE, Schema, binary, categorical, count, group, real
from vsae.fitting.growth import FOLDS, Grown, grow
from vsae.imputation.blend import ask
from vsae.model.forest import Fill, Forest

RNG = np.random.default_rng(0)


def batch_of(schema: Schema, columns: dict[str, np.ndarray], mask: np.ndarray, withheld: float = 0.1) -> Batch:
    data = Encoding.fit(schema, columns, mask, "standard").encode(columns, mask)
    held = mask & (np.random.default_rng(1).random(mask.shape) < withheld)
    return Batch(data.values, data.mask, torch.from_numpy(held))


def trivial(schema: Schema, rows: Batch) -> Fill:
    """What a model would say that knows nothing: means, and all levels alike."""
    numbers = sum(len(block) for block in schema.number_blocks)
    levels = {v.name: torch.full((rows.rows, v.size), 1 / v.size) for v in schema.variables if v.family in DISCRETE}
    return Fill(torch.zeros(rows.rows, numbers), levels)


def grown_on(schema: Schema, data: Batch, trees: int = 20, **options: object) -> Grown:
    found = grow(schema, data, lambda rows: trivial(schema, rows), trees, 0, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


def a_region(n: int = 800) -> tuple[Schema, dict[str, np.ndarray]]:
    a, b = RNG.uniform(-1, 1, (2, n))
    inside = ((np.abs(a) < 0.5) & (b > 0)).astype(int)
    level = np.where(a > 0.3, 2, np.where(b > 0.3, 1, 0))
    columns = {"a": a, "b": b, "inside": inside, "level": level, "noise": RNG.normal(size=n)}
    schema = Schema([real("a"), real("b"), binary("inside"), categorical("level", 3), real("noise")])
    return schema, columns


def test_a_region_that_two_numbers_cut_out_is_found() -> None:
    schema, columns = a_region()
    data = batch_of(schema, columns, RNG.random((800, 5)) < 0.85)
    shown = data.with_mask(data.usable)
    said = ask(grown_on(schema, data).forest, shown, trivial(schema, shown), ["inside", "level"])
    held = data.withheld
    assert held is not None
    rows = said["inside"].rows
    judged = (held[:, 2] & data.usable[:, :2].all(1))[rows]
    right = said["inside"].value.argmax(1)[judged] == torch.from_numpy(columns["inside"])[rows][judged]
    assert right.float().mean() > 0.9
    assert torch.allclose(said["level"].value.sum(1), torch.ones(()), atol=1e-5)


def test_it_says_what_scikit_learn_says() -> None:
    schema, columns = a_region(300)
    data = batch_of(schema, columns, np.ones((300, 5), dtype=bool), withheld=0.0)
    forest = grown_on(schema, data, 5).forest
    fill = trivial(schema, data)
    for name in ("a", "level"):
        hidden = data.mask.clone()
        hidden[:, schema.attribute_of[name]] = False
        x = forest.inputs(data.with_mask(hidden), fill)
        x[:, forest.inputs.attribute == schema.attribute_of[name]] = 0.0
        block = next(b for b in schema.blocks if name in [v.name for v in b.variables])
        j = [v.name for v in block.variables].index(name)
        y = data.values[block.name][:, j].numpy()
        means = []
        for t in range(5):
            rng = np.random.default_rng([0, t, 300])
            grows = np.flatnonzero(_fold_of(300) != t % FOLDS)
            kind, fewest = (ExtraTreeClassifier, 2) if name == "level" else (ExtraTreeRegressor, 1)
            made = kind(min_samples_leaf=fewest, max_features=x.shape[1], random_state=int(rng.integers(2**31)))
            order = _order(300)
            shown = y if name == "level" else microaggregated(y.astype(float))
            made.fit(x.numpy()[order][grows], shown[order][grows])
            means.append(made.predict_proba(x.numpy()) if name == "level" else made.predict(x.numpy()))
        said = forest.predict(x, {name: torch.arange(300)})[name]
        assert np.allclose(said.numpy(), np.mean(means, axis=0), atol=1e-5)


def test_no_leaf_tells_what_fewer_rows_have() -> None:
    """However few rows a leaf is of, its number is a value, or a mean, of several."""
    schema, columns = a_region(300)
    columns["a"] = np.where(np.arange(300) < 100, 0.25, columns["a"])  # an exact setting
    data = batch_of(schema, columns, np.ones((300, 5), dtype=bool), withheld=0.0)
    forest = grown_on(schema, data, 5, only=["a"]).forest
    y = data.numbers(schema.number_blocks)[:, 0].double().numpy()
    leaves = forest.values.numpy()
    value, rows = np.unique(y, return_counts=True)
    assert np.isclose(leaves[:, None], value[rows >= FEWEST]).any()
    assert not np.isclose(leaves[:, None], value[rows < FEWEST], atol=1e-6).any()
    assert len(leaves) > 5 * 300 * 0.8 / 4  # of fewer rows than that


def test_the_median_of_trees_is_what_one_of_them_says() -> None:
    schema, columns = a_region(200)
    data = batch_of(schema, columns, np.ones((200, 5), dtype=bool), withheld=0.0)
    forest = grown_on(schema, data, 5).forest
    inputs, rows = forest.inputs(data, trivial(schema, data)), {"a": torch.arange(200), "level": torch.arange(200)}
    each = torch.stack([forest.part(slice(t, t + 1)).predict(inputs, rows)["a"] for t in range(5)])
    said = forest.predict(inputs, rows, median=True)
    assert torch.equal(said["a"], each.median(dim=0).values)
    assert torch.equal(said["level"], forest.predict(inputs, rows)["level"])


@pytest.mark.parametrize("trees", [5, 6])
def test_the_median_of_trees_leans_to_no_side(trees: int) -> None:
    """Of leaves of the opposite sign, it is the opposite, however many trees there are."""
    schema, columns = a_region(200)
    data = batch_of(schema, columns, np.ones((200, 5), dtype=bool), withheld=0.0)
    forest = grown_on(schema, data, trees, only=["a"]).forest
    inputs, rows = forest.inputs(data, trivial(schema, data)), {"a": torch.arange(200)}
    opposite = replace(forest, values=-forest.values)
    said, unsaid = (some.predict(inputs, rows, median=True)["a"] for some in (forest, opposite))
    assert torch.equal(said, -unsaid)
    assert len(said.unique()) > 10


def _order(rows: int) -> np.ndarray:
    return np.random.default_rng([0, 14]).permutation(rows)


def _fold_of(rows: int) -> np.ndarray:
    return np.arange(rows) % FOLDS


def test_nothing_is_asked_about_itself_nor_about_what_is_missing_with_it() -> None:
    x = RNG.normal(size=(300, 3))
    columns = {"a": x[:, 0], "twin": x[:, 0], "b": x[:, 1], "c": x[:, 0] + 0.1 * x[:, 2]}
    schema = Schema([group("pair", real("a"), real("twin")), real("b"), real("c")])
    data = batch_of(schema, columns, np.ones((300, 3), dtype=bool))
    forest = grown_on(schema, data).forest
    inputs = forest.inputs(data, trivial(schema, data))
    rows = {"a": torch.arange(300)}
    for column in (0, 1):
        other = inputs.clone()
        other[:, column] = RNG.normal()
        assert torch.equal(forest.predict(inputs, rows)["a"], forest.predict(other, rows)["a"])
    other = inputs.clone()
    other[:, 3] = 0.0  # c
    assert not torch.equal(forest.predict(inputs, rows)["a"], forest.predict(other, rows)["a"])


def test_a_probability_is_taken_for_the_case_by_as_many_trees() -> None:
    coin = RNG.integers(0, 2, 600)
    schema = Schema([binary("coin"), binary("same")])
    data = batch_of(schema, {"coin": coin, "same": coin}, np.ones((600, 2), dtype=bool), withheld=0.0)
    forest = grown_on(schema, data, 200).forest
    said = forest.predict(torch.tensor([[0.3, 0.0], [1.0, 0.0]]), {"same": torch.arange(2)})["same"]
    assert abs(float(said[0, 1]) - 0.3) < 0.1
    assert float(said[1, 1]) > 0.95


def test_trees_are_fresh_to_one_fold() -> None:
    schema, columns = a_region(400)
    columns["noise"] = RNG.normal(size=400)
    data = batch_of(schema, columns, np.ones((400, 5), dtype=bool), withheld=0.0)
    found = grown_on(schema, data, 20)
    assert torch.equal(torch.cat(found.folds).sort().values, torch.arange(400))
    inputs = found.forest.inputs(data, trivial(schema, data))
    truth = data.values["gaussian"][:, 2]
    value, by_others = found.known["noise"]
    assert value.shape == by_others.shape == (400,)
    assert np.mean((value - by_others) ** 2) > 1.0
    known, fresh = [], []
    for fold, rows in enumerate(found.folds):
        part = found.fresh(fold)
        assert part.roots.shape[1] == 20 // FOLDS
        said = part.predict(inputs, {"noise": torch.arange(400)})["noise"]
        fresh.append(((said - truth)[rows] ** 2).mean())
        others = torch.cat([other for k, other in enumerate(found.folds) if k != fold])
        known.append(((said - truth)[others] ** 2).mean())
    assert np.mean(fresh) == pytest.approx(np.mean((value - by_others) ** 2), rel=1e-4)
    level, share = found.known["level"]
    assert (share.argmax(1) == level).mean() > 0.9
    assert np.mean(fresh) > 1.0 > 0.9 > np.mean(known)  # noise can not be predicted, but learned by heart


def test_some_variables_alone_and_files_bring_a_forest_back() -> None:
    schema, columns = a_region(300)
    data = batch_of(schema, columns, RNG.random((300, 5)) < 0.8)
    one, two = (grown_on(schema, data, 8, only=["inside"]).forest for _ in range(2))
    assert [v.name for v in one.found] == ["inside"]
    assert all(torch.equal(x, two.to_tensors()[name]) for name, x in one.to_tensors().items())
    again = Forest.from_tensors(schema, one.to_tensors())
    inputs, rows = one.inputs(data, trivial(schema, data)), {"inside": torch.arange(300)}
    whole = one.predict(inputs, rows)["inside"]
    assert torch.equal(again.predict(inputs, rows)["inside"], whole)
    alone = one.predict(inputs[17:18], {"inside": torch.arange(1)})["inside"]
    assert torch.equal(alone[0], whole[17])


def test_many_levels_whole_numbers_and_tables_without_numbers() -> None:
    n = 300
    codes = RNG.integers(0, 200, n)
    columns = {"code": codes, "half": (codes < 100).astype(int), "number": RNG.integers(0, 5, n).astype(float)}
    schema = Schema([categorical("code", 200), binary("half"), count("number")])
    data = batch_of(schema, columns, np.ones((n, 3), dtype=bool))
    assert {v.name for v in grown_on(schema, data, 5).forest.found} == {"half", "number"}  # too many levels for trees
    only_levels = Schema([binary("half"), categorical("third", 3)])
    levels = {"half": columns["half"], "third": codes % 3}
    small = batch_of(only_levels, levels, np.ones((n, 2), dtype=bool))
    assert {v.name for v in grown_on(only_levels, small, 5).forest.found} == {"half", "third"}


def test_nothing_grows_on_columns_without_cells_or_that_never_vary() -> None:
    schema = Schema([real("a"), real("b"), binary("c")])
    columns = {"a": np.ones(50), "b": RNG.normal(size=50), "c": np.zeros(50, dtype=int)}
    mask = np.ones((50, 3), dtype=bool)
    mask[:, 1] = False
    assert grow(schema, batch_of(schema, columns, mask), lambda rows: trivial(schema, rows), 5, 0) is None


@pytest.mark.parametrize(("together", "least", "most"), [(True, 0.15, 0.25), (False, 0.0, 0.0)])
def test_trees_meet_rows_that_miss_what_tends_to_be_missing_beside_their_variable(
    together: bool, least: float, most: float
) -> None:
    """Trees of one twin that always saw the other would know nothing of rows in which both are missing."""
    rng, n = np.random.default_rng(3), 1000
    level = rng.integers(0, 2, n)
    schema, columns = Schema([binary("one"), binary("twin")]), {"one": level, "twin": level}
    known = np.broadcast_to(rng.random((n, 1 if together else 2)) < 0.7, (n, 2)).copy()
    data, hidden = batch_of(schema, columns, known, withheld=0.0), []

    def filling(rows: Batch) -> Fill:
        hidden.append(1 - rows.mask.sum(0) / data.mask.sum(0))
        return trivial(schema, rows)

    grow(schema, data, filling, 5, 0)
    assert sorted(float(share.max()) for share in hidden) == [1.0, 1.0]  # the variable itself
    assert all(least <= float(share.min()) <= most for share in hidden)
