"""What the service counts, as Prometheus reads it."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_GRAPHS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one service.

    Attributes:
        requests: Requests by route, method and status.
        seconds: Time to answer by route.
        batch: Graphs per batch.
        waiting: Requests that wait for the model.
        runs: Runs that are shown.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "gsat_requests", "Requests answered.", ("route", "method", "status"),
            registry=self._registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "gsat_request_seconds", "Time to answer.", ("route",),
            buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self.batch = Histogram(
            "gsat_batch_graphs", "Graphs computed at once.",
            buckets=_GRAPHS, registry=self._registry,
        )  # fmt: skip
        self.waiting = Gauge(
            "gsat_waiting_requests", "Requests that wait for the model.", registry=self._registry
        )
        self.runs = Gauge("gsat_runs", "Runs that are shown.", registry=self._registry)

    def text(self) -> bytes:
        """Write all counters in Prometheus' text format."""
        return generate_latest(self._registry)
