"""The site is built as `make docs` builds it: without a warning; who looks at it fetches nothing from outside."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documents import NAMES, ROOT, read

#: What a browser fetches by itself: scripts, styles, fonts, images; not links.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href|srcset)=[\"'](?P<tag>[^\"']+)|url\([\"']?(?P<style>[^)\"']+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    for library in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("site")
    (command,) = re.findall(r"^\t\$\(BIN\)/python (-m sphinx .*)$", read("Makefile"), re.MULTILINE)
    *options, source, _ = shlex.split(command.replace("--jobs auto", ""))
    done = subprocess.run([sys.executable, *options, source, folder], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there_and_nothing_is_fetched_from_outside(site):
    for name in NAMES:
        if name.startswith("docs/"):
            assert (site / name.removeprefix("docs/")).with_suffix(".html").exists(), name
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        fetched = [each["tag"] or each["style"] for each in _FETCHED.finditer(path.read_text("utf-8"))]
        assert not [each for each in fetched if re.match(r"(https?:)?//", each)], path


def test_what_is_fetched_is_found():
    page = '<link rel="stylesheet" href="https://a/b.css"><a href="https://c">x</a> @import url(//d/e.woff)'
    assert [each["tag"] or each["style"] for each in _FETCHED.finditer(page)] == ["https://a/b.css", "//d/e.woff"]


def test_the_reference_has_all_public_names(site):
    import vsae

    text = " ".join(path.read_text("utf-8") for path in (site / "reference").glob("*.html"))
    assert [name for name in vsae.__all__ if name != "__version__" and f'id="vsae.{name}"' not in text] == []


def test_formulas_are_drawn_by_the_browser_itself(site):
    text = (site / "model.html").read_text("utf-8")
    assert text.count("<math") >= 8
    assert "\\prod" not in text


def test_all_commands_are_in_the_reference(site):
    text = (site / "reference" / "commands.html").read_text("utf-8")
    for name in ("impute", "fit", "sample", "inspect", "evaluate", "mechanism", "demo"):
        assert f"vsae {name}" in text
    assert "--max-expanded" in text
