"""Generate rows like those of a table, with missing cells like its own, and check that they are no copies.

Run it with `python examples/synthetic_rows.py`; it takes about half a minute on one core.
"""

from __future__ import annotations

import pandas as pd

from vsae import MISSING, VSAEImputer
from vsae.datasets import make_clinic


def main(rows: int = 1000, **options: object) -> pd.DataFrame:
    """Shares of missing cells by column, of the table and of generated rows."""
    df = make_clinic(rows).frame()
    imputer = VSAEImputer(random_state=0, **options).fit(df)
    generated = imputer.sample(rows, with_missing=True)
    shares = pd.DataFrame({"missing": df.isna().mean(), "missing, generated": generated.isna().mean()})
    print(shares.round(2))
    print("\nare they copies?", imputer.distance_to_closest(generated, df))

    women = imputer.sample(rows, given={"sex": "female", "age": (60, None)})
    silent = imputer.sample(rows, given={"income": MISSING})
    print(f"\nwomen from 60 on: bmi {women['bmi'].mean():.1f}; all rows: {generated['bmi'].mean():.1f}")
    print("\neducation of people who do not tell their income:")
    print(silent["education"].value_counts(normalize=True, sort=False).round(2).to_string())
    assert women["age"].min() >= 60
    return shares


if __name__ == "__main__":
    main()
