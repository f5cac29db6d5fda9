"""Fill the clinic table, and compare with the truth, which is known of this table.

Run it with `python examples/fill_a_table.py`; it takes about half a minute on one core.
"""

from __future__ import annotations

import pandas as pd

from vsae import VSAEImputer
from vsae.datasets import make_clinic


def main(rows: int = 1000, **options: object) -> pd.DataFrame:
    """Error of each column's missing numbers, beside that of the mean: root mean squared, in the column's units."""
    clinic = make_clinic(rows)
    df, truth = clinic.frame(), clinic.frame(complete=True)
    imputer = VSAEImputer(random_state=0, **options)
    filled = imputer.fit_transform(df)
    lower, upper = imputer.predict_interval(df, level=0.9)

    lines = {}
    for name in ("income", "bmi", "systolic", "diastolic", "visits", "fee"):
        missing = df[name].isna()
        true, mean = truth.loc[missing, name].astype(float), df[name].mean()
        inside = (lower.loc[missing, name] <= true) & (true <= upper.loc[missing, name])
        lines[name] = {
            "missing": int(missing.sum()),
            "error": ((filled.loc[missing, name] - true) ** 2).mean() ** 0.5,
            "error of the mean": ((mean - true) ** 2).mean() ** 0.5,
            "in its 90 % interval": inside.mean(),
        }
    found = pd.DataFrame.from_dict(lines, orient="index")
    print(imputer.schema_)
    print("\n", found.round(2), sep="")
    print("\nincome and visits hide by their own value or by a hidden one: see docs/missingness.md")
    return found


if __name__ == "__main__":
    main()
