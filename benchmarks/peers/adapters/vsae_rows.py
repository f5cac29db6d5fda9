"""Ours as a generator: fitted as a user would, one draw of incomplete rows and of complete ones."""

from __future__ import annotations

from generated import MANY_ROWS, Generated, run
from task import Task, timed
from vsae_imputer import asked_effort, imputer_for

import vsae
from vsae.fitting.presets import Effort


def generate(task: Task, effort: Effort) -> Generated:
    imputer = imputer_for(task, effort)
    _, seconds = timed(imputer.fit, task.frame("train"))
    incomplete, seconds_rows = timed(imputer.sample, MANY_ROWS, with_missing=True)
    complete = imputer.sample(MANY_ROWS)
    version = f"vsae {vsae.__version__}"
    return Generated(version, seconds, seconds_rows, task.array(incomplete), task.array(complete))


if __name__ == "__main__":
    effort = asked_effort(__doc__)
    run(lambda task: generate(task, effort))
