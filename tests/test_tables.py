"""The numbers in the docs are those of the committed rows."""

from pathlib import Path

import pytest

from vsae.benchmark.tables import PAGES

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_what_the_rows_make_them(name):
    page = ROOT / "docs" / name
    text = page.read_text() if page.exists() else None
    assert text == PAGES[name](ROOT / "results"), "run `vsae bench tables`"
