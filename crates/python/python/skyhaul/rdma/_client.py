"""Regions of other hosts: arrays are written into them, and read from them.

    from skyhaul import rdma

    with rdma.connect("rdma+udp://10.0.0.7:7000/vis") as region:
        region.write(visibilities, offset=0, rate=8e9)       # any object with the buffer protocol, in place
        part = region.read(0, 1 << 20, deadline=0.02)
        use(part.data, part.mask())
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _native
from .._named import Span
from ._report import ClientReport
from ._server import mask_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    # Before Python 3.12 type checkers do not know that arrays have the buffer protocol.
    Bytes: TypeAlias = Buffer | npt.NDArray[Any]

T = TypeVar("T")


class WriteDone(NamedTuple):
    """What was handed to the kernel. Whether it arrived, the peer knows."""

    numbers: range
    """The numbers of the messages on this connection, from 1."""
    nbytes: int
    """Bytes of payload."""
    seconds: float
    """Wall seconds."""
    slipped_seconds: float
    """Seconds by which the schedule of `rate` slipped."""


class ReadDone(NamedTuple):
    """A range of a region as it was read."""

    data: npt.NDArray[np.uint8]
    """Its bytes; zero where nothing arrived."""
    offset: int
    """The place of the first in the region."""
    missing: list[Span]
    """Ranges of the region that did not arrive by the deadline."""
    requests: int
    """Requests that were sent: more than one for each 1 MiB if something was lost."""
    seconds: float
    """Wall seconds."""

    @property
    def complete(self) -> bool:
        """Whether all of it arrived."""
        return not self.missing

    @property
    def valid(self) -> list[Span]:
        """Ranges of the region that arrived."""
        starts = [self.offset, *(span.stop for span in self.missing)]
        stops = [*(span.start for span in self.missing), self.offset + len(self.data)]
        return [Span(start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]

    def mask(self, itemsize: int = 1) -> npt.NDArray[np.bool_]:
        """For each item of `itemsize` bytes of `data`: whether it arrived whole."""
        return mask_of(self.valid, self.offset, len(self.data), itemsize)


class RemoteRegion:
    """A connection to a region of another host, from `connect`. One operation runs at a time; further threads wait."""

    def __init__(self, native: _native.RdmaClient) -> None:
        self._native = native

    @property
    def address(self) -> str:
        """The region's address."""
        return self._native.address

    @property
    def nbytes(self) -> int:
        """Its length in bytes."""
        return self._native.nbytes

    @property
    def rights(self) -> str:
        """What may be done: "read", "write" or "read,write"."""
        return ",".join(word for word, may in zip(("read", "write"), self._native.rights, strict=True) if may)

    def write(
        self, data: Bytes, offset: int = 0, *, message: int | None = None, immediate: bool = True, rate: float = 0.0
    ) -> WriteDone:
        """Write an array, or any object with the buffer protocol, in place, from byte `offset` of the region on. Returns when the kernel
        has it: Writes are not acknowledged.

        | | |
        |---|---|
        | `message` | bytes of a message; None: all is one, which has to be shorter than 4 GiB |
        | `immediate` | each message has immediate data, its number, with which the peer knows its end if its last datagram is lost |
        | `rate` | bits per second of datagrams; 0 is as fast as possible |

        ValueError if it does not fit, PermissionError if the region may not be written, ConnectionResetError if the connection has ended,
        as it does when the peer is silent for eight seconds.
        """
        return self._write(data, offset, message, immediate, rate, None)

    def _write(
        self, data: Bytes, offset: int, message: int | None, immediate: bool, rate: float, stop: _native.RdmaStop | None
    ) -> WriteDone:
        first, behind, nbytes, seconds, slipped = self._native.write(data, offset, message, immediate, rate, stop)
        return WriteDone(range(first, behind), nbytes, seconds, slipped)

    def read(self, start: int = 0, stop: int | None = None, *, deadline: float = 1.0, out: npt.NDArray[Any] | None = None) -> ReadDone:
        """Read bytes `start` to `stop` of the region (None: its end), or as many as fit into the array `out`.

        Each piece of 1 MiB has `deadline` seconds from its first request on; what is missing of it is asked for again. Then, or when the
        connection ends, it ends as it is: `missing` and `mask` of the result say what did not arrive. A late answer writes to no memory.

        ValueError if the range does not lie in the region, PermissionError if it may not be read, ConnectionResetError if the connection
        had ended.
        """
        return self._read(start, stop, deadline, out, None)

    def _read(
        self, start: int, stop: int | None, deadline: float, out: npt.NDArray[Any] | None, token: _native.RdmaStop | None
    ) -> ReadDone:
        if out is not None:
            if stop is not None and stop - start != out.nbytes:
                raise ValueError(f"out has {out.nbytes} bytes, the range {stop - start}; hint: leave out stop")
            stop = start + out.nbytes
        end = self.nbytes if stop is None else stop
        if not 0 <= start < end <= self.nbytes:
            raise ValueError(f"the range {start}..{end} does not lie in the region of {self.nbytes} bytes; hint: 0 <= start < stop <= nbytes")
        memory: npt.NDArray[Any] = np.empty(end - start, np.uint8) if out is None else out
        missing, requests, seconds = self._native.read(memory, start, deadline, token)
        data: npt.NDArray[np.uint8] = memory.reshape(-1).view(np.uint8)
        return ReadDone(data, start, [Span(*one) for one in missing], requests, seconds)

    async def awrite(
        self, data: Bytes, offset: int = 0, *, message: int | None = None, immediate: bool = True, rate: float = 0.0
    ) -> WriteDone:
        """As `write`, while other tasks run. If the task is cancelled, what is under way, about 1 MiB or a message, is still sent."""
        return await _cancellable(lambda token: self._write(data, offset, message, immediate, rate, token))

    async def aread(
        self, start: int = 0, stop: int | None = None, *, deadline: float = 1.0, out: npt.NDArray[Any] | None = None
    ) -> ReadDone:
        """As `read`, while other tasks run. If the task is cancelled, nothing is written to `out` from then on."""
        return await _cancellable(lambda token: self._read(start, stop, deadline, out, token))

    def report(self) -> ClientReport:
        """What was done so far."""
        report: ClientReport = json.loads(self._native.report())
        return report

    def close(self) -> ClientReport:
        """Close the connection, and wait at most 5 s until the peer confirms; returns the last report. From it the server knows exactly how
        many datagrams were lost."""
        report: ClientReport = json.loads(self._native.close())
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the connection is its parent's.
        if not self._native.forked:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, value, trace)

    def __repr__(self) -> str:
        return f"<{self.address}, {self.nbytes} bytes: {self.rights}>"


