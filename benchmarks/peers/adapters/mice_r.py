"""R's mice: predictive mean matching ("pmm") or random forests ("rf"), as mice_r_draws.py has them.

Its fillings are draws; as one answer we give the mean of 10 for numbers and the most frequent level for categories. The
seconds are those of training and new rows together, which it imputes in one go.
"""

from __future__ import annotations

import sys

from draws import pooled
from mice_r_draws import draw
from task import Answer, Task, run

DRAWS = 10


def impute(task: Task, method: str) -> Answer:
    (drawn,) = draw([task], DRAWS, method)
    assert drawn.new is not None
    train, new = (pooled(list(x), task.levels) for x in (drawn.train, drawn.new))
    return Answer(drawn.version, drawn.seconds, train, None, new)


if __name__ == "__main__":
    run(lambda task: impute(task, sys.argv[1]))
