"""Ours, called as a user would: a frame in, a frame out."""

from __future__ import annotations

import argparse
import os

import torch
from task import Answer, Task, run, timed

import vsae
from vsae import VSAEImputer
from vsae.fitting.presets import EFFORTS, Effort
from vsae.table import Table


def imputer_for(task: Task, effort: Effort, method: str = "vsae") -> VSAEImputer:
    """Like every method, ours is told which columns are numbers, be their values ever so few."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    numbers = {str(name) for name, discrete in zip(task.names, task.discrete, strict=True) if not discrete}
    plans = Table.fit(task.frame("train")).plans
    schema = {plan.label: "real" for plan in plans if plan.label in numbers and plan.levels}
    return VSAEImputer(schema=schema, method=method, effort=effort, random_state=task.seed)


def impute(task: Task, effort: Effort, strategy: str = "mean", method: str = "vsae") -> tuple[VSAEImputer, Answer]:
    imputer = imputer_for(task, effort, method).set_params(strategy=strategy)
    train, seconds = timed(imputer.fit_transform, task.frame("train"))
    new, seconds_new = timed(imputer.transform, task.frame("new"))
    version = f"vsae {vsae.__version__}"
    return imputer, Answer(version, seconds, task.array(train), seconds_new, task.array(new))


def parser_of(what: str | None) -> argparse.ArgumentParser:
    """The command line of an adapter, which `what` describes."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--effort", choices=EFFORTS, default="default")
    parser.add_argument("folder")
    return parser


def asked_effort(what: str | None) -> Effort:
    effort: Effort = parser_of(what).parse_args().effort
    return effort


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--strategy", choices=("mean", "median"), default="mean")
    parser.add_argument("--method", default="vsae")
    asked = parser.parse_args()
    run(lambda task: impute(task, asked.effort, asked.strategy, asked.method)[1])
