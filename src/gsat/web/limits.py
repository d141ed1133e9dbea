"""What one request, and all of them together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of the service.

    Attributes:
        body_bytes: Bytes of a request's body.
        graphs: Graphs, or molecules, of one request.
        nodes: Nodes of one graph.
        edges: Edges of one graph.
        characters: Characters of one SMILES.
        seconds: Time for an answer.
        body_seconds: Time in which the body has to arrive.
        header_seconds: Time in which the head of a request has to arrive.
        waiting: Requests that may wait for the model.
        batch_graphs: Graphs that the model is given at once.
        runs: Runs that are kept in memory.
        cache_bytes: Memory for scores and pictures of runs.
    """

    body_bytes: int = 8 << 20
    graphs: int = 1000
    nodes: int = 10_000
    edges: int = 100_000
    characters: int = 2000
    seconds: float = 60.0
    body_seconds: float = 15.0
    header_seconds: float = 10.0
    waiting: int = 512
    batch_graphs: int = 256
    runs: int = 8
    cache_bytes: int = 256 << 20
