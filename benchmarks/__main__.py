"""`python -m benchmarks NAME`: one entry for all measurements, by the standard library alone.

They run on plain arrays, on machines too where typer, rich and libraries of dataframes are absent.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

#: Name → the module whose `main` takes the options that follow, and what it measures.
COMMANDS = {
    "scaling": ("benchmarks.scaling", "Time and memory of a training step as the number of attributes grows."),
    "sizes": ("benchmarks.sizes", "Small, wide and long tables: what the default spends on them and how well it does."),
    "paper": ("benchmarks.paper.jobs", "The tables and figures of the paper."),
    "gain": ("benchmarks.paper.gain", "GAIN's protocol on a table that it has figures for."),
    "miwae": ("benchmarks.paper.miwae", "MIWAE's protocol on tables that it has figures for."),
    "ablation": ("benchmarks.ablation", "The default recipe with one ingredient changed at a time."),
    "peers": ("benchmarks.peers.jobs", "Other imputers on the same missing cells."),
    "sharp": ("benchmarks.sharp.jobs", "Tables with edges, to choose settings by: ours beside boosting and forests."),
    "unseen": ("benchmarks.unseen.jobs", "Other imputers and ours on tables that nothing was chosen on."),
    "speed": (
        "benchmarks.speed.jobs",
        "Seconds, memory and errors of a fit and its imputation, by the size of the table.",
    ),
    "stream": (
        "benchmarks.stream.jobs",
        "Streamed fits and imputations as rows grow: seconds and memory, beside peers.",
    ),
    "attack": ("benchmarks.attack.jobs", "Damaged, forged and odd input, kills and full disks: what comes of them."),
    "step": ("benchmarks.step", "A training step against the arithmetic it is made of."),
    "devices": ("benchmarks.speed.devices", "Fits on a GPU and on a CPU, and trainings that move between them."),
    "generation": ("benchmarks.generation.jobs", "Generated rows against real ones, beside other generators."),
    "conditions": ("benchmarks.generation.conditions", "Rows generated under a condition, against a simulator's."),
    "readout": ("benchmarks.readout", "Whether a single row can be read out of a model."),
    "calibration": ("benchmarks.calibration.jobs", "Draws for missing cells against the values that were hidden."),
    "calibration-parts": ("benchmarks.calibration.parts", "The calibration without one of its parts at a time."),
    "joint": ("benchmarks.joint.jobs", "Draws for columns that are missing together: do they belong together?"),
    "exact": ("benchmarks.joint.exact", "Totals and their parts, starts and ends: do relations hold?"),
    "constraints": ("benchmarks.joint.constraints", "Relations that are stated: do they hold, and what do they cost?"),
    "draw-times": ("benchmarks.joint.times", "Seconds and memory of draws and intervals after a fit."),
    "gate": ("benchmarks.mechanism.gate", "Which columns are taken to mask themselves, rightly or not."),
    "nmar": ("benchmarks.mechanism.nmar", "Imputation with and without the evidence of self-masking."),
    "notmiwae": ("benchmarks.mechanism.notmiwae", "not-MIWAE's protocol: cells above the mean vanish."),
    "self-masked-mean": ("benchmarks.mechanism.coverage", "Coverage of the mean of a column that masks itself."),
    "masks": ("benchmarks.mechanism.pairs", "Generated masks, and rows with missing cells, against real ones."),
    "given-missing": ("benchmarks.mechanism.given_missing", "Rows that miss a column, against a simulator's."),
    "rubin": ("benchmarks.calibration.rubin", "Coverage of a regression that is pooled over draws."),
    "pooled": ("benchmarks.calibration.pooled", "Pooled inference, outcome and covariates missing in the same rows."),
    "evaluate": ("benchmarks.evaluate.jobs", "What `evaluate` predicts, against errors on truly hidden cells."),
    "groups": ("benchmarks.groups.jobs", "Many visits a patient: imputation that knows of patients, and others."),
    "weights": ("benchmarks.groups.weighted", "Rows with weights, against the same rows repeated as often."),
    "report": ("benchmarks.report.jobs", "Reports of small and large tables: seconds beyond the fit, and their size."),
    "screenshots": ("benchmarks.report.screenshots", "Pictures of a report for the docs, by the system's chromium."),
    "tables": ("benchmarks.tables", "Write the pages of docs/ that are computed from results/."),
    "environments": ("benchmarks.peers.environments", "Install the other methods, each in an environment of its own."),
    "fingerprint": ("benchmarks.fingerprint", "Hashes of what small fits give, to compare two checkouts."),
}


def parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    names = "\n".join(f"  {name:<{width}}  {sentence}" for name, (_, sentence) in COMMANDS.items())
    out = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the library, and write the pages that hold the numbers.",
        epilog=f"NAME is one of\n{names}\n\n`python -m benchmarks NAME --help` shows the options of one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("name", metavar="NAME", choices=COMMANDS, help="What to run.")
    out.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="Its options.")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 after an error, which is one line; wrong usage exits with 2. Without a name, all are listed."""
    given = sys.argv[1:] if arguments is None else arguments
    asked = parser().parse_args(given or ["--help"])
    try:
        import_module(COMMANDS[asked.name][0]).main(asked.options)
    except (ValueError, OSError, RuntimeError, ImportError, subprocess.CalledProcessError) as error:
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
