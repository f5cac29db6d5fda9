"""The page docs/mechanism.md: columns that mask themselves, from the rows of six benchmarks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.markup import MADE, markdown
from benchmarks.mechanism import coverage, gate, given_missing, nmar, notmiwae, pairs

PARTS = (gate, nmar, notmiwae, coverage, pairs, given_missing)


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    if not any(part.BENCHMARK.rows(results) for part in PARTS):
        return None
    found = [verdict for part in PARTS for verdict in part.verdicts(results)]
    met = [verdict.met for verdict in found]
    sources = ", ".join(f"{part.BENCHMARK.name}.jsonl" for part in PARTS[1:])
    sections = "\n\n".join(part.section(results) for part in PARTS)
    commands = "\n".join(f"python -m benchmarks {part.BENCHMARK.name}" for part in PARTS)
    return f"""{MADE.format(source=f"results/{gate.BENCHMARK.name}.jsonl, {sources} and peers.jsonl")}
# Cells that hide by their own value

Which columns are taken to mask themselves, what that gains where they do, and what it costs where they do not.
Of {len(found)} figures asked for, {met.count(True)} are met, {met.count(False)} not.

{markdown(["asked of `vsae`", "found", "met"], [verdict.line() for verdict in found])}

{sections}

## To repeat it

```sh
{commands}
python -m benchmarks tables  # this page
```
"""
