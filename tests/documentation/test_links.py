"""No dead link: relative ones lead to files that are there, and to headings that these have."""

from __future__ import annotations

import re

import pytest
from documents import NAMES, ROOT, blocks, read

_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)|<(?:img|a)\b[^>]*(?:src|href)=\"(?P<attribute>[^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


def links(text: str) -> list[str]:
    return [each["target"] or each["attribute"] for each in _LINK.finditer(without_code(text))]


def without_code(text: str) -> str:
    for block in blocks(text):
        text = text.replace(block.text, "")
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text: str) -> set[str]:
    """As code hosts make them of headings."""
    for block in blocks(text):
        text = text.replace(block.text, "")
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)]
    return {
        f"{heading}-{earlier}" if (earlier := headings[:i].count(heading)) else heading
        for i, heading in enumerate(headings)
    }


def dead(name: str, text: str) -> list[str]:
    found = []
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue  # elsewhere
        file, _, anchor = link.partition("#")
        target = (ROOT / name).parent / file if file else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_link_is_dead(name):
    assert dead(name, read(name)) == []


def test_dead_links_are_found():
    text = "# A: b, c\n[x](none.md) [y](LICENSE) [w](#a) ![v](docs/none.png) `[u](none.md)`\n```text\n[t](no)\n```\n"
    assert dead("README.md", text) == ["none.md", "#a", "docs/none.png"]
    assert anchors(text) == {"a-b-c"}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_pages_not_to_the_names_of_files(name):
    """[groups.md](groups.md) says nothing of what is there."""
    if not name.startswith("docs/"):
        return
    named = re.findall(r"\[([\w-]+\.md)\]\(", read(name))
    assert named == []
