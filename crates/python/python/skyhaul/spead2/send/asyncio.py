"""Send streams for coroutines: a send returns a future, and heaps are sent in the order of the calls.

    future = stream.async_send_heap(heap)        queued now; BlockingIOError in the future if max_heaps are queued
    await future                                 the bytes sent, or OSError
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from ... import _native
from ..._sent import Watches
from .._pools import ThreadPool
from ._config import GroupMode, StreamConfig
from ._heaps import Heap
from ._streams import (
    Endpoints,
    Heaps,
    Stream,
    _InprocStream,
    _TcpStream,
    _UdpIbvStream,
    _UdpStream,
    tcp_options,
    tcp_target,
)

__all__ = ["InprocStream", "TcpStream", "UdpIbvStream", "UdpStream"]


class AsyncStream(Stream):
    """Sends without blocking."""

    def _open(self, *args: Any) -> None:
        super()._open(*args)
        self._watches = Watches()
        # Internal futures of all queued heaps: users may cancel theirs.
        self._pending: set[asyncio.Future[None]] = set()

    @property
    def _active(self) -> int:
        return len(self._pending)

    def async_send_heap(
        self, heap: Heap, cnt: int = -1, substream_index: int = 0, rate: float = -1.0
    ) -> asyncio.Future[int]:
        """Queue a heap; returns a future of the bytes sent. Its loop is the current one, which need not run yet."""
        return self._submit(lambda: (_native.Batch([self._order(heap, cnt, substream_index, rate)]), False))

    def async_send_heaps(self, heaps: Heaps, mode: GroupMode) -> asyncio.Future[int]:
        """Queue heaps to be sent together; returns a future of the bytes sent. All are queued, or none."""
        return self._submit(lambda: self._batch(heaps, mode))

    def _submit(self, make: Callable[[], tuple[_native.Batch, bool]]) -> asyncio.Future[int]:
        loop = asyncio.get_event_loop()
        answer = loop.create_future()
        try:
            batch, in_turns = make()
            self._take_room(len(batch))
        except OSError as error:
            answer.set_exception(error)
            return answer
        sending = _Sending(self, len(batch), answer, loop.create_future())
        self._pending.add(sending.left)
        try:
            start = partial(self._native.queue, batch, in_turns)
            self._watches.of(loop).queue(loop, start, sending.told)
        except OSError as error:
            sending.finish(error=error)
        except BaseException:
            self._give_room(len(batch))
            self._pending.discard(sending.left)
            raise
        return answer

    def _take_room(self, heaps: int) -> None:
        try:
            super()._take_room(heaps)
        except BlockingIOError:
            for watch in self._watches.closed():
                watch.tell()
            super()._take_room(heaps)

    @property
    def fd(self) -> int:
        """A descriptor that is readable while sent or failed heaps are not yet reported to their futures. The event loops that
        queued them watch for that themselves."""
        return self._watches.fileno()

    def process_callbacks(self) -> None:
        """Give the futures of heaps that are sent or have failed their results now, in the thread of their event loop."""
        self._watches.look()

    def flush(self) -> None:
        """Block until all queued heaps are sent."""
        self._native.flush()

    async def async_flush(self) -> None:
        """Wait until all heaps queued before this call are sent or have failed."""
        loop = asyncio.get_running_loop()
        pending = [left for left in self._pending if left.get_loop() is loop]
        if pending:
            await asyncio.wait(pending)


class _Sending:
    """Queued heaps and their future."""

    def __init__(
        self, stream: AsyncStream, heaps: int, answer: asyncio.Future[int], left: asyncio.Future[None]
    ) -> None:
        self.stream, self.heaps, self.answer, self.left = stream, heaps, answer, left

    def told(self, ticket: _native.Ticket) -> None:
        """Called by the loop, or for a closed loop, where no task waits any more."""
        try:
            self.finish(result=ticket.result())
        except OSError as error:
            self.finish(error=error)

    def finish(self, result: int = 0, error: OSError | None = None) -> None:
        self.stream._give_room(self.heaps)
        self.stream._pending.discard(self.left)
        if self.left.get_loop().is_closed():
            return
        self.left.set_result(None)
        if not self.answer.done():
            if error is None:
                self.answer.set_result(result)
            else:
                self.answer.set_exception(error)


class UdpStream(_UdpStream, AsyncStream):
    """Heaps as datagrams."""


class UdpIbvStream(_UdpIbvStream, AsyncStream):
    """Not here: RuntimeError."""


class TcpStream(_TcpStream, AsyncStream):
    """Heaps as consecutive packets on a connection: of a connected socket, or by `await connect(...)`."""

    @classmethod
    async def connect(
        cls,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig | None = None,
        buffer_size: int | None = None,
        interface_address: str = "",
    ) -> Self:
        """A stream on a new connection. OSError if the connection fails."""
        target = tcp_target(endpoints)
        options = tcp_options(buffer_size, interface_address)
        loop = asyncio.get_running_loop()
        stream = cls.__new__(cls)


        def connected(how: _native.SendConfig) -> _native.SendStream:
            return _native.SendStream.tcp(target, how, **options)

        await loop.run_in_executor(None, stream._open, thread_pool, config, connected)
        return stream


class InprocStream(_InprocStream, AsyncStream):
    """Heaps to queues of this process."""
