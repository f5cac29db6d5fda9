"""One pass over batches tells as much of the columns as the whole table, and samples its rows uniformly."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pytest

from vsae.table import Table, TableError
from vsae.table.batches import batches_of, like
from vsae.table.survey import MOST_DIFFERENT, Survey

ROWS = 4000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    rare = np.where(np.arange(ROWS) == 3999, "rare", rng.choice(["a", "b"], ROWS)).astype(object)
    whole = rng.integers(0, 50, ROWS).astype(float)
    whole[3777] = 7.5
    days = [dt.datetime(2024, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 300, ROWS)]
    days[1234] += dt.timedelta(minutes=5)
    columns = {
        "key": pa.array(np.arange(ROWS)),
        "x": pa.array(rng.normal(size=ROWS), mask=rng.random(ROWS) < 0.3),
        "rare": pa.array(rare, mask=rng.random(ROWS) < 0.1),
        "code": pa.array(np.where(np.arange(ROWS) == 5, 9, rng.integers(0, 3, ROWS))),
        "whole": pa.array(whole),
        "day": pa.array(days),
        "note": pa.array([f"note {i}" for i in range(ROWS)]),
        "town": pa.array(rng.choice(["x", "y", "z"], ROWS).astype(object)).dictionary_encode(),
    }
    return pa.table(columns)


def batches(table: pa.Table, size: int) -> list[pa.Table]:
    return [table.slice(start, size) for start in range(0, len(table), size)]


def test_the_sample_does_not_depend_on_the_batches_and_has_every_row_alike(table):
    samples = [Survey.of(batches(table, size), 500, seed=1).sample() for size in (37, 1000, ROWS)]
    assert all(len(sample) == 500 and sample["key"].equals(samples[0]["key"]) for sample in samples)
    keys = samples[0]["key"].to_numpy()
    assert (np.diff(keys) > 0).all()
    counts = np.zeros(200)
    for seed in range(300):
        counts[Survey.of([{"key": np.arange(200)}], 50, seed).sample()["key"]] += 1
    assert abs(counts / 300 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 300)


def test_a_sample_of_all_rows_is_the_table(table):
    survey = Survey.of(batches(table, 999), ROWS)
    assert survey.is_whole
    assert survey.sample().equals(table.combine_chunks()) or survey.sample().to_pylist() == table.to_pylist()
    assert all(len(beyond.cells) == 0 for beyond in survey.beyond().values())


def test_plans_know_of_rows_that_are_not_in_the_sample(table):
    survey = Survey.of(batches(table, 500), 400, seed=3)
    sample = survey.sample()
    assert not {"rare"} & set(sample["rare"].to_pylist())
    with pytest.warns(UserWarning, match="'note'"):
        planned, whole = Table.fit(sample, beyond=survey.beyond()), Table.fit(table)
    plans = {plan.label: plan for plan in planned.plans}
    for plan in whole.plans:
        found = plans[plan.label]
        assert (found.kind, found.levels, found.min, found.unit) == (plan.kind, plan.levels, plan.min, plan.unit)
        assert found.missing == pytest.approx(plan.missing)
    assert "rare" in plans["rare"].levels
    assert not plans["whole"].whole
    encoded = planned.encode(table)
    np.testing.assert_array_equal(encoded.mask, whole.encode(table).mask)


@pytest.mark.parametrize("container", ["pandas", "polars", "dict", "pyarrow"])
def test_batches_of_every_container(table, container):
    kept = table.select(["key", "x", "rare"])
    if container == "dict":
        some = [{n: np.array(t[n].to_pylist(), dtype=object) for n in kept.column_names} for t in batches(kept, 700)]
    else:
        convert = {"pandas": lambda t: t.to_pandas(), "pyarrow": lambda t: t}
        convert["polars"] = lambda t: pytest.importorskip("polars").from_arrow(t)
        some = [convert[container](t) for t in batches(kept, 700)]
    survey = Survey.of(batches_of(some), 300, seed=2)
    sampled = np.array(survey.sample()["key"]).astype(int)
    np.testing.assert_array_equal(sampled, Survey.of(batches(kept, 50), 300, seed=2).sample()["key"].to_numpy())
    assert survey.beyond()["x"].missing == pytest.approx(table["x"].null_count / ROWS)


def test_passes_over_parts_are_one_pass(table):
    whole, parts = Survey.of(batches(table, 300), 250, seed=5), None
    for start in range(0, ROWS, 1000):
        part = Survey(250, 5, first_row=start)
        for batch in batches(table.slice(start, 1000), 300):
            part.add(batch)
        part = pickle.loads(pickle.dumps(part))
        parts = part if parts is None else parts.merge(part) or parts
    assert parts.rows == whole.rows == ROWS
    assert parts.sample().to_pylist() == whole.sample().to_pylist()
    for survey in (parts, whole):
        assert survey.row_numbers().tolist() == survey.sample()["key"].to_pylist()
    ours, theirs = parts.beyond(), whole.beyond()
    for label, beyond in theirs.items():
        assert set(ours[label].cells.to_list()) == set(beyond.cells.to_list())
        assert ours[label].missing == beyond.missing


def test_what_is_kept_of_many_values_is_bounded():
    survey = Survey(100)
    for start in range(0, 60_000, 20_000):
        x = np.arange(start, start + 20_000)
        survey.add({"x": x / 3, "text": np.array([f"t{i}" for i in x], dtype=object)})
    beyond = survey.beyond()
    assert len(beyond["x"].cells) < 20
    assert {0.0, 59_999 / 3} <= {*beyond["x"].cells, *survey.sample()["x"]}
    assert len(beyond["text"].cells) <= MOST_DIFFERENT


def test_batches_that_differ_are_named(table):
    with pytest.raises(TableError, match="column 'x' is missing in the rows from 1,000 on"):
        Survey.of([table.slice(0, 1000), table.drop_columns(["x"])])
    with pytest.raises(TableError, match="'new' is in the rows from"):
        Survey.of([table, table.append_column("new", table["x"])])
    with pytest.raises(TableError, match="no rows"):
        Survey.of([])
    with pytest.raises(TableError, match="whole table"):
        batches_of(table).__next__()
    with pytest.raises(TableError, match="not int"):
        next(batches_of(3))


def test_batches_of_arrow_come_back_as_such(table):
    (batch,) = table.combine_chunks().to_batches()
    assert like(batch, table).equals(batch)
    assert like(table, table) is table
    assert like(batch, table.slice(0, 0)).num_rows == 0
