"""Data-parallel training of one run by several processes, on one machine or on several.

Every process has the whole data set and takes its part of each batch; DistributedDataParallel
averages the gradients, so all have the same weights. The batch is the recipe's, the order and the
random numbers are those of one process, and losses are weighted so that the gradient is that of the
whole batch. What differs is batch normalisation: each process normalises by its own part, and the
running statistics are those of the first process.

Only the first process evaluates; it sends its metrics to the others, so that all decide alike;
only the first writes files and prints.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

# Imported before a group is made: its functions keep the group of that moment as a default, and a
# group that is never let go keeps its threads. One that drops a tensor when Python ends aborts.
import torch.distributed.nn
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gsat.core.errors import GSATError, OtherProcessError, RunError
from gsat.methods.base import GradientSync

T = TypeVar("T")

# A process that dies is noticed at once; one that prepares data may take long.
_PATIENCE = timedelta(days=1)


class ProcessGroup(GradientSync):
    """The processes that train one run together: torch's process group, or this process alone.

    With one process, every method returns at once.
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
        """Weight a mean so that its mean over all processes is the mean over all entries."""
        if self.size == 1:
            return value
        count = (~over.isnan()).sum().to(torch.float64)
        total = count.clone()
        dist.all_reduce(total)
        return value * (count * self.size / total.clamp(min=1)).to(value.dtype)

    # -- an epoch -------------------------------------------------------------------------------

    def average(self, values: dict[str, float]) -> dict[str, float]:
        """The mean of each value over all processes."""
        if self.size == 1:
            return values
        sums = torch.tensor(list(values.values()), dtype=torch.float64)
        dist.all_reduce(sums)
        return dict(zip(values, (sums / self.size).tolist(), strict=True))

    def synchronise_statistics(self, networks: Iterable[nn.Module]) -> None:
        """Copy the buffers of the first process to all: its last step has changed them."""
        if self.size > 1:
            for network in networks:
                for buffer in network.buffers():
                    dist.broadcast(buffer, src=0)

    def any(self, here: bool) -> bool:
        """Whether a condition holds in any process."""
        return here if self.size == 1 else any(self._gather(here))

    def on_main(self, make: Callable[[], T]) -> T:
        """Call a function in the first process and return its value in all of them."""
        if self.size == 1:
            return make()
        message: list[Any] = []  # the value, or the text and exit code of an error
        error: GSATError | None = None
        if self.is_main:
            try:
                message = [make()]
            except GSATError as caught:
                error, message = caught, [str(caught), caught.exit_code]
        message = self._gather(message)[0]
        if error is not None:
            raise error
        if len(message) > 1:
            raise OtherProcessError(*message)
        return message[0]

    def release(self) -> None:
        """Remove the hooks from the network."""
        self._wrapped = None

    # -- errors ---------------------------------------------------------------------------------

    def common_error(self, error: GSATError) -> GSATError:
        """The error to raise where all processes meet the same one: only the first reports it."""
        return error if self.is_main else OtherProcessError(str(error), error.exit_code)

    def check_same(self, what: str, value: Any) -> None:
        """Raise in all processes unless they have the same value."""
        if self.size > 1 and any(found != value for found in self._gather(value)):
            raise self.common_error(
                RunError(
                    f"the processes of this training do not see the same: {what} differs; give all "
                    "of them the same files"
                )
            )

    @contextmanager
    def share_errors(self) -> Iterator[None]:
        """Make an error within a ``with`` block, in any process, an error in all of them.

        The first process that has one reports it. In the block no process may wait for another.
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
        messages = self._gather((str(error) or type(error).__name__) if error else "")
        if not any(messages):
            return
        first = next(rank for rank, message in enumerate(messages) if message)
        if error is not None and first == self.rank:
            raise error
        raise OtherProcessError(f"process {first} of this training failed: {messages[first]}")

    @contextmanager
    def report_lost_process(self) -> Iterator[None]:
        """Turn the end of another process, within a ``with`` block, into a one-line error."""
        try:
            yield
        except RuntimeError as error:
            # Gloo raises a plain RuntimeError.
            if self.size == 1 or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
                raise
            message = "another process of this training has ended; what was saved is kept"
            raise self.common_error(RunError(message)) from error
        finally:
            self.release()

    def _gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank; sent as JSON, for torch's own way pickles them."""
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(content)]))
        longest = int(max(sizes))
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(content)] = content
        parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        texts = (part[: int(size)] for part, size in zip(parts, sizes, strict=True))
        return [json.loads(text.numpy().tobytes()) for text in texts]


def process_count() -> int:
    """How many processes torchrun has started for this training; 1 without torchrun."""
    by_torchrun = dist.is_available() and dist.is_torchelastic_launched()
    return int(os.environ["WORLD_SIZE"]) if by_torchrun else 1


@contextmanager
def join_processes() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun has started, if any; leave them at the end of the block."""
    if process_count() == 1:
        yield ProcessGroup()
        return
    # Gloo and NCCL, to exchange numbers on the CPU and on GPUs.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=_PATIENCE)
    group = ProcessGroup()
    try:
        with group.report_lost_process():
            yield group
    except GSATError as error:
        # torchrun ends all processes when one has ended: the one that reports the error must come
        # first. It never answers the others; when it has left the group, their question fails.
        if isinstance(error, OtherProcessError):
            with suppress(RuntimeError):
                group.any(True)
        atexit.register(dist.destroy_process_group)  # when the error has been printed
        raise
    dist.destroy_process_group()


def resume_command(processes: int) -> str:
    """The command that resumes a run of this number of processes, without the path of the run."""
    return "gsat resume" if processes == 1 else "torchrun … -m gsat resume"


def device_of_process(device: str, processes: int) -> str:
    """The device of this process: each of several processes on a machine uses its own GPU."""
    if processes == 1 or not device.startswith("cuda"):
        return device
    if device != "cuda":
        raise GSATError(
            f"several processes use one GPU each; choose the device 'cuda', not '{device}'"
        )
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
