"""The report in a real browser: at desktop and phone width, light and dark, and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from benchmarks.report.screenshots import DESKTOP, PHONE, chromium

DRAWN = """() => [...document.querySelectorAll("svg.plot, .matrix img")].filter((figure) => {
  for (let part = figure; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  const box = figure.getBoundingClientRect();
  const drawn = figure.tagName === "IMG" ? figure.complete && figure.naturalWidth : figure.getBBox().width;
  return !(box.width > 40 && box.height > 10 && drawn);
}).length"""
WIDER = "document.documentElement.scrollWidth - innerWidth"
PAGE = "getComputedStyle(document.body).backgroundColor"
SHOWN = "() => [...document.querySelectorAll('#glance tbody tr:not(.out)')].map((row) => row.cells[0].textContent)"


@pytest.fixture(scope="module")
def browser():
    try:
        with chromium() as found:
            yield found
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def place(hostile_report, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    hostile_report.save(path)
    return path


def opened(browser: Any, place: Path, size: dict[str, int], theme: str) -> tuple[Any, list[str]]:
    """A tab with the page, and all that it does that it should not."""
    tab, wrong = browser.new_page(viewport=size, color_scheme=theme), []
    tab.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    address = place.as_uri()
    tab.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith(("data:", address)) else None
    )
    tab.goto(address)
    return tab, wrong


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_figure_is_drawn_and_nobody_is_asked(browser, place, size, theme):
    tab, wrong = opened(browser, place, size, theme)
    assert tab.evaluate(DRAWN) == 0
    assert tab.evaluate(WIDER) <= 0  # nothing but figures and tables scrolls sideways
    assert tab.evaluate(PAGE) == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}[theme]
    assert wrong == []
    tab.close()


def test_tables_are_sorted_and_columns_found(browser, place):
    tab, wrong = opened(browser, place, DESKTOP, "light")
    before = tab.evaluate(SHOWN)
    tab.click("#glance th:has-text('missing')")
    shares = "() => [...document.querySelectorAll('#glance tbody tr')].map((row) => Number(row.cells[2].dataset.v))"
    found = tab.evaluate(shares)
    assert found == sorted(found, reverse=True)
    tab.click("#glance th:has-text('missing')")
    assert tab.evaluate(shares) == sorted(found)
    assert sorted(tab.evaluate(SHOWN)) == sorted(before)
    tab.fill("#filter", "script>")
    assert tab.evaluate(SHOWN) == ["<script>alert(1)</script>"]
    tab.fill("#filter", "")
    assert len(tab.evaluate(SHOWN)) == len(before)
    assert wrong == []
    tab.close()


def test_hovering_choosing_and_the_theme(browser, place):
    tab, wrong = opened(browser, place, DESKTOP, "light")
    tab.hover("#together .hit >> nth=0")
    assert "rows" in tab.inner_text("#tip")
    tab.select_option("#by", "1")
    assert tab.evaluate("[...document.querySelectorAll('[data-by]')].map((part) => part.hidden)")[:2] == [True, False]
    tab.click("#theme")
    tab.click("#theme")
    assert tab.evaluate(PAGE) == "rgb(18, 22, 28)"
    assert wrong == []
    tab.close()


def test_it_prints(browser, place):
    tab, wrong = opened(browser, place, DESKTOP, "dark")
    assert len(tab.pdf(format="A4")) > 20_000
    tab.emulate_media(media="print")
    assert tab.evaluate(PAGE) == "rgb(255, 255, 255)"
    assert not tab.is_visible("#toc")
    assert wrong == []
    tab.close()
