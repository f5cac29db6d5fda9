"""A regression on a table with missing cells: by complete rows, by one filled table, by pooled draws, and in truth.

Rows without any missing cell are few, and unlike the others. One filled table is too sure of itself. Draws say how much
the missing cells cost. Run it with `python examples/pooled_regression.py`; it takes about half a minute on one core.
"""

from __future__ import annotations

import pandas as pd

from vsae import Draws, VSAEImputer
from vsae.datasets import make_clinic

FORMULA = "systolic ~ age + bmi + smoker"


def main(rows: int = 1000, draws: int = 20, **options: object) -> pd.DataFrame:
    """The coefficient of bmi, four times."""
    clinic = make_clinic(rows)
    df, truth = clinic.frame(), clinic.frame(complete=True)
    imputer = VSAEImputer(random_state=0, **options).fit(df)
    complete = df.dropna(subset=["systolic", "age", "bmi", "smoker"])
    pooled = {
        f"rows without missing cells ({len(complete)})": alone(complete),
        "one filled table": alone(imputer.transform(df)),
        f"{draws} draws, pooled": imputer.draw(df, n=draws).fit(FORMULA),
        "nothing missing (the truth)": alone(truth),
    }
    lines = {}
    for name, each in pooled.items():
        at = list(each.terms).index("bmi")
        low, high = each.interval
        lines[name] = {"bmi": each.estimate[at], "low": low[at], "high": high[at]}
    found = pd.DataFrame.from_dict(lines, orient="index")
    print(f"{FORMULA}: what a unit of bmi adds, with its 95 % interval\n\n{found.round(2)}")
    return found


def alone(table: pd.DataFrame):
    """The same analysis of one table: two equal draws, between which nothing varies."""
    return Draws([table, table], table).fit(FORMULA)


if __name__ == "__main__":
    main()
