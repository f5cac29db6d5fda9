"""What is compared in the paper's tables: from a split table and its masks to filled rows and their errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.grid import TaskData
from benchmarks.peers.jobs import METHODS as PEERS
from benchmarks.peers.jobs import scored as scored_answer
from benchmarks.processes import Processes, RunFailed
from benchmarks.runs import DAY
from benchmarks.store import Row
from vsae import FittedVSAE, Schema, VSAEConfig
from vsae.baselines import BASELINES
from vsae.baselines.base import Baseline
from vsae.data.randomness import private_rng
from vsae.fitting.baseline import baseline_config, fit_baseline, parameters
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedModel
from vsae.fitting.presets import config_for

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
    "zeros in missing cells": {"fill": "zero"},
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
    "noise in missing cells": {"fill": "noise"},
}
METHODS = (*BASELINES, *CHAINS, PAPER, DEFAULT)
PAPERS = ("AE", "VAE", "CVAE", "MVAE", "HI-VAE", "MIWAE")  # which the paper itself runs; the others it speaks of
ABLATIONS = (*(f"{PAPER}: {c}" for c in PAPER_CHANGES), *(f"{DEFAULT}: {c}" for c in DEFAULT_CHANGES))

WEIGHTED_SAMPLES = 1000
SAMPLED_MASKS = 10_000
_CURVE_POINTS = 12
_ACTIVE = 0.01  # variance of a latent's mean over the rows: below it, the dimension tells rows not apart
_MOST_ROWS_LOOKED_AT = 2000
_FILLINGS = 8


def run_method(method: str, task: TaskData, device: str | None = None, changes: Mapping[str, Any] | None = None) -> Row:
    """Fit and score a method on a task; `changes` to its settings are for quick tests."""
    if method not in (*METHODS, *ABLATIONS):
        raise ValueError(f"there is no method {method!r}; there are {', '.join((*METHODS, *ABLATIONS))}")
    changes = changes or {}
    name, _, change = method.partition(": ")
    if name in CHAINS:
        return _chain(CHAINS[name], task)
    rows = task.train
    if name == DEFAULT:
        config = config_for(rows.schema, len(rows), **{**DEFAULT_CHANGES.get(change, {}), **changes})
    elif name == PAPER:
        config = VSAEConfig.paper(**{**PAPER_CHANGES.get(change, {}), **changes})
    else:
        config = baseline_config(BASELINES[name], rows.schema).replace(**changes)
    clock = clock_of(device)
    began = clock()
    fitted = fitted_by(name, rows.schema, rows.columns, task.train_mask, config, task.seed, device)
    seconds = clock() - began
    timed = {"seconds": seconds, "clock": "processor" if clock is time.process_time else "wall"}
    return {**_scored(fitted, task), **timed, "settings": config.to_json(), **training_record(fitted)}


def clock_of(device: str | None) -> Callable[[], float]:
    """Seconds of the processor, in which what else the machine does hardly counts; with a GPU, of the wall."""
    on_cpu = device == "cpu" or not torch.cuda.is_available()
    return time.process_time if on_cpu else time.perf_counter


def fitted_by(
    name: str, schema: Schema, columns: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_], config: VSAEConfig,
    seed: int, device: str | None,
) -> FittedModel[Any]:  # fmt: skip
    """A baseline, or else a VSAE."""
    if name in BASELINES:
        return fit_baseline(BASELINES[name], schema, columns, mask, config, seed=seed, device=device)
    return fit(schema, columns, mask, config, seed=seed, device=device)


def _chain(method: str, task: TaskData) -> Row:
    row = Processes(limit=DAY).answered(PEERS[method], {}, [task.given()], lambda folder: scored_answer(task, folder))
    if row["status"] != "ok":
        raise RunFailed(f"{method}: {row['error']}")
    return {name: row[name] for name in ("in_sample", "new_rows", "seconds")}


def _scored(fitted: FittedModel[Any], task: TaskData) -> Row:
    train, new = (
        rows.matrix(fitted.impute(rows.columns, mask))
        for rows, mask in ((task.train, task.train_mask), (task.new, task.new_mask))
    )
    row: Row = {
        "in_sample": task.errors(train), "new_rows": task.errors_new(new), "parameters": parameters(fitted.model),
    }  # fmt: skip
    if (latents := _latents(fitted, task)) is not None:
        row["latents"] = latents
    if isinstance(fitted, FittedVSAE) and fitted.model.config.mask_modelling:
        row["missing"] = float(1 - task.train_mask.mean())
        row["missing_sampled"] = float(1 - fitted.generate_masks(SAMPLED_MASKS, seed=task.seed).mean())
    if isinstance(fitted, FittedVSAE) and fitted.model.config.members == 1:
        row["weighted_new_rows"] = _weighted(fitted, task)
    return row


def _weighted(fitted: FittedVSAE, task: TaskData) -> dict[str, float]:
    """The estimate the paper compares with MIWAE: averages of importance-weighted samples."""
    filled = fitted.impute(task.new.columns, task.new_mask, draws=WEIGHTED_SAMPLES, weighted=True)
    return task.errors_new(task.new.matrix(filled))


@torch.no_grad()
def _latents(fitted: FittedModel[Any], task: TaskData) -> dict[str, Any] | None:
    """Whether z says anything of a row: dimensions in use, and the KL to the model's prior, of the first member. None
    for a model without latents.

    For VSAE, per attribute and apart for where it is observed (attributive proposal) and hidden (collective).
    Noise in missing cells moves z, too, but says nothing: what is inferred is averaged over several fillings.
    """
    columns = {name: x[:_MOST_ROWS_LOOKED_AT] for name, x in task.train.columns.items()}
    mask = task.train_mask[:_MOST_ROWS_LOOKED_AT]
    batch = fitted.encoding.encode(columns, mask).to(fitted.device).for_members()
    model = fitted.model
    with private_rng(0, fitted.device):
        inferred = [model.infer(batch) for _ in range(_FILLINGS if model.config.fill == "noise" else 1)]
        own = model.kl_of(batch) if isinstance(model, Baseline) else None
    if inferred[0] is None:
        return None
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


def training_record(fitted: FittedModel[Any]) -> Row:
    """How training went, of the first member."""
    records = fitted.history.records
    terms = ("x_observed", "x_unobserved", "mask", "kl", "score")
    shown = np.unique(np.linspace(0, len(records) - 1, _CURVE_POINTS).round().astype(int))
    curve: dict[str, list[Any]] = {"step": [records[i]["step"] for i in shown]}
    curve |= {term: [_rounded(records[i][term][0]) for i in shown] for term in terms}
    return {
        "steps": records[-1]["step"],
        "epochs": records[-1]["epoch"],
        "best_step": fitted.history.best_step[0],
        "stopped": fitted.history.stopped,
        "finite": all(np.isfinite(record[t][0]) for record in records for t in terms[:-1]),
        "curve": curve,
    }


def _rounded(x: float | None) -> float | None:
    return None if x is None else float(f"{x:.5g}")
