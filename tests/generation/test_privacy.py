"""Copies of real rows are told from new ones."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.schema import Schema, categorical, image, real
from vsae.generation.privacy import distance_to_closest

SCHEMA = Schema([real("a"), real("b"), real("c"), categorical("k", 4)])


def rows(n: int, seed: int):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    columns = {"a": a, "b": a + rng.normal(size=n), "c": np.exp(rng.normal(size=n)), "k": rng.integers(0, 4, n)}
    return columns, rng.random((n, 4)) < 0.9


def test_rows_of_the_same_source_are_as_near_as_real_ones():
    found = distance_to_closest(SCHEMA, rows(500, 1), rows(800, 0))
    assert found is not None
    assert found.copies == 0
    assert found.too_close < 0.12
    assert not found.suspicious
    assert np.median(found.generated) == pytest.approx(np.median(found.real), rel=0.25)


def test_copies_are_seen_even_with_missing_cells_and_a_little_noise():
    real_rows = rows(800, 0)
    columns, mask = real_rows
    copies = distance_to_closest(SCHEMA, (columns, np.ones_like(mask)), real_rows)
    assert copies is not None
    assert copies.copies > 0.9
    assert copies.suspicious
    noisy = {name: x + 1e-4 if x.dtype.kind == "f" else x for name, x in columns.items()}
    almost = distance_to_closest(SCHEMA, (noisy, mask), real_rows)
    assert almost is not None
    assert almost.suspicious


def test_a_row_is_not_its_own_neighbour_and_nothing_shared_is_nothing_said():
    columns, mask = rows(50, 0)
    found = distance_to_closest(SCHEMA, (columns, mask), (columns, mask))
    assert found is not None
    assert found.real.min() > 0
    assert distance_to_closest(SCHEMA, (columns, np.zeros_like(mask)), (columns, mask)) is None


def test_images_are_left_out():
    schema = Schema([*SCHEMA, image("p", (1, 2, 2))])
    (columns, mask), black = rows(50, 0), np.zeros((50, 1, 2, 2))
    table = {**columns, "p": black}, np.hstack([mask, np.ones((50, 1), dtype=bool)])
    found, without = (
        distance_to_closest(schema, table, table),
        distance_to_closest(SCHEMA, (columns, mask), (columns, mask)),
    )
    assert found is not None
    assert without is not None
    np.testing.assert_array_equal(found.real, without.real)
    alone = Schema([image("p", (1, 2, 2))]), ({"p": black}, np.ones((50, 1), dtype=bool))
    assert distance_to_closest(alone[0], alone[1], alone[1]) is None


def test_new_rows_of_a_small_table_are_no_suspects():
    schema = Schema([real("a"), real("b")])

    def drawn(n: int, seed: int):
        rng = np.random.default_rng(seed)
        return {name: rng.normal(size=n) for name in "ab"}, np.ones((n, 2), dtype=bool)

    found = [distance_to_closest(schema, drawn(1000, 2 * i), drawn(60, 2 * i + 1)) for i in range(20)]
    assert np.mean([c.too_close for c in found if c is not None]) < 0.09


def test_a_few_copies_of_one_row_are_seen():
    """Twelve of 200, as rows that were asked for under a condition: their other cells are new."""
    real_rows = rows(300, 0)
    columns, mask = rows(200, 1)
    mask[:12] = real_rows[1][7]
    mask[:12, :2] = True
    real_rows[1][7, :2] = True
    some = {name: np.where(np.arange(200) < 12, real_rows[0][name][7], x) for name, x in columns.items()}
    found = distance_to_closest(SCHEMA, (some, mask), real_rows)
    assert found is not None
    assert found.copying
    assert found.suspicious
    fresh = distance_to_closest(SCHEMA, rows(200, 1), rows(300, 0))
    assert fresh is not None
    assert not fresh.copying


def test_copies_are_no_news_in_a_table_of_few_different_rows():
    schema = Schema([categorical("a", 3), categorical("b", 3)])

    def drawn(n: int, seed: int):
        rng = np.random.default_rng(seed)
        return {name: rng.integers(0, 3, n) for name in "ab"}, np.ones((n, 2), dtype=bool)

    found = distance_to_closest(schema, drawn(200, 0), drawn(300, 1))
    assert found is not None
    assert found.copies > 0.9
    assert not found.copying
