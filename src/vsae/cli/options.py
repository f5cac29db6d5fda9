"""Options that several commands have, each stated once.

A command takes a group of options as one parameter, a dataclass; `with_options` shows typer the fields in its place.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from vsae.baselines import METHODS
from vsae.files import DEFAULT_NA

Input = Annotated[
    str,
    typer.Argument(
        metavar="IN",
        help="A table: .csv, .tsv, .xlsx, .parquet, .feather or .jsonl, with .gz or .zst after it; - is stdin. A "
        "folder or a name with wildcards is all its files.",
    ),
]
Seed = Annotated[int, typer.Option(help="The seed of all random numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes; warnings stay.")]
Format = Annotated[
    str | None,
    typer.Option(help="The file format, where the name does not tell it: csv, tsv, xlsx, jsonl, parquet or feather."),
]


@dataclass(frozen=True)
class EngineOptions:
    """Who works on a table, and on how much of it at a time."""

    engine: Annotated[
        str,
        typer.Option(
            help="memory: all rows at once. stream: block by block, in bounded memory, and a killed run goes on where "
            "it stopped. ray: the same on many processes or machines (pip install 'vsae\\[ray]'). auto: stream if IN "
            "is several files or has more than 256 MB (of Parquet: uncompressed), else memory."
        ),
    ] = "auto"
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="ROWS",
            help="How many rows a streamed fit learns: a uniform random sample. All rows are read, and say what the "
            "columns are. Default: 200,000.",
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(help="The address of a Ray cluster, for --engine ray. Default: one is started on this machine."),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many processes --engine ray uses. Default: one a core.")
    ] = None

    @property
    def rows_learned(self) -> int:
        from vsae.table.survey import SAMPLE

        return SAMPLE if self.sample is None else self.sample


@dataclass(frozen=True)
class TextOptions:
    """How a text file or a workbook is read."""

    delimiter: Annotated[
        str | None, typer.Option(help="The character between the cells of a text file. Default: detected.")
    ] = None
    encoding: Annotated[str | None, typer.Option(help="The encoding of a text file. Default: detected.")] = None
    na: Annotated[
        str | None,
        typer.Option(
            help="The texts that stand for a missing value, separated by commas, besides the empty cell. "
            f"Default: {', '.join(DEFAULT_NA[1:])}"
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether the first line has the names of the columns. Default: found out."
        ),
    ] = None
    sheet: Annotated[
        str | None, typer.Option(help="The sheet of an Excel workbook. Default: the first that holds anything.")
    ] = None

    max_expanded: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="MB",
            help="The most megabytes that a compressed file may expand to. Default: 256, or a hundred times its size.",
        ),
    ] = None

    @property
    def missing_texts(self) -> tuple[str, ...]:
        return DEFAULT_NA if self.na is None else tuple(self.na.split(","))


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says of the columns."""

    schema: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file with the kinds of columns whose kind is not to be inferred: "
            '{"zip": "categorical", "age": {"kind": "count", "max": 120}, "note": "keep"}. '
            "The kinds are real, positive, count, integer, date, time, duration, binary, categorical, ordinal "
            "and keep.",
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="Codes that stand for a missing value: age=-1,999 in one column, --missing=-999 in all columns. May "
            "be repeated."
        ),
    ] = None

    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Columns, separated by commas, that the model neither reads nor fills. May be repeated."),
    ] = None
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            help="A relation that filled cells satisfy: 'diastolic < systolic', 'total == a + b', 'end >= start'. "
            "May be repeated."
        ),
    ] = None
    structural: Annotated[
        list[str] | None,
        typer.Option(
            help="Where a column does not apply, so that its cells stay empty: \"pregnancies: sex == 'M'\". May be "
            "repeated."
        ),
    ] = None

    def specs(self) -> dict[str, Any]:
        """The kinds that the user says: those of the schema file, and of the columns that are excluded."""
        from vsae.table import Keep

        return self._schema_file() | {name: Keep() for name in separated(self.exclude)}

    def conditions(self) -> dict[str, str]:
        """
        >>> ColumnOptions(structural=["births: sex == 'M'"]).conditions()
        {'births': "sex == 'M'"}
        """
        parts = [option.partition(":") for option in self.structural or ()]
        for name, colon, _ in parts:
            if not colon:
                raise ValueError(f'--structural {name}: write it as "column: condition"')
        return {name.strip(): condition.strip() for name, _, condition in parts}

    def _schema_file(self) -> dict[str, Any]:
        """A JSON object: for each column a kind's name, or {"kind": "count", "max": 120}."""
        if self.schema is None:
            return {}
        from vsae.table import spec_from_json

        try:
            content = json.loads(self.schema.read_text())
        except RecursionError:
            raise ValueError(f"{self.schema}: the schema is nested too deeply; it needs one level") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.schema}: the schema is not a text in {error.encoding}") from None
        except OSError as error:
            raise ValueError(f"{self.schema}: the schema cannot be read ({error.strerror}); give a JSON file") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.schema}: line {error.lineno} is not JSON: {error.msg}") from None
        if not isinstance(content, dict):
            raise ValueError(f'{self.schema}: the schema must be a JSON object such as {{"zip": "categorical"}}')
        return {name: spec_from_json(name, value) for name, value in content.items()}

    def missing_codes(self) -> dict[str | None, list[Any]] | None:
        """By column; under None those of all columns.

        >>> ColumnOptions(missing=["age=-1,999", "-9"]).missing_codes()
        {'age': [-1, 999], None: [-9]}
        """
        codes: dict[str | None, list[Any]] = {}
        for option in self.missing or ():
            name, equals, values = option.rpartition("=")
            codes.setdefault(name if equals else None, []).extend(map(literal, values.split(",")))
        return codes or None

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The codes of all columns as a text file has them: there they must not keep dates from being dates."""
        return tuple(text for option in self.missing or () if "=" not in option for text in option.split(","))


@dataclass(frozen=True)
class TrainingOptions:
    """How long a model is trained, and what is known of why cells are missing."""

    method: Annotated[
        str,
        typer.Option(help=f"The model: vsae, or one that it is compared with: {', '.join(METHODS)}."),
    ] = "vsae"
    effort: Annotated[str, typer.Option(help="How much time to spend for better results: fast, default or best.")] = (
        "default"
    )
    steps: Annotated[
        int | None, typer.Option(min=1, help="The largest number of training steps, whatever the effort.")
    ] = None
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="Why cells are missing: auto (as the data speak for), ignorable (by chance, or because of what is "
            "observed), self-masking (because of their own value); or of one column: income=+ (high values hide), "
            "income=-, income=ignorable, or income=1.5 (change of the log odds per standard deviation). May be "
            "repeated. Default: auto."
        ),
    ] = None

    def said_of_mechanism(self) -> Any:
        """
        >>> TrainingOptions(mechanism=["income=+", "age=1.5"]).said_of_mechanism()
        {'income': '+', 'age': 1.5}
        >>> TrainingOptions(mechanism=["ignorable"]).said_of_mechanism(), TrainingOptions().said_of_mechanism()
        ('ignorable', 'auto')
        """
        given = [option.rpartition("=") for option in self.mechanism or ()]
        if not given:
            return "auto"
        if len(given) == 1 and not given[0][1]:
            return given[0][2]
        if any(not equals for _, equals, _ in given):
            raise ValueError("--mechanism: give one for the whole table, or column=… for each column")
        return {name: literal(said) for name, _, said in given}


@dataclass(frozen=True)
class RowOptions:
    """What columns say of the rows."""

    weights: Annotated[
        str | None,
        typer.Option(help="A column that says how much each row counts; with 0, it is filled and not learned from."),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(help="A column that names the group of each row, such as a patient: rows of a group are alike."),
    ] = None
    order: Annotated[
        str | None,
        typer.Option(help="A column by which the rows of a group follow one another, such as a date."),
    ] = None

    @property
    def need_all(self) -> list[str]:
        """Options for which all rows must be seen together."""
        return ["--groups"] if self.groups else []


def separated(options: list[str] | None) -> list[str]:
    """
    >>> separated(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [name for option in options or () for name in option.split(",")]


def literal(text: str) -> Any:
    """A number where the text reads as one.

    >>> literal("-1"), literal("2.5"), literal("none")
    (-1, 2.5, 'none')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with the fields of its dataclass parameters as parameters of its own, which typer can read."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            found = [(f.name, f.default, types[f.name]) for f in dataclasses.fields(groups[name])]
        else:
            found = [(name, parameter.default, hints[name])]
        parameters += [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for each, default, annotation in found
        ]

    @functools.wraps(command)
    def merged(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    merged.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    merged.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return merged


class Asked(NamedTuple):
    """What the options of a command say that may fit a model."""

    columns: ColumnOptions
    rows: RowOptions
    training: TrainingOptions
    seed: int
    quiet: bool
    format: str | None
    text: TextOptions
    engine: EngineOptions = EngineOptions()

    def identity(self) -> dict[str, Any]:
        """What a model depends on beside its table."""
        schema = None if self.columns.schema is None else self.columns.schema.read_text("utf-8", errors="replace")
        said = [asdict(self.columns) | {"schema": schema}, asdict(self.rows), asdict(self.training), asdict(self.text)]
        return {"options": said, "sample": self.engine.rows_learned, "seed": self.seed}
