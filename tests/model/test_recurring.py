"""Numbers that rows share: found exactly, read as levels are, and worth something where a code decides others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from vsae import VSAE, VSAEConfig, fit
from vsae.data.encoding import Encoding
from vsae.data.missingness import MCAR
from vsae.data.schema import Schema, categorical, count, real
from vsae.model import recurring
from vsae.model.recurring import RecurringValues, cells_to_embed, jumps, recurring_values

RNG = np.random.default_rng(0)


def codes_decide(rows: int = 600, codes: int = 40) -> tuple[Schema, dict[str, np.ndarray], np.ndarray]:
    """A level and a number follow from a code, with no order in it; another number goes with nothing."""
    code = RNG.integers(codes, size=rows)
    of_code = RNG.integers(3, size=codes), RNG.normal(size=codes)
    columns = {"code": code.astype(float), "level": of_code[0][code], "number": of_code[1][code]}
    columns["alone"] = RNG.normal(size=rows)
    schema = Schema([real("code"), categorical("level", 3), real("number"), real("alone")])
    mask = MCAR(0.3).sample(np.stack(list(columns.values()), axis=1), RNG)
    return schema, columns, mask


def test_only_values_of_several_rows_are_kept_and_none_is_taken_for_that_of_another_column():
    x = torch.tensor(RNG.normal(size=(60, 3)), dtype=torch.float32)
    x[:20, 0] = 0.25
    x[:9, 1] = 0.25
    x[:4, 2] = 0.25
    observed = torch.ones(60, 3, dtype=torch.bool)
    observed[:6, 1] = False
    assert len(recurring_values(x, observed, 10)) == 1
    observed[:, 1] = True
    values = RecurringValues(10)
    values.fit(x, observed)
    assert values(torch.full((1, 3), 0.25)).tolist() == [[0, 1, 10]]
    assert values(torch.full((1, 3), 0.25 + 1e-6)).tolist() == [[10, 10, 10]]
    assert values(x.expand(2, 60, 3)).shape == (2, 60, 3)
    few = RecurringValues(1)  # the most frequent one
    few.fit(x, observed)
    assert few(torch.full((1, 3), 0.25)).tolist() == [[0, 1, 1]]


def test_far_values_and_those_that_are_no_numbers_are_none():
    values = RecurringValues(4)
    values.fit(torch.full((9, 2), 1e30), torch.ones(9, 2, dtype=torch.bool))
    assert values(torch.tensor([[torch.nan, -1e30]])).tolist() == [[4, 4]]


def test_an_embedding_is_added_where_its_value_is_shown_and_nowhere_else():
    schema, columns, mask = codes_decide(200, codes=5)
    data = Encoding.fit(schema, columns, mask, "standard").encode(columns, mask)
    model = VSAE(schema, VSAEConfig(recurring=8, members=2))
    model.fit_statistics(data)
    model.recurring.fit(data.numbers(schema.number_blocks), torch.from_numpy(mask[:, [0, 2, 3]]))
    layer, batch = model.collective.input, model.read(data.for_members())
    before = layer(batch)
    assert layer.table is not None
    assert torch.equal(layer.table[:, 3:], torch.zeros(2, 8, 96))  # it begins as if there were none
    with torch.no_grad():
        layer.table[:, 3:] = torch.randn(2, 8, 96)
    places = model.recurring(data.numbers(schema.number_blocks))
    shown = torch.from_numpy(mask[:, [0, 2, 3]])
    one_hot = (F.one_hot(places, 9)[..., :8] * shown[..., None]).sum(1).float()
    assert 0 < one_hot.sum() < shown.sum()
    torch.testing.assert_close(layer(batch) - before, 4.0 * one_hot @ layer.table[:, 3:], atol=1e-5, rtol=1e-5)


def test_an_age_is_like_its_neighbours_and_a_code_is_not():
    """Steps, slopes and curves are what neighbours share; and where cells are unknown, nothing is made of them."""
    age = RNG.integers(20, 70, size=2000)
    code = RNG.integers(50, size=2000)
    of_code = RNG.normal(size=50)
    columns = {"age": age.astype(float), "code": code.astype(float), "dose": RNG.integers(3, size=2000).astype(float)}
    columns["income"] = np.sin(age / 12) + 0.5 * of_code[code] + RNG.normal(size=2000)
    columns["old"] = (age + 5 * RNG.normal(size=2000) > 45).astype(int)
    schema = Schema([real("age"), real("code"), real("dose"), real("income"), categorical("old", 2)])
    mask = RNG.random((2000, 5)) < 0.8
    data = Encoding.fit(schema, columns, mask, "standard").encode(columns, mask)
    cells = cells_to_embed(schema, data)
    assert cells.shape == (2000, 4)
    assert torch.equal(cells[:, 1], torch.from_numpy(mask[:, 1]))
    assert not cells[:, [0, 2, 3]].any()
    values = torch.from_numpy(columns["code"])
    others = torch.from_numpy(of_code[code])[:, None]
    assert jumps(values, others, torch.ones(2000, 1).double())
    assert not jumps(values, others, torch.zeros(2000, 1).double())
    assert not jumps(values, others[:, :0], others[:, :0])


def beside(age: np.ndarray, kind: str) -> tuple[Schema, np.ndarray]:
    """A column that goes with age as smoothly as may be, or by chance, in ways that were taken for jumps once."""
    n, rng = len(age), np.random.default_rng(5)
    if kind == "rare levels":
        share = 1 / np.arange(1, 42) ** 2.0
        return Schema([real("age"), categorical("x", 41)]), rng.choice(41, n, p=share / share.sum())
    if kind == "a band":
        return Schema([real("age"), categorical("x", 10)]), (age // 10).astype(int)
    if kind == "a pension":
        return Schema([real("age"), categorical("x", 2)]), (age >= 65).astype(int)
    if kind == "an illness of the old":
        return Schema([real("age"), categorical("x", 2)]), (rng.random(n) < 1 / (1 + np.exp((72 - age) / 4))).astype(
            int
        )
    x = {"a square": age**2, "a logarithm": np.log(age), "another scale": np.round(1.8 * age), "a birth": 2020 - age}
    x["spread that grows"] = (age / 40) ** 2 * rng.normal(size=n) + 0.02 * age
    return Schema([real("age"), real("x")]), x[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "rare levels", "a band", "a pension", "an illness of the old", "a square", "a logarithm", "another scale",
        "a birth", "spread that grows",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", [1000, 6000])
def test_rare_levels_curves_steps_and_twins_are_no_jumps(kind: str, rows: int):
    age = np.clip(np.round(17 + np.random.default_rng(rows).gamma(2.5, 9.0, rows)), 17, 90)
    schema, x = beside(age, kind)
    mask = np.ones((rows, 2), dtype=bool)
    columns = {"age": age, "x": x}
    cells = cells_to_embed(schema, Encoding.fit(schema, columns, mask, "standard").encode(columns, mask))
    assert not cells[:, 0].any()


def test_codes_of_a_wide_table_are_found_by_a_few_of_the_others(monkeypatch: pytest.MonkeyPatch):
    rows, wide = 1000, 300
    code = RNG.integers(60, size=rows)
    columns = {"code": code.astype(float)} | {f"x{j}": RNG.normal(size=60)[code].round(1) for j in range(wide)}
    schema = Schema([real(name) for name in columns])
    mask = np.ones((rows, wide + 1), dtype=bool)
    data = Encoding.fit(schema, columns, mask, "standard").encode(columns, mask)
    compared = []

    def watched(column: torch.Tensor, x: torch.Tensor, known: torch.Tensor) -> bool:
        compared.append(x.shape[1])
        return jumps(column, x, known)

    monkeypatch.setattr(recurring, "jumps", watched)
    monkeypatch.setattr(recurring, "_MOST_VISITS", 10 * rows * wide)
    assert cells_to_embed(schema, data)[:, 0].all()
    assert max(compared) <= 11


def test_embeddings_cost_nothing_where_ages_are_all_that_rows_share():
    age = RNG.integers(20, 70, size=400).astype(float)
    columns = {"age": age, "income": age + 5 * RNG.normal(size=400)}
    fitted = fit(Schema([real("age"), real("income")]), columns, RNG.random((400, 2)) < 0.8, VSAEConfig(steps=20))
    assert fitted.model.config.recurring == 0


def test_a_code_tells_what_other_rows_with_it_have(tmp_path):
    schema, columns, mask = codes_decide()
    errors = {}
    for most in (0, 200):
        fitted = fit(schema, columns, mask, VSAEConfig(steps=150, recurring=most, trees=0))
        filled = fitted.impute(columns, mask)
        hidden = ~mask[:, 1] & mask[:, 0]
        errors[most] = (filled["level"] != columns["level"])[hidden].mean()
    assert 70 < fitted.model.config.recurring <= 80  # no more than there are: codes, and their numbers
    assert errors[200] < 0.6 * errors[0]
    fitted.save(tmp_path / "m.vsae")
    again = type(fitted).load(tmp_path / "m.vsae")
    np.testing.assert_array_equal(again.impute(columns, mask)["number"], filled["number"])


def test_files_that_say_nothing_of_it_have_none():
    older = {name: value for name, value in VSAEConfig().to_json().items() if name != "recurring"}
    assert VSAEConfig.from_json(older).recurring == 0


def test_a_table_without_such_numbers_needs_none():
    x = RNG.normal(size=(100, 2))
    columns = {"a": x[:, 0], "n": RNG.poisson(1000, size=100).astype(float)}
    schema = Schema([real("a"), count("n")])
    fitted = fit(schema, columns, RNG.random((100, 2)) < 0.8, VSAEConfig(steps=20, trees=0))
    assert fitted.model.config.recurring == 0
