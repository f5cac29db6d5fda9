"""mostlyai-engine as a generator: the model of `mostlyai_.py`, sampled with holes and, told to impute, without."""

from __future__ import annotations

from importlib.metadata import version

from generated import MANY_ROWS, Generated, run
from mostlyai_ import array, frame, model_of
from task import Task, timed


def generate(task: Task) -> Generated:
    model = model_of(task)
    _, seconds = timed(model.fit, frame(task, "train"))
    with_holes, seconds_rows = timed(model.sample, MANY_ROWS)
    complete = model.sample(MANY_ROWS, imputation={"columns": list(with_holes.columns)})
    package = f"mostlyai-engine {version('mostlyai-engine')}"
    return Generated(package, seconds, seconds_rows, array(task, with_holes), array(task, complete))


if __name__ == "__main__":
    run(generate)
