"""An imputer in a scikit-learn pipeline, beside one that fills in means and modes; and a saved model for rows to come.

Run it with `python examples/pipeline.py`; it takes about a minute on one core.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from vsae import VSAEImputer, load
from vsae.datasets import make_clinic

CATEGORIES = make_column_selector(dtype_include="category")


def main(rows: int = 600, **options: object) -> dict[str, float]:
    """R² of a regression of the fee on columns with missing cells, by imputer."""
    df = make_clinic(rows).frame()
    df = df[df["fee"].notna()]  # what is to be predicted is known
    X, y = df[["age", "sex", "education", "bmi", "reason", "pain", "insurance"]], df["fee"]
    levels = (OneHotEncoder(handle_unknown="ignore"), CATEGORIES)
    modes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    imputers: dict[str, list[BaseEstimator]] = {
        "means and modes": [make_column_transformer((modes, CATEGORIES), remainder=SimpleImputer())],
        "vsae": [
            VSAEImputer(effort="fast", random_state=0, **options),
            make_column_transformer(levels, remainder="passthrough"),
        ],
    }
    found = {}
    for name, steps in imputers.items():
        found[name] = float(cross_val_score(make_pipeline(*steps, Ridge()), X, y, cv=3).mean())
        print(f"{name:<16} R² {found[name]:.2f}")

    imputer = VSAEImputer(effort="fast", random_state=0, **options).fit(X)
    with tempfile.TemporaryDirectory() as folder:
        imputer.save(Path(folder) / "clinic.vsae")
        again = load(Path(folder) / "clinic.vsae")
    row = X[X["bmi"].isna()].head(1)
    print(f"\na row that comes later, from a model that was saved: bmi {again.transform(row)['bmi'].iloc[0]:.1f}")
    assert again.transform(row).equals(imputer.transform(row))
    return found


if __name__ == "__main__":
    main()
