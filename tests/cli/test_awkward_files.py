"""Files as people have them, each through the command line: what is read, what is filled, that nothing else changes.

The networks are left out: a stand-in fills each cell with a value of its column. What is tested here is the way from a
file's bytes to numbers and back.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from vsae.cli.app import app
from vsae.files import read_table

ROWS, HIDDEN = 30, (4, 11, 23)
ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "utf-16")
RNG = np.random.default_rng(0)
AMOUNTS = RNG.uniform(900, 99_000, ROWS)
SMALL = RNG.uniform(1, 99, ROWS)
DAYS = [
    dt.datetime(2021, 1, 3, 8, 7) + dt.timedelta(days=int(d), minutes=int(m))
    for d, m in zip(RNG.integers(0, 1400, ROWS), RNG.integers(0, 600, ROWS), strict=True)
]


class Median:
    """What stands in for a fitted model."""

    def __init__(self, schema, columns, mask, *_, **__) -> None:
        self.schema = schema
        self.history = self.tilts = None

    def impute(self, columns, mask):
        out = {}
        for j, name in enumerate(self.schema.names):
            column = np.array(columns[name])
            known = np.sort(column[mask[:, j]])
            column[~mask[:, j]] = known[len(known) // 2] if len(known) else 0
            out[name] = column
        return out


@pytest.fixture(autouse=True)
def _no_networks(monkeypatch):
    monkeypatch.setattr("vsae.estimator.learning.fit", Median)


class Case(NamedTuple):
    cells: list[str]  # of the column in question
    kind: str  # of numpy's dtype: f, i, M, O
    pattern: str  # of a filled cell
    missing: str = ""  # what a missing cell says
    delimiter: str = ","


def swiss(x: float) -> str:
    return f"{x:,.2f}".replace(",", "'")


def german(x: float, decimals: int = 2) -> str:
    return f"{x:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


def brackets(x: float) -> str:
    return f"({-x:,.2f})" if x < 0 else f"{x:,.2f}"


SIGNED = SMALL - 50
NUMBERS = {
    "dollars": Case([f"${x:,.0f}" for x in AMOUNTS], "f", r"\$\d{1,2},\d{3}|\$\d{3}"),
    "dollars and cents": Case([f"${x:,.2f}" for x in AMOUNTS], "f", r"\$[\d,]+\.\d\d"),
    "negative dollars": Case([f"-${-x:.2f}" if x < 0 else f"${x:.2f}" for x in SIGNED], "f", r"-?\$\d+\.\d\d"),
    "euros": Case([f"€{german(x)}" for x in AMOUNTS], "f", r"€[\d.]+,\d\d"),
    "euros behind": Case([f"{german(x)} €" for x in AMOUNTS], "f", r"[\d.]+,\d\d €", delimiter=";"),
    "pounds": Case([f"£{x:.2f}" for x in SMALL], "f", r"£\d+\.\d\d"),
    "codes of currencies": Case([f"USD {x:,.2f}" for x in AMOUNTS], "f", r"USD [\d,]+\.\d\d"),
    "thousands": Case([f"{x:,.0f}" for x in AMOUNTS], "f", r"[\d,]+"),
    "thousands and decimals": Case([f"{x:,.3f}" for x in AMOUNTS], "f", r"[\d,]+\.\d{3}"),
    "thousands by points": Case([german(x, 1) for x in AMOUNTS], "f", r"[\d.]+,\d", delimiter=";"),
    "thousands by blanks": Case([f"{x:,.1f}".replace(",", " ") for x in AMOUNTS], "f", r"[\d ]+\.\d"),
    "thousands by narrow blanks": Case([f"{x:,.0f}".replace(",", " ") for x in AMOUNTS], "f", r"[\d ]+"),
    "Swiss": Case([swiss(x) for x in AMOUNTS], "f", r"[\d']+\.\d\d"),
    "per cent": Case([f"{x:.1f}%" for x in SMALL], "f", r"\d+\.\d%"),
    "per cent apart": Case([f"{x:.0f} %" for x in SMALL], "f", r"\d+ %"),
    "kilograms": Case([f"{x:.1f}kg" for x in SMALL], "f", r"\d+\.\dkg"),
    "centimetres": Case([f"{x:.0f} cm" for x in SMALL], "f", r"\d+ cm"),
    "a quotient of units": Case([f"{x:.0f} mg/dl" for x in SMALL], "f", r"\d+ mg/dl"),
    "degrees": Case([f"{x:.1f}°C" for x in SIGNED], "f", r"-?\d+\.\d°C"),
    "exponents": Case([f"{x:.0e}".replace("e+0", "e") for x in AMOUNTS], "f", r"\de\d"),
    "exponents with signs": Case([f"{x:.2E}" for x in AMOUNTS], "f", r"\d\.\d\dE\+0\d"),
    "small exponents": Case([f"{x / 1e9:.3e}" for x in SMALL], "f", r"\d\.\d{3}e-0[789]"),
    "parentheses": Case([brackets(x) for x in SIGNED * 99], "f", r"\(?[\d,]+\.\d\d\)?"),
    "decimal commas": Case([f"{x:.2f}".replace(".", ",") for x in SMALL], "f", r"\d+,\d\d", delimiter=";"),
    "decimal commas beside tabs": Case([f"{x:.1f}".replace(".", ",") for x in SMALL], "f", r"\d+,\d", delimiter="\t"),
    "a zero after the point": Case([f"{i % 2}.0" for i in range(ROWS)], "f", r"[01]\.0"),
    "a plus": Case([f"{x:+.1f}" for x in SIGNED], "f", r"-?\d+\.\d"),
    "leading zeros": Case([f"{i % 4:05d}" for i in range(ROWS)], "O", r"0000[0-3]"),
    "quarters": Case([f"Q{1 + i % 4}" for i in range(ROWS)], "O", r"Q[1-4]"),
    "letters and numbers": Case([f"A{1 + i % 4}" for i in range(ROWS)], "O", r"A[1-4]"),
    "grades": Case([f"{1 + i % 3}st" for i in range(ROWS)], "O", r"[123]st"),
}
STAMPS = {
    "German dates": ("%d.%m.%Y", "M"),
    "short German dates": ("%d.%m.%y", "M"),
    "American dates": ("%m/%d/%Y", "M"),
    "short American dates": ("%m/%d/%y", "M"),
    "British dates": ("%d/%m/%Y", "M"),
    "Dutch dates": ("%d-%m-%Y", "M"),
    "dates by slashes": ("%Y/%m/%d", "M"),
    "dates by points": ("%Y.%m.%d", "M"),
    "ISO dates": ("%Y-%m-%d", "M"),
    "compact dates": ("%Y%m%d", "M"),
    "names of months": ("%d %b %Y", "M"),
    "names of months by dashes": ("%d-%b-%y", "M"),
    "full names of months": ("%B %d, %Y", "M"),
    "ISO moments": ("%Y-%m-%dT%H:%M:%S", "M"),
    "ISO moments with a zone": ("%Y-%m-%dT%H:%M:%SZ", "M"),
    "ISO moments with an offset": ("%Y-%m-%d %H:%M+02:00", "M"),
    "German moments": ("%d.%m.%Y %H:%M", "M"),
    "American moments": ("%m/%d/%Y %I:%M %p", "M"),
    "times": ("%H:%M", "O"),
    "times with seconds": ("%H:%M:%S", "O"),
    "times of twelve hours": ("%I:%M %p", "O"),
}
LETTERS = {
    "%d": r"\d\d",
    "%m": r"\d\d",
    "%Y": r"\d{4}",
    "%y": r"\d\d",
    "%b": "[A-Z][a-z]{2}",
    "%B": "[A-Z][a-z]+",
    "%H": r"\d\d",
    "%M": r"\d\d",
    "%S": r"\d\d",
    "%I": r"\d\d",
    "%p": "[AP]M",
}


def stamps(form: str) -> list[str]:
    return [day.strftime(form) for day in DAYS]


def pattern_of(form: str) -> str:
    return re.sub(r"%\w", lambda found: LETTERS[found[0]], re.sub(r"([+.])", r"\\\1", form))


CASES = NUMBERS | {name: Case(stamps(form), kind, pattern_of(form)) for name, (form, kind) in STAMPS.items()}
CASES["days of one digit"] = Case([f"{d.month}/{d.day}/{d.year}" for d in DAYS], "M", r"\d{1,2}/\d{1,2}/\d{4}")
CASES["capitals of months"] = Case([s.upper() for s in stamps("%d-%b-%Y")], "M", r"\d\d-[A-Z]{3}-\d{4}")
CASES["two offsets"] = Case(
    [f"{d:%Y-%m-%dT%H:%M}+0{1 + i % 2}:00" for i, d in enumerate(DAYS)], "M", r".{16}\+0[12]:00"
)
CASES["yes and no"] = Case(["yes" if x > 50 else "no" for x in SMALL], "O", "yes|no")
CASES["booleans"] = Case(["TRUE" if x > 50 else "FALSE" for x in SMALL], "O", "TRUE|FALSE")
for token in (
    "#N/A",
    "n/a",
    "<NA>",
    "NAN",
    "na",
    "none",
    "Null",
    "#NA",
    "-nan",
    "NaT",
    "-",
    "--",
    "   ",
    "?",
    "#DIV/0!",
):
    CASES[f"numbers and {token!r}"] = Case([f"{x:.1f}" for x in SMALL], "f", r" *\d+\.\d", missing=token)
for token in ("#N/A", "NaT", "-", "unknown"):
    CASES[f"dates and {token!r}"] = Case(stamps("%d.%m.%Y"), "M", r"\d\d\.\d\d\.\d{4}", missing=token)
    CASES[f"booleans and {token!r}"] = Case([str(x > 50) for x in SMALL], "O", "True|False", missing=token)


def rows_of(case: Case) -> list[list[str]]:
    """The column in question between two others; some of its cells are missing."""
    cells = [case.missing if i in HIDDEN else cell for i, cell in enumerate(case.cells)]
    return [["Zürich" if i % 3 else "Wien", cell, str(20 + i % 7)] for i, cell in enumerate(cells)]


def text_of(rows: list[list[str]], delimiter: str, **options: Any) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, **options).writerows([["town", "x", "n"], *rows])
    return out.getvalue()


def impute(path, out, *options: str):
    done = CliRunner().invoke(app, ["impute", str(path), "-o", str(out), *options])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", CASES)
def test_a_column_is_read_filled_and_written_as_what_it_is(tmp_path, name, encoding):
    case, path, out = CASES[name], tmp_path / "t.csv", tmp_path / "out.csv"
    rows = rows_of(case)
    text = text_of(rows, case.delimiter)
    try:
        content = text.encode(encoding)
    except UnicodeEncodeError:
        pytest.skip(f"{encoding} cannot write this")
    path.write_bytes(content)
    assert read_table(path).data["x"].dtype.kind == case.kind
    done = impute(path, out)
    assert f"x {len(HIDDEN)}" in done.stderr
    before, after = (
        list(csv.reader(io.StringIO(p.read_bytes().decode(encoding), newline=""), delimiter=case.delimiter))
        for p in (path, out)
    )
    for i, (old, new) in enumerate(zip(before[1:], after[1:], strict=True)):
        if i in HIDDEN:
            assert re.fullmatch(case.pattern, new[1]), new[1]
            old[1] = new[1]
        assert old == new
    assert after[0] == before[0]
    out.write_bytes(out.read_bytes().decode(encoding).encode(encoding))  # the same mark, if there is one
    assert out.read_bytes()[:4] == content[:4]


def test_there_are_many_such_files():
    assert len(CASES) >= 60


# --- layouts


BODY = [
    [f"{x:.1f}", town, f"{n}"] for x, town, n in zip(SMALL, ["Graz", "Linz", "Wels"] * 10, range(30, 60), strict=True)
]


def with_gaps(gap: str) -> list[list[str]]:
    return [[gap if i in HIDDEN else x, town, n] for i, (x, town, n) in enumerate(BODY)]


LAYOUTS = {
    "sep=;": "sep=;\r\nx;town;n\r\n" + "".join(";".join(row) + "\r\n" for row in with_gaps("")),
    "no header": "".join(",".join(row) + "\n" for row in with_gaps("")),
    "an index": ",x,town,n\n" + "".join(f"{i},{','.join(row)}\n" for i, row in enumerate(with_gaps(""))),
    "R's row names": "x town n\n" + "".join(f"r{i} {' '.join(row)}\n" for i, row in enumerate(with_gaps("NA"))),
    "a delimiter at the end": "x,town,n,\n" + "".join(",".join(row) + ",\n" for row in with_gaps("")),
    "a delimiter at the end of rows": "x;town;n\n" + "".join(";".join(row) + ";\n" for row in with_gaps("")),
    "blanks": "x town n\n" + "".join(" ".join(row) + "\n" for row in with_gaps("NA")),
    "aligned by blanks": f"{'x':>6}{'town':>8}{'n':>5}\n"
    + "".join(f"{x:>6}{t:>8}{n:>5}\n" for x, t, n in with_gaps(".")),
    "fixed widths": f"{'x':>6}  {'town':<12}{'n':>5}\n"
    + "".join(f"{x:>6}  {t.replace('Wels', 'Wels an der Traun'):<18}{n:>5}\n" for x, t, n in with_gaps("")),
    "quotes": '"x","town","n"\n' + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in with_gaps("")),
    "tabs": "x\ttown\tn\n" + "".join("\t".join(row) + "\n" for row in with_gaps("")),
    "bars": "x|town|n\n" + "".join("|".join(row) + "\n" for row in with_gaps("")),
    "old Macs": "x,town,n\r" + "".join(",".join(row) + "\r" for row in with_gaps("")),
    "no last newline": ("x,town,n\n" + "".join(",".join(row) + "\n" for row in with_gaps(""))).rstrip("\n"),
    "blank lines": "\nx,town,n\n\n" + "".join(",".join(row) + "\n\n" for row in with_gaps("")),
}
LAYOUTS["fixed widths"] = f"{'x':>6}  {'town':<18}{'n':>5}\n" + LAYOUTS["fixed widths"].partition("\n")[2]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_kept(tmp_path, name, encoding):
    path, out = tmp_path / "t.txt", tmp_path / "out.txt"
    path.write_bytes(LAYOUTS[name].encode(encoding))
    data = read_table(path).data
    assert [x.dtype.kind for x in list(data.values())[-3:]] == ["f", "O", "i"]
    done = impute(path, out)
    x = list(data)[-3]
    assert f"filled {len(HIDDEN)} cells: {x} {len(HIDDEN)}" in done.stderr
    fill = f"{np.sort(data[x][~np.isnan(data[x])])[(ROWS - len(HIDDEN)) // 2]:.1f}"
    before, after = (p.read_bytes().decode(encoding) for p in (path, out))
    newline = "\r" if name == "old Macs" else "\n"
    differ = [(a, b) for a, b in zip(before.split(newline), after.split(newline), strict=True) if a != b]
    assert len(differ) == len(HIDDEN)
    for old, new in differ:
        assert fill in new
        if "fixed" in name or "aligned" in name:
            assert len(old) == len(new)
        rest = new.replace(
            fill, " " * len(fill) if "fixed" in name else "NA" if "NA" in old else "." if "aligned" in name else "", 1
        )
        assert rest.split() == old.split()


def test_a_workbook_of_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: no Excel files")
    book = openpyxl.Workbook()
    book.active.title = "Read me"
    sheet = book.create_sheet("Patients")
    sheet.append(["id", "when", "x", "price", "at", "note"])
    for i in range(ROWS):
        gap = i in HIDDEN
        cells = [
            None if gap else DAYS[i],
            "#N/A" if gap else round(SMALL[i], 1),
            None if gap else f"${AMOUNTS[i]:,.2f}",
            DAYS[i].time(),
        ]
        sheet.append([i, *cells, "=1+1"])
    sheet["A2"].font = openpyxl.styles.Font(bold=True)
    path, out = tmp_path / "t.xlsx", tmp_path / "out.xlsx"
    book.save(path)
    done = impute(path, out)
    assert "the sheet 'Patients' was read" in done.stderr
    assert "column 'note': 30 formulas without a value stay as they are" in done.stderr
    assert "when 3, x 3, price 3" in done.stderr
    before, after = (openpyxl.load_workbook(p)["Patients"] for p in (path, out))
    for i, (old, new) in enumerate(zip(before.iter_rows(min_row=2), after.iter_rows(min_row=2), strict=True)):
        if i in HIDDEN:
            assert isinstance(new[1].value, dt.datetime)
            assert round(new[2].value, 1) == new[2].value
            assert re.fullmatch(r"\$[\d,]+\.\d\d", new[3].value)
        changed = [a.value != b.value for a, b in zip(old, new, strict=True)]
        assert changed == [False, *[i in HIDDEN] * 3, False, False]
    assert after["A2"].font.bold
    assert after["F2"].value == "=1+1"
    csv_out = tmp_path / "out.csv"
    impute(path, csv_out, "--sheet", "Patients")
    assert len(csv_out.read_text().splitlines()) == ROWS + 1
    refused = CliRunner().invoke(app, ["impute", str(path), "-o", str(out), "--sheet", "Nope"])
    assert refused.exit_code == 1
    assert "there is no sheet 'Nope'; the sheets are 'Read me', 'Patients'" in refused.stderr
    broken = tmp_path / "broken.xlsx"
    broken.write_bytes(b"PK\x03\x04 nonsense")
    assert "not an Excel workbook" in CliRunner().invoke(app, ["inspect", str(broken)]).stderr
    text, back = tmp_path / "u.csv", tmp_path / "u.xlsx"
    text.write_text(text_of(rows_of(CASES["ISO dates"]), ","))
    impute(text, back)
    values = [[cell.value for cell in row] for row in openpyxl.load_workbook(back).active.iter_rows()]
    assert values[0] == ["town", "x", "n"]
    assert all(isinstance(row[1], dt.datetime) for row in values[1:])


def test_json_lines_with_numbers_and_dates_in_text(tmp_path):
    lines = [
        f'{{"when": "{d:%d.%m.%Y}", "price": "${a:,.2f}", "n": {i % 5}}}'
        for i, (d, a) in enumerate(zip(DAYS, AMOUNTS, strict=True))
    ]
    for i in HIDDEN:
        lines[i] = f'{{"when": null, "price": null, "n": {i % 5}}}'
    path, out = tmp_path / "t.jsonl", tmp_path / "out.jsonl"
    path.write_text("\n".join(lines))
    impute(path, out)
    for i, (old, new) in enumerate(zip(lines, out.read_text().split("\n"), strict=True)):
        assert re.fullmatch(r'{"when": "\d\d\.\d\d\.\d{4}", "price": "\$[\d,]+\.\d\d", "n": \d}', new)
        assert i in HIDDEN or old == new
