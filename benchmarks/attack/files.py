"""Parts `files` and `options`: what comes from outside by the doors of the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.commands import run
from benchmarks.attack.forge import damaged
from benchmarks.attack.outcomes import Outcomes, one_line, table
from vsae.files import FileError, read_table, write_table

_ENDINGS = (".csv", ".tsv", ".jsonl", ".csv.gz", ".csv.zst", ".parquet", ".feather", ".xlsx")


def files(count: int, seed: int, folder: Path) -> Outcomes:
    """Files of every format, damaged: read, or refused in one line."""
    out = Outcomes(worst_seconds=5.0)
    whole = {}
    for ending in _ENDINGS:
        write_table(folder / f"t{ending}", table(12, seed))
        whole[ending] = (folder / f"t{ending}").read_bytes()
    for i in range(count):
        rng, ending = np.random.default_rng([seed, i]), _ENDINGS[i % len(_ENDINGS)]
        path = folder / f"changed{ending}"
        path.write_bytes(_spoiled(whole[ending], rng))
        out.run(f"file {i}, {ending}", lambda path=path: _read(path))  # type: ignore[misc]
    return out


def _spoiled(content: bytes, rng: np.random.Generator) -> bytes:
    content = damaged(content, rng)
    if rng.random() < 0.3:
        odd = [
            b"\0",
            b'"',
            b"\n",
            b"\r",
            b",,,,",
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"{",
            b"[" * 5000,
            b"1e999",
            b"\x1b[2J",
        ]
        at = int(rng.integers(len(content) + 1))
        content = content[:at] + odd[rng.integers(len(odd))] + content[at:]
    return content


def _read(path: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read_table(path)
        except FileError as error:
            return one_line(error, "refused")
    return "read"


# --- options


def options(count: int, seed: int, folder: Path) -> Outcomes:
    """Odd values of options: done, or refused in one line."""
    out = Outcomes(worst_seconds=60.0)
    write_table(folder / "t.csv", table(40, seed))
    made = run("fit", folder / "t.csv", "-o", folder / "m.vsae", "--steps", 5, "--effort", "fast", "-q")
    if made.code:
        raise RuntimeError(f"there is no model to attack: {made.err}")
    lines = list(_lines(folder))
    order = np.random.default_rng(seed).permutation(len(lines))
    for arguments in (lines[i] for i in order[:count]):
        ended = run(*arguments, limit=60.0)
        said = " ".join(map(str, arguments)).replace(str(folder), "")[:100]
        out.add(said, "done" if ended.code == 0 else "refused", ended.fault)
    return out


def _lines(folder: Path) -> Iterator[list[Any]]:
    t, m = folder / "t.csv", folder / "m.vsae"
    odd = ["", " ", "-", "--", "\x1b[31m", "0", "-1", "1e9", "nan", "inf", "é" * 300, "a=b=c", "=", ",", "..", "🙂"]
    for value in odd:
        for option in ("--delimiter", "--encoding", "--na", "--sheet", "--schema", "--exclude", "--constraint"):
            yield ["inspect", t, f"{option}={value}"]
        for option in ("--structural", "--missing", "--format"):
            yield ["inspect", t, f"{option}={value}"]
        yield ["sample", m, "-n", "5", f"--given={value}"]
        yield ["sample", m, f"--rows={value}" if value != "1e9" else "--rows=5.5"]
        yield ["impute", t, "--model", m, f"--only={value}"]
        yield ["impute", t, "--model", m, f"--out={value}" if value not in ("", "-") else "--out=/"]
        yield ["inspect", value]
    for encoding in ("rot13", "zlib", "hex", "base64", "idna", "punycode", "utf-7", "undefined", "cp037", "utf-32"):
        yield ["inspect", t, "--encoding", encoding]
    for given in ("age=nan", "age=1e999", "age=..", "age=5..1", "sex=X", "when=9999-99-99", "town=", "income=-inf.."):
        yield ["sample", m, "-n", "5", "--given", given]
    kinds = [
        {"age": {"kind": "image", "shape": 5}}, {"age": {"kind": "count", "min": [1]}}, {"age": {"kind": {}}},
        {"when": {"kind": "date", "format": "%Q"}}, {"age": {"kind": "keep", "why": 5}}, [], 5, {"no": "real"},
        {"age": {"kind": "real", "min": 1e308, "max": -1e308}}, {"sex": {"kind": "ordinal", "levels": [[]]}},
    ]  # fmt: skip
    for i, kind in enumerate(kinds):
        (folder / f"schema{i}.json").write_text(json.dumps(kind))
        yield ["inspect", t, "--schema", folder / f"schema{i}.json"]
    (folder / "deep.json").write_text("[" * 100_000)
    yield ["inspect", t, "--schema", folder / "deep.json"]
