"""The page docs/multimodal.md and its images, from the rows of the multi-modal experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.markup import MADE, markdown
from benchmarks.paper import printed
from benchmarks.paper.jobs import MULTIMODAL
from benchmarks.paper.methods import DEFAULT, PAPER
from benchmarks.paper.multimodal import FLAT, GENERATED, METHODS, ORACLE, SHOWN, TRIVIAL, TUNED
from benchmarks.paper.png import grid, png
from benchmarks.store import Row

HINDSIGHT = (ORACLE, TUNED)  # they know what no method can

Scope = Literal["given", "all"]
Column = tuple[str, float, str]  # data set, rate, attribute
Rows = dict[tuple[str, float, str], list[Row]]  # data set, rate, method → a row a seed

NAMES = {"mnist+mnist": "MNIST", "fashion": "Fashion", "mosi": "MOSI"}
HALF: tuple[Column, ...] = (
    ("mnist+mnist", 0.5, "digit1"), ("mnist+mnist", 0.5, "digit2"),
    ("fashion", 0.5, "image"), ("fashion", 0.5, "label"),
    ("mosi", 0.5, "text"), ("mosi", 0.5, "audio"), ("mosi", 0.5, "vision"),
)  # fmt: skip
RATES = (0.3, 0.5, 0.7)
ROBUST: tuple[Column, ...] = tuple(("mnist+mnist", rate, name) for rate in RATES for name in ("digit1", "digit2"))
FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


def load(results: Path) -> Rows:
    rows: Rows = {}
    for row in MULTIMODAL.rows(results):
        rows.setdefault((row["table"], row["rate"], row["method"]), []).append(row)
    return rows


def errors_of(rows: Rows, column: Column, method: str, scope: Scope) -> list[float]:
    table, rate, name = column
    found = rows.get((table, rate, method), [])
    return [row["errors"][name][scope] for row in found if name in row["errors"]]


def error_table(rows: Rows, columns: Sequence[Column], scope: Scope, with_paper: bool = False) -> str:
    """Mean ± standard deviation over seeds; bold within one of the lowest, oracles aside."""
    columns = [c for c in columns if any(errors_of(rows, c, m, scope) for m in METHODS)]
    lines = []
    for method in METHODS:
        cells = [_cell(rows, column, method, scope, with_paper) for column in columns]
        if any(cell != "–" for cell in cells):
            lines.append([method, *cells])
    one_rate = len({rate for _, rate, _ in columns}) == 1
    heads = [f"{NAMES[t]} {name}" + ("" if one_rate else f", {rate:g}") for t, rate, name in columns]
    return markdown(["", *heads], lines)


def _cell(rows: Rows, column: Column, method: str, scope: Scope, with_paper: bool) -> str:
    values = errors_of(rows, column, method, scope)
    if not values:
        return "–"
    rivals = [errors_of(rows, column, m, scope) for m in METHODS if m not in HINDSIGHT]
    best = min((v for v in rivals if v), key=np.mean)
    digits = 3 if column[2] == "label" or column[0] == "mosi" else 4
    text = f"{np.mean(values):.{digits}f}" + (f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")
    spread = np.std(best, ddof=1) if len(best) > 1 else 0.0
    if method not in HINDSIGHT and np.mean(values) <= np.mean(best) + spread:
        text = f"**{text}**"
    said = printed.MULTIMODAL.get(method, {}).get((column[0], column[2])) if with_paper else None
    return f"{text} ({said:g})" if said is not None else text


def coherence_table(rows: Rows) -> str:
    lines = []
    for method in METHODS:
        cells = []
        for rate in RATES:
            found = [row["coherence"] for row in rows.get(("mnist+mnist", rate, method), []) if row.get("coherence")]
            cells += [_share([f[what] for f in found]) for what in ("draws", "pairs")]
        if any(cell != "–" for cell in cells):
            lines.append([method, *cells])
    heads = [f"{what}, {rate:g}" for rate in RATES for what in ("draws right", "pairs that add up to 9")]
    return markdown(["", *heads], lines)


def _share(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.1%}" if known else "–"


def wanted(rows: Rows) -> str:
    """What was set out to be reached, and whether it was; a line whose rows are missing is left out."""
    lines = []
    for name in ("digit1", "digit2"):
        ours, floor = (errors_of(rows, ("mnist+mnist", 0.5, name), m, "given") for m in (DEFAULT, ORACLE))
        if ours and floor:
            ratio = float(np.mean(ours) / np.mean(floor))
            lines.append(f"- MNIST {name}, given the other: {ratio - 1:+.1%} of the class mean's error; wanted: +3 %.")
    for column, most in ((("fashion", 0.5, "image"), 0.056), (("fashion", 0.5, "label"), 0.13)):
        if ours := errors_of(rows, column, DEFAULT, "given"):
            lines.append(f"- Fashion {column[2]}, given the other: {np.mean(ours):.4f}; wanted: at most {most:g}.")
    for name in ("text", "audio", "vision"):
        ours, mean = (errors_of(rows, ("mosi", 0.5, name), m, "given") for m in (DEFAULT, TRIVIAL))
        if ours and mean:
            tuned = errors_of(rows, ("mosi", 0.5, name), TUNED, "given")
            bound = f" A ridge tuned on the test part: {np.mean(tuned) / np.mean(mean):.3f}." if tuned else ""
            lines.append(
                f"- MOSI {name}: {np.mean(ours) / np.mean(mean):.3f} of the mean's error; wanted: below 1.{bound}"
            )
    found = [row["coherence"] for row in rows.get(("mnist+mnist", 0.5, DEFAULT), []) if row.get("coherence")]
    if found:
        draws, pairs = (np.mean([f[what] for f in found]) for what in ("draws", "pairs"))
        lines.append(f"- Single draws of the hidden digit that are right: {draws:.1%}; wanted: 97 %.")
        lines.append(f"- Generated pairs that add up to 9: {pairs:.1%}; wanted: 90 %.")
    return "\n".join(lines)


# --- images


def figures(results: Path) -> dict[str, bytes]:
    """File name → PNG."""
    out = {}
    for (table, _, method), found in load(results).items():
        for row in found:
            stem = f"multimodal-{_slug(table, method)}"
            for name in _images(row):
                out[f"{stem}-{name}.png"] = png(grid(_parts(row, f"{name}/")))
            if pairs := _parts(row, "generated/"):
                out[f"{stem}-generated.png"] = png(_generated(pairs))
    return out


def _slug(table: str, method: str) -> str:
    return f"{NAMES[table].lower()}-{'default' if method == DEFAULT else 'paper'}"


def _images(row: Row) -> list[str]:
    """The modalities whose imputations a row shows."""
    return [name.removesuffix("/truth") for name in row.get("images", ()) if name.endswith("/truth")]


def _parts(row: Row, begin: str) -> list[Any]:
    """Of an imputed modality: given | truth | mean | draws, a row each; what is given only where it is an image."""
    return [x for name, x in row.get("images", {}).items() if name.startswith(begin)]


def _generated(images: Sequence[Any]) -> Any:
    """Rows of images that were generated together, one above the other."""
    together = np.concatenate([x.transpose(1, 0, 2, 3) for x in images])  # (modalities, rows, H, W)
    halves = np.concatenate([together[:, :SHOWN], together[:, SHOWN:]])
    return grid([halves])


# --- the page


def page(results: Path) -> str | None:
    rows = load(results)
    if not rows:
        return None
    every = [row for found in rows.values() for row in found]
    seeds = len({row["seed"] for row in every})
    machines = "; ".join(sorted({row["machine"] for row in every}))
    accuracies = [row["coherence"]["accuracy"] for row in every if row.get("coherence")]
    accuracy = f"{accuracies[0]:.2%}" if accuracies else "–"
    minutes = sum(row["seconds"] for row in every) / 60
    return f"""{MADE.format(source="results/multimodal.jsonl")}
