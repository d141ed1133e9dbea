"""Our Adam is torch's, bit for bit, and does not import its compiler."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from gsat.ops import Adam


def test_it_is_torchs_bit_for_bit() -> None:
    torch.manual_seed(0)
    ours, theirs = (nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    adam = Adam(ours.parameters(), 1e-2, 3e-6)
    torchs = torch.optim.Adam(theirs.parameters(), 1e-2, weight_decay=3e-6, fused=True)
    for number in range(20):
        x = torch.randn(11, 7)
        for network, optimiser in ((ours, adam), (theirs, torchs)):
            optimiser.zero_grad(set_to_none=True)
            # Now and then, some weights have no gradient.
            (network(x) if number % 3 else network[0](x)).square().sum().backward()
            optimiser.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
    found, expected = adam.state_dict(), torchs.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert list(found["state"]) == list(expected["state"])
    for mine, other in zip(found["state"].values(), expected["state"].values(), strict=True):
        assert list(mine) == list(other)
        assert all(torch.equal(mine[key], other[key]) for key in mine)


def test_it_does_not_import_the_compiler() -> None:
    code = (
        "import sys, torch; from gsat.ops import Adam; n = torch.nn.Linear(1, 1); "
        "a = Adam(n.parameters(), 1e-3); n(torch.ones(1, 1)).sum().backward(); a.step(); "
        "a.zero_grad(); a.load_state_dict(a.state_dict()); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
