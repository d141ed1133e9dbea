"""Batching: what is computed together, what is dropped, what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from web_harness import graph_json, open_run

from gsat.web.batching import Batcher
from gsat.web.metrics import Metrics
from gsat.web.requests import GraphInput, Limits, Question, RequestError

pytestmark = pytest.mark.medium


def _questions(runs: Path, count: int) -> list[Question]:
    graphs = open_run(runs, "motifs-a").run.graphs()
    return [Question(graph=GraphInput(**graph_json(graphs[i]))) for i in range(count)]


def _batches_and_graphs(metrics: Metrics) -> tuple[float, float]:
    values = dict(line.rsplit(" ", 1) for line in metrics.text().decode().splitlines())
    return float(values["gsat_batch_graphs_count"]), float(values["gsat_batch_graphs_sum"])


@pytest.mark.parametrize(("graphs", "batches"), [(4, 2), (1, 6)])
def test_waiting_questions_are_computed_together(runs: Path, graphs: int, batches: int) -> None:
    loaded, metrics = open_run(runs, "motifs-a"), Metrics()

    async def ask() -> None:
        batcher = Batcher(Limits(batch_graphs=graphs), metrics)
        asking = [
            asyncio.create_task(batcher.answer(loaded, question))
            for question in _questions(runs, 6)
        ]
        await asyncio.sleep(0)
        batcher.start()
        assert [len(answer) for answer in await asyncio.gather(*asking)] == [1] * 6
        await batcher.stop()

    asyncio.run(ask())
    assert _batches_and_graphs(metrics) == (batches, 6)


def test_a_full_queue_refuses_and_a_cancelled_question_is_dropped(runs: Path) -> None:
    loaded, metrics = open_run(runs, "motifs-a"), Metrics()

    async def ask() -> None:
        batcher = Batcher(Limits(waiting=2), metrics)
        first, second, third = _questions(runs, 3)
        cancelled = asyncio.create_task(batcher.answer(loaded, first))
        kept = asyncio.create_task(batcher.answer(loaded, second))
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as error:
            await batcher.answer(loaded, third)
        assert error.value.status == 503
        cancelled.cancel()
        await asyncio.sleep(0)
        batcher.start()
        assert len(await kept) == 1
        await batcher.stop()

    asyncio.run(ask())
    assert _batches_and_graphs(metrics) == (1, 1)


def test_an_invalid_graph_does_not_affect_the_others(runs: Path) -> None:
    loaded = open_run(runs, "motifs-a")
    valid, other = _questions(runs, 2)
    invalid = Question(graph=GraphInput(edges=[[0, 1]], x=[[1.0], [1.0]]))

    async def ask() -> list[object]:
        batcher = Batcher(Limits(), Metrics())
        asking = [
            asyncio.create_task(batcher.answer(loaded, question))
            for question in (valid, invalid, other)
        ]
        await asyncio.sleep(0)
        batcher.start()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        await batcher.stop()
        return answers

    first, refused, last = asyncio.run(ask())
    assert isinstance(refused, RequestError)
    assert refused.status == 422
    for answer, question in ((first, valid), (last, other)):
        assert answer[0].edge_mask.shape[0] == len(question.graph.edge_index[0])
