"""What do the missing cells go with, and does the answer hold if they hide by their own value?

In the clinic table, high incomes are hidden. Run it with `python examples/why_is_it_missing.py`; it takes about half a
minute on one core.
"""

from __future__ import annotations

from vsae import VSAEImputer
from vsae.datasets import make_clinic
from vsae.mechanism.sensitivity import Sensitivity


def mean_income(table):
    """An estimate, and its squared standard error."""
    return table["income"].mean(), table["income"].var() / len(table)


def main(rows: int = 1000, draws: int = 10, **options: object) -> Sensitivity:
    clinic = make_clinic(rows)
    df, truth = clinic.frame(), clinic.frame(complete=True)
    imputer = VSAEImputer(mechanism="ignorable", random_state=0, **options).fit(df)
    print(imputer.mechanism_report(df))
    found = imputer.sensitivity(df, mean_income, "income", delta=[0, 2000, 4000, 6000, 8000], n=draws)
    print("\nmean income, if those who do not tell it earn more than the model believes:\n")
    print(found)
    print(f"\nin truth {truth['income'].mean():.0f}; of those who tell it {df['income'].mean():.0f}")
    return found


if __name__ == "__main__":
    main()
