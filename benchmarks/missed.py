"""The page docs/missed.md: every figure that the other pages ask for and do not find."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.markup import MADE, count_of, markdown, paragraph

_VERDICT = re.compile(r"^\| (?P<asked>.+) \| (?P<found>.+) \| (?P<met>yes|\*\*no\*\*) \|$")
_HEADING = re.compile(r"^\| asked.* \| found \| met \|$")


def page(texts: Mapping[str, str]) -> str:
    """From the texts of the other pages by their names."""
    sections, asked, missed = [], 0, 0
    for name, text in texts.items():
        title = text.split("\n# ", 1)[1].split("\n", 1)[0]
        found = verdicts(text)
        lines = [[figure, value] for figure, value, met in found if not met]
        asked, missed = asked + len(found), missed + len(lines)
        if lines:
            table = markdown(["asked", "found"], lines).replace("--:", "---")
            sections.append(
                f"## {title}\n\n{table}\n\n[The page]({name}) has what was reached, and how it was measured.\n"
            )
    return "\n".join(
        [
            MADE.format(source="the other pages that it makes"),
            "# What was missed\n",
            paragraph(
                "The measured pages say which figures are asked for, and whether they are reached. Of",
                f"{count_of(asked, 'figure')} with a verdict, {missed} are not; these are all of them.",
            ),
            "",
            *sections,
        ]
    )


def verdicts(text: str) -> list[tuple[str, str, bool]]:
    """What is asked, what is found, and whether that is enough; tables with the columns asked, found and met.

    >>> verdicts("| asked | found | met |\\n|---|--:|--:|\\n| a ≤ 1 | 2 | **no** |\\n\\n| a ≤ 1 | 2 | **no** |")
    [('a ≤ 1', '2', False)]
    """
    out: list[tuple[str, str, bool]] = []
    inside = False
    for line in text.splitlines():
        if _HEADING.match(line):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and (verdict := _VERDICT.match(line)):
            asked = verdict["asked"]
            if asked.startswith("…"):  # goes on from the line before
                asked = out[-1][0].split(":")[0] + ":" + asked[1:]
            out.append((asked, verdict["found"], verdict["met"] == "yes"))
    return out
