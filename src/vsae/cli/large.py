"""`--engine stream` and `ray`: tables that are worked on in blocks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vsae.cli.fills import report_counts
from vsae.cli.messages import note, warn
from vsae.cli.options import Asked, EngineOptions
from vsae.cli.steps import asked_for, check_names, continued, missing_texts

if TYPE_CHECKING:
    from vsae.engines.filling import Filled
    from vsae.engines.jobs import Engine
    from vsae.estimator import VSAEImputer
    from vsae.files.blocks import Blocks

ENGINES = ("auto", "memory", "stream", "ray")


def in_blocks(engine: EngineOptions, table: str, whole: Sequence[str]) -> bool:
    """Whether a table is worked on in blocks; `whole` are options given for which it must be in memory."""
    from vsae.engines.jobs import can_stream, is_large
    from vsae.files.sources import is_many

    if engine.engine not in ENGINES:
        raise typer.BadParameter(f"must be one of {', '.join(ENGINES)}, not {engine.engine!r}", param_hint="--engine")
    _check_ray(engine)
    if engine.engine == "memory" and is_many(table):
        remedy = "reads one file, and IN is a folder or several files; name one, or leave this out"
        raise typer.BadParameter(f"memory {remedy}", param_hint="--engine")
    wanted = engine.engine in ("stream", "ray")
    if engine.engine == "memory" or not (wanted or is_large(table)):
        return False
    if whole and (wanted or is_many(table)):
        reason = "several files are worked on in blocks" if not wanted else f"--engine {engine.engine} works in blocks"
        raise typer.BadParameter(f"{reason}, and this needs all rows at once", param_hint=whole[0])
    return not whole and (wanted or can_stream(table))


def _check_ray(engine: EngineOptions) -> None:
    for option, given in {"--workers": engine.workers, "--address": engine.address}.items():
        if given is not None and engine.engine != "ray":
            raise typer.BadParameter("this is of Ray: give --engine ray, too", param_hint=option)


def refuse_sample(engine: EngineOptions, why: str) -> None:
    """A sample that nothing would take is no wish to ignore."""
    if engine.sample is not None:
        raise typer.BadParameter(why, param_hint="--sample")


def fit_in_blocks(table: str, out: Path, asked: Asked, state: Path | None) -> None:
    blocks = opened(table, asked)
    _fitted(blocks, asked, state).save(out)
    note(f"wrote {out}", asked.quiet)


def impute_in_blocks(
    table: str,
    outs: list[str],
    model: Path | None,
    asked: Asked,
    strategy: str | None,
    draws: int,
    only: tuple[str, ...],
) -> None:
    from vsae.engines.filling import How
    from vsae.engines.jobs import checksum, impute
    from vsae.estimator import load
    from vsae.files.parts import Target

    known = load(model) if model else None
    _refuse_parts(known, asked, strategy, draws)
    blocks = opened(table, asked, known)
    targets = [Target(out, blocks, asked.format) for out in outs]  # refuses now what could not be written
    path = model or _model_beside(targets[0], blocks, asked)
    imputer = known or load(path)
    imputer.set_params(add_indicator=False)
    if strategy:
        imputer.set_params(strategy=strategy)
    shown = _Shown(blocks, asked.quiet)
    summary = impute(
        imputer, blocks, targets, model=(path, checksum(path)), how=How(draws, asked.seed, only),
        engine=engine_of(asked.engine), on_begin=shown.begin, on_block=shown.advance,
    )  # fmt: skip
    for message, times in summary.said.items():
        warn(message + (f" (so in {times} blocks)" if times > 1 else ""))
    report_counts(summary.filled, summary.left, summary.absent, asked.quiet)
    for out in outs:
        note(f"wrote {out}", asked.quiet)


def _refuse_parts(known: VSAEImputer | None, asked: Asked, strategy: str | None, draws: int) -> None:
    """What cannot be filled in blocks, before anything is read, learned or written."""
    from vsae.estimator import VSAEImputer

    if known is None:
        check_names(asked.training)
    imputer = known or VSAEImputer(method=asked.training.method)
    if strategy:
        imputer.set_params(strategy=strategy)
    imputer.refuse_parts(draws=draws > 0)


def opened(table: str, asked: Asked, model: VSAEImputer | None = None) -> Blocks:
    """The blocks of a table; what a model knows of its own file settles what this one leaves open."""
    from vsae.engines.jobs import blocks_of
    from vsae.files.delimited import Asked as AskedOfText

    text = AskedOfText(
        asked.text.delimiter,
        frozenset(missing_texts(asked.text, asked.columns, model)) | {""},
        asked.text.header,
        asked.columns.specs(),
        model.notations_ if model else {},
    )
    blocks = blocks_of(table, asked.format, text, asked.text.encoding)
    for message in blocks.notes:
        note(message, asked.quiet)
    return blocks


def engine_of(options: EngineOptions) -> Engine:
    from vsae.engines.jobs import ThisProcess

    if options.engine != "ray":
        return ThisProcess()
    from vsae.engines.ray import RayEngine

    return RayEngine(options.address, options.workers)


def _model_beside(target: Any, blocks: Blocks, asked: Asked) -> Path:
    """A model of the table itself, kept with the parts until all are done."""
    target.make_folders()
    what = [asked.identity(), [file.identity for file in blocks.files]]
    key = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]
    path: Path = target.work / f"model-{key}.vsae"
    if not path.exists():
        try:
            _fitted(blocks, asked, path.with_suffix(".training")).save(path)
        finally:
            with suppress(OSError):  # it holds a state to go on from, or the model
                target.work.rmdir()
    return path


def _fitted(blocks: Blocks, asked: Asked, state: Path | None) -> VSAEImputer:
    """A model of a sample of the rows, planned by all."""
    shown = _Shown(blocks, asked.quiet)
    note(f"reading {blocks.rows:,} rows in {len(blocks.blocks):,} blocks", asked.quiet)
    survey = engine_of(asked.engine).survey(blocks, asked.engine.rows_learned, asked.seed, shown.reading())
    if not survey.is_whole:
        sampled = f"a uniform random sample of {survey.size:,} of {survey.rows:,} rows"
        note(f"learning {sampled}; --sample changes how many", asked.quiet)
    imputer = asked_for(blocks, asked, state)
    imputer = continued(lambda: imputer.fit_survey(survey), state, asked.quiet)
    imputer.fitted_.history.seconds = 0.0  # the same rows give the same bytes, also after an interruption
    return imputer


class _Shown:
    """Progress over blocks, on stderr."""

    def __init__(self, blocks: Blocks, quiet: bool) -> None:
        self.blocks, self.quiet = blocks, quiet

    def begin(self, done: int, blocks: int) -> None:
        from vsae.progress import RowProgress

        if done:
            note(f"{done:,} of {blocks:,} blocks are there; going on with the others", self.quiet)
        self.lines = RowProgress("filling", self.quiet)

    def advance(self, done: Filled, rows: int, of: int) -> None:
        self.lines(rows, of)

    def reading(self) -> Callable[[int], None]:
        """To be told how many rows were read."""
        from vsae.progress import RowProgress

        lines = RowProgress("reading", self.quiet)
        return lambda rows: lines(rows, self.blocks.rows)
