"""mostlyai-engine as a generator: the model of `mostlyai_.py`, sampled incomplete and, told to impute, complete."""

from __future__ import annotations

from importlib.metadata import version

from generated import MANY_ROWS, Generated, run
from mostlyai_ import array, frame, model_of
from task import Task, timed


def generate(task: Task) -> Generated:
    model = model_of(task)
    _, seconds = timed(model.fit, frame(task, "train"))
    incomplete, seconds_rows = timed(model.sample, MANY_ROWS)
    complete = model.sample(MANY_ROWS, imputation={"columns": list(incomplete.columns)})
    package = f"mostlyai-engine {version('mostlyai-engine')}"
    return Generated(package, seconds, seconds_rows, array(task, incomplete), array(task, complete))


if __name__ == "__main__":
    run(generate)
