"""Boosted trees: edges are seen at once, missing cells are read as they are, nothing is predicted from itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.microaggregation import FEWEST, microaggregated
from vsae.data.schema import Schema, binary, categorical, count, group, real
from vsae.model import trees
from vsae.model.trees import BoostedTrees, fit_trees

RNG = np.random.default_rng(0)


def batch_of(schema: Schema, columns: dict[str, np.ndarray], mask: np.ndarray, withheld: float = 0.1) -> Batch:
    data = Encoding.fit(schema, columns, mask, "standard").encode(columns, mask)
    held = mask & (np.random.default_rng(1).random(mask.shape) < withheld)
    return Batch(data.values, data.mask, torch.from_numpy(held))


def a_region(n: int = 800) -> tuple[Schema, dict[str, np.ndarray]]:
    a, b = RNG.uniform(-1, 1, (2, n))
    inside = ((np.abs(a) < 0.5) & (b > 0)).astype(int)
    level = np.where(a > 0.3, 2, np.where(b > 0.3, 1, 0))
    columns = {"a": a, "b": b, "inside": inside, "level": level, "noise": RNG.normal(size=n)}
    schema = Schema([real("a"), real("b"), binary("inside"), categorical("level", 3), real("noise")])
    return schema, columns


def test_a_region_that_two_numbers_cut_out_is_found_and_noise_is_left_alone() -> None:
    schema, columns = a_region()
    mask = RNG.random((800, 5)) < 0.85
    data = batch_of(schema, columns, mask)
    found = fit_trees(schema, data, 60)
    said = found.predict(data.with_mask(data.usable))
    held = data.withheld
    assert held is not None
    hidden = held[:, 2].numpy()
    right = said["inside"].argmax(1).numpy()[hidden] == columns["inside"][hidden]
    both = data.usable[:, :2].all(1).numpy()[hidden]
    assert right[both].mean() > 0.9
    assert said["level"].sum(1).numpy() == pytest.approx(np.ones(800), abs=1e-5)
    assert float(said["noise"].std()) < 0.3


def test_nothing_is_asked_about_itself_nor_about_what_is_missing_with_it() -> None:
    x = RNG.normal(size=(300, 3))
    columns = {"a": x[:, 0], "twin": x[:, 0], "b": x[:, 1], "c": x[:, 0] + 0.1 * x[:, 2]}
    schema = Schema([group("pair", real("a"), real("twin")), real("b"), real("c")])
    data = batch_of(schema, columns, np.ones((300, 3), dtype=bool))
    found = fit_trees(schema, data, 20)
    only_the_pair = data.with_mask(torch.tensor([[True, False, False]]).expand(300, -1))
    assert float(found.predict(only_the_pair)["a"].std()) < 1e-6
    assert float(found.predict(data)["a"].std()) > 0.5  # by c


def test_missing_cells_may_tell() -> None:
    n = 600
    a, mask = RNG.normal(size=n), np.ones((n, 2), dtype=bool)
    mask[:, 1] = a < 0  # b, which is noise, is missing where a is high
    schema = Schema([real("a"), real("b")])
    data = batch_of(schema, {"a": a, "b": RNG.normal(size=n)}, mask)
    said = fit_trees(schema, data, 40).predict(data.with_mask(data.usable & torch.tensor([False, True])))["a"]
    assert float(said[~torch.from_numpy(mask[:, 1])].mean() - said[torch.from_numpy(mask[:, 1])].mean()) > 1.0


def test_some_variables_alone_and_files_bring_trees_back() -> None:
    schema, columns = a_region(300)
    data = batch_of(schema, columns, np.ones((300, 5), dtype=bool))
    found = fit_trees(schema, data, 10, only=["inside"])
    names = [v.name for v in found.variables]
    assert [name for name, count in zip(names, found.count.tolist(), strict=True) if count] == ["inside"]
    assert found.questions.shape[2] == int(found.count.max()) <= 10
    again = BoostedTrees.from_tensors(schema, found.to_tensors())
    for name, x in found.predict(data).items():
        assert torch.equal(again.predict(data)[name], x)


def test_the_same_seed_grows_the_same_trees_and_a_row_alone_the_same_value() -> None:
    schema, columns = a_region(300)
    data = batch_of(schema, columns, RNG.random((300, 5)) < 0.8)
    one, two = (fit_trees(schema, data, 8, seed=3) for _ in range(2))
    assert torch.equal(one.values, two.values)
    whole = one.predict(data)["level"]
    alone = one.predict(data.take(slice(17, 18)))["level"]
    assert torch.allclose(alone[0], whole[17])


def test_wide_tables_ask_about_what_tells_most() -> None:
    n, wide = 200, 60
    x = RNG.normal(size=(n, wide))
    x[:, 50] = np.sign(x[:, 7])
    columns = {f"x{j}": x[:, j] for j in range(wide)}
    schema = Schema([real(name) for name in columns])
    data = batch_of(schema, columns, np.ones((n, wide), dtype=bool))
    said = fit_trees(schema, data, 30).predict(data.with_mask(data.usable), ["x50"])
    assert list(said) == ["x50"]
    held = data.withheld
    assert held is not None
    at = held[:, 50]
    assert float((said["x50"][at] * data.values["gaussian"][at, 50]).mean()) > 0.6


def test_many_levels_whole_numbers_and_tables_without_numbers() -> None:
    n = 300
    codes = RNG.integers(0, 200, n)
    columns = {"code": codes, "half": (codes < 100).astype(int), "number": RNG.integers(0, 5, n).astype(float)}
    schema = Schema([categorical("code", 200), binary("half"), count("number")])
    data = batch_of(schema, columns, np.ones((n, 3), dtype=bool))
    found = fit_trees(schema, data, 5)
    assert set(found.predict(data)) == {"half", "number"}  # too many levels to predict, not to be asked about
    assert (found.predict(data)["half"].argmax(1).numpy() == columns["half"]).mean() > 0.6
    only_levels = Schema([binary("half"), categorical("third", 3)])
    levels = {"half": columns["half"], "third": codes % 3}
    small = batch_of(only_levels, levels, np.ones((n, 2), dtype=bool))
    assert set(fit_trees(only_levels, small, 5).predict(small)) == {"half", "third"}


def test_no_leaf_and_no_edge_is_of_fewer_than_five_rows():
    rng = np.random.default_rng(0)
    n = 120
    a = rng.normal(size=n)
    columns = {"a": a, "b": np.round(a * 3 + rng.normal(size=n)), "k": (a > 1).astype(int)}
    columns["a"][7] = 40.0
    schema, mask = Schema([real("a"), real("b"), categorical("k", 3)]), rng.random((n, 3)) < 0.9
    columns["k"][7], mask[7] = 2, True
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    growth = trees._Growth(schema, data, torch.Generator().manual_seed(0), None)
    for _ in range(5):
        questions, outputs, values, _ = growth._tree(torch.arange(3))
        leaf = questions.leaf(growth.bins)  # (variables, n)
        for value, variable in zip(values, growth.owner[outputs].tolist(), strict=True):
            cells = torch.bincount(leaf[variable][growth.seen[variable]], minlength=len(value))
            assert (cells[value != 0] >= FEWEST).all()
    for column, edges, shown in zip(data.numbers(schema.number_blocks).T, growth.edges, growth.seen[:2], strict=True):
        values = np.unique(microaggregated(column[shown].double().numpy()))
        found = edges[torch.isfinite(edges)].numpy()
        np.testing.assert_allclose(found, (values[1:] + values[:-1]) / 2, rtol=1e-5, atol=1e-6)
