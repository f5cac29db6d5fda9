"""Many processes, on one machine or a cluster, through Ray: each loads the model once and fills blocks of its own.

Plain actors, not Ray Data: what the blocks are is known beforehand, and each becomes a file that is there whole or not
at all, so all that is left to do is to hand out blocks and to replace workers that die. A fit has its pass over all
rows done by the workers, and trains in the calling process: its sample does not grow with the table, and steps of
milliseconds are too short to be shared (docs/decisions/0018).

A cluster of our own listens on the loopback device alone, tells nobody that it is there, and ends with its job. Files
must have the same paths on all machines of a cluster.
"""

from __future__ import annotations

import importlib
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from vsae.engines.filling import Filled, Filler, How
from vsae.estimator import load
from vsae.files.blocks import Block, Blocks
from vsae.files.parts import Parts
from vsae.files.storage import FileError
from vsae.table.survey import Survey

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or it warns of a change to come
    "RAY_worker_niceness": "0",  # workers do what was asked for, and not what can wait
}
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # one machine and no others, so all sockets are on 127.0.0.1
_MOST_DEATHS = 3  # of workers at the same blocks, until it must be their fault
_TOGETHER = 8  # blocks that a worker is given at a time, at most
_PATIENCE = 5.0  # seconds that a cluster may take to answer
_STORE = 2**27  # bytes of shared memory: no rows travel, but for those of a sample

T = TypeVar("T")


class RayEngine:
    """`address`: of a cluster to join; None: one is started here. `workers`: how many; None: one a core."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.address, self.workers = address, workers
        _check_answers(address)
        import_ray(address)

    def run(self, filler: Filler, pending: Sequence[Block], model: str | Path) -> Iterator[Filled]:
        if not pending:
            return
        make = _filler(os.path.abspath(model), filler.imputer.strategy, filler.blocks, filler.parts, filler.how)
        with self._cluster() as (ray, workers):
            for found in _shared_out(ray, workers, make, _runs(pending, workers)):
                yield from found

    def survey(self, blocks: Blocks, size: int, seed: int, on_rows: Callable[[int], None] | None = None) -> Survey:
        """One pass over all rows, by all workers; what they saw is put together in the order of the rows."""
        if not blocks.blocks:
            return Survey(size, seed)
        with self._cluster() as (ray, workers):
            runs = _runs(blocks.blocks, workers)
            found = dict(_shared_out(ray, workers, _surveyor(blocks, size, seed), list(enumerate(runs))))
        whole = found[0]
        for i in range(1, len(runs)):
            whole.merge(found[i])
        return whole

    @contextmanager
    def _cluster(self) -> Iterator[tuple[Any, int]]:
        ray = import_ray(self.address)
        begun = not ray.is_initialized()
        if begun:
            ray.init(**self._settings(), log_to_driver=False, configure_logging=False, logging_level="ERROR")
        try:
            if begun and self.address is None:
                _check_loopback(ray)
            yield ray, self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            if begun:
                ray.shutdown()

    def _settings(self) -> dict[str, Any]:
        if self.address is not None:
            return {"address": self.address}
        cores = self.workers or os.cpu_count() or 1
        local = {"include_dashboard": False, "object_store_memory": _STORE, "_node_ip_address": "127.0.0.1"}
        return {"address": "local", "num_cpus": cores, **local}


def import_ray(address: str | None = None) -> Any:
    """Ray, told before it is imported to be quiet and, but for a cluster to join, to keep to this machine; or one line
    that says how to get it."""
    for name, value in {**_QUIET, **(_LOOPBACK if address is None else {})}.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise FileError("--engine ray needs Ray; pip install 'vsae[ray]'") from None


def _check_answers(address: str | None) -> None:
    """Ray itself looks for a cluster that is not there for minutes. Names such as auto are left to it."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        said = ((isinstance(error, OSError) and error.strerror) or str(error)).lower()
        remedy = "start one with ray start --head, or correct --address"
        raise FileError(f"--address {address}: no cluster of Ray answers there ({said}); {remedy}") from None


def _check_loopback(ray: Any) -> None:
    """What the environment says is read when Ray is imported, which a program may have done before."""
    if any(node["NodeManagerAddress"] != "127.0.0.1" for node in ray.nodes()):
        said = " ".join(f"{name}={value}" for name, value in _LOOPBACK.items())
        raise FileError(f"Ray was imported before vsae, and listens to other machines; set {said} first")


def _filler(
    model: str, strategy: str, blocks: Blocks, parts: Sequence[Parts], how: How
) -> Callable[[], Callable[[Sequence[Block]], list[Filled]]]:
    """What a worker makes once, when it starts: a function of some blocks."""

    def make() -> Callable[[Sequence[Block]], list[Filled]]:
        imputer = load(model).set_params(strategy=strategy, add_indicator=False)
        filler = Filler(imputer, blocks, parts, how)
        return lambda some: list(filler.fill(some))

    return make


def _surveyor(blocks: Blocks, size: int, seed: int) -> Callable[[], Callable[[Any], tuple[int, Survey]]]:
    def make() -> Callable[[Any], tuple[int, Survey]]:
        def look(numbered: tuple[int, Sequence[Block]]) -> tuple[int, Survey]:
            number, some = numbered
            survey = Survey(size, seed, first_row=some[0].first_row)
            for _, table in blocks.read(some):
                survey.add(table.data)
            return number, survey

        return look

    return make


def _runs(blocks: Sequence[Block], workers: int) -> list[list[Block]]:
    """Blocks that follow one another, together: a large row group is then read from its beginning less often."""
    size = max(1, min(_TOGETHER, len(blocks) // (4 * workers)))
    return [list(blocks[i : i + size]) for i in range(0, len(blocks), size)]


def _shared_out(ray: Any, workers: int, make: Callable[[], Callable[[Any], T]], tasks: Sequence[Any]) -> Iterator[T]:
    """What workers make of the tasks, each of them once, as they come; a worker that dies is replaced."""

    class Worker:
        def __init__(self) -> None:
            self.work = make()

        def do(self, task: Any) -> Any:
            return self.work(task)

    actor: Any = ray.remote(num_cpus=1)(Worker)
    waiting: deque[tuple[Any, int]] = deque((task, 0) for task in tasks)
    busy: dict[Any, tuple[Any, Any, int]] = {}

    def hand_out(worker: Any) -> None:
        if waiting:
            task, deaths = waiting.popleft()
            busy[worker.do.remote(task)] = worker, task, deaths

    for _ in range(min(workers, len(tasks))):
        hand_out(actor.remote())
    while busy:
        (done,), _ = ray.wait(list(busy), num_returns=1)
        worker, task, deaths = busy.pop(done)
        try:
            found = ray.get(done)
        except ray.exceptions.RayActorError as error:
            if deaths + 1 >= _MOST_DEATHS:
                raise FileError(_died(error, deaths + 1)) from None
            waiting.append((task, deaths + 1))
            hand_out(actor.remote())
            continue
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, Exception) else FileError(str(error).splitlines()[-1]) from None
        yield found
        hand_out(worker)


def _died(error: Exception, times: int) -> str:
    said = str(error).strip().partition("\n")[0]
    return f"a worker of Ray died {times} times at the same rows ({said}); give it more memory, or use --engine stream"
