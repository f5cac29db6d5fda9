"""The whole page: one file that needs no other, asks nobody for anything, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from vsae.report import filled_sections, missing_sections
from vsae.report.findings import Findings
from vsae.report.markup import text

SECTIONS = {
    "glance": ("At a glance", missing_sections.glance),
    "missing": ("What is missing", missing_sections.matrix),
    "together": ("Missing together", missing_sections.patterns),
    "groups": ("By group", missing_sections.groups),
    "why": ("What goes with it", missing_sections.mechanism),
    "flux": ("Who helps whom", missing_sections.flux),
    "filled": ("What was filled in", filled_sections.distributions),
    "pairs": ("Pairs of columns", filled_sections.pairs),
    "hidden": ("Known cells, hidden", filled_sections.hidden),
    "unsure": ("How sure it is", filled_sections.unsure),
    "training": ("Training", filled_sections.training),
    "done": ("What was done", filled_sections.done),
}


def page(found: Findings) -> str:
    style, script = (
        resources.files("vsae.report").joinpath(name).read_text("utf-8") for name in ("style.css", "script.js")
    )
    contents = "".join(f'<li><a href="#{name}">{text(title)}</a></li>' for name, (title, _) in SECTIONS.items())
    sections = "".join(
        f'<section id="{name}"><h2>{text(title)}</h2>{make(found)}</section>'
        for name, (title, make) in SECTIONS.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<title>{text(found.title)} – imputation report</title>
<style>{style}</style>
</head>
<body>
<div class="page">
<header><div>
<p class="kicker">Imputation report, vsae {text(found.story.versions["vsae"])}</p><h1>{text(found.title)}</h1>
</div>
<button id="theme" type="button" title="Light, dark, or as the system says" hidden>Auto</button></header>
<div class="columns">
<nav id="toc" aria-label="Contents"><details open><summary>Contents</summary><ol>{contents}</ol>
<label hidden><input id="filter" type="search" placeholder="Find a column" aria-label="Find a column"></label>
</details></nav>
<main>{sections}
<footer>This file needs no other and opens offline. It shows single cells of the table: hand it only to those who
may read the table.</footer></main>
</div>
</div>
<div id="tip" role="tooltip" hidden></div>
<script>{script}</script>
</body>
</html>
"""


def _policy(script: str) -> str:
    """Nothing is fetched, and no other script runs, even if a name in the table were taken for one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
