"""Evidence: columns that mask themselves are told from those that others mask."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.encoding import Encoding
from vsae.data.missingness import MCAR, LogisticMAR, LogisticNMAR, Mechanism
from vsae.data.schema import Schema, categorical, real
from vsae.mechanism.evidence import Evidence, evidence, pooled


def table(n: int = 900, columns: int = 8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, 3))
    return factors @ rng.normal(size=(3, columns)) + 0.5 * rng.normal(size=(n, columns))


def found_under(mechanism: Mechanism, seed: int = 0) -> dict[int, Evidence]:
    x = table(seed=seed)
    x[:, -1] = x[:, -1] > 0
    schema = Schema([*(real(f"x{j}") for j in range(7)), categorical("level", 2)])
    columns = {v.name: x[:, j] for j, v in enumerate(schema.variables)}
    mask = mechanism.sample(x, np.random.default_rng(seed))
    return evidence(Encoding.fit(schema, columns, mask), columns, mask)


@pytest.mark.parametrize("mechanism", [MCAR(0.3), LogisticMAR(0.3)])
def test_ignorable_masks_switch_nothing_on(mechanism: Mechanism) -> None:
    for seed in range(3):
        assert not [one for one in found_under(mechanism, seed).values() if one.probability > 0.5]


def test_columns_that_mask_themselves_are_found() -> None:
    found = [one for seed in range(3) for one in found_under(LogisticNMAR(0.3), seed).values()]
    assert np.mean([one.probability > 0.5 for one in found]) > 0.7
    assert all(one.own > 0.3 * one.others for one in found if one.probability > 0.5)


def test_a_table_without_missing_cells_has_nothing_to_say() -> None:
    assert found_under(MCAR(0.0)) == {}


def test_columns_are_judged_together() -> None:
    weak, strong = Evidence(5.0, 8.0, 0.3, 0.0), Evidence(50.0, 55.0, 4.0, 0.0)
    against = Evidence(2.0, 60.0, -5.0, 0.0)
    among_strong = pooled({0: weak, 1: strong, 2: strong, 3: strong})
    assert among_strong[0].probability > 0.5
    among_others = pooled({0: weak, 1: against, 2: against, 3: against})
    assert among_others[0].probability < 0.2
    assert pooled({0: strong, **dict.fromkeys(range(1, 9), against)})[0].probability < 0.5