# Images, labels and vectors

The multi-modal experiments of *Variational Selective Autoencoder* (AISTATS 2021): pairs of MNIST digits that add up to
9, FashionMNIST with its labels, and features of CMU-MOSI; whole modalities are missing completely at random.
`python -m benchmarks paper --table multimodal` repeats it.

**Protocol.** The sets' own split into training and test part; errors are those of the test part's hidden cells, mean ±
standard deviation over {seeds} seeds of masks and pairings. Images and vectors: squared error, of pixels in [0, 1], of
features in standard units of the training rows (so 1 is about what the mean scores); labels: share that is wrong.
In brackets what the paper prints; its features of MOSI are others, so these are not comparable. **Bold**: within one
standard deviation of the lowest. "{TRIVIAL}" is that of the training cells. "{ORACLE}" is an oracle: the mean image of
the row's true class where another modality is given. In a pair of digits, style is independent of what is given, so
there nothing can be better, but by chance. "{TUNED}" is one of hindsight: a linear regression on
the vectors that are given, whose penalty and whose weight against the mean the scored cells themselves have chosen.
The baselines have the networks and likelihoods of `{PAPER}`, widened until they have as many weights or more: plain
MLPs on flat pixels. `{DEFAULT}` has convolutional ones; `{FLAT}` is its recipe without them.
MOSI's folds keep speakers apart, and its text and vision features were trained on the labels of most utterances, of
test ones too: the label ties these two together. Audio is told by the speaker, who is another one in the test part.
{len(every)} rows, {minutes:.0f} minutes of training in all. Machines: {machines}.

## Half of the cells missing, another modality given

{error_table(rows, HALF, "given")}

{wanted(rows)}

## Half of the cells missing, all hidden cells

A quarter of the rows of a pair have nothing given: there, nothing beats the mean.

{error_table(rows, HALF, "all", with_paper=True)}

## Other missing ratios

{error_table(rows, ROBUST, "given")}

## Do the digits belong together?

A convolutional classifier that is right on {accuracy} of the real test digits is shown single draws of a hidden
digit, the other given, and {GENERATED:,} generated pairs. Draws are draws of z, without noise on pixels.
An autoencoder has no prior to generate from.

{coherence_table(rows)}

{_gallery(rows)}"""


def _gallery(rows: Rows) -> str:
    parts = []
    for table, names in (("mnist+mnist", ("digit2", "digit1")), ("fashion", ("image",))):
        for method in (DEFAULT, PAPER):
            found = [row for row in rows.get((table, 0.5, method), []) if "images" in row]
            if not found:
                continue
            row = found[0]
            stem = f"figures/multimodal-{_slug(table, method)}"
            parts.append(f"## {NAMES[table]}, {method}: images\n")
            for name in names:
                labels = row["labels"].get(name)
                said = f" Given, from above: {', '.join(FASHION[code] for code in labels)}." if labels else ""
                order = "truth | mean of draws | draws" if labels else "given | truth | mean of draws | draws"
                parts.append(f"Imputed {name}: {order}.{said}\n\n![imputed {name}]({stem}-{name}.png)\n")
            if _parts(row, "generated/"):
                parts.append(f"Generated, {_said(row)}\n\n![generated]({stem}-generated.png)\n")
    return "\n".join(parts)


def _said(row: Row) -> str:
    if "generated" not in row["labels"]:
        return "pairs one above the other:"
    return f"with the labels {', '.join(FASHION[code] for code in row['labels']['generated'])}:"
