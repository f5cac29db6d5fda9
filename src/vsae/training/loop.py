"""The loop: E and M steps over shuffled rows, early stopping on re-masked cells, checkpoints, progress.

Members of an ensemble train together, each for itself: each has its own order of rows, its own gradient clipping, its
own validation score and its own best weights.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng, rng_state, set_rng_state
from vsae.data.weights import systematic
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel
from vsae.storage import checkpoint
from vsae.training.history import Callback, History, OtherTraining, Progress, TrainingDiverged
from vsae.training.objective import Elbo
from vsae.training.step import Learn as Learn
from vsae.training.step import Step
from vsae.training.validation import HeldOut

# Cells of the steps that are prepared together: on a CPU no more than its caches hold, on a GPU half a gigabyte
_CELLS_AHEAD = {"cpu": 2**14, "cuda": 2**21}


def train(
    model: LatentModel,
    data: Batch,
    held_out: HeldOut | None = None,
    *,
    learn: Learn,
    seed: int = 0,
    config: VSAEConfig | None = None,
    callback: Callback | None = None,
    checkpoint_path: str | os.PathLike[str] | None = None,
    goes_on: bool = False,
) -> History:
    """Fit `model` to `data` (n, …) in place; it ends with its best weights, in eval mode.

    `learn` says what a batch teaches. `config` holds the settings of this training, where they are not the model's own.

    With `checkpoint_path`, the state is written there at every evaluation; where it exists already, training goes on
    from it, bit-identically on the CPU. A model that `goes_on` has been trained before: its first weights are kept
    where none become better.
    """
    run = _Run(model, data, held_out, learn, config or model.config, seed, callback, goes_on)
    with private_rng(seed, run.device):
        if checkpoint_path is not None and Path(checkpoint_path).exists():
            run.restore(checkpoint_path)
        elif goes_on and held_out is not None:
            model.eval_in_training()
            run.best_score = held_out.score(model)
        model.train()
        try:
            run.loop(checkpoint_path)
        finally:
            run.end()
            model.eval()
    return run.history


class _Run:
    """The moving parts of one training: everything a checkpoint must hold is an attribute here."""

    def __init__(
        self,
        model: LatentModel,
        data: Batch,
        held_out: HeldOut | None,
        learn: Learn,
        config: VSAEConfig,
        seed: int,
        callback: Callback | None,
        goes_on: bool = False,
    ) -> None:
        self.goes_on = goes_on
        self.model, self.data, self.held_out, self.learn = model, data, held_out, learn
        self.config, self.callback = config, callback
        self.seed, self.start = seed, {name: value.detach().clone() for name, value in model.named_parameters()}
        self.device = data.mask.device
        self.members = self.config.members
        self.per_epoch = math.ceil(data.rows / self.config.batch_size)
        self.batch_size = data.rows // self.per_epoch  # the few rows that are left over come another time
        self.steps = _total_steps(self.config, self.per_epoch)
        self.evaluate_every = self.config.evaluate_every or self.per_epoch
        self.take_step = Step(model, learn, self.config)
        self.step = 0
        self.order = torch.empty(0, dtype=torch.long, device=self.device)  # (E, n), this epoch's rows
        self.best = dict(self.start)
        self.best_score = torch.full((self.members,), torch.inf, dtype=torch.float64)
        self.since_best = 0  # evaluations in which no member became better
        self.history = History(best_step=[0] * self.members)

    def loop(self, checkpoint_path: str | os.PathLike[str] | None) -> None:
        began, before = time.perf_counter(), self.history.seconds
        self.history.stopped = "all steps done"
        while self.step < self.steps:
            if self.since_best >= self.config.patience:
                self.history.stopped = f"no better score in {self.config.patience} evaluations"
                return
            for batch in self.batches():
                self.train_on(batch)
                self.step += 1
                self.history.seconds = before + time.perf_counter() - began
                record = None
                if self.step % self.evaluate_every == 0 or self.step == self.steps:
                    record = self.evaluate()
                    if checkpoint_path is not None:
                        self.save(checkpoint_path)
                if self.callback is not None:
                    epoch = self.step / self.per_epoch
                    self.callback(Progress(self.step, self.steps, epoch, self.history.seconds, record))

    def batches(self) -> Iterator[Batch]:
        """Rows for each member in the order of the epoch, for all steps until it ends or the model is evaluated.

        What does not depend on weights is done for many of these steps at once.
        """
        first = self.step % self.per_epoch
        if first == 0:
            self.order = self.shuffled()
        entries = sum(variable.entries for variable in self.model.schema.variables)
        most = max(1, _CELLS_AHEAD.get(self.device.type, 2**14) // (self.members * self.batch_size * entries))
        count = min(
            self.per_epoch - first, self.evaluate_every - self.step % self.evaluate_every, self.steps - self.step, most
        )
        rows = self.order[:, first * self.batch_size : (first + count) * self.batch_size]
        ahead = self.model.prepare(self.data.take(rows.unflatten(1, (count, -1)).transpose(0, 1)))
        batches = [ahead.step(number) for number in range(count)]
        yield from batches
        if bool(self.take_step.broken):  # on a GPU, to ask at every step would be to wait at every step
            raise self.diverged(batches)

    def shuffled(self) -> Tensor:
        """The rows of an epoch, for each member in an order of its own, (E, n); by their weights, where they have any.

        Rows that count for more come more often, rather than with larger gradients: steps stay as long as they were.
        """
        order = self._random_order()
        if self.data.weight is None:
            return order
        start = torch.rand(self.members, 1, device=self.device)
        sample = order.gather(1, systematic(self.data.weight[order], self.data.rows, start))
        return sample.gather(1, self._random_order())  # the copies of a row apart

    def _random_order(self) -> Tensor:
        return torch.rand(self.members, self.data.rows, device=self.device).argsort(dim=1)

    def train_on(self, batch: Batch) -> None:
        self.take_step(batch, self.epoch, self.learning_rate())
        if self.device.type == "cpu" and bool(self.take_step.broken):
            raise self.diverged([batch])

    @property
    def epoch(self) -> int:
        return self.step // self.per_epoch

    def learning_rate(self) -> float:
        """Linear warm-up, then half a cosine down to zero; or constant."""
        peak, share = self.config.learning_rate, self.step / self.steps
        if self.config.schedule == "constant":
            return peak
        if share < self.config.warmup:
            return peak * (self.step + 1) / (self.config.warmup * self.steps + 1)
        return peak * 0.5 * (1 + math.cos(math.pi * (share - self.config.warmup) / (1 - self.config.warmup)))

    def diverged(self, batches: Sequence[Batch]) -> TrainingDiverged:
        """What to raise when the loss of one of these batches, or its gradient, was not finite."""
        culprit = _culprit(self.model, batches, lambda batch: self.learn(self.model, batch, self.epoch))
        return TrainingDiverged(
            f"epoch {self.epoch + 1}: the loss of attribute {culprit!r} is no longer finite; the last good weights are "
            "kept. Look for extreme values in it, or lower learning_rate"
        )

    def evaluate(self) -> dict[str, Any]:
        """Score the members on the held-out cells; remember the weights of those that never were better."""
        score = torch.full((self.members,), torch.nan, dtype=torch.float64)
        if self.held_out is not None:
            self.model.eval_in_training()
            score = self.held_out.score(self.model)
            self.model.train()
        # without anything to score by, the newest weights are the best known; and with few cells to score by, an early
        # lead is luck more often than not: later weights, trained at a lower rate, are taken if they come close
        close = score <= self.best_score * (1 + self.config.tolerance)
        better = close if self.held_out is not None else torch.ones_like(score, dtype=torch.bool)
        self.since_best = 0 if bool(better.any()) else self.since_best + 1
        self.best_score = torch.where(score < self.best_score, score, self.best_score)
        _update_members(self.best, self.model, better.to(self.device))
        for member in better.nonzero().flatten().tolist():
            self.history.best_step[member] = self.step
        record: dict[str, Any] = {
            "step": self.step,
            "epoch": self.step / self.per_epoch,
            "learning_rate": self.learning_rate(),
        }
        terms = self.take_step.mean_terms((self.step - 1) % self.evaluate_every + 1)
        record |= {name: value.tolist() for name, value in terms._asdict().items()}
        record |= {"score": [None if math.isnan(s) else s for s in score.tolist()]}
        self.history.records.append(record)
        return record

    @cached_property
    def identity(self) -> str:
        """A hash of all that decides how training goes, on any device: settings, seed, data and what is withheld."""
        digest = hashlib.sha256(json.dumps([self.config.to_json(), self.model.schema.to_json(), self.seed]).encode())
        batch = self.data
        tensors = {**batch.values, "mask": batch.mask, "usable": batch.usable}
        if self.goes_on:  # else the seed decides what the first weights are
            tensors |= self.start
        tensors |= {} if batch.weight is None else {"weight": batch.weight}
        for name in sorted(tensors):
            digest.update(name.encode())
            digest.update(tensors[name].cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def end(self) -> None:
        """The best weights are the model's."""
        if self.history.records or self.goes_on:
            _set_weights(self.model, self.best)
        self.take_step.release()

    def save(self, path: str | os.PathLike[str]) -> None:
        weights: dict[str, Tensor] = dict(self.model.named_parameters())
        tensors = checkpoint.joined({"model": weights, "best": self.best, "optimiser": self.take_step.state()})
        tensors |= {"rng": rng_state(self.device), "order": self.order, "best_score": self.best_score}
        content = {
            "identity": self.identity,
            "step": self.step,
            "since_best": self.since_best,
            "history": self.history.__dict__,
        }
        checkpoint.write(path, "training state", tensors, content)

    def restore(self, path: str | os.PathLike[str]) -> None:
        tensors, content = checkpoint.read(path, "training state")
        if content.get("identity") != self.identity:
            raise OtherTraining(
                f"{path}: this file belongs to another training (other settings or data); delete it to start anew"
            )
        _set_weights(self.model, checkpoint.part(tensors, "model"))
        self.best = {name: value.to(self.device) for name, value in checkpoint.part(tensors, "best").items()}
        self.take_step.load(checkpoint.part(tensors, "optimiser"))
        self.order, self.best_score = tensors["order"].to(self.device), tensors["best_score"]
        self.step, self.since_best = content["step"], content["since_best"]
        self.history = History(**content["history"])
        set_rng_state(tensors["rng"], self.device)


