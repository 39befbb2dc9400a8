"""Chunks, and the rings for them between a stream and its user.

    free ring ─▶ stream fills ─▶ data ring ─▶ user ─▶ free ring …
"""

from __future__ import annotations

import collections
import operator
import os
from typing import Any, Self

from ... import _fork
from .._errors import Empty, Full, Stopped, UnusableBuffer
from .._settings import unsigned, whole


class Chunk:
    """Buffers for the heaps of one chunk: made by the user, often of a subclass, filled by a stream.

    data, present, extra    writable contiguous buffers, or None
    chunk_id, stream_id     its number and stream once it is filled; -1 before
    """

    def __init__(
        self, *, chunk_id: int = -1, stream_id: int = 0, present: Any = None, data: Any = None, extra: Any = None
    ) -> None:
        self.chunk_id: int = whole(chunk_id)
        self.stream_id: int = unsigned(stream_id)
        self.present: Any = present
        self.data: Any = data
        self.extra: Any = extra


def _buffer_property(name: str) -> property:
    hidden = f"_{name}"

    def put(self: Any, buffer: Any) -> None:
        if buffer is not None:
            with memoryview(buffer) as view:
                if view.readonly or not view.c_contiguous:
                    raise UnusableBuffer(f"{name} must be writable and contiguous, in C order")
        setattr(self, hidden, buffer)

    return property(operator.attrgetter(hidden), put)


for _name in ("present", "data", "extra"):
    setattr(Chunk, _name, _buffer_property(_name))


class _ChunkRingbuffer:
    """A bounded queue of chunks that can be stopped, without blocking calls."""

    def __init__(self, maxsize: int) -> None:
        maxsize = whole(maxsize)
        if maxsize < 1:
            raise ValueError("a ring must have room for at least one chunk")
        self.maxsize = maxsize
        self._chunks: collections.deque[Chunk] = collections.deque()
        self._lock = _fork.Condition("ring")
        self._stopped = False
        self._producers = 0
        #: Calls that wait for a change.
        self._waiting = 0
        #: Made when somebody asks for a descriptor: to change them is a system call for each chunk.
        self._data_event: _Level | None = None
        self._space_event: _Level | None = None

    @property
    def data_fd(self) -> int:
        """Readable while a chunk can be taken, and always after the end."""
        with self._lock:
            if self._data_event is None:
                self._data_event = _Level()
                self._changed()
            return self._data_event.fd

    @property
    def space_fd(self) -> int:
        """Readable while there is room, and always after the end."""
        with self._lock:
            if self._space_event is None:
                self._space_event = _Level()
                self._changed()
            return self._space_event.fd

    def qsize(self) -> int:
        self._lock.check()
        return len(self._chunks)

    def empty(self) -> bool:
        return self.qsize() == 0

    def full(self) -> bool:
        return self.qsize() >= self.maxsize

    def get_nowait(self) -> Chunk:
        """The next chunk. Empty if there is none now, Stopped after the end."""
        with self._lock:
            return self._take()

    def put_nowait(self, chunk: Chunk) -> None:
        """Full if there is no room now, Stopped after the end; ValueError if it has no `data` or no `present`."""
        with self._lock:
            self._give(chunk)

    def _take(self) -> Chunk:
        if not self._chunks:
            raise Stopped("the ring was stopped") if self._stopped else Empty("the ring is empty")
        chunk = self._chunks.popleft()
        self._changed()
        return chunk

    def _give(self, chunk: Chunk) -> None:
        if chunk.data is None or chunk.present is None:
            raise ValueError("a chunk on a ring must have data and present")
        if self._stopped:
            raise Stopped("the ring was stopped")
        if len(self._chunks) >= self.maxsize:
            raise Full("the ring is full")
        self._chunks.append(chunk)
        self._changed()

    def _changed(self) -> None:
        if self._data_event is not None:
            self._data_event.set(bool(self._chunks) or self._stopped)
        if self._space_event is not None:
            self._space_event.set(len(self._chunks) < self.maxsize or self._stopped)
        if self._waiting:
            self._lock.notify_all()

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._lock.wait()
        finally:
            self._waiting -= 1

    def stop(self) -> bool:
        """Accept no more chunks; queued ones can still be taken. Returns whether this call was the first."""
        with self._lock:
            first, self._stopped = not self._stopped, True
            self._changed()
            return first

    def add_producer(self) -> None:
        """Register a producer, which will call `remove_producer`."""
        with self._lock:
            self._producers += 1

    def remove_producer(self) -> bool:
        """Remove a producer; without producers, the ring stops. Returns whether it was the last, though the ring may have been stopped."""
        with self._lock:
            self._producers -= 1
            last = self._producers == 0
        if last:
            self.stop()
        return last


class ChunkRingbuffer(_ChunkRingbuffer):
    """The ring for threads: `get` and `put` block. Iteration takes chunks until the end."""

    def get(self) -> Chunk:
        """The next chunk. Stopped after the end."""
        with self._lock:
            while not self._chunks and not self._stopped:
                self._wait()
            return self._take()

    def put(self, chunk: Chunk) -> None:
        """Wait for room and queue the chunk. Stopped after the end."""
        with self._lock:
            while True:
                try:
                    return self._give(chunk)
                except Full:
                    self._wait()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        try:
            return self.get()
        except Stopped:
            raise StopIteration from None


class _Level:
    """A file descriptor that is readable while it is set."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._set = False

    def set(self, level: bool) -> None:
        if level != self._set:
            self._set = level
            if level:
                os.eventfd_write(self.fd, 1)
            else:
                os.eventfd_read(self.fd)

    def __del__(self) -> None:
        os.close(self.fd)
