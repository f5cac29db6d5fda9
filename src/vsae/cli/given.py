"""Conditions on generated rows, as `vsae sample --given` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vsae.estimator import VSAEImputer
    from vsae.table.plan import ColumnPlan


def conditions(imputer: VSAEImputer, options: list[str] | None) -> dict[Any, Any]:
    """`sex=F` fixes a value, `income=` asks for a missing one."""
    from vsae.estimator import MISSING

    labels = {str(plan.label): plan for plan in imputer.schema_.modelled}
    given: dict[Any, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise ValueError(f"--given {option}: write it as column=value")
        if name not in labels:
            raise ValueError(f"--given {option}: there is no column {name!r}; the columns are {', '.join(labels)}")
        notation = imputer.notations_.get(name)
        given[labels[name].label] = condition(labels[name], notation, value) if value else MISSING
    return given


def condition(plan: ColumnPlan, notation: Any, text: str) -> Any:
    """A value, a range such as 30..40, or several values with commas between them."""

    def parse(one: str) -> Any:
        if notation is not None and not plan.levels and notation.reads(one):
            return notation.parse([one])[0]  # as the file of the model writes it
        return plan.parse(one)

    if text in map(str, plan.levels):
        return parse(text)
    low, dots, high = text.partition("..")
    if dots:
        return tuple(parse(end) if end else None for end in (low, high))
    return [parse(one) for one in text.split(",")] if "," in text and plan.levels else parse(text)
