"""Screenshots of the report on the clinic table, for the docs; needs playwright and the system's chromium."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import options
from vsae import VSAEImputer
from vsae.datasets import make_clinic
from vsae.report.page import SECTIONS

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHOTS = {  # file → the window, its theme, and the section at its top
    "report-desktop.png": (DESKTOP, "light", "glance"),
    "report-phone.png": (PHONE, "dark", "filled"),
}


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's browser, which asks nobody for anything."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise ValueError("chromium is not installed; apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def shoot(page: Path, folder: Path) -> list[Path]:
    written = []
    with chromium() as browser:
        for name, (size, theme, section) in SHOTS.items():
            tab = browser.new_page(viewport=size, color_scheme=theme, device_scale_factor=1.5, reduced_motion="reduce")
            tab.goto(page.resolve().as_uri())
            if section != next(iter(SECTIONS)):  # whose heading is not at the very top
                tab.evaluate("name => document.getElementById(name).scrollIntoView()", section)
            tab.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => done()), 1000))")
            tab.screenshot(path=folder / name)
            written.append(folder / name)
            tab.close()
    return written


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("screenshots", __doc__)
    folder = Path("docs/figures")
    parser.add_argument("--folder", type=Path, default=folder, help=f"Where to write them. Default: {folder}.")
    parser.add_argument("--page", type=Path, help="A report that is there already. Default: one is made.")
    o: argparse.Namespace = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        page = o.page or Path(place, "clinic.html")
        if o.page is None:
            table = make_clinic(1500).frame()
            VSAEImputer(effort="fast", random_state=0).fit(table).report(table, page, title="clinic.csv")
        for path in shoot(page, o.folder):
            print(f"wrote {path}")