async def _cancellable(work: Callable[[_native.RdmaStop], T]) -> T:
    """Do it in another thread, which is waited for if the task is cancelled: the caller's array is free then."""
    token = _native.RdmaStop()
    running = asyncio.ensure_future(asyncio.to_thread(work, token))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        token.set()
        await asyncio.wait([running])
        # Its own Cancelled is of no interest.
        running.exception()
        raise


def connect(
    address: str,
    *,
    faults: str | None = None,
    arrival_faults: str | None = None,
    packet: int | None = None,
    crc: bool | None = None,
    buffer: int | None = None,
) -> RemoteRegion:
    """Connect to a region, `rdma+udp://10.0.0.7:7000/vis`: for `with`.

    | argument | meaning |
    |---|---|
    | `faults`, `arrival_faults` | of segments that leave, and of datagrams that arrive, for tests: `"loss=0.01,seed=7"` |
    | `packet` | longest datagram; None: as the path carries, at most 8972 bytes |
    | `crc` | ask for a checksum in each datagram or frame; `None`: in frames over TCP |
    | `buffer` | bytes of the socket's receive buffer |

    TimeoutError if nobody answers within 5 s, ConnectionRefusedError if there is no such region.

        >>> connect("rdma+udp://127.0.0.1:7000")
        Traceback (most recent call last):
        ValueError: rdma+udp://127.0.0.1:7000 names no region; hint: add it to the address, like /vis
    """
    return RemoteRegion(_native.RdmaClient(address, faults=faults, arrival_faults=arrival_faults, packet=packet, crc=crc, buffer=buffer))
