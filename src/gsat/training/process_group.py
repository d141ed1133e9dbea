"""One training shared among several processes, on one machine or on several.

Every process has the whole data set and takes its part of each batch; DistributedDataParallel
averages the gradients, so all have the same weights. The batch is the recipe's, the order and the
random numbers are those of one process, and losses are weighed so that the gradient is that of the
whole batch. What differs is batch normalisation: each process normalises by its own part, and the
running statistics are those of the first process.

Only the first process evaluates, and it tells the others what it found, so that all decide alike;
only the first writes and speaks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gsat.errors import GSATError, OtherProcessError, RunError
from gsat.methods.base import GradientSync

T = TypeVar("T")

# A process that dies is noticed at once; one that prepares data may take long.
_PATIENCE = timedelta(days=1)


class ProcessGroup(GradientSync):
    """The processes that train together: those of torch's process group where there is one, else
    this process alone.

    Attributes:
        rank: the number of this process. size: how many there are.
    """

    def __init__(self) -> None:
        grouped = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if grouped else 0
        self.size = dist.get_world_size() if grouped else 1
        self._wrapped: DistributedDataParallel | None = None

    @property
    def is_main(self) -> bool:
        """Whether this is the first process."""
        return self.rank == 0

    # -- a step ---------------------------------------------------------------------------------

    def part(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's part of a batch."""
        return self.parts(rows)[self.rank]

    def parts(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Each process's part of a batch; the parts differ by one graph at most.

        A batch of fewer graphs than processes is taken whole by each: none may be idle, and the
        mean of equal gradients is the same gradient.
        """
        return [rows] * self.size if len(rows) < self.size else np.array_split(rows, self.size)

    def through(self, network: nn.Module) -> nn.Module:
        """The network, called so that its gradient becomes the mean over all processes."""
        if self.size == 1:
            return network
        if self._wrapped is None or self._wrapped.module is not network:
            # Biases before a batch norm cancel and get no gradient: not all weights are used.
            self._wrapped = DistributedDataParallel(network, find_unused_parameters=True)
        return self._wrapped

    def mean(self, value: Tensor, over: Tensor) -> Tensor:
        """``value``, a mean over the entries of ``over`` that are not NaN, weighed so that its mean
        over all processes is the mean over the entries of all of them."""
        if self.size == 1:
            return value
        count = (~over.isnan()).sum().to(torch.float64)
        total = count.clone()
        dist.all_reduce(total)
        return value * (count * self.size / total.clamp(min=1)).to(value.dtype)

    # -- an epoch -------------------------------------------------------------------------------

    def averaged(self, values: dict[str, float]) -> dict[str, float]:
        """The mean of each value over all processes."""
        if self.size == 1:
            return values
        sums = torch.tensor(list(values.values()), dtype=torch.float64)
        dist.all_reduce(sums)
        return dict(zip(values, (sums / self.size).tolist(), strict=True))

    def synchronise_statistics(self, networks: Iterable[nn.Module]) -> None:
        """Give all processes the buffers of the first: its last step has changed them."""
        if self.size > 1:
            for network in networks:
                for buffer in network.buffers():
                    dist.broadcast(buffer, src=0)

    def any(self, here: bool) -> bool:
        """Whether it holds in any process."""
        return here if self.size == 1 else any(self._gather(here))

    def by_main(self, make: Callable[[], T]) -> T:
        """What the first process makes, as plain values for JSON; its errors are errors of all."""
        if self.size == 1:
            return make()
        said: list[Any] = []
        error: GSATError | None = None
        if self.is_main:
            try:
                said = [make()]
            except GSATError as caught:
                error, said = caught, [str(caught), caught.exit_code]
        said = self._gather(said)[0]
        if error is not None:
            raise error
        if len(said) > 1:
            raise OtherProcessError(*said)
        return said[0]

    def release(self) -> None:
        """Take the hooks off the network."""
        self._wrapped = None

    # -- errors ---------------------------------------------------------------------------------

    def common(self, error: GSATError) -> GSATError:
        """An error that all processes meet at the same time: the first tells it."""
        return error if self.is_main else OtherProcessError(str(error), error.exit_code)

    def check_same(self, what: str, value: Any) -> None:
        """Raise in all processes unless they have the same value; plain values for JSON."""
        if self.size > 1 and any(other != value for other in self._gather(value)):
            raise self.common(
                RunError(
                    f"the processes of this training do not see the same: {what} differs; give all "
                    "of them the same files"
                )
            )

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """An error in one process is one in all; the first process that has one tells it.

        Inside, no process may wait for another.
        """
        error: GSATError | OSError | None = None
        try:
            yield
        except (GSATError, OSError) as caught:
            if self.size == 1:
                raise
            error = caught
        if self.size == 1:
            return
        said = self._gather((str(error) or type(error).__name__) if error else "")
        if not any(said):
            return
        first = next(rank for rank, message in enumerate(said) if message)
        if error is not None and first == self.rank:
            raise error
        raise OtherProcessError(f"process {first} of this training said: {said[first]}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The end of another process becomes one clear line."""
        try:
            yield
        except RuntimeError as error:
            # Gloo has no error type of its own.
            if self.size == 1 or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
                raise
            said = "another process of this training has ended; what was saved stands"
            raise self.common(RunError(said)) from error
        finally:
            self.release()

    def _gather(self, said: Any) -> list[Any]:
        """What every process says, by rank. As JSON: torch's own way would pickle it."""
        content = torch.frombuffer(bytearray(json.dumps(said).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(content)]))
        longest = int(max(sizes))
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(content)] = content
        parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        texts = (part[: int(size)] for part, size in zip(parts, sizes, strict=True))
        return [json.loads(text.numpy().tobytes()) for text in texts]


def launched() -> int:
    """How many processes torchrun has started for this training; 1 without it."""
    by_torchrun = dist.is_available() and dist.is_torchelastic_launched()
    return int(os.environ["WORLD_SIZE"]) if by_torchrun else 1


@contextmanager
def group() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun has started, if it has; leave them at the end."""
    if launched() == 1:
        yield ProcessGroup()
        return
    # Both, so that numbers can be exchanged wherever they are.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=_PATIENCE)
    team = ProcessGroup()
    try:
        with team.watched():
            yield team
    except OtherProcessError:
        # torchrun ends all processes when one has ended: the one that tells must come first. It
        # never answers this; its end is the answer.
        with suppress(RuntimeError):
            team.any(True)
        raise
    # Not after an error: the others would take that for the end of this process.
    dist.destroy_process_group()


def resume_command(processes: int) -> str:
    """What a user types before the name of a run to go on with it."""
    return "gsat resume" if processes == 1 else "torchrun … -m gsat resume"


def own_device(device: str) -> str:
    """The device of this process: of several on a machine, each has a GPU of its own."""
    if ProcessGroup().size == 1 or not device.startswith("cuda"):
        return device
    if device != "cuda":
        raise GSATError(f"several processes use one GPU each; give --device cuda, not {device}")
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
