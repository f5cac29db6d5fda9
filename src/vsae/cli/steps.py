"""Steps that several commands have: a table is read, an imputer is set up, and it is fitted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vsae.cli.messages import note, warn
from vsae.cli.options import Asked, ColumnOptions, TextOptions, TrainingOptions

if TYPE_CHECKING:
    from vsae.estimator import VSAEImputer
    from vsae.files import FileTable
    from vsae.files.blocks import Blocks


def is_same(path: str, other: str) -> bool:
    """Whether two paths are one file."""
    return "-" not in (path, other) and os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def read(
    path: str,
    format: str | None,
    text: TextOptions,
    quiet: bool,
    columns: ColumnOptions | None = None,
    model: VSAEImputer | None = None,
) -> FileTable:
    """The table at `path`; what a model knows of its own file settles what this one leaves open."""
    from vsae.files import read_table

    source = read_table(
        path,
        format=format,
        delimiter=text.delimiter,
        encoding=text.encoding,
        na=missing_texts(text, columns, model),
        header=text.header,
        sheet=text.sheet,
        max_expanded=text.max_expanded,
        kinds=columns.specs() if columns else None,
        notations=model.notations_ if model else None,
    )
    for message in source.notes:
        note(message, quiet)
    return source


def missing_texts(text: TextOptions, columns: ColumnOptions | None, model: VSAEImputer | None) -> tuple[str, ...]:
    """What stands for a missing value in all columns of a text file; a model's own codes do, too."""
    na = text.missing_texts + (columns.missing_texts if columns else ())
    if model is not None:
        codes = [set(plan.missing_codes) for plan in model.schema_.plans]
        na += tuple(code for code in set.intersection(*codes) if isinstance(code, str))
    return na


def asked_for(
    source: FileTable | Blocks, asked: Asked, state: Path | None = None, known: VSAEImputer | None = None
) -> VSAEImputer:
    """An imputer, or the known one, with the settings that the options ask for."""
    from vsae.estimator import VSAEImputer
    from vsae.table import Image
    from vsae.table.stamps import NOTATIONS

    columns, rows, training = asked.columns, asked.rows, asked.training
    check_names(training)
    if known is not None and training.method != "vsae":
        raise typer.BadParameter("a fitted model stays what it is", param_hint="--method")
    specs = columns.specs()
    for name, spec in specs.items():
        if isinstance(spec, Image):
            raise ValueError(f"column {name!r}: images cannot be written back to a file; use VSAEImputer in Python")
    imputer = known
    if imputer is None:
        imputer = VSAEImputer(
            method=training.method,
            schema=specs or None,
            missing_values=columns.missing_codes(),
            structural=columns.conditions() or None,
            constraints=columns.constraint,
            weights=rows.weights,
            groups=rows.groups,
            order=rows.order,
        )
        imputer.notations_ = {name: n for name, n in source.notations.items() if type(n).__name__ in NOTATIONS}
    if known is None or training.mechanism:
        imputer.set_params(mechanism=training.said_of_mechanism())
    return imputer.set_params(
        effort=training.effort,
        config={"steps": training.steps} if training.steps else None,
        random_state=asked.seed,
        verbose=not asked.quiet,
        checkpoint_path=state,
    )


def check_names(training: TrainingOptions) -> None:
    """Those of the effort and of the method."""
    from vsae.baselines import METHODS
    from vsae.fitting.presets import EFFORTS

    if training.effort not in EFFORTS:
        raise typer.BadParameter(f"must be one of {', '.join(EFFORTS)}, not {training.effort!r}", param_hint="--effort")
    if training.method not in ("vsae", *METHODS):
        names = ", ".join(("vsae", *METHODS))
        raise typer.BadParameter(f"must be one of {names}, not {training.method!r}", param_hint="--method")


def fitted(source: FileTable, asked: Asked, state: Path | None = None, known: VSAEImputer | None = None) -> VSAEImputer:
    """A new model of a table, or a known one that has learned its rows, too."""
    imputer = asked_for(source, asked, state, known)
    learn = imputer.fit if known is None else imputer.partial_fit
    return continued(lambda: learn(source.data), state, asked.quiet)


def continued(learn: Callable[[], VSAEImputer], state: Path | None, quiet: bool) -> VSAEImputer:
    """What a fit gives that goes on from its state, if it has one."""
    from vsae.fitting.rounds import TrainingStates
    from vsae.storage.checkpoint import FileFormatError

    states = TrainingStates.beside(state)
    if states.there():
        note(f"continuing the fit that {state} is the state of", quiet)
    try:
        return learn()
    except FileFormatError as error:  # damaged, foreign, or left by a fit of another table or with other settings
        warn(f"{error}; this fit starts anew")
        states.remove()
        return learn()
