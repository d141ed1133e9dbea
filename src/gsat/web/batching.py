"""Batching of concurrent requests: a model computes many graphs almost as fast as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from gsat.core.errors import GSATError
from gsat.explanation import Explanation
from gsat.web.library import LoadedRun
from gsat.web.metrics import Metrics
from gsat.web.requests import BadInputError, Limits, Question, RequestError

Answer = Explanation | GSATError
GATHERING: Final = 0.002  # seconds in which clients that were answered together may ask again


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A question in the queue."""

    loaded: LoadedRun
    question: Question
    answer: asyncio.Future[list[Answer]]


class Batcher:
    """A queue of questions, answered in batches.

    A question that comes alone is answered at once. While the model computes one batch, the next
    one gathers.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self._queue: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    def start(self) -> None:
        """Begin to answer; needs a running event loop."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Answer all waiting questions, then end."""
        while self._queue:
            await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=True)

    async def answer(self, loaded: LoadedRun, question: Question) -> list[Answer]:
        """Explain the graphs or molecules of a question."""
        question.check(self.limits)
        if len(self._queue) >= self.limits.waiting:
            raise RequestError(
                503, f"{len(self._queue)} requests are waiting already; try again in a moment"
            )
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(loaded, question, future))
        self.metrics.waiting.set(len(self._queue))
        self._arrived.set()
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if not batch:
                self._arrived.clear()
                continue
            questions = [waiting.question for waiting in batch]
            answers = await loop.run_in_executor(
                self._thread, _answer_batch, batch[0].loaded, questions
            )
            self.metrics.batch.observe(sum(len(question.items) for question in questions))
            for waiting, answer in zip(batch, answers, strict=True):
                if waiting.answer.done():
                    continue
                if isinstance(answer, Exception):
                    waiting.answer.set_exception(answer)
                else:
                    waiting.answer.set_result(answer)
            if len(batch) > 1:
                await asyncio.sleep(GATHERING)

    def _next_batch(self) -> list[_Waiting]:
        """Take questions for one model that fit into a batch, and drop cancelled ones."""
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        graphs = 0
        for waiting in self._queue:
            if waiting.answer.done():  # the client has gone
                continue
            size = len(waiting.question.items)
            if not batch or (
                waiting.loaded is batch[0].loaded
                and waiting.question.molecules == batch[0].question.molecules
                and graphs + size <= self.limits.batch_graphs
            ):
                batch.append(waiting)
                graphs += size
            else:
                others.append(waiting)
        self._queue = others
        self.metrics.waiting.set(len(others))
        return batch


def _answer_batch(loaded: LoadedRun, questions: list[Question]) -> list[list[Answer] | Exception]:
    """Answer the questions of a batch; an invalid item does not affect the others."""
    items = [item for question in questions for item in question.items]
    try:
        answers: Iterator[Answer] = iter(loaded.explain(loaded.read(items)))
    except GSATError:
        return [_one_by_one(loaded, question) for question in questions]
    except Exception as error:
        return [error for _ in questions]
    return [[next(answers) for _ in question.items] for question in questions]


def _one_by_one(loaded: LoadedRun, question: Question) -> list[Answer] | Exception:
    """Answer each item by itself; an error if there is no answer to any of them."""
    answers: list[Answer] = []
    for item in question.items:
        try:
            answers += loaded.explain(loaded.read([item]))
        except GSATError as error:
            answers.append(error)
        except Exception as error:
            return error
    first = answers[0]
    if isinstance(first, GSATError) and all(isinstance(one, GSATError) for one in answers):
        return first if isinstance(first, RequestError) else BadInputError(str(first))
    return answers
