"""What README and docs show is run, page by page and in order, and prints what it says.

Python is run as it stands, with fewer training steps; so are commands of `vsae`. Other commands are looked up:
targets of make, benchmarks and their options, extras of the package, scripts. What cannot be run says why:
<!-- not run: … -->.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from documents import NAMES, ROOT, RUN, SHOWN, Block, blocks, read

SHOWING = [name for name in NAMES if any(block.runs for block in blocks(read(name)))]
NEEDED = {"pandas", "polars", "pyarrow", "statsmodels", "openpyxl", "PIL", "duckdb"}  # extras and the user's choice


@pytest.mark.parametrize("name", NAMES)
def test_all_code_is_run_or_says_why_not(name):
    for block in blocks(read(name)):
        place = f"{name}:{block.line}"
        assert block.language in RUN | SHOWN or block.mark == "not run", f"{place}: no test runs {block.language!r}"
        assert (block.mark == "not run") == (len(block.reason.split()) >= 3), f"{place}: say why it is not run"
        assert block.mark != "prints" or block.language == "text", f"{place}: what is printed is text"


def test_a_block_without_a_word_is_found():
    told = "<!-- not run: no such shell -->\n```fish\nls\n```\n"
    bare, told, printed = blocks(f"```bash\nls\n```\n\n{told}<!-- prints -->\n```text\na\n```\n")
    assert (bare.language, bare.mark, bare.line) == ("bash", None, 1)
    assert (told.mark, told.reason, printed.mark) == ("not run", "no such shell", "prints")


@pytest.mark.parametrize("name", SHOWING)
def test_what_a_page_shows_is_run(name, tmp_path, monkeypatch, short_fits, request):
    shown = blocks(read(name))
    for library in NEEDED:
        if any(library in block.text for block in shown if block.runs) or library == "pandas":
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    _write_tables()
    names: dict[str, Any] = {"__name__": name}
    printed = ""
    for block in shown:
        place = f"{name}:{block.line}"
        if block.mark == "prints":
            assert _stripped(block.text) in _stripped(printed), place
        elif block.runs:
            printed = _LANGUAGES[block.language](block, place, names, request)
    if name in _CHECKS:
        _CHECKS[name](names)


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _write_tables() -> None:
    """Files that the pages speak of."""
    from vsae.datasets import make_clinic
    from vsae.files import write_table

    clinic = make_clinic(100)
    Path("sales").mkdir()
    for name in ("patients.csv", "sales/january.csv", "sales/february.csv"):
        write_table(name, clinic.table())
    with contextlib.suppress(ImportError):
        clinic.frame().to_excel("patients.xlsx", sheet_name="visits", index=False)
        write_table("big.parquet", clinic.table())


# --- languages


def _python(block: Block, place: str, names: dict[str, Any], request: pytest.FixtureRequest) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * block.line + block.text, place, "exec"), names)
    return out.getvalue()


def _shell(block: Block, place: str, names: dict[str, Any], request: pytest.FixtureRequest) -> str:
    printed = []
    for line in block.text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True) or [""]
        if program == "vsae":
            printed.append(_vsae(arguments, place))
        elif program:
            assert program in _LOOKED_UP, f"{place}: no test runs {program!r}; mark the block <!-- not run: … -->"
            _LOOKED_UP[program](arguments, place)
    return "\n".join(printed)


def _vsae(arguments: list[str], place: str) -> str:
    from typer.testing import CliRunner

    from vsae.cli.app import app

    small = ["--rows", "50"] if arguments == ["demo"] else []
    done = CliRunner().invoke(app, [*arguments, *small])
    assert done.exit_code == 0, f"{place}: {done.output}"
    return done.stdout


def _r(block: Block, place: str, names: dict[str, Any], request: pytest.FixtureRequest) -> str:
    request.getfixturevalue("r_packages")("mice")  # or skip
    Path("block.R").write_text(block.text)
    done = subprocess.run(["Rscript", "block.R"], capture_output=True, text=True)
    assert done.returncode == 0, f"{place}: {done.stderr}"
    names["R"] = done.stdout
    return done.stdout


_LANGUAGES: dict[str, Callable[..., str]] = {"python": _python, "sh": _shell, "r": _r}


# --- programs that are looked up, not run


def _make(arguments: list[str], place: str) -> None:
    targets = re.findall(r"^(\w+):", read("Makefile"), re.MULTILINE)
    asked = [each for each in arguments if "=" not in each]
    assert set(asked) <= set(targets), f"{place}: make {asked}"


def _pip(arguments: list[str], place: str) -> None:
    extras = set(re.findall(r"^(\w+) = \[", read("pyproject.toml"), re.MULTILINE))
    (asked,) = arguments[1:]
    assert arguments[0] == "install", place
    (named,) = re.fullmatch(r"(?:\.|vsae)(?:\[(.*)\])?", asked).groups()
    assert set((named or "").split(",")) - {""} <= extras, f"{place}: {asked}"


def _python_command(arguments: list[str], place: str) -> None:
    if arguments[:2] != ["-m", "benchmarks"]:
        (script,) = arguments
        assert (ROOT / script).exists(), f"{place}: {script}"
        assert script.startswith("examples/"), f"{place}: {script}"  # all of which the tests run
        return
    if name := next(iter(arguments[2:]), None):
        options = {each.split("=")[0] for each in arguments[3:] if each.startswith("--")}
        assert options <= _options(name), f"{place}: {name} has no {options - _options(name)}"


def _options(benchmark: str) -> set[str]:
    from benchmarks.__main__ import COMMANDS

    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        import_module(COMMANDS[benchmark][0]).main(["--help"])
    return set(re.findall(r"--[\w-]+", out.getvalue()))


_LOOKED_UP: dict[str, Callable[[list[str], str], None]] = {"make": _make, "pip": _pip, "python": _python_command}


# --- what must have come of a page, beyond that it runs


def _readme(names: dict[str, Any]) -> None:
    df, filled = names["df"], names["filled"]
    assert not filled.isna().any().any()
    assert (filled.dtypes == df.dtypes).all()
    assert names["rows"].isna().any().any()
    assert ",," not in Path("filled.csv").read_text()


def _missingness(names: dict[str, Any]) -> None:
    assert len(names["found"].points) == 6
    assert names["women"].points[1].estimate > names["women"].points[0].estimate
    assert names["pain"].points[0].estimate < names["pain"].points[2].estimate
    assert names["heart"].points[0].estimate < names["heart"].points[1].estimate
    assert not names["complete"].isna().any().any()
    assert names["amputed"]["income"].isna().any()
    assert not names["amputed"]["age"].isna().any()
    assert len(names["strange"]) == 5


def _multiple_imputation(names: dict[str, Any]) -> None:
    import pandas as pd

    assert set(names["linear"].terms) == {"Intercept", "age", "bmi", "sex[T.male]"}
    assert names["chances"].terms == ("Intercept", "age", "income")
    assert names["pool"](names["effects"]).terms == ("age", "bmi")
    assert pd.read_stata("long.dta")["mi_m"].nunique() == 21
    assert len(Path("long.csv").read_text().splitlines()) == 1 + 21 * 100
    terms = [line.split()[1] for line in names["R"].splitlines()[1:]]
    assert terms == ["(Intercept)", "age", "bmi", "sexmale"]


_CHECKS = {
    "README.md": _readme,
    "docs/missingness.md": _missingness,
    "docs/multiple-imputation.md": _multiple_imputation,
}
