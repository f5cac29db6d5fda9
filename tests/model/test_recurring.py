"""Numbers that rows share: found exactly, read as levels are, and worth something where a code decides others."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from vsae import VSAE, VSAEConfig, fit
from vsae.data.encoding import Encoding
from vsae.data.missingness import MCAR
from vsae.data.schema import Schema, categorical, count, real
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


def test_embeddings_cost_nothing_where_ages_are_all_that_rows_share():
    age = RNG.integers(20, 70, size=400).astype(float)
    columns = {"age": age, "income": age + 5 * RNG.normal(size=400)}
    fitted = fit(Schema([real("age"), real("income")]), columns, RNG.random((400, 2)) < 0.8, VSAEConfig(steps=20))
    assert fitted.model.config.recurring == 0


def test_a_code_tells_what_other_rows_with_it_have(tmp_path):
    schema, columns, mask = codes_decide()
    errors = {}
    for recurring in (0, 200):
        fitted = fit(schema, columns, mask, VSAEConfig(steps=150, recurring=recurring, trees=0))
        filled = fitted.impute(columns, mask)
        hidden = ~mask[:, 1] & mask[:, 0]
        errors[recurring] = (filled["level"] != columns["level"])[hidden].mean()
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
