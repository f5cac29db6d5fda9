"""The numbers in the docs are those of the committed rows."""

from pathlib import Path

import pytest

from benchmarks import missed
from benchmarks.tables import PAGES, figures

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_what_the_rows_make_them(name):
    page = ROOT / "docs" / name
    text = page.read_text() if page.exists() else None
    assert text == PAGES[name](ROOT / "results"), "run `python -m benchmarks tables`"


def test_what_was_missed_is_what_the_pages_say():
    texts = {name: (ROOT / "docs" / name).read_text() for name in PAGES if (ROOT / "docs" / name).exists()}
    assert (ROOT / "docs" / "missed.md").read_text() == missed.page(texts), "run `python -m benchmarks tables`"
    refused = [line for text in texts.values() for line in text.splitlines() if line.endswith("| **no** |")]
    assert 0 < len([line for text in texts.values() for line in missed.verdicts(text) if not line[2]]) <= len(refused)


def test_figures_are_what_the_rows_make_them():
    matplotlib = pytest.importorskip("matplotlib")
    there = {path.name: path.read_text() for path in (ROOT / "docs" / "figures").glob("*.svg")}
    if any(f"Matplotlib v{matplotlib.__version__}," not in svg for svg in there.values()):
        pytest.skip("drawn by another matplotlib")
    assert there == figures(ROOT / "results"), "run `python -m benchmarks tables`"
