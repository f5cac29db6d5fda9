"""The site: these pages as they lie, and a reference from docstrings. `make docs` builds it; nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.docutils import SphinxDirective

import vsae
from vsae.cli.app import app as command_line

project = "vsae"
author = "the authors of vsae"
version = release = vsae.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_*"]
suppress_warnings = ["toc.empty_glob"]  # pages that are made from rows are there once these are
smartquotes = False  # options and quoted text stay as they are typed

myst_heading_anchors = 4  # links to headings, as on code hosts
myst_fence_as_directive = ["math"]  # ```math, which code hosts draw, too
myst_enable_extensions = ["dollarmath"]

default_role = "literal"  # docstrings write `code` as Markdown does
autodoc_typehints = "none"  # signatures stay short; docstrings say what things are
autodoc_member_order = "bysource"
napoleon_google_docstring = False

html_theme = "furo"
html_title = "vsae"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options: dict[str, Any] = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def _inline_math(writer: Any, node: Any) -> None:
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block_math(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="equation">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


class Commands(SphinxDirective):
    """All commands with their options, as `--help` has them."""

    def run(self) -> list[nodes.Node]:
        text = "\n".join(line for name, each in _commands().items() for line in _described(name, each))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _commands() -> dict[str, Any]:
    return dict(typer.main.get_command(command_line).commands)  # type: ignore[attr-defined]


def _described(name: str, command: Any) -> Iterator[str]:
    """A section in Markdown."""
    yield from (f"## vsae {name}", "", *command.help.strip().splitlines(), "")
    yield from ("| | |", "|---|---|")
    for each in command.params:
        if each.param_type_name == "argument":
            names = f"`{each.metavar or each.name.upper()}`".replace("|", "\\|")
        else:
            names = ", ".join(f"`{option}`" for option in (*each.opts, *each.secondary_opts))
        said = " ".join((each.help or "").split()).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
        yield f"| {names} | {said} |"
    yield ""


def setup(app: Any) -> None:
    """Formulas become MathML, which browsers draw by themselves."""
    app.add_directive("commands", Commands)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
