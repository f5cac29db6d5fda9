"""What groups say of their rows: means and neighbours that never hold the cell itself."""

from __future__ import annotations

import numpy as np

from vsae.data.context import GroupContext, Groups
from vsae.data.schema import Schema, binary, categorical, positive, real


def some_table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    schema = Schema([real("a"), positive("b"), categorical("c", 3), binary("d"), real("constant")])
    code = rng.integers(0, 6, rows)
    columns = {
        "a": rng.normal(size=rows) + code,
        "b": np.exp(rng.normal(size=rows)),
        "c": rng.integers(0, 3, rows),
        "d": rng.integers(0, 2, rows),
        "constant": code * 2.0,
    }
    mask = rng.random((rows, 5)) < 0.7
    mask[:, 4] = True
    return schema, columns, mask, Groups(code, rng.permutation(rows))


def test_a_mean_of_levels_is_their_shares():
    schema, columns, mask, groups = some_table()
    found, _ = GroupContext.fit(schema, columns, mask, groups).beside(columns, mask, groups)
    shares = np.stack([found[f"c (group) {level}"] for level in range(3)])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=0.01)


def test_no_cell_changes_its_own_context():
    schema, columns, mask, groups = some_table()
    context = GroupContext.fit(schema, columns, mask, groups)
    found, _ = context.beside(columns, mask, groups)
    for i in np.flatnonzero(mask[:, 0])[:10]:
        changed = {**columns, "a": np.where(np.arange(60) == i, 1e6, columns["a"])}
        hidden = mask.copy()
        hidden[i, 0] = False
        for again, seen in ((changed, mask), (columns, hidden)):
            other, _ = context.beside(again, seen, groups)
            told = [name for name in found if name.startswith("a (")]
            assert len(told) == 3
            np.testing.assert_allclose([other[name][i] for name in told], [found[name][i] for name in told])


def test_last_and_next_are_the_nearest_observed_cells_of_the_group():
    schema, columns, mask, groups = some_table()
    context = GroupContext.fit(schema, columns, mask, groups)
    found, known = context.beside(columns, mask, groups)
    at = context.schema.names
    for i in range(60):
        same = (groups.code == groups.code[i]) & mask[:, 0]
        before, after = (
            np.flatnonzero(same & side) for side in (groups.order < groups.order[i], groups.order > groups.order[i])
        )
        assert known[i, at.index("a (last)")] == bool(len(before))
        assert known[i, at.index("a (next)")] == bool(len(after))
        if len(before):
            assert found["a (last)"][i] == columns["a"][before[groups.order[before].argmax()]]
        if len(after):
            assert found["a (next)"][i] == columns["a"][after[groups.order[after].argmin()]]


def test_what_is_known_and_constant_has_no_context_and_the_table_stays_as_it_is():
    schema, columns, mask, groups = some_table()
    context = GroupContext.fit(schema, columns, mask, groups)
    assert "constant" not in context.means
    found, known = context.beside(columns, mask, groups)
    np.testing.assert_array_equal(known[:, :5], mask)
    assert known.shape[1] == len(context.schema)
    assert context.schema.context == list(range(5, len(context.schema)))
    again = GroupContext.from_json(schema, context.to_json())
    for name, x in again.beside(columns, mask, groups)[0].items():
        np.testing.assert_array_equal(x, found[name])
