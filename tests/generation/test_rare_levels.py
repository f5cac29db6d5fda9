"""What a saved model and generated rows tell of single rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vsae import MISSING, VSAEImputer
from vsae.data.schema import SchemaError
from vsae.table.errors import DataWarning, TableError

CANARY = {"age": 93.5, "income": 912345.0, "job": "astronaut", "city": "B", "visits": 41}


def people(n: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.round(rng.uniform(20, 70, n), 1)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": np.round(np.exp(rng.normal(10, 0.5, n) + age / 100)),
            "job": rng.choice(["clerk", "nurse", "driver"], n),
            "city": rng.choice(["A", "B", "C"], n),
            "visits": rng.poisson(1.5, n),
        }
    )
    frame.loc[n // 2] = pd.Series(CANARY)
    return frame.astype({"age": float, "income": float, "visits": int})


@pytest.fixture(scope="module")
def fitted() -> tuple[VSAEImputer, pd.DataFrame]:
    frame = people()
    return VSAEImputer(config={"steps": 60}, effort="fast", random_state=0).fit(frame), frame


def test_rare_levels_are_not_generated(fitted):
    imputer, _ = fitted
    rows = imputer.sample(3000, random_state=1)
    assert set(rows["job"]) == {"clerk", "nurse", "driver"}
    rows = imputer.sample(300, given={"age": CANARY["age"], "city": "B"}, random_state=1)
    assert "astronaut" not in set(rows["job"])


@pytest.mark.parametrize("given", ["astronaut", ["clerk", "astronaut"]])
def test_rare_levels_can_not_be_given(fitted, given):
    imputer, _ = fitted
    with pytest.raises(TableError, match="column 'job': 'astronaut' is a level of fewer than 5 rows"):
        imputer.sample(10, given={"job": given})
    assert imputer.sample(10, given={"job": MISSING})["job"].isna().all()
    code = next(plan.levels.index("astronaut") for plan in imputer.schema_.modelled if plan.label == "job")
    with pytest.raises(SchemaError, match="'job': fewer than 5 rows"):
        imputer.fitted_.generate(10, given={"job": code})


def test_a_rare_level_is_still_read_and_imputed_from(fitted, tmp_path):
    imputer, frame = fitted
    row = frame.iloc[[60]].assign(income=np.nan)
    assert np.isfinite(imputer.transform(row)["income"]).all()


def test_a_column_of_rare_levels_alone_is_empty():
    frame = people(40).assign(name=[f"n{i % 13}" for i in range(40)])
    imputer = VSAEImputer(config={"steps": 20}, effort="fast", random_state=0, schema={"name": "categorical"})
    imputer.fit(frame)
    with pytest.warns(DataWarning, match="empty in generated rows.*'name'"):
        rows = imputer.sample(20)
    assert rows["name"].isna().all()
    assert rows.drop(columns="name").notna().all(axis=None)


def test_no_array_of_a_saved_model_holds_the_value_of_a_single_row(fitted):
    """In natural or in standard units; the weights of networks aside, which are no statistics of a column."""
    imputer, frame = fitted
    tensors, _ = imputer.fitted_.to_parts()
    batch = imputer.fitted_.encoding.encode(*imputer.schema_.encode(frame)[:2])
    numbers = batch.numbers(imputer.fitted_.schema.number_blocks).double().numpy()
    kept = {name: x.double().flatten().numpy() for name, x in tensors.items() if x.is_floating_point()}
    statistics = ("encoding.", "marginals.", "calibration.", "forest.threshold", "relations.", "model.features")
    checked = {name: x for name, x in kept.items() if name.startswith(statistics) and len(x)}
    assert {name.split(".")[0] for name in checked} >= {"encoding", "marginals", "calibration", "model"}
    for column in (*numbers.T, frame["age"].to_numpy(), frame["income"].to_numpy()):
        values, count = np.unique(column, return_counts=True)
        single = values[(count == 1) & (np.abs(values) > 1e-3)]
        for name, x in checked.items():
            near = np.abs(x[:, None] - single) <= 1e-6 * np.abs(single)
            assert near.sum() <= 1 + len(x) * len(single) * 2e-5, (name, x[near.any(1)])


def test_generated_numbers_are_no_cells_of_single_rows(fitted):
    imputer, frame = fitted
    rows = imputer.sample(2000, random_state=3)
    values, count = np.unique(frame["income"], return_counts=True)
    assert np.isin(rows["income"], values[count == 1]).mean() < 0.02  # whole numbers meet by chance
    assert rows["income"].max() < CANARY["income"]
