"""The report says what masks depend on, as strongly as they do."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, binary, real
from vsae.imputation.tilts import Tilts
from vsae.mechanism.report import MechanismReport, mechanism_report

SCHEMA = Schema([real("age"), binary("sex"), real("income"), real("wealth"), real("noise")])
LEVELS = {"sex": ["female", "male"]}


def odds(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def rows(seed: int, n: int = 1500) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """`income` misses by age, `wealth` by sex and where income is missing, `noise` by chance."""
    rng = np.random.default_rng(seed)
    age, sex = rng.normal(size=n), rng.integers(2, size=n)
    columns = {"age": 40 + 10 * age, "sex": sex, "income": age + rng.normal(size=n)}
    columns |= {"wealth": columns["income"] + rng.normal(size=n), "noise": rng.normal(size=n)}
    mask = np.ones((n, 5), dtype=bool)
    mask[:, 2] = rng.random(n) > odds(1.2 * age - 1)
    mask[:, 3] = rng.random(n) > odds(1.5 * sex + 2.0 * ~mask[:, 2] - 2)
    mask[:, 4] = rng.random(n) > 0.3
    return columns, mask


def reported(seed: int, tilts: Tilts | None = None) -> MechanismReport:
    columns, mask = rows(seed)
    return mechanism_report(Encoding.fit(SCHEMA, columns, mask), columns, mask, levels=LEVELS, tilts=tilts)


def test_effects_are_what_they_are() -> None:
    covered = []
    for seed in range(10):
        income, wealth, noise = reported(seed).columns
        by_age = next(effect for effect in income.effects if effect.name == "age")
        assert by_age.level is None
        by_mask = next(effect for effect in wealth.effects if effect.mask and effect.name == "income")
        by_sex = next(effect for effect in wealth.effects if effect.name == "sex" and not effect.mask)
        assert by_sex.level == "male"
        assert by_mask.clear
        assert by_sex.clear
        for effect, truth in ((by_age, 1.2), (by_sex, 1.5), (by_mask, 2.0)):
            assert effect.log_odds == pytest.approx(truth, abs=0.5)
            covered.append(effect.low < truth < effect.high)
        assert noise.others_gain < income.others_gain
    assert np.mean(covered) > 0.8  # 95 %, of 30


def test_it_is_said_in_words() -> None:
    report = reported(0, Tilts({"wealth": -0.5}))
    income, wealth, noise = map(str, report.columns)
    assert "more often where" in income
    assert "where `age` is high (log odds +1." in income
    assert "Nothing speaks for its own value" in income
    assert "where `income` is missing, too" in wealth
    assert "where `sex` is 'male'" in wealth
    assert "low values hide (log odds -0.50 per standard deviation)" in wealth
    assert "nothing speaks for other columns" in noise
    assert "Little's test speaks against" in str(report)
    assert report.little.p < 1e-6


def test_a_column_that_masks_itself_is_named() -> None:
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(1500, 2))
    x = factor @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(1500, 5))
    schema = Schema([real(f"x{j}") for j in range(5)])
    columns, mask = {f"x{j}": x[:, j] for j in range(5)}, np.ones(x.shape, dtype=bool)
    for j in (0, 1, 2):
        mask[:, j] = rng.random(1500) > odds(2 * x[:, j] / x[:, j].std() - 1)
    report = mechanism_report(Encoding.fit(schema, columns, mask), columns, mask)
    assert np.mean([column.self_masking > 0.5 for column in report.columns]) > 0.5
    assert "Its own value is likely to play a part" in str(report)


def test_tables_with_little_to_say() -> None:
    columns, mask = rows(0)
    mask[:] = True
    encoding = Encoding.fit(SCHEMA, columns, mask)
    report = mechanism_report(encoding, columns, mask)
    assert report.columns == ()
    assert report.little is None
    assert report.to_dict() == {}
    assert str(report) == "No cell is missing."
    mask[0, 2] = False
    (only,) = mechanism_report(encoding, columns, mask).columns
    assert "too few cells" in str(only)


def test_a_line_an_effect() -> None:
    report = reported(0)
    table = report.to_dict()
    assert len({len(column) for column in table.values()}) == 1
    assert len(table["column"]) == sum(len(column.effects) for column in report.columns)
    assert set(table["of"]) >= {"age", "sex", "income"}
