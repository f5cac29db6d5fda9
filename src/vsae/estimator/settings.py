"""The estimator's settings: checked before a table is read, and made into those of one fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral
from typing import Any, get_args

from vsae.data.schema import Schema
from vsae.estimator.values import Strategy, modelled_by_label
from vsae.fitting.presets import Effort, config_for
from vsae.mechanism.choice import Mechanism, check_mechanism
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import resolve_device
from vsae.table import Table


def check_strategy(strategy: Any) -> None:
    if strategy not in get_args(Strategy):
        raise ValueError(f"strategy must be one of {', '.join(get_args(Strategy))}, not {strategy!r}")


def check_settings(config: Any, strategy: Any, mechanism: Any, callback: Any) -> None:
    """Those that no table is needed for."""
    if not isinstance(config, VSAEConfig | Mapping | None):
        raise TypeError(f'config must be a VSAEConfig, or changes such as {{"steps": 500}}, not {config!r}')
    check_strategy(strategy)
    check_mechanism(mechanism)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of one step's progress, not {callback!r}")


def config_of(
    config: VSAEConfig | Mapping[str, Any] | None, effort: Effort, device: str | None, schema: Schema, rows: int
) -> VSAEConfig:
    """All settings of a model: as given, or those that `effort` chooses for the table, with changes."""
    if isinstance(config, VSAEConfig):
        return config
    return config_for(schema, rows, effort, gpu=resolve_device(device).type == "cuda", **changes_of(config))


def changes_of(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """To settings, by names that there are."""
    changes = dict(config or {})
    if unknown := sorted(changes.keys() - {setting.name for setting in fields(VSAEConfig)}, key=str):
        raise ValueError(f"config has no setting {unknown[0]!r}; vsae.VSAEConfig lists the settings")
    return changes


def mechanism_of(mechanism: Mechanism, table: Table) -> Mechanism:
    """By the model's names of the columns; one that does not always apply does not hide by its value."""
    inapplicable: dict[str, Any] = dict.fromkeys(table.structural, "ignorable")
    if not isinstance(mechanism, Mapping):
        return inapplicable if inapplicable and mechanism == "auto" else mechanism
    plans = modelled_by_label(table, mechanism, "mechanism")
    own = {plans[label].name: said for label, said in mechanism.items()}
    return {**inapplicable, **own}


def seed_of(random_state: int | None, fit: int) -> int:
    """Of one call: as asked for, or that of the fit."""
    if random_state is not None and not isinstance(random_state, Integral):
        raise TypeError(f"random_state must be a whole number, or None for that of the fit; not {random_state!r}")
    return fit if random_state is None else int(random_state)
