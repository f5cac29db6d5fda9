"""Other models behind the same estimator: `VSAEImputer(method="miwae")`.

They are those of `vsae.baselines`, which is imported when one of them is asked for. What only VSAE can do is refused in
a line that names the method.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vsae.baselines import method_named
from vsae.estimator.rows import Roles, Rows
from vsae.estimator.settings import changes_of
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import Effort
from vsae.model.config import VSAEConfig
from vsae.training.history import Callback

if TYPE_CHECKING:
    from vsae.fitting.fitted_baseline import FittedBaseline

    Fitted = FittedVSAE | FittedBaseline

VSAE = "vsae"


def check_method(method: Any, mechanism: Any, roles: Roles) -> None:
    """Before a table is read."""
    if not isinstance(method, str):
        raise TypeError(f"method must be the name of a model, such as 'miwae', not {method!r}")
    if method == VSAE:
        return
    method_named(method)
    if mechanism not in ("auto", "ignorable"):
        raise ValueError(f"method={method!r} can not be told why cells are missing; leave mechanism out")
    for what, label in roles._asdict().items():
        if label is not None:
            raise ValueError(f"method={method!r} knows no {what} of rows; leave {what}={label!r} out")


def that_goes_on(method: str, fitted: Fitted) -> FittedVSAE:
    """The fit, if another may begin where it ends."""
    if method != VSAE or not isinstance(fitted, FittedVSAE):
        raise ValueError(f"method={method!r} can not go on from an earlier fit; call fit, without warm_start")
    return fitted


def fit_by_name(
    method: str,
    rows: Rows,
    config: VSAEConfig | Mapping[str, Any] | None,
    effort: Effort,
    *,
    seed: int,
    device: str | None,
    callback: Callback | None,
    checkpoint_path: str | os.PathLike[str] | None,
) -> FittedBaseline:
    """A model of the rows, with the settings of its paper and changes to them."""
    from vsae.fitting.baseline import config_by_effort, fit_baseline, refuse_images

    if rows.weight is not None:
        raise ValueError(f"method={method!r} knows no weights of rows; leave sample_weight out")
    kind = method_named(method).load()
    refuse_images(kind, rows.schema)
    if not isinstance(config, VSAEConfig):
        config = config_by_effort(kind, rows.schema, effort).replace(**changes_of(config))
    return fit_baseline(
        kind, rows.schema, rows.columns, rows.mask, config,
        seed=seed, device=device, callback=callback, checkpoint_path=checkpoint_path,
    )  # fmt: skip


def draws_by_row(method: str) -> bool:
    """Whether a fit draws the cells of a row by its number alone, so that a table may come in parts."""
    from vsae.fitting import baseline

    return method == VSAE or baseline.draws_by_row(method_named(method).load())


def fitted_from_parts(tensors: Mapping[str, Any], content: Mapping[str, Any], device: Any) -> Fitted:
    """Of a file: a VSAE, or the model that it names."""
    if "method" not in content:
        return FittedVSAE.from_parts(tensors, content, device)
    from vsae.fitting.fitted_baseline import FittedBaseline

    return FittedBaseline.from_parts(tensors, content, device)
