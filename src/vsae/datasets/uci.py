"""Eight public tables of the UCI repository, read from gzipped CSV files: found, or fetched when asked.

A file is looked for in `root` if given, else in $VSAE_DATA, then in the user's cache, where `download` puts
it. Each is a CSV with one header line, in which an empty cell is a missing value.

>>> TABLES
('phishing', 'mushroom', 'yeast', 'whitewine', 'heart', 'adult', 'german_credit', 'concrete')
>>> load_table("mushrooms")
Traceback (most recent call last):
ValueError: unknown table 'mushrooms'; choose one of phishing, mushroom, yeast, whitewine, heart, adult,
german_credit, concrete
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsae.data.schema import Attribute, Schema, categorical, ordinal, real
from vsae.datasets.places import DownloadError, cache, fetch, find, kept


@dataclass(frozen=True, eq=False)
class UCITable:
    """One table, complete but for the cells that are missing by nature.

    `columns` is keyed by variable: float64 in natural units for numbers (NaN where missing), int64 codes into
    `levels` for discrete variables (-1 where missing). Every attribute here is one column.
    """

    name: str
    schema: Schema
    levels: dict[str, tuple[str, ...]]
    columns: dict[str, np.ndarray]  # variable → (n,)
    mask: np.ndarray  # (n, M) bool, True = observed
    duplicates: np.ndarray  # (n,) bool, True where the row repeats an earlier one in every attribute


@dataclass(frozen=True)
class _Source:
    """A table: its file here, how its columns are read, and where the public copy is."""

    file: str
    rows: int
    header: tuple[str, ...]  # every column of the file
    urls: tuple[str, ...]  # read one after the other
    numeric: frozenset[str] = frozenset()
    ordinal: frozenset[str] = frozenset()  # what is neither numeric nor ordinal is categorical
    left_out: frozenset[str] = frozenset()  # identifiers: never attributes
    label: str | None = None  # what the table was collected to predict: an attribute only if asked for
    blank_is_level: bool = False
    separator: str | None = ","  # of the public copy; None is any run of blanks
    titled: bool = False  # the public copy has a header line
    tail: str = " "  # taken off the end of each line of the public copy

    def attributes(self, label: bool) -> tuple[str, ...]:
        return tuple(name for name in self.header if name not in self.left_out and (label or name != self.label))


_OLD = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_NEW = "https://archive.ics.uci.edu/static/public"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WINE = (
    *(
        "fixed acidity",
        "volatile acidity",
        "citric acid",
        "residual sugar",
        "chlorides",
        "free sulfur dioxide",
    ),
    *("total sulfur dioxide", "density", "pH", "sulphates", "alcohol"),
)
_CONCRETE = (
    *("Cement", "Blast Furnace Slag", "Fly Ash", "Water", "Superplasticizer", "Coarse Aggregate"),
    *("Fine Aggregate", "Age", "Concrete compressive strength"),
)

_SOURCES: dict[str, _Source] = {
    "phishing": _Source(
        file="phishing_websites.csv.gz",
        rows=11055,
        header=_names(
            "having_IP_Address URL_Length Shortining_Service having_At_Symbol double_slash_redirecting "
            "Prefix_Suffix having_Sub_Domain SSLfinal_State Domain_registeration_length Favicon port "
            "HTTPS_token Request_URL URL_of_Anchor Links_in_tags SFH Submitting_to_email Abnormal_URL "
            "Redirect on_mouseover RightClick popUpWidnow Iframe age_of_domain DNSRecord web_traffic "
            "Page_Rank Google_Index Links_pointing_to_page Statistical_report Result"
        ),
        urls=(f"{_OLD}/00327/Training%20Dataset.arff",),
        label="Result",
    ),
    "mushroom": _Source(
        file="mushroom.csv.gz",
        rows=8124,
        header=_names(
            "class cap-shape cap-surface cap-color bruises? odor gill-attachment gill-spacing gill-size "
            "gill-color stalk-shape stalk-root stalk-surface-above-ring stalk-surface-below-ring "
            "stalk-color-above-ring stalk-color-below-ring veil-type veil-color ring-number ring-type "
            "spore-print-color population habitat"
        ),
        urls=(f"{_OLD}/mushroom/agaricus-lepiota.data",),
        label="class",
        blank_is_level=True,  # the paper's table counts an unknown stalk-root as a category of its own
    ),
    "yeast": _Source(
        file="yeast.csv.gz",
        rows=1484,
        header=_names("sequence_name mcg gvh alm mit erl pox vac nuc class"),
        urls=(f"{_OLD}/yeast/yeast.data",),
        numeric=frozenset(_names("mcg gvh alm mit erl pox vac nuc")),
        left_out=frozenset({"sequence_name"}),
        label="class",
        separator=None,
    ),
    "whitewine": _Source(
        file="winequality_white.csv.gz",
        rows=4898,
        header=(*_WINE, "quality"),
        urls=(f"{_OLD}/wine-quality/winequality-white.csv",),
        numeric=frozenset({*_WINE, "quality"}),
        label="quality",
        separator=";",
        titled=True,
    ),
    "heart": _Source(
        file="heart_cleveland.csv.gz",
        rows=303,
        header=_names("age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num"),
        urls=(f"{_OLD}/heart-disease/processed.cleveland.data",),
        # slope and ca have an order, but the paper reads this table as 5 numeric and 8 categorical columns
        numeric=frozenset(_names("age trestbps chol thalach oldpeak")),
        label="num",
    ),
    "adult": _Source(
        file="adult.csv.gz",
        rows=48842,
        header=_names(
            "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
            "capital-gain capital-loss hours-per-week native-country income"
        ),
        urls=(f"{_OLD}/adult/adult.data", f"{_OLD}/adult/adult.test"),
        numeric=frozenset(_names("age fnlwgt capital-gain capital-loss hours-per-week")),
        ordinal=frozenset({"education-num"}),
        tail=".",  # adult.test ends its labels with a full stop, adult.data does not
    ),
    "german_credit": _Source(
        file="german_credit.csv.gz",
        rows=1000,
        header=_names(
            "status_of_existing_checking_account duration_in_month credit_history purpose credit_amount "
            "savings_account_bonds present_employment_since installment_rate_percent_of_disposable_income "
            "personal_status_and_sex other_debtors_guarantors present_residence_since property age_in_years "
            "other_installment_plans housing number_of_existing_credits_at_this_bank job "
            "number_of_people_liable telephone foreign_worker class"
        ),
        urls=(f"{_OLD}/statlog/german/german.data",),
        numeric=frozenset(_names("duration_in_month credit_amount age_in_years")),
        ordinal=frozenset(
            _names(
                "installment_rate_percent_of_disposable_income present_residence_since "
                "number_of_existing_credits_at_this_bank number_of_people_liable"
            )
        ),
        separator=None,
    ),
    "concrete": _Source(
        file="concrete.csv.gz",
        rows=1030,
        header=_CONCRETE,
        urls=(f"{_NEW}/165/data.csv",),
        numeric=frozenset(_CONCRETE),
        titled=True,
    ),
}

#: The names that `load_table` and `download` know; the first five are the paper's.
TABLES: tuple[str, ...] = tuple(_SOURCES)


def load_table(name: str, root: str | Path | None = None, *, label: bool = False) -> UCITable:
    """Read the table `name` from `root`, else from $VSAE_DATA or the user's cache. Nothing is fetched.

    The labels of phishing, mushroom, yeast, whitewine and heart are attributes only with `label`.

    Numbers are `real`, codes with an order `ordinal`, the rest `categorical`, two-level columns too. Levels
    are those that occur, in numerical order where all are numbers, else in the order of the alphabet.

    >>> load_table("yeast", root=Path("nowhere"))
    Traceback (most recent call last):
    vsae.datasets.places.DataNotFound: table 'yeast': there is no file yeast.csv.gz in nowhere; leave root out and
    set VSAE_DATA to a folder that has it, or call vsae.datasets.download('yeast', root='nowhere')
    """
    source = _source(name)
    return _parse(name, source, _find(name, source, root), label)


def download(name: str, root: str | Path | None = None) -> Path:
    """Fetch the table `name` from the UCI repository into `root` (else the user's cache); return its path.

    What comes is checked with the parser and against the table's known shape before it takes the place of an
    older file, so that a broken transfer leaves nothing behind.
    """
    source = _source(name)
    rows = [row for url in source.urls for row in _public_rows(name, source, _fetch(name, url))]
    if len(rows) != source.rows:
        raise DownloadError(
            f"table {name!r}: {source.urls[0]} gave {len(rows)} rows, not {source.rows}; nothing was kept"
        )
    path = (cache() if root is None else Path(root)) / source.file
    _write_checked(name, source, rows, path)
    return path


def _source(name: str) -> _Source:
    if name not in _SOURCES:
        raise ValueError(f"unknown table {name!r}; choose one of {', '.join(TABLES)}")
    return _SOURCES[name]


def _find(name: str, source: _Source, root: str | Path | None) -> Path:
    return find(f"table {name!r}", source.file, root, f", or call vsae.datasets.download({name!r}{{call}})")


def _parse(name: str, source: _Source, path: Path, label: bool = False) -> UCITable:
    header, rows = _read(path)
    names = source.attributes(label)
    absent = [column for column in names if column not in header]
    if absent:
        raise ValueError(f"{path}: there is no column {absent[0]!r}, which table {name!r} needs; fetch the file again")
    if not rows:
        raise ValueError(f"{path}: there are no rows under the header; fetch the file again")
    texts = {column: [row[header.index(column)] for row in rows] for column in names}
    attributes: list[Attribute] = []
    levels: dict[str, tuple[str, ...]] = {}
    columns: dict[str, np.ndarray] = {}
    for column, cells in texts.items():
        if column in source.numeric:
            attributes.append(real(column))
            columns[column] = _numbers(path, column, cells)
        else:
            if source.blank_is_level:
                cells = [cell or "?" for cell in cells]
            levels[column], columns[column] = _codes(cells)
            kind = ordinal if column in source.ordinal else categorical
            attributes.append(kind(column, max(len(levels[column]), 1)))  # a column without values has no level
    mask = np.stack([_observed(values) for values in columns.values()], axis=1)
    repeated = _duplicates(list(zip(*texts.values(), strict=True)))
    return UCITable(name, Schema(attributes), levels, columns, mask, repeated)


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a gzipped CSV, every row as long as the header."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    # zlib.error and EOFError come from damaged and from truncated files
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: this is not a gzipped CSV file ({error}); fetch it again") from None
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}: row {number} has {len(row)} cells, the header {len(header)}; fetch the file again"
            )
    return header, rows


def _numbers(path: Path, column: str, cells: list[str]) -> np.ndarray:
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        try:
            values[i] = float(cell) if cell else np.nan
        except ValueError:
            raise ValueError(f"{path}: row {i + 1}, column {column!r}: {cell!r} is not a number") from None
    return values


def _codes(cells: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The levels that occur, and each cell's code among them; -1 for an empty cell."""
    found = {cell for cell in cells if cell}
    try:
        levels = sorted(found, key=lambda level: (float(level), level))
    except ValueError:
        levels = sorted(found)
    code_of = {level: code for code, level in enumerate(levels)}
    return tuple(levels), np.array([code_of.get(cell, -1) for cell in cells], dtype=np.int64)


def _observed(values: np.ndarray) -> np.ndarray:
    return values >= 0 if values.dtype == np.int64 else ~np.isnan(values)


def _duplicates(rows: list[tuple[str, ...]]) -> np.ndarray:
    seen: set[tuple[str, ...]] = set()
    repeated = np.zeros(len(rows), dtype=bool)
    for i, row in enumerate(rows):
        repeated[i] = row in seen
        seen.add(row)
    return repeated


def _fetch(name: str, url: str) -> str:
    try:
        return fetch(f"table {name!r}", url, _SOURCES[name].file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DownloadError(f"table {name!r}: {url} is not UTF-8 text ({error}); nothing was kept") from None


def _public_rows(name: str, source: _Source, text: str) -> Iterator[list[str]]:
    """The cells of the public copy in our layout: no header, no comments, an empty cell for '?'."""
    # '@' and '%' open the lines of an ARFF header, '|' the comment on top of adult.test
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "@%|"]
    if source.titled:
        lines = lines[1:]
    cut = map(str.split, lines) if source.separator is None else csv.reader(lines, delimiter=source.separator)
    for number, row in enumerate(cut, start=1):
        if len(row) != len(source.header):
            raise DownloadError(
                f"table {name!r}: row {number} of the public copy has {len(row)} cells, "
                f"not {len(source.header)}; nothing was kept"
            )
        cells = [cell.strip() for cell in row]
        cells[-1] = cells[-1].rstrip(source.tail)
        yield ["" if cell == "?" else cell for cell in cells]


def _write_checked(name: str, source: _Source, rows: list[list[str]], path: Path) -> None:
    """Write the table, and read it before it takes its place."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([source.header, *rows])
    try:
        with kept(f"table {name!r}", path) as beside:
            beside.write_bytes(gzip.compress(text.getvalue().encode("utf-8"), mtime=0))
            _parse(name, source, beside)
    except ValueError as error:
        raise DownloadError(f"table {name!r}: the public copy cannot be read ({error}); nothing was kept") from None
