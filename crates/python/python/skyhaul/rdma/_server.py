"""Regions whose memory is arrays, and the messages that peers wrote into them.

    from skyhaul import rdma

    with rdma.Server("10.0.0.7:7000", "vis:64MiB:write") as server:
        for message in server:                               # or: async for
            if isinstance(message, rdma.Written):
                use(message.data, message.mask())
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _native
from .._awaited import Awaited
from .._named import Span
from .._native import Empty, Stopped
from ._report import ServerReport

if TYPE_CHECKING:
    from typing_extensions import Buffer

    # Before Python 3.12 type checkers do not know that arrays have the buffer protocol.
    Bytes: TypeAlias = Buffer | npt.NDArray[Any]

__all__ = ["Empty", "Lost", "Region", "Server", "Stopped", "Written"]


def mask_of(valid: Iterable[tuple[int, int]], start: int, length: int, itemsize: int) -> npt.NDArray[np.bool_]:
    """Which items of `itemsize` bytes arrived whole, of `length` bytes from `start` on."""
    if itemsize < 1 or length % itemsize:
        raise ValueError(f"{length} bytes are no whole number of items of {itemsize}; hint: itemsize=array.dtype.itemsize")
    mask = np.zeros(length // itemsize, np.bool_)
    for first, stop in valid:
        mask[-((start - first) // itemsize) : (stop - start) // itemsize] = True
    return mask


class Region:
    """Memory of this host that peers may write or read.

    Peers write it at any time, also while an array of it is used: a byte is then that of before or after the write, and a number may be
    a mixture. The bytes of a `Written` are those of its message until the peer writes them again; copy what you keep longer.
    """

    def __init__(self, native: _native.RdmaServer, index: int, name: str, rights: str, memory: _native.RegionMemory) -> None:
        self._native, self._index = native, index
        self.name: str = name
        """Its name in addresses."""
        self.rights: str = rights
        """What peers may do: "read", "write" or "read,write"."""
        self.array: npt.NDArray[np.uint8] = np.frombuffer(memoryview(memory), np.uint8)
        """Its bytes, zero at first: no copy, and read-only. `array.view(dtype)` gives numbers. It outlives the server."""

    @property
    def nbytes(self) -> int:
        """Its length in bytes."""
        return self.array.nbytes

    def place(self, data: Bytes, offset: int = 0) -> None:
        """Copy an array, or any object with the buffer protocol, into the region from byte `offset` on, for peers to read. A peer that reads
        meanwhile gets bytes of before and after."""
        self._native.place(self._index, offset, data)

    def __repr__(self) -> str:
        return f"<region {self.name} of {self.nbytes} bytes: {self.rights}>"


class Written(NamedTuple):
    """A Write of a peer that has ended, whole or in part. Ranges are of the region."""

    region: Region
    """Where it was written."""
    connection: int
    """The connection, by the order of acceptance from 1."""
    number: int
    """Its number on this connection, from 1; 0 for immediate data that came by themselves, as over TCP, where they follow their Write."""
    offset: int
    """Its first byte that is known."""
    length: int
    """Bytes from there to its end; up to the furthest byte that arrived if its end is not known."""
    complete: bool
    """Whether all of it arrived, with its immediate data if it has any. Nothing else says so: the end of a message may be missing without
    being known."""
    valid: list[Span]
    """The ranges that arrived."""
    missing: list[Span]
    """The ranges that did not, as far as known."""
    immediate: int | None
    """Its immediate data, if they arrived."""

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """Its bytes in the region: no copy, read-only. Only those of `valid` are of this message."""
        return self.region.array[self.offset : self.offset + self.length]

    def mask(self, itemsize: int = 1) -> npt.NDArray[np.bool_]:
        """For each item of `itemsize` bytes of `data`: whether it arrived whole."""
        return mask_of(self.valid, self.offset, self.length, itemsize)


class Lost(NamedTuple):
    """Messages of a peer of which no bytes arrived."""

    region: Region
    """The region that the connection is for."""
    connection: int
    """The connection, by the order of acceptance from 1."""
    numbers: range
    """Their numbers. Without immediate data, nobody knows whether they were Writes or requests to read."""
    length: int
    """With immediate data: bytes of the Write, of which nobody knows the place. Otherwise 0."""
    immediate: int | None
    """The immediate data, if they arrived."""


class Server(Awaited[Written | Lost]):
    """Exposes regions over UDP, or TCP, and iterates what peers wrote:

        with rdma.Server("10.0.0.7:7000", "vis:64MiB:read,write") as server:
            for message in server:                           # or: async for
                ...

    A thread of its own places bytes and answers Reads; it never waits for Python. Messages that have ended, complete or not, wait in a
    queue. The iteration ends when the server does: after `stop`, after `duration` seconds, or with the last of `connections` connections.
    Anyone who reaches the port can do what a region allows.

    | argument | meaning |
    |---|---|
    | `listen` | `"10.0.0.7:7000"`, or `"rdma+tcp://10.0.0.7:7000"` for TCP; port 0 is one that is free |
    | `regions` | each NAME:SIZE:RIGHTS, such as `"vis:64MiB:read,write"` |
    | `connections`, `duration` | end with the last of so many connections; after so many seconds |
    | `queue` | messages that wait to be taken; further ones are counted (`not_queued` of the report) |
    | `faults` | of datagrams that arrive (UDP), for tests: `"loss=0.01,seed=7"` |
    | `packet` | longest datagram of answers to Reads |
    | `crc` | ask for a checksum in each datagram or frame; `None`: in frames over TCP |
    | `buffer` | bytes of the socket's buffer |

        >>> with Server("127.0.0.1:0", "vis:1MiB:read,write") as server:
        ...     server.regions["vis"]
        <region vis of 1048576 bytes: read,write>
    """

    def __init__(
        self,
        listen: str,
        *regions: str,
        connections: int | None = None,
        duration: float | None = None,
        queue: int = 65536,
        faults: str | None = None,
        packet: int | None = None,
        crc: bool | None = None,
        buffer: int | None = None,
    ) -> None:
        self._waiting = []
        self._native = _native.RdmaServer(
            listen, list(regions), connections=connections, duration=duration, queue=queue, faults=faults, packet=packet, crc=crc,
            buffer=buffer,
        )  # fmt: skip
        self._regions = [
            Region(self._native, index, name, ",".join(word for word, may in (("read", read), ("write", write)) if may), memory)
            for index, (name, read, write, memory) in enumerate(self._native.regions())
        ]

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system chose: `rdma+udp://127.0.0.1:7000`. A region of it is `address + "/vis"`."""
        return self._native.address

    @property
    def regions(self) -> dict[str, Region]:
        """Its regions by name."""
        return {region.name: region for region in self._regions}

    def get(self, timeout: float | None = None) -> Written | Lost:
        """The next message; `Empty` after `timeout` seconds, `Stopped` when the server has ended and no message is left, OSError if it
        failed."""
        index, connection, (first, stop), in_region, valid, missing, complete, immediate = self._native.get(timeout)
        region = self._regions[index]
        is_alone = first == stop
        if not in_region and not is_alone:
            return Lost(region, connection, range(first, stop), missing[-1][1] if missing else 0, immediate)
        known = valid + missing
        # A Write may have no bytes.
        start, end = min((first for first, _ in known), default=0), max((behind for _, behind in known), default=0)
        spans = [Span(*one) for one in valid], [Span(*one) for one in missing]
        return Written(region, connection, first, start, end - start, complete, *spans, immediate)

    def get_nowait(self) -> Written | Lost:
        """The next message if one is queued, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Written | Lost:
        try:
            return self.get()
        except Stopped:
            raise StopIteration from None

    def fileno(self) -> int:
        """A descriptor that is readable while a message is queued, or the server has ended."""
        return self._native.fileno()

    def report(self) -> ServerReport:
        """What it did so far."""
        return self._told(self._native.report())

    def stop(self) -> ServerReport:
        """Close the connections, which takes up to two seconds if a peer is gone, and end; returns the last report. Queued messages can still be
        taken."""
        return self._told(self._native.stop())

    def _told(self, text: str) -> ServerReport:
        report: ServerReport = json.loads(text) | {"not_queued": self._native.not_queued}
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the server is its parent's.
        if not self._native.forked:
            self.stop()

    async def astop(self) -> ServerReport:
        """As `stop`, while other tasks run."""
        return await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        return f"<RDMA server at {self.address}: {', '.join(region.name for region in self._regions)}>"
