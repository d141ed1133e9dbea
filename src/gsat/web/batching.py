"""Batching of concurrent requests: a model computes many graphs almost as fast as one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from anyio import CapacityLimiter, to_thread

from gsat.core.errors import DataError, GSATError
from gsat.explanation import Explanation
from gsat.molecules.smiles import short
from gsat.web.library import LoadedRun
from gsat.web.metrics import Metrics
from gsat.web.rdkit_process import ReadMolecules
from gsat.web.requests import BadInputError, GraphInput, Limits, Question, RequestError

Answer = Explanation | GSATError
GATHERING: Final = 0.002  # seconds in which clients that were answered together may ask again
READERS: Final = 4  # threads that wait for the process that reads molecules
WAITING_READERS: Final = 64
BUSY: Final = "too many requests are waiting; try again in a moment"


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Graphs, or molecules that were read, in the queue."""

    loaded: LoadedRun
    work: Sequence[GraphInput] | ReadMolecules
    answer: asyncio.Future[list[Answer]]
    since: float = field(default_factory=time.monotonic)

    @property
    def graphs(self) -> int:
        """Number of graphs."""
        return len(self.work.rows if isinstance(self.work, ReadMolecules) else self.work)

    @property
    def edges(self) -> int:
        """Number of edges."""
        if isinstance(self.work, ReadMolecules):
            return 2 * int(self.work.arrays["bonds"].sum())
        return sum(graph.num_edges for graph in self.work)

    def fits(self, first: _Waiting) -> bool:
        """Whether both can be in one batch."""
        return self.loaded is first.loaded and type(self.work) is type(first.work)


class Batcher:
    """A queue of questions, answered in batches.

    A question that comes alone is answered at once. While the model computes one batch, the next
    one gathers. A large question is divided: other questions are computed between its parts.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self._queue: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        self._readers = CapacityLimiter(READERS)

    def start(self) -> None:
        """Begin to answer; needs a running event loop."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Refuse all waiting questions, and end without waiting for the model."""
        if self._task is not None:
            self._task.cancel()
        for waiting in self._queue:
            if not waiting.answer.done():
                waiting.answer.set_exception(RequestError(503, "the service is stopping"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def overloaded(self) -> bool:
        """Whether a question that came now might not be answered in time."""
        oldest = min((waiting.since for waiting in self._queue), default=time.monotonic())
        return (
            2 * len(self._queue) > self.limits.waiting
            or time.monotonic() - oldest > self.limits.wait_seconds
        )

    async def answer(self, loaded: LoadedRun, question: Question) -> list[Answer]:
        """Explain the graphs or molecules of a question."""
        answers: list[Answer] = []
        for part in _parts(question, self.limits):
            if isinstance(part[0], str):
                answers += await self._answer_molecules(loaded, [str(text) for text in part])
            else:
                graphs = [graph for graph in part if isinstance(graph, GraphInput)]
                answers += await self._ask(loaded, graphs)
        first = answers[0]
        if isinstance(first, GSATError) and all(isinstance(one, GSATError) for one in answers):
            raise first if isinstance(first, RequestError) else BadInputError(str(first))
        return answers

    async def _answer_molecules(self, loaded: LoadedRun, texts: list[str]) -> list[Answer]:
        if self._readers.statistics().tasks_waiting >= WAITING_READERS:
            raise RequestError(503, BUSY)
        read = await to_thread.run_sync(loaded.read_molecules, texts, limiter=self._readers)
        answers: list[Answer] = [
            DataError(f"{short(text)} can't be used: {read.problems.get(row, '')}")
            for row, text in enumerate(texts)
        ]
        if read.rows:
            computed = await self._ask(loaded, read)
            for row, answer in zip(read.rows, computed, strict=True):
                answers[row] = answer
        return answers

    async def _ask(
        self, loaded: LoadedRun, work: Sequence[GraphInput] | ReadMolecules
    ) -> list[Answer]:
        """Wait in the queue."""
        if len(self._queue) >= self.limits.waiting:
            raise RequestError(503, BUSY)
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(loaded, work, future))
        self.metrics.waiting.set(len(self._queue))
        self._arrived.set()
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if not batch:
                if not self._queue:
                    self._arrived.clear()
                continue
            try:
                answers = await loop.run_in_executor(self._thread, _answer_batch, batch)
            except Exception as error:
                for waiting in batch:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
                continue
            self.metrics.batch.observe(sum(waiting.graphs for waiting in batch))
            for waiting, answer in zip(batch, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
            if len(batch) > 1:
                await asyncio.sleep(GATHERING)

    def _next_batch(self) -> list[_Waiting]:
        """Take questions for one model that fit into a batch, and drop cancelled and late ones."""
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        graphs = edges = 0
        now = time.monotonic()
        for waiting in self._queue:
            if waiting.answer.done():  # the client has gone
                continue
            if now - waiting.since > self.limits.wait_seconds:
                waiting.answer.set_exception(RequestError(503, BUSY))
                continue
            if not batch or (
                waiting.fits(batch[0])
                and graphs + waiting.graphs <= self.limits.batch_graphs
                and edges + waiting.edges <= self.limits.batch_edges
            ):
                batch.append(waiting)
                graphs, edges = graphs + waiting.graphs, edges + waiting.edges
            else:
                others.append(waiting)
        self._queue = others
        self.metrics.waiting.set(len(others))
        return batch


def _parts(question: Question, limits: Limits) -> Iterator[list[GraphInput | str]]:
    """Divide the items of a question into parts that fit into a batch."""
    part: list[GraphInput | str] = []
    edges = 0
    for item in question.items:
        more = 2 * len(item) if isinstance(item, str) else item.num_edges
        if part and (len(part) >= limits.batch_graphs or edges + more > limits.batch_edges):
            yield part
            part, edges = [], 0
        part.append(item)
        edges += more
    yield part


def _answer_batch(batch: list[_Waiting]) -> list[list[Answer]]:
    """Answer the questions of a batch; an invalid item does not affect the others."""
    loaded = batch[0].loaded
    molecules = [one.work for one in batch if isinstance(one.work, ReadMolecules)]
    items = [item for one in batch if not isinstance(one.work, ReadMolecules) for item in one.work]
    try:
        store = loaded.molecule_graphs(molecules) if molecules else loaded.read(items)
        answers: Iterator[Answer] = iter(loaded.explain(store))
    except GSATError as error:
        if molecules:
            return [[error] * one.graphs for one in batch]
        answers = iter([_answer_one(loaded, item) for item in items])
    return [[next(answers) for _ in range(one.graphs)] for one in batch]


def _answer_one(loaded: LoadedRun, item: GraphInput) -> Answer:
    try:
        return loaded.explain(loaded.read([item]))[0]
    except GSATError as error:
        return error
