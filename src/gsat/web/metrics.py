"""Counters of the service, in Prometheus' format."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_GRAPHS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        here = self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self.requests = Counter("gsat_requests", "Requests answered.", labels, registry=here)
        self.seconds = Histogram(
            "gsat_request_seconds", "Response time.", ("route",), buckets=_SECONDS, registry=here
        )
        self.batch = Histogram(
            "gsat_batch_graphs", "Graphs per batch.", buckets=_GRAPHS, registry=here
        )
        self.waiting = Gauge(
            "gsat_waiting_requests", "Requests that wait for the model.", registry=here
        )
        self.runs = Gauge("gsat_runs", "Runs of the service.", registry=here)

    def text(self) -> bytes:
        """Write all counters."""
        return generate_latest(self._registry)
