"""Receive streams and rings of chunks for coroutines.

    heap = await stream.get()        async for heap in stream: …        any number of tasks may wait, first come first served
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable
from typing import Any, Self

from .._errors import Empty, Full, Stopped
from .._pools import ThreadPool
from ._config import RingStreamConfig, StreamConfig
from ._heaps import Heap
from ._rings import Chunk, _ChunkRingbuffer
from ._streams import _RingStream

__all__ = ["ChunkRingbuffer", "Stream"]


class _Waiters:
    """Tasks that wait for a descriptor to become readable, each for its own attempt.

    `attempt` returns a result, or raises `again` if it must wait; any other exception goes to the task.
    """

    def __init__(self, fd: int, again: type[Exception]) -> None:
        self._fd, self._again = fd, again
        self._queue: collections.deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = collections.deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Results of tasks that were cancelled after they had one.
        self._left: collections.deque[Any] = collections.deque()

    async def wait(self, attempt: Callable[[], Any]) -> Any:
        self._forget_cancelled()
        if not self._queue:
            try:
                return self._left.popleft() if self._left else attempt()
            except self._again:
                pass
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append((future, attempt))
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._fd, self._readable)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                # It holds a heap or a chunk that would be lost; a completed put stays.
                if future.result() is not None:
                    self._left.append(future.result())
                    self._readable()
            raise
        finally:
            self._forget_cancelled()

    def _readable(self) -> None:
        while self._queue:
            future, attempt = self._queue[0]
            if not future.done():
                try:
                    result = self._left.popleft() if self._left else attempt()
                except self._again:
                    return
                except Exception as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            self._queue.popleft()
        self._forget_cancelled()

    def _forget_cancelled(self) -> None:
        while self._queue and self._queue[0][0].done():
            self._queue.popleft()
        if not self._queue and self._loop is not None:
            self._loop.remove_reader(self._fd)
            self._loop = None


class Stream(_RingStream):
    """A stream of heaps for coroutines."""

    def __init__(
        self, thread_pool: ThreadPool, config: StreamConfig | None = None, ring_config: RingStreamConfig | None = None
    ) -> None:
        super().__init__(thread_pool, config, ring_config)
        self._waiters = _Waiters(self.fd, Empty)

    async def get(self) -> Heap:
        """The next heap. Stopped after the end."""
        heap: Heap = await self._waiters.wait(self.get_nowait)
        return heap

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Heap:
        try:
            return await self.get()
        except Stopped:
            raise StopAsyncIteration from None


class ChunkRingbuffer(_ChunkRingbuffer):
    """A ring of chunks for coroutines: `get` and `put` are awaited."""

    def __init__(self, maxsize: int) -> None:
        super().__init__(maxsize)
        self._takers = _Waiters(self.data_fd, Empty)
        self._givers = _Waiters(self.space_fd, Full)

    async def get(self) -> Chunk:
        """The next chunk. Stopped after the end."""
        chunk: Chunk = await self._takers.wait(self.get_nowait)
        return chunk

    async def put(self, chunk: Chunk) -> None:
        """Wait for room and queue the chunk. Stopped after the end."""
        await self._givers.wait(lambda: self.put_nowait(chunk))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        try:
            return await self.get()
        except Stopped:
            raise StopAsyncIteration from None
