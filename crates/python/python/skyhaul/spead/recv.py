"""Receiving SPEAD heaps.

    from skyhaul.spead import ItemGroup, recv

    stream = recv.Stream(heap_timeout=0.5)
    stream.add_udp_reader("239.1.2.3:7148", interface="10.0.0.5")
    for heap in stream:                      # or: async for heap in stream
        ...

One stream takes heaps from any number of readers, each on a thread of its own. Heaps end by completion, by the window
passing them, or by `heap_timeout`; a stream ends by a stop item, when all its readers have ended, by `idle_timeout`,
`deadline`, `heap_limit`, `byte_limit` or `stop()`. So no call waits for a packet that was lost.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypedDict, Unpack

from .._native import Empty, Heap, ReceiveStream, Stopped

__all__ = ["Empty", "Heap", "Stopped", "Stream"]

# Heaps taken at once while iterating: a call costs more than a small heap. Few bytes, so that large ones are not held.
_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 20


class Options(TypedDict, total=False):
    """What a stream can be told; `ReceiveStream` says what each means."""

    window: int
    substreams: int
    in_order: bool
    unsized_heaps: bool
    largest: int
    heap_timeout: float | None
    key: str
    stop: str | int | None
    idle_timeout: float | None
    deadline: float | None
    heap_limit: int | None
    byte_limit: int | None
    start_at: int | None
    incomplete: bool
    ring: int
    full: str
    memory: int | None
    remember: int
    remember_for: float
    runs: int
    senders: int
    cpus: list[int]
    name: str
    explicit_start: bool


class Stream(ReceiveStream):
    """A stream of heaps. The arguments are those of `ReceiveStream`, all of them keywords, all optional."""

    def __init__(self, **config: Unpack[Options]) -> None:
        self._taken: collections.deque[Heap] = collections.deque()
        self._waiting: list[asyncio.Future[None]] = []

    # ---- readers, under the names users know

    add_udp_reader = ReceiveStream.add_udp
    add_tcp_reader = ReceiveStream.add_tcp
    add_pcap_reader = ReceiveStream.add_pcap
    add_buffer_reader = ReceiveStream.add_bytes
    add_inproc_reader = ReceiveStream.add_inproc

    # ---- taking heaps

    def get(self, timeout: float | None = None) -> Heap:
        """The next heap. Raises `Empty` after `timeout` seconds, `Stopped` when the stream has ended and none is left."""
        try:
            return self._taken.popleft()
        except IndexError:
            return super().get(timeout)

    def get_nowait(self) -> Heap:
        """The next heap if one is there, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __iter__(self) -> Iterator[Heap]:
        return self

    def __next__(self) -> Heap:
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                pass
            try:
                self._taken.extend(self.get_many(_AT_ONCE, None, _BYTES_AT_ONCE))
            except Stopped:
                raise StopIteration from None

    async def aget(self, timeout: float | None = None) -> Heap:
        """As `get`, while other tasks run."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while True:
            try:
                return self.get(0.0)
            except Empty:
                left = None if end is None else end - loop.time()
                if left is not None and left <= 0:
                    raise
            await self._readable(loop, left)

    async def _readable(self, loop: asyncio.AbstractEventLoop, timeout: float | None) -> None:
        """Until a heap may be there. Any number of tasks may wait; the loop watches the descriptor once."""
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            loop.add_reader(self.fileno(), self._wake, loop)
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            pass
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
                if not self._waiting:
                    loop.remove_reader(self.fileno())

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.fileno())
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Heap:
        try:
            return await self.aget()
        except Stopped:
            raise StopAsyncIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
