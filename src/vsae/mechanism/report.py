"""What the missingness of each column depends on: other columns, other masks, its own value; with Little's test.

Effects are those of one ridge logistic regression of a column's mask on all other values and masks, so each is what is
left of it at equal others. Missing cells among the others are filled with what the numbers beside them say (levels:
frequencies), which blurs effects a little, and intervals do not know of it. What the own value does cannot be seen
like that, since it is only known where it is not missing: `evidence.py` says how likely it plays a part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.imputation.tilts import Tilts
from vsae.mechanism.evidence import Evidence, evidence
from vsae.mechanism.little import LittleTest, little_test
from vsae.mechanism.logistic import fit_with_covariance
from vsae.mechanism.regressors import Regressors, Source

_MOST_ROWS = 2000
_MOST_REGRESSORS = 60  # those that go with a mask most
_MOST_NUMBERS = 32  # in Little's test: those that miss most
_RIDGE = 1.0  # log odds per standard deviation have a normal prior of that variance: weak beside 100 rows
_LEVEL = 0.95  # of intervals
_SHOWN, _IN_WORDS = 5, 3  # effects of a column
_LEAST_GAIN, _LEAST_OWN_GAIN = 4.0, 2.0  # nats: chance says more than that of 1 mask in 25
_LIKELY, _POSSIBLE = 0.5, 0.2  # probabilities of self-masking


@dataclass(frozen=True)
class Effect:
    """Of another column on the log odds that a cell is missing, with a 95 % interval: per standard deviation of a
    number, of a level against the rest, or of the other cell's being missing."""

    name: str
    level: Any | None  # None: a number, or a mask
    mask: bool  # the effect of the column's mask, not of its values
    log_odds: float
    low: float
    high: float
    clear: bool  # the interval would miss 0 even at a level that allows for all regressors (Bonferroni)

    def __str__(self) -> str:
        up = self.log_odds > 0
        if self.mask:
            what, unit = "is missing, too" if up else "is observed", ""
        elif self.level is None:
            what, unit = "is high" if up else "is low", " per standard deviation"
        else:
            what, unit = f"is {'' if up else 'not '}{self.level!r}", ""
        interval = f"{self.low:+.2f} to {self.high:+.2f}"
        return f"where `{self.name}` {what} (log odds {self.log_odds:+.2f}{unit}, 95 % interval {interval})"


@dataclass(frozen=True)
class ColumnMechanism:
    """Of one column with missing cells."""

    name: str
    missing: float  # share of its cells
    effects: tuple[Effect, ...]  # the strongest, for the width of their interval
    others_gain: float | None  # nats by which other columns predict the mask, cross-validated; None: too few cells
    own_gain: float | None  # nats by which the prediction of its own value does
    self_masking: float | None  # probability
    tilt: (
        float | Mapping[Any, float] | None
    )  # in use: log odds per standard unit (inf: all high ones hide), or by level

    def __str__(self) -> str:
        """In words."""
        named = [str(e) for i, e in enumerate(self.effects) if e.clear or (not i and e.low * e.high > 0)][:_IN_WORDS]
        text = f"`{self.name}` is missing in {self.missing:.0%} of the rows"
        if self.others_gain is None:
            return f"{text}: too few cells to say why.{self.tilt_in_words()}"
        if self.others_gain <= _LEAST_GAIN:
            text += "; nothing speaks for other columns. "
        elif named:
            text += f", more often {_listed(named)}. "
        else:
            text += "; it depends on other columns together, on none of them clearly. "
        return text + self.own_in_words() + self.tilt_in_words()

    def own_in_words(self) -> str:
        chance, gain = self.self_masking or 0.0, self.own_gain or 0.0
        if gain <= _LEAST_OWN_GAIN:
            return "Nothing speaks for its own value."
        if chance > _LIKELY:
            return f"Its own value is likely to play a part (probability {chance:.2f})."
        if chance > _POSSIBLE:
            return f"Its own value may play a part (probability {chance:.2f})."
        return f"Nothing speaks for its own value (probability {chance:.2f})."

    def tilt_in_words(self) -> str:
        if self.tilt is None:
            return ""
        if isinstance(self.tilt, Mapping):
            level = max(self.tilt, key=lambda level: self.tilt[level])  # type: ignore[index]
            return f" The model takes it that {level!r} hides most (log odds {self.tilt[level]:+.2f})."
        what = "high" if self.tilt > 0 else "low"
        if math.isinf(self.tilt):
            return f" The model takes it that all {what} values hide, from some value on."
        return f" The model takes it that {what} values hide (log odds {self.tilt:+.2f} per standard deviation)."


