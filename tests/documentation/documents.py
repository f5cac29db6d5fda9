"""The pages of the project, and the blocks of code that they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]

RUN = {"python", "sh", "r"}  # what the tests run
SHOWN = {"text", "json", "math", "{toctree}", "{include}", "{eval-rst}", "{commands}"}  # what is no code

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>prints|not run)(?:: (?P<reason>[^\n]*?))? -->\n)?"
    r"^(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    language: str
    text: str
    line: int
    mark: str | None  # "prints": what the block before it prints; "not run": for this reason
    reason: str

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.mark != "not run"


def blocks(text: str) -> list[Block]:
    found = []
    for each in _BLOCK.finditer(text):
        line = text[: each.start("fence")].count("\n") + 1
        language = each["language"].split(" ")[0]
        found.append(Block(language, each["text"], line, each["mark"], each["reason"] or ""))
    return found


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")
