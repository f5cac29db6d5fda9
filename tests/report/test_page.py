"""The report is one file, whole, that shows names and values as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from vsae import TableError, VSAEImputer
from vsae.report import Report
from vsae.report.page import SECTIONS

HOSTILE = "<script>alert(1)</script>"  # as in conftest.py
IMAGE = "<img src=x onerror=alert(2)>"
VOID = {"meta", "img", "input", "br"}
QUICK = {"config": {"steps": 5, "trees": 0}, "random_state": 0}


class Page(HTMLParser):
    """What a browser makes of it: elements, their attributes, and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        (self.scripts if self.open[-1:] == ["script"] else self.texts).append(data)


@pytest.fixture(scope="module")
def page(hostile_report) -> Page:
    return Page(hostile_report.html)


def test_all_that_is_opened_is_closed_and_every_section_is_there(page):
    assert page.open == []
    ids = [attributes.get("id") for tag, attributes in page.elements if tag == "section"]
    assert ids == list(SECTIONS)
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links == [f"#{name}" for name in SECTIONS]
    assert sum(tag == "svg" for tag, _ in page.elements) > 12


def test_names_and_levels_are_text(page):
    assert len(page.scripts) == 1
    assert "alert" not in page.scripts[0]
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert [attributes["src"][:11] for tag, attributes in page.elements if tag == "img"] == ["data:image/"]
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    said = " ".join(page.texts)
    assert said.count(HOSTILE) > 10
    assert IMAGE in said
    assert any(attributes.get("data-column") == HOSTILE for _, attributes in page.elements)


def test_nothing_is_asked_of_anybody(page, hostile_report):
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "xlink:href", "srcset", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    assert "url(" not in hostile_report.html
    assert "@import" not in hostile_report.html
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "script-src 'sha256-" in policy


def test_it_says_what_became_of_each_column(page):
    said = " ".join(page.texts)
    assert "left empty" in said  # the note, which is no column to model
    assert "an identifier" in said or "free text" in said
    assert "A difference is no error" in said
    assert "lie in their 90% interval" in said
    assert "All random numbers follow from the seed 0" in said
    assert f"vsae {HOSTILE}" in said


def test_a_notebook_shows_it_in_a_frame(hostile_report):
    shown = Page(hostile_report._repr_html_())
    ((tag, attributes),) = shown.elements
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == hostile_report.html
    assert repr(hostile_report) == f"Report(title={HOSTILE!r})"


def test_it_is_saved_whole_or_not_at_all(hostile_report, tmp_path):
    place = tmp_path / "report.html"
    hostile_report.save(place)
    assert place.read_text("utf-8") == hostile_report.html
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OSError, match="there is no folder"):
        hostile_report.save(tmp_path / "nowhere" / "report.html")


@pytest.fixture(scope="module")
def frame(hostile_table) -> pd.DataFrame:
    return pd.DataFrame(hostile_table(48))


@pytest.fixture(scope="module")
def imputer(frame) -> VSAEImputer:
    return VSAEImputer(**QUICK).fit(frame)


def test_the_same_table_gives_the_same_report(imputer, frame, tmp_path):
    table = frame.set_axis([f"patient {i}" for i in range(48)])
    first = imputer.report(table, tmp_path / "a.html", evaluation=False)
    assert (tmp_path / "a.html").read_text("utf-8") == first.html
    again = imputer.report(table, tmp_path / "a.html", evaluation=False)
    assert first == again
    assert "patient 1" in first.html
    assert "which was not asked for" in first.html


def test_a_report_changes_neither_table_nor_imputer(imputer, frame):
    table = frame.copy()
    before, filled = table.copy(), imputer.transform(table)
    imputer.report(table, evaluation=False, by="education")
    pd.testing.assert_frame_equal(table, before)
    pd.testing.assert_frame_equal(imputer.transform(table), filled)


def test_few_rows_cannot_be_evaluated_and_the_rest_is_there(imputer, frame):
    report = imputer.report(frame.head(20))
    assert "needs at least 30" in report.html
    one = imputer.report(frame.head(1), evaluation=False)
    assert Page(one.html).open == []


def test_a_table_without_missing_cells(imputer, frame):
    complete = imputer.transform(frame).dropna()
    report = imputer.report(complete, evaluation=False)
    assert Page(report.html).open == []
    assert "No cell of this table is missing." in report.html


def test_what_is_wrong_is_one_line(imputer, frame, tmp_path):
    table = frame
    with pytest.raises(TableError, match="by names 'ward', which is not a column"):
        imputer.report(table, by="ward", evaluation=False)
    with pytest.raises(TableError, match="0 rows"):
        imputer.report(table.head(0))
    with pytest.raises(OSError, match="there is no folder"):
        imputer.report(table, tmp_path / "no" / "r.html")
    with pytest.raises(ValueError, match="draws must be a whole number"):
        imputer.report(table, draws=0)


def test_arrays_constraints_and_columns_that_do_not_apply():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    assert Page(VSAEImputer(**QUICK).fit(x).report(x, evaluation=False).html).open == []
    low = rng.uniform(1, 9, 60).round(3)
    sex = np.array(["F", "M"] * 30, dtype=object)
    table = {"low": low, "high": low + 2.5, "sex": sex, "births": np.where(sex == "F", np.arange(60.0) % 4, np.nan)}
    table["high"][::3] = np.nan
    table["births"][::10] = np.nan
    imputer = VSAEImputer(structural={"births": "sex == 'M'"}, constraints=["low < high"], **QUICK).fit(table)
    report = imputer.report(table, evaluation=False)
    births = re.search(r'data-column="births">.*?</tr>', report.html)
    assert births
    assert '<td class="r" data-v="6">6</td>' in births[0]  # and not those of men


def test_fifty_columns_are_less_than_three_megabytes():
    rng = np.random.default_rng(0)
    wide = {f"column {j}": rng.normal(size=40) for j in range(50)}
    for column in wide.values():
        column[rng.random(40) < 0.3] = np.nan
    imputer = VSAEImputer(config={"steps": 2, "trees": 0}, effort="fast", random_state=0).fit(wide)
    report = imputer.report(wide, evaluation=False)
    assert isinstance(report, Report)
    assert "38 more columns" in report.html
    assert len(report.html.encode()) < 3_000_000
