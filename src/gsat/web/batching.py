"""Concurrent requests, answered together: the model computes many graphs almost as fast as one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from gsat.core.errors import GSATError
from gsat.explanation import Explanation
from gsat.graphs import GraphStore
from gsat.web.errors import BadInputError, RequestError
from gsat.web.inputs import Asked, each_store, to_store
from gsat.web.limits import Limits
from gsat.web.loaded import LoadedRun
from gsat.web.metrics import Metrics

Answer = Explanation | GSATError
GATHERING: Final = 0.002  # seconds


@dataclass(frozen=True)
class _Waiting:
    """A question that waits for the model."""

    loaded: LoadedRun
    asked: Asked
    answer: asyncio.Future[list[Answer]]


class Batcher:
    """Answers questions in the order they come, as many at once as are waiting.

    A question that comes alone is answered at once. While the model computes one batch, the next
    one gathers; those who were answered together get a moment to ask again.
    """

    def __init__(self, limits: Limits, metrics: Metrics, together: bool = True) -> None:
        self.limits, self.metrics, self.together = limits, metrics, together
        self._queue: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    def start(self) -> None:
        """Begin to answer; needs a running event loop."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Answer what is waiting, then end."""
        while self._queue:
            await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=True)

    async def answer(self, loaded: LoadedRun, asked: Asked) -> list[Answer]:
        """Ask for explanations."""
        if len(self._queue) >= self.limits.waiting:
            raise RequestError(
                503, f"{len(self._queue)} requests are waiting already; try again in a moment"
            )
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(loaded, asked, future))
        self.metrics.waiting.set(len(self._queue))
        self._arrived.set()
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._take()
            if not batch:
                self._arrived.clear()
                continue
            answers = await loop.run_in_executor(self._thread, _compute, batch)
            self.metrics.batch.observe(sum(len(one.asked.items) for one in batch))
            for one, answer in zip(batch, answers, strict=True):
                if one.answer.done():
                    continue
                if isinstance(answer, Exception):
                    one.answer.set_exception(answer)
                else:
                    one.answer.set_result(answer)
            if len(batch) > 1:
                await asyncio.sleep(GATHERING)

    def _take(self) -> list[_Waiting]:
        """Take questions to one model that fit into a batch; given up ones are dropped."""
        self._queue = [one for one in self._queue if not one.answer.done()]
        taken: list[_Waiting] = []
        graphs = 0
        for one in self._queue:
            like = not taken or (
                one.loaded is taken[0].loaded and one.asked.molecules == taken[0].asked.molecules
            )
            fits = not taken or graphs + len(one.asked.items) <= self.limits.batch_graphs
            if like and fits:
                taken.append(one)
                graphs += len(one.asked.items)
            if not self.together or graphs >= self.limits.batch_graphs:
                break
        self._queue = [one for one in self._queue if one not in taken]
        self.metrics.waiting.set(len(self._queue))
        return taken


def _compute(batch: list[_Waiting]) -> list[list[Answer] | Exception]:
    """Answer the questions of a batch; an error of one leaves the others alone."""
    loaded, molecules = batch[0].loaded, batch[0].asked.molecules
    items = [item for one in batch for item in one.asked.items]
    try:
        answers: list[Answer] = []
        answers += loaded.explain_store(to_store(loaded, Asked(items, molecules, False)))
    except GSATError:
        return [_one_by_one(loaded, one.asked) for one in batch]
    except Exception as error:
        return [error for _ in batch]
    out: list[list[Answer] | Exception] = []
    done = 0
    for one in batch:
        out.append(answers[done : done + len(one.asked.items)])
        done += len(one.asked.items)
    return out


def _one_by_one(loaded: LoadedRun, asked: Asked) -> list[Answer] | Exception:
    out: list[Answer] = []
    try:
        for store in each_store(loaded, asked):
            out.append(_explained(loaded, store))
    except Exception as error:
        return error
    if all(isinstance(one, GSATError) for one in out):
        first: Any = out[0]
        return first if isinstance(first, RequestError) else BadInputError(str(first))
    return out


def _explained(loaded: LoadedRun, store: GraphStore | GSATError) -> Answer:
    if isinstance(store, GSATError):
        return store
    try:
        return loaded.explain_store(store)[0]
    except GSATError as error:
        return error
