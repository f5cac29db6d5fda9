"""Intercepts of groups: what is known of them in closed form, and that they are found again."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data import random_intercepts
from vsae.data.random_intercepts import RandomIntercepts

WITHIN, BETWEEN = np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([[1.0, 0.9], [0.9, 1.5]])


def some_rows(groups=300, size=6, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(groups), size)
    u, e = (rng.multivariate_normal(np.zeros(2), part, n) for part, n in ((BETWEEN, groups), (WITHIN, len(code))))
    seen = rng.random((len(code), 2)) >= missing
    return np.where(seen, 5.0 + u[code] + e, 0.0), seen, code, u


def test_the_parameters_are_found_again():
    x, seen, code, _ = some_rows(groups=2000)
    found = RandomIntercepts.fit(x, seen, code)
    np.testing.assert_allclose(found.centre, 5.0, atol=0.1)
    np.testing.assert_allclose(found.within, WITHIN, atol=0.08)
    np.testing.assert_allclose(found.between, BETWEEN, atol=0.15)


def test_it_is_the_conditional_mean_of_one_large_normal():
    x, seen, code, _ = some_rows(groups=4, size=5)
    known = RandomIntercepts(np.array([5.0, 5.0]), WITHIN, BETWEEN)
    found = known.without_own_row(x, seen, code)
    for i in (0, 7, 19):
        others = np.flatnonzero(code == code[i])
        others = others[others != i]
        at = seen[others].ravel()
        joint = np.kron(np.ones((4, 4)), BETWEEN) + np.kron(np.eye(4), WITHIN)
        with_u = np.kron(np.ones((1, 4)), BETWEEN)[:, at]
        expected = 5.0 + with_u @ np.linalg.solve(joint[np.ix_(at, at)], x[others].ravel()[at] - 5.0)
        np.testing.assert_allclose(found[i], expected)


def test_other_variables_tell_of_a_group():
    x, seen, code, u = some_rows(missing=0.8)
    together = RandomIntercepts.fit(x, seen, code).without_own_row(x, seen, code)
    one = [(x[:, [j]], seen[:, [j]], code) for j in range(2)]
    alone = np.hstack([RandomIntercepts.fit(*each).without_own_row(*each) for each in one])
    errors = [np.mean((found - 5.0 - u[code]) ** 2) for found in (together, alone)]
    assert errors[0] < 0.95 * errors[1]


def test_one_variable_leans_as_variances_say():
    rng = np.random.default_rng(1)
    code = np.repeat(np.arange(3000), 5)
    x, seen = (2.0 * rng.normal(size=3000)[code] + rng.normal(size=15000))[:, None], np.ones((15000, 1), dtype=bool)
    found = RandomIntercepts.fit(x, seen, code)
    k = found.within[0] / found.between[0]
    assert k == pytest.approx(0.25, rel=0.1)
    expected = (x[1:5].sum() + k * x.mean()) / (4 + k)
    assert found.without_own_row(x, seen, code)[0, 0] == pytest.approx(expected)
    alone = RandomIntercepts.fit(x, seen, np.arange(15000)).without_own_row(x, seen, np.arange(15000))
    np.testing.assert_allclose(alone, x.mean())


def test_many_variables_and_many_rows_take_bounded_memory(monkeypatch):
    x, seen, code, _ = some_rows(groups=50)
    whole = RandomIntercepts.fit(x, seen, code)
    parts = whole.without_own_row(x, seen, code)
    monkeypatch.setattr(random_intercepts, "_IN_CHUNK", 40)
    np.testing.assert_allclose(whole.without_own_row(x, seen, code), parts)
    monkeypatch.setattr(random_intercepts, "_MOST_ROWS", 120)
    assert len(random_intercepts._whole_groups(code)) == 114  # of 6 rows each
    assert len(random_intercepts._whole_groups(np.zeros(500, dtype=np.int64))) == 120
    monkeypatch.setattr(random_intercepts, "_MOST", 1)
    each = RandomIntercepts.fit(x, seen, code)
    assert each.within.shape == (2,)
    assert np.isfinite(each.without_own_row(x, seen, code)).all()


def test_columns_without_variance_have_intercepts_too():
    code = np.repeat(np.arange(5), 4)
    x = np.stack([np.full(20, 3.0), code * 1.0, np.zeros(20)], axis=1)
    seen = np.ones(x.shape, dtype=bool)
    seen[:, 2] = False
    found = RandomIntercepts.fit(x, seen, code).without_own_row(x, seen, code)
    np.testing.assert_allclose(found[:, 0], 3.0)
    np.testing.assert_allclose(found[:, 1], code, atol=0.05)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("centre", [0.0]), ("within", [[1.0, 0.0]]), ("within", [1.0, 1.0]), ("between", [[1.0, 2.0], [2.0, 1.0]]),
        ("between", [[1.0, 0.5], [0.0, 1.0]]), ("within", [[np.nan, 0.0], [0.0, 1.0]]),
    ],
)  # fmt: skip
def test_a_file_cannot_say_what_is_none(part, value):
    known = RandomIntercepts(np.zeros(2), WITHIN, BETWEEN).to_json()
    assert RandomIntercepts.from_json(known, 2).within.tolist() == WITHIN.tolist()
    with pytest.raises(ValueError, match="groups"):
        RandomIntercepts.from_json(known | {part: value}, 2)
