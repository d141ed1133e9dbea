"""Helpers of the tests of the page."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from gsat.web.guard import Policy
from gsat.web.library import RunLibrary
from gsat.web.limits import Limits
from gsat.web.service import Service

LIMITS = Limits(body_bytes=20_000, graphs=5, nodes=50, edges=200, characters=60, body_seconds=0.3)
EVIL = "<script>alert(1)</script>'\"&"
_PARTS = ("C", "CC", "CCC", "c1ccccc1", "C(=O)O", "N", "CN", "O", "CO", "Cl", "C#N", "[N+](=O)[O-]")


def molecules_table(rows: int = 60) -> str:
    """A table of molecules with a class and a number; names of a few would be dangerous."""
    draw = random.Random(0)
    lines, seen = ["name,smiles,active,value"], set()
    while len(lines) <= rows:
        smiles = "C" + "".join(f"C({draw.choice(_PARTS)})" for _ in range(draw.randint(1, 5)))
        if smiles in seen:
            continue
        seen.add(smiles)
        nitro = "[N+]" in smiles
        name = f"mol-{len(lines)}" if len(lines) % 7 else f"{EVIL}-{len(lines)}"
        quoted = '"' + name.replace('"', '""') + '"'
        lines.append(f"{quoted},{smiles},{'yes' if nitro else 'no'},{len(smiles) / 10}")
    return "\n".join(lines) + "\n"


MOLECULES = molecules_table()


def make_service(
    *paths: Path, limits: Limits | None = None, token: str | None = None, **more: Any
) -> Service:
    """A service of runs at paths."""
    bounds = limits or Limits()
    policy = Policy(token=token)
    return Service(RunLibrary(paths, bounds), policy, bounds, **more)


def graph_json(data: Any) -> dict[str, Any]:
    """A PyG graph as the API takes it."""
    out = {"edge_index": data.edge_index.tolist(), "num_nodes": int(data.num_nodes)}
    for name in ("x", "edge_attr"):
        if data.get(name) is not None:
            out[name] = data[name].tolist()
    return out