@dataclass(frozen=True)
class MechanismReport:
    """`str()` says it in words; `to_dict()` has a line an effect, for a dataframe."""

    columns: tuple[ColumnMechanism, ...]
    little: LittleTest | None  # of the numbers

    def __str__(self) -> str:
        lines = [str(column) for column in self.columns] or ["No cell is missing."]
        return "\n".join([*lines, *([self.little_in_words()] if self.little is not None else [])])

    def little_in_words(self) -> str:
        if self.little is None:
            return ""
        d, df, p, patterns = self.little
        verdict = "speaks against" if p < 0.05 else "does not speak against"
        return (
            f"Little's test {verdict} numbers that are missing completely at random "
            f"(d² = {d:.1f}, {df} df, p = {p:.3g}, {patterns} patterns)."
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of equal length: the column, the effect, and what is known of the own value."""
        lines = []
        for column in self.columns:
            own = {name: getattr(column, name) for name in ("others_gain", "own_gain", "self_masking", "tilt")}
            for effect in column.effects or (Effect("", None, False, np.nan, np.nan, np.nan, False),):
                shown = {"of" if name == "name" else name: x for name, x in asdict(effect).items()}
                lines.append({"column": column.name, "missing": column.missing, **shown, **own})
        return {name: [line[name] for line in lines] for name in lines[0]} if lines else {}


def mechanism_report(
    encoding: Encoding,
    columns: Columns,
    mask: Mask,
    *,
    tilts: Tilts | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
) -> MechanismReport:
    """Of a table, or of a sample of its rows; `levels` names those of a variable."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(mask))[:_MOST_ROWS])
    some, shown = {name: np.asarray(x)[rows] for name, x in columns.items()}, mask[rows]
    found = evidence(encoding, some, shown, seed)
    regressors = Regressors.of(encoding, some, shown)
    return MechanismReport(
        tuple(
            _column(encoding, regressors, i, float(1 - mask[:, i].mean()), found.get(i), tilts or Tilts(), levels or {})
            for i in np.flatnonzero(~mask.all(axis=0)).tolist()
            if i not in encoding.schema.context
        ),
        _little(regressors),
    )


def _column(
    encoding: Encoding,
    regressors: Regressors,
    attribute: int,
    missing: float,
    found: Evidence | None,
    tilts: Tilts,
    levels: Mapping[str, Sequence[Any]],
) -> ColumnMechanism:
    name = regressors.names[attribute]
    effects = () if found is None else _effects(regressors, attribute, levels)
    tilt: float | Mapping[Any, float] | None = tilts.numbers.get(name)
    if name in tilts.thresholds:
        tilt = math.copysign(math.inf, tilts.thresholds[name].sign)
    if name in tilts.levels:
        factors = tilts.levels[name].tolist()
        tilt = dict(zip(levels.get(name, range(len(factors))), factors, strict=True))
    if found is None:
        return ColumnMechanism(name, missing, effects, None, None, None, tilt)
    return ColumnMechanism(name, missing, effects, found.others, found.own, found.probability, tilt)


def _effects(regressors: Regressors, attribute: int, levels: Mapping[str, Sequence[Any]]) -> tuple[Effect, ...]:
    y = regressors.masks[:, attribute]
    x, sources = regressors.described_others(attribute)
    if not sources:
        return ()
    mean, std = x.mean(axis=0), x.std(axis=0)
    z = (x - mean) / std
    kept = np.sort(np.argsort(-np.abs(z.T @ (y - y.mean())), kind="stable")[:_MOST_REGRESSORS])
    sources, mean, std = [sources[k] for k in kept], mean[kept], std[kept]
    beta, covariance = fit_with_covariance(z[:, kept], y, _RIDGE)
    contrast = _contrasts(sources, mean) / std
    effect = contrast @ beta[1:]
    error = np.sqrt(np.einsum("ij,jk,ik->i", contrast, covariance[1:, 1:], contrast))
    half, clear = (float(ndtri(1 - (1 - _LEVEL) / 2 / tests)) * error for tests in (1, len(sources)))
    two = {name for name, count in Counter(s.name for s in sources if s.level is not None).items() if count == 2}
    order = np.argsort(-np.abs(effect) / error, kind="stable").tolist()
    strongest = [k for k in order if sources[k].level is None or sources[k].name not in two or effect[k] > 0][:_SHOWN]
    return tuple(
        Effect(
            sources[k].name,
            _level(sources[k], levels),
            sources[k].mask,
            float(effect[k]),
            float(effect[k] - half[k]),
            float(effect[k] + half[k]),
            bool(abs(effect[k]) > clear[k]),
        )
        for k in strongest
    )


def _contrasts(sources: Sequence[Source], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """(p, p): a level less the mean of the other levels of its variable; anything else as it is."""
    contrast = np.eye(len(sources))
    for k, one in enumerate(sources):
        for other, another in enumerate(sources):
            if other != k and one.level is not None and another.level is not None and one.name == another.name:
                contrast[k, other] = -share[other] / (1 - share[k])
    return contrast


def _level(source: Source, levels: Mapping[str, Sequence[Any]]) -> Any | None:
    return levels[source.name][source.level] if source.level is not None and source.name in levels else source.level


def _little(regressors: Regressors) -> LittleTest | None:
    seen = regressors.numbers.seen.numpy() > 0
    some = np.sort(np.argsort(seen.mean(axis=0), kind="stable")[:_MOST_NUMBERS])
    return little_test(regressors.numbers.x.numpy()[:, some], seen[:, some])


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
