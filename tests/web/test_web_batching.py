"""Answering together: what is taken into a batch, what is dropped, what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from web_harness import graph_json, make_service

import gsat
from gsat.web.batching import Batcher
from gsat.web.errors import RequestError
from gsat.web.inputs import Asked
from gsat.web.limits import Limits
from gsat.web.metrics import Metrics

pytestmark = pytest.mark.medium


def _asked(runs: Path, count: int) -> tuple[Asked, ...]:
    graphs = gsat.open_run(runs / "motifs-a").graphs()
    return tuple(Asked([graph_json(graphs[i])], False, True) for i in range(count))


def _sizes(metrics: Metrics) -> tuple[float, float]:
    found = dict(line.rsplit(" ", 1) for line in metrics.text().decode().splitlines())
    return float(found["gsat_batch_graphs_count"]), float(found["gsat_batch_graphs_sum"])


@pytest.mark.parametrize(("together", "batches"), [(True, 2), (False, 6)])
def test_what_waits_is_computed_together(runs: Path, together: bool, batches: int) -> None:
    loaded = make_service(runs).library.open("motifs-a")
    metrics = Metrics()

    async def ask() -> None:
        batcher = Batcher(Limits(batch_graphs=4), metrics, together)
        asking = [asyncio.create_task(batcher.answer(loaded, one)) for one in _asked(runs, 6)]
        await asyncio.sleep(0)
        batcher.start()
        answers = await asyncio.gather(*asking)
        assert [len(answer) for answer in answers] == [1] * 6
        await batcher.stop()

    asyncio.run(ask())
    assert _sizes(metrics) == (batches, 6)


def test_a_full_queue_is_refused_and_a_given_up_question_is_dropped(runs: Path) -> None:
    loaded = make_service(runs).library.open("motifs-a")
    metrics = Metrics()

    async def ask() -> None:
        batcher = Batcher(Limits(waiting=2), metrics)
        first, second, third = _asked(runs, 3)
        given_up = asyncio.create_task(batcher.answer(loaded, first))
        kept = asyncio.create_task(batcher.answer(loaded, second))
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="2 requests are waiting") as error:
            await batcher.answer(loaded, third)
        assert error.value.status == 503
        given_up.cancel()
        await asyncio.sleep(0)
        batcher.start()
        assert len(await kept) == 1
        await batcher.stop()

    asyncio.run(ask())
    assert _sizes(metrics) == (1, 1)
