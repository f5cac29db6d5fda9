"""What is compared in the paper's tables: from the masks of one experiment to filled rows, one entry a seed.

Methods whose repetitions can train together do so (`vsae.fitting.fit.fit_apart`): one call, one member a seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.data import Rows
from benchmarks.peers.grid import TaskData
from benchmarks.peers.processes import ADAPTERS, THREADS, last_error
from benchmarks.peers.runner import scored as scored_answer
from vsae.baselines import BASELINES, Baseline
from vsae.data.randomness import private_rng
from vsae.fitting.baseline import baseline_config, parameters
from vsae.fitting.fit import fit, fit_apart
from vsae.fitting.fitted import FittedModel, FittedVSAE
from vsae.fitting.presets import config_for
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE

PAPER, DEFAULT = "VSAE paper", "VSAE"
CHAINS = {"MICE": "mice", "MissForest": "missforest"}

#: The rows of the paper's Table 4, and what its text speaks of beside them; both presets, one change each.
PAPER_CHANGES: dict[str, dict[str, Any]] = {
    "collective only": {"proposal": "collective"},
    "attributive only": {"proposal": "attributive"},
    "no mask model": {"mask_modelling": False},
    "no EM": {"e_step_samples": 0},
    "EM, 1 sample": {"e_step_samples": 1},
    "EM, 1000 samples": {"e_step_samples": 1000},
    "E-step latents from the collective proposal": {"e_step_latents": "collective"},
    "given mask into the decoders": {"decoder_mask": "given"},
    "zeros in the holes": {"fill": "zero"},
}
DEFAULT_CHANGES: dict[str, dict[str, Any]] = {
    "collective only": {"proposal": "collective"},
    "attributive only": {"proposal": "attributive"},
    "no mask model": {"mask_modelling": False},
    "EM, 1 sample": {"e_step_samples": 1, "e_step_warmup": 5},
    "EM, 100 samples": {"e_step_samples": 100, "e_step_warmup": 5},
    "EM, latents from the collective proposal": {
        "e_step_samples": 20,
        "e_step_warmup": 5,
        "e_step_latents": "collective",
    },
    "given mask into the decoders": {"decoder_mask": "given", "imputation_mask": "given"},
    "noise in the holes": {"fill": "noise"},
}
METHODS = (*BASELINES, *CHAINS, PAPER, DEFAULT)
ABLATIONS = (*(f"{PAPER}: {c}" for c in PAPER_CHANGES), *(f"{DEFAULT}: {c}" for c in DEFAULT_CHANGES))

WEIGHTED_SAMPLES = 1000
SAMPLED_MASKS = 10_000
_CURVE_POINTS = 12
_ACTIVE = 0.01  # variance of a latent's mean over the rows: below it, the dimension tells rows not apart
_MOST_ROWS_LOOKED_AT = 2000
_FILLINGS = 8


@dataclass
class Outcome:
    """What one run of one seed gave; `more` is what only some methods have."""

    in_sample: dict[str, float]
    new_rows: dict[str, float]
    seconds: float
    more: dict[str, Any] = field(default_factory=dict)


def run_method(
    method: str, tasks: Sequence[TaskData], device: str | None = None, changes: Mapping[str, Any] | None = None
) -> list[Outcome]:
    """Fit and score a method on each task; `changes` to its settings are for quick tests."""
    if method not in (*METHODS, *ABLATIONS):
        raise ValueError(f"there is no method {method!r}; there are {', '.join((*METHODS, *ABLATIONS))}")
    changes = changes or {}
    name, _, change = method.partition(": ")
    if name in CHAINS:
        return [_chain(CHAINS[name], task) for task in tasks]
    schema = tasks[0].train.schema
    if name == DEFAULT:
        settings = {**DEFAULT_CHANGES.get(change, {}), **changes}
        return [_default(task, settings, device) for task in tasks]
    if name == PAPER:
        config = VSAEConfig.paper(**{**PAPER_CHANGES.get(change, {}), **changes})
        return _together(VSAE, config, tasks, device)
    kind = BASELINES[name]
    return _together(kind, baseline_config(kind, schema).replace(**changes), tasks, device)


def _together(
    kind: type[Baseline] | type[VSAE], config: VSAEConfig, tasks: Sequence[TaskData], device: str | None
) -> list[Outcome]:
    began = time.perf_counter()
    tables = [(task.train.columns, task.train_mask) for task in tasks]
    fitted = fit_apart(kind, tasks[0].train.schema, tables, config, seed=tasks[0].seed, device=device)
    seconds = (time.perf_counter() - began) / len(tasks)
    outcomes = []
    for one, task in zip(fitted, tasks, strict=True):
        outcome = _scored(one, task, seconds)
        seeds = [t.seed for t in tasks]  # the company matters: all share one stream of random numbers
        outcome.more |= {"config": config.to_json(), "trained_with": seeds, **training_record(one)}
        outcomes.append(outcome)
    return outcomes


def _default(task: TaskData, settings: Mapping[str, Any], device: str | None) -> Outcome:
    rows = task.train
    config = config_for(rows.schema, len(rows), **settings)
    began = time.perf_counter()
    fitted = fit(rows.schema, rows.columns, task.train_mask, config, seed=task.seed, device=device)
    outcome = _scored(fitted, task, time.perf_counter() - began)
    outcome.more |= {"config": config.to_json(), "trained_with": [task.seed], **training_record(fitted)}
    return outcome


def _chain(method: str, task: TaskData) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        task.given().write(folder)
        command = [sys.executable, str(ADAPTERS / "chains.py"), method, folder]
        one_thread = os.environ | dict.fromkeys(THREADS, "1")
        done = subprocess.run(command, env=one_thread, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{method}: {last_error(done.stderr)}")
        answer = scored_answer(task, Path(folder))
    return Outcome(answer["in_sample"], answer["new_rows"], answer["seconds"])


def _scored(fitted: FittedModel[Any], task: TaskData, seconds: float) -> Outcome:
    train, new = (
        _matrix(rows, fitted.impute(rows.columns, mask))
        for rows, mask in ((task.train, task.train_mask), (task.new, task.new_mask))
    )
    more: dict[str, Any] = {"parameters": parameters(fitted.model), "latents": _latents(fitted, task)}
    if isinstance(fitted, FittedVSAE) and fitted.model.config.mask_modelling:
        more["missing"] = float(1 - task.train_mask.mean())
        more["missing_sampled"] = float(1 - fitted.generate_masks(SAMPLED_MASKS, seed=task.seed).mean())
    if isinstance(fitted, FittedVSAE) and fitted.model.config.members == 1:
        more["weighted_new_rows"] = _weighted(fitted, task)
    return Outcome(task.errors(train), task.errors_new(new), seconds, more)


def _weighted(fitted: FittedVSAE, task: TaskData) -> dict[str, float]:
    """The estimate the paper compares with MIWAE: averages of importance-weighted samples."""
    filled = fitted.impute(task.new.columns, task.new_mask, draws=WEIGHTED_SAMPLES, weighted=True)
    return task.errors_new(_matrix(task.new, filled))


def _matrix(rows: Rows, filled: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    return np.stack([np.asarray(filled[v.name], dtype=np.float64) for v in rows.schema.variables], axis=1)


@torch.no_grad()
def _latents(fitted: FittedModel[Any], task: TaskData) -> dict[str, Any]:
    """Whether z says anything of a row: dimensions in use, and the KL to the model's prior, of the first member.

    For VSAE, per attribute and apart for where it is observed (attributive proposal) and hidden (collective).
    Noise in the holes moves z, too, but says nothing: what is inferred is averaged over several fillings.
    """
    columns = {name: x[:_MOST_ROWS_LOOKED_AT] for name, x in task.train.columns.items()}
    mask = task.train_mask[:_MOST_ROWS_LOOKED_AT]
    batch = fitted.encoding.encode(columns, mask).to(fitted.device).for_members()
    model = fitted.model
    with private_rng(0, fitted.device):
        inferred = [model.infer(batch) for _ in range(_FILLINGS if model.config.fill == "noise" else 1)]
        own = model.kl_of(batch) if isinstance(model, Baseline) else None
    loc = torch.stack([q.loc[0] for q in inferred]).mean(0).double()  # (B, …)
    if isinstance(model, Baseline):
        active = loc.var(0) > _ACTIVE
        mean_kl = None if own is None else float(own[0].mean())
        return {"active": int(active.sum()), "of": active.numel(), "kl": mean_kl}
    kl = torch.stack([q.kl_to_prior()[0] for q in inferred]).mean(0).double()  # (B, M)
    found: dict[str, Any] = {"of": loc[0].numel()}
    seen = batch.mask[0].double()
    for name, weight in (("observed", seen), ("hidden", 1 - seen)):
        count = weight.sum(0).clamp_min(1)
        mean = (loc * weight[..., None]).sum(0) / count[:, None]  # (M, L)
        variance = ((loc - mean) ** 2 * weight[..., None]).sum(0) / count[:, None]
        found[f"active_{name}"] = int((variance > _ACTIVE).sum())
        found[f"kl_{name}"] = [round(x, 4) for x in ((kl * weight).sum(0) / count).tolist()]
    return found


def training_record(fitted: FittedModel[Any]) -> dict[str, Any]:
    """How training went, of the first member."""
    history = fitted.history
    terms = ("x_observed", "x_unobserved", "mask", "kl", "score")
    some = np.unique(np.linspace(0, len(history.records) - 1, _CURVE_POINTS).round().astype(int))
    curve = [
        {"step": history.records[i]["step"], **{t: _rounded(history.records[i][t][0]) for t in terms}} for i in some
    ]
    return {
        "steps": history.records[-1]["step"],
        "epochs": history.records[-1]["epoch"],
        "best_step": history.best_step[0],
        "stopped": history.stopped,
        "finite": all(np.isfinite(record[t][0]) for record in history.records for t in terms[:-1]),
        "curve": curve,
    }


def _rounded(x: float | None) -> float | None:
    return None if x is None else float(f"{x:.5g}")
