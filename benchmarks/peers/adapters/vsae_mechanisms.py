"""Ours with and without its evidence of self-masking: one fit, two answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from task import checked, read, timed
from vsae_imputer import asked_effort, imputer_for

import vsae

if __name__ == "__main__":
    effort, folder = asked_effort(__doc__), Path(sys.argv[-1])
    task = read(folder)
    imputer = imputer_for(task, effort)
    _, seconds = timed(imputer.fit, task.frame("train"))
    tilts = imputer.fitted_.tilts
    answers: dict[str, np.ndarray] = {}
    for name, used in (("auto", tilts), ("ignorable", tilts.only(()))):
        imputer.fitted_.tilts = used
        for part in ("train", "new"):
            answers[f"{name}_{part}"] = checked(task, part, task.array(imputer.transform(task.frame(part))))
    np.savez(folder / "answers.npz", **answers)
    said = {"version": f"vsae {vsae.__version__}", "seconds": seconds, "on": len(tilts)}
    (folder / "answers.json").write_text(json.dumps(said))
