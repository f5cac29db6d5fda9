"""How long the networks train: a round, another one where it pays, and a refit on all cells.

Most tables are learned in one round: the error on withheld cells is nearly at its end when half of the steps are done,
and twice as many more would change nothing. A table whose columns hang together by edges, levels or shared numbers is
still being learned then, and one round of the usual length stops before it is (docs/decisions/0020).
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vsae.data.batch import Batch
from vsae.fitting.fitted import FittedModel
from vsae.fitting.steps import FitData, Split
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel
from vsae.training.history import Callback, History, Progress, TrainingDiverged
from vsae.training.loop import Learn, train
from vsae.training.validation import HeldOut

_PAYS = 1.03  # error at half of a round, or before it, over that at its end: from here on another round follows
_LONGER, _ROUND_RATE = 2, 0.6  # steps of another round and their peak learning rate, relative to those of the first
_REFIT_RATE = 0.3  # of the peak learning rate: to take the new cells in, not to start over


@dataclass(frozen=True)
class TrainingStates:
    """Where trainings keep their state; all files go when the fit is done."""

    path: Path | None

    @classmethod
    def beside(cls, path: str | os.PathLike[str] | None) -> TrainingStates:
        return cls(None if path is None else Path(path))

    @property
    def refit(self) -> Path | None:
        return self._named("refit")

    def round(self, number: int) -> Path | None:
        return self.path if number == 0 else self._named(f"round{number}")

    def _named(self, name: str) -> Path | None:
        return None if self.path is None else Path(f"{os.fspath(self.path)}.{name}")

    def there(self) -> list[Path]:
        if self.path is None:
            return []
        found = [self.path, *sorted(self.path.parent.glob(f"{glob.escape(self.path.name)}.round*")), self.refit]
        return [path for path in found if path is not None and path.exists()]

    def remove(self) -> None:
        for path in self.there():
            path.unlink(missing_ok=True)


@contextmanager
def kept_if_diverged(fitted: FittedModel[Any]) -> Iterator[None]:
    """A training that diverges leaves the last good weights: the error carries the model that has them."""
    try:
        yield
    except TrainingDiverged as error:
        error.fitted = fitted
        raise


def train_in_rounds(
    model: LatentModel,
    parts: Split,
    learn: Learn,
    callback: Callback | None = None,
    states: TrainingStates | None = None,
    *,
    config: VSAEConfig | None = None,
    goes_on: bool = False,
) -> History:
    """As `train`; then, as long as the last round has lowered the error enough, and no more than `config.rounds`."""
    states, config = states or TrainingStates(None), config or model.config
    history = train(
        model, parts.training, parts.held_out,
        learn=learn, seed=parts.seed, config=config, callback=callback, checkpoint_path=states.round(0),
        goes_on=goes_on,
    )  # fmt: skip
    first = history.records[-1]["step"]
    longer = config.replace(
        steps=_LONGER * first,
        epochs=None,
        learning_rate=_ROUND_RATE * config.learning_rate,
        evaluate_every=_LONGER * (config.evaluate_every or first),
    )
    before = score_at(history, first / 2)
    for number in range(1, config.rounds):
        now = score_at(history, history.records[-1]["step"])
        if not before > _PAYS * now:  # NaN where nothing is withheld
            break
        before, seed = now, parts.seed + 1 + number
        try:
            history = _more(
                model, parts.training, parts.held_out, history, longer, learn, seed, callback, states.round(number)
            )
        except TrainingDiverged:  # what the rounds before it have learned is there
            break
    return history


def score_at(history: History, step: float) -> float:
    """The members' mean error on withheld cells at the evaluation that is nearest to a step."""
    record = min(history.records, key=lambda record: abs(record["step"] - step))
    scores = [score for score in record["score"] if score is not None]
    return sum(scores) / len(scores) if scores else math.nan


def refit(
    model: LatentModel,
    data: FitData,
    parts: Split,
    history: History,
    learn: Learn,
    callback: Callback | None = None,
    checkpoint_path: Path | None = None,
) -> History:
    """Go on from the best weights, with the withheld cells: they are known, and no longer needed to judge by."""
    config = model.config
    if config.refit <= 0 or parts.training.withheld is None:
        return history
    taken = history.records[-1]["step"]
    steps = max(1, int(config.refit * min(taken, config.steps or taken)))  # of the first round, however many followed
    gentle = config.replace(
        steps=steps, epochs=None, learning_rate=config.learning_rate * _REFIT_RATE, evaluate_every=steps
    )
    more = _more(model, data.batch, None, history, gentle, learn, parts.seed + 1, callback, checkpoint_path)
    return replace(history, seconds=more.seconds)


def _more(
    model: LatentModel,
    data: Batch,
    held_out: HeldOut | None,
    history: History,
    config: VSAEConfig,
    learn: Learn,
    seed: int,
    callback: Callback | None,
    checkpoint_path: Path | None,
) -> History:
    """A training after others, whose steps and seconds go on from theirs."""
    before = history.records[-1]["step"]

    def further(progress: Progress) -> None:
        if callback is not None:
            seconds = history.seconds + progress.seconds
            callback(replace(progress, step=before + progress.step, steps=before + progress.steps, seconds=seconds))

    more = train(
        model, data, held_out,
        learn=learn, seed=seed, config=config, callback=further, checkpoint_path=checkpoint_path,
        goes_on=held_out is not None,
    )  # fmt: skip
    records = [record | {"step": before + record["step"]} for record in more.records]
    best = [step + before if step else was for was, step in zip(history.best_step, more.best_step, strict=True)]
    return History([*history.records, *records], best, more.stopped, history.seconds + more.seconds)
