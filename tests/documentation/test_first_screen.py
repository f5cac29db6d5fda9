"""The first screen of the README: what it is, the two commands, ten lines of Python."""

import re

from documents import blocks, read

SCREEN = 40  # lines


def test_the_first_screen_holds_the_two_commands_and_ten_lines_of_python():
    first = "\n".join(read("README.md").splitlines()[:SCREEN])
    shell, python, *_ = (block for block in blocks(first) if block.runs)
    assert [line.split("#")[0].split() for line in shell.text.splitlines()] == [["make", "demo"], ["make", "test"]]
    assert len([line for line in python.text.splitlines() if line]) == 10


def test_the_first_paragraph_is_short():
    _, what, *_ = read("README.md").split("\n\n")
    assert len(re.findall(r"\.(\s|\*\*|$)", what)) <= 3  # a label and two sentences