def _total_steps(config: VSAEConfig, per_epoch: int) -> int:
    limits = [config.steps, None if config.epochs is None else config.epochs * per_epoch]
    return max(1, min(limit for limit in limits if limit is not None))


@torch.no_grad()
def _culprit(model: LatentModel, batches: Sequence[Batch], learn: Callable[[Batch], tuple[Elbo, Tensor]]) -> str:
    """The attribute that broke first: by its attributive proposal, its likelihood, or else the one that fits worst.

    All decoders and the collective proposal read every attribute, so what breaks one breaks them all; the attributive
    proposal reads its own alone.
    """
    for batch in batches:
        terms, loss = learn(batch)
        if not bool(torch.isfinite(loss)):
            break
    own = model.attribute_kl(batch)
    for broken in (terms.x_observed,) if own is None else (own * batch.usable, terms.x_observed):
        finite = torch.isfinite(broken.sum(dim=(0, 1)))
        if not bool(finite.all()):
            return model.schema.names[int(finite.int().argmin())]
    return model.schema.names[int(terms.total.sum(dim=(0, 1)).argmin())]


@torch.no_grad()
def _set_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def _update_members(best: dict[str, Tensor], model: nn.Module, better: Tensor) -> None:
    """Overwrite the stored weights of the members marked in `better` (E,)."""
    if bool(better.any()):
        for name, value in model.named_parameters():
            where = better.view(-1, *[1] * (value.dim() - 1))
            best[name] = torch.where(where, value.detach(), best[name])
