"""One file that holds a fitted estimator: safetensors and JSON. Loading it runs no code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vsae.data.context import GroupContext
from vsae.estimator.base import TableEstimator
from vsae.estimator.methods import VSAE, fitted_from_parts
from vsae.estimator.settings import check_strategy
from vsae.mechanism.choice import check_mechanism
from vsae.model.latent_model import resolve_device
from vsae.storage import checkpoint
from vsae.storage.typed import follows
from vsae.table import Table
from vsae.table.stamps import notation_from_json, notation_to_json

E = TypeVar("E", bound=TableEstimator)


def write(imputer: TableEstimator, path: str | os.PathLike[str]) -> None:
    """What `VSAEImputer.save` does."""
    check_is_fitted(imputer)
    tensors, model = imputer.fitted_.to_parts()
    content: dict[str, Any] = {
        "model": model,
        "table": imputer.schema_.to_json(),
        "handle_unknown": imputer.handle_unknown,
        "strategy": imputer.strategy,
        "add_indicator": imputer.add_indicator,
        "mechanism": dict(imputer.mechanism) if isinstance(imputer.mechanism, Mapping) else imputer.mechanism,
        "seed": imputer._seed,
        "weights": imputer.weights,
        "groups": imputer.groups,
        "order": imputer.order,
        "context": imputer.context_ and imputer.context_.to_json(),
    }
    content["fitted_on"] = imputer.fitted_on_
    content["notations"] = {name: notation_to_json(n) for name, n in getattr(imputer, "notations_", {}).items()}
    content["features"] = [str(name) for name in getattr(imputer, "feature_names_in_", [])]
    checkpoint.write(path, "imputer", tensors, content)


def read(path: str | os.PathLike[str], device: str, new: Callable[..., E]) -> E:
    """The estimator that `write` wrote; `new` makes one from its parameters."""
    tensors, content = checkpoint.read(path, "imputer")
    there = resolve_device(device)
    with checkpoint.parts_of(path):
        fitted = fitted_from_parts(tensors, content["model"], there)
        kept = {name: content[name] for name in ("handle_unknown", "strategy", "mechanism")}
        kept["add_indicator"] = content.get("add_indicator", False)
        kept |= {name: content.get(name) for name in ("weights", "groups", "order")}
        method = content["model"].get("method", VSAE)
        imputer = new(**kept, method=method, config=fitted.model.config, device=device)
        imputer.schema_, imputer.fitted_ = Table.from_json(content["table"]), fitted
        context, imputer._seed = content.get("context"), content["seed"]
        imputer.context_ = None if context is None else GroupContext.from_json(imputer.schema_.schema, context)
        imputer.fitted_on_ = dict(content["fitted_on"])
        imputer.notations_ = {name: notation_from_json(n) for name, n in content.get("notations", {}).items()}
        imputer.n_features_in_ = len(imputer.schema_.plans)
        if content["features"]:
            imputer.feature_names_in_ = np.array(content["features"], dtype=object)
        _try_out(imputer)
    return imputer


def _try_out(imputer: TableEstimator) -> None:
    """Refuse a file with parts that no method could use; see `FittedVSAE.try_out`."""
    fitted, table = imputer.fitted_, imputer.schema_
    facts = tuple(imputer.fitted_on_[name] for name in ("rows", "missing", "vsae"))
    if not follows((*facts, imputer._seed, imputer.add_indicator), tuple[int, float, str, int, bool]):
        raise TypeError(f"fitted on {facts}, with the seed {imputer._seed!r}")
    if not 0 <= imputer._seed < 2**62:
        raise ValueError(f"its seed is {imputer._seed}")
    if (
        len(getattr(imputer, "feature_names_in_", table.plans)) != len(table.plans)
        or (table.schema if imputer.context_ is None else imputer.context_.schema) != fitted.schema
    ):
        raise ValueError("its table has other columns than its model")
    context = imputer.context_
    if (context is None) != (imputer.groups is None) or (context and context.near and imputer.order is None):
        raise ValueError("it does not say which column the groups or their order are")
    if imputer.handle_unknown not in ("keep", "error"):
        raise ValueError(f"handle_unknown is {imputer.handle_unknown!r}")
    check_strategy(imputer.strategy)
    check_mechanism(imputer.mechanism)
    table.try_out(fitted.try_out())
