"""Streams that put heaps into chunks of the user's memory.

    free ring ─▶ window of chunks ◀─ payload ◀─ native stream       its readers ask the callback at a heap's first packet
                 │ oldest                                             where it belongs; a thread moves the window to the
                 ▼                                                    newest chunk, while they wait
              data ring ─▶ user

The readers work without the GIL: they call the compiled callback, check its results against the chunk's buffers, and copy
each packet's payload into its place. Python is needed for each chunk, not for each heap.
"""

from __future__ import annotations

import atexit
import collections
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ... import _fork, _native, _place
from .._errors import Full, Stopped
from .._pools import ThreadPool
from .._settings import Setting, Settings, positive, setting, unsigned, whole
from ._config import ChunkStreamGroupConfig, StreamConfig
from ._rejections import PERIOD
from ._rings import Chunk, ChunkRingbuffer, _ChunkRingbuffer
from ._stats import StreamStatConfig, StreamStats
from ._streams import _Stream

_logger = logging.getLogger("spead2")
_TOO_OLD, _REJECTED = "too_old_heaps", "rejected_heaps"


def _checked(place: Any) -> Any:
    """The same tuple, if it begins with a capsule of a known signature."""
    if place is not None:
        if not isinstance(place, tuple):
            raise TypeError(f"a place callback must be a tuple, not {place!r}")
        _place.capsule_of(place)
    return place


class ChunkStreamConfig(Settings):
    """The items for a place callback, the number of open chunks, and how presence is marked."""

    DEFAULT_MAX_CHUNKS = 2

    items: Setting[list[int]] = Setting(list, lambda value: [whole(id) for id in value])
    max_chunks: Setting[int] = setting(DEFAULT_MAX_CHUNKS, positive)
    place: Setting[Any] = setting(None, _checked)
    max_heap_extra: Setting[int] = setting(0, unsigned)

    if TYPE_CHECKING:
        _packet_payload: int

        def __init__(
            self,
            *,
            items: Sequence[int] = [],
            max_chunks: int = DEFAULT_MAX_CHUNKS,
            place: tuple[Any, ...] | None = None,
            max_heap_extra: int = 0,
        ) -> None: ...
    else:

        def __init__(self, **given):
            super().__init__(**given)
            self._packet_payload = 0

    def enable_packet_presence(self, payload_size: int) -> ChunkStreamConfig:
        """Mark the presence of packets of this payload size instead of heaps. Returns the same object."""
        self._packet_payload = positive(payload_size)
        return self

    def disable_packet_presence(self) -> ChunkStreamConfig:
        """Mark the presence of heaps again. Returns the same object."""
        self._packet_payload = 0
        return self

    @property
    def packet_presence_payload_size(self) -> int:
        """The payload size of a packet if packets are marked, else 0."""
        return self._packet_payload


class _Window:
    """The consecutive chunks that are being filled, and their rings."""

    def __init__(self, most: int, data: _ChunkRingbuffer, free: _ChunkRingbuffer) -> None:
        self.most, self.data, self.free = most, data, free
        self.first = 0
        self.open: collections.deque[tuple[Chunk, _native.OpenChunk]] = collections.deque()

    def chunk(self, id: int, stream_id: int) -> _native.OpenChunk | None:
        """The open chunk with this number; the window moves up to it. None if the window is past it."""
        end = self.first + len(self.open)
        if id >= end:
            start = max(id - self.most + 1, 0)
            self.flush_below(start)
            if not self.open:
                self.first = max(start, self.first)
            while self.first + len(self.open) <= id:
                self.open.append(self._fresh(self.first + len(self.open), stream_id))
        return self.open[id - self.first][1] if id >= self.first else None

    def _fresh(self, id: int, stream_id: int) -> tuple[Chunk, _native.OpenChunk]:
        while True:
            chunk = _taken(self.free)
            try:
                native = _native.OpenChunk(chunk.data, chunk.present, chunk.extra)
            except (BufferError, TypeError, ValueError) as error:
                _logger.error("a chunk of the free ring cannot be filled and is skipped: %s", error)
                continue
            chunk.chunk_id, chunk.stream_id = id, stream_id
            return chunk, native

    def flush_below(self, id: int) -> None:
        """Deliver all chunks before this one."""
        while self.open and self.first < id:
            chunk, native = self.open.popleft()
            self.first += 1
            native.close()
            _given(self.data, chunk)

    def flush(self) -> None:
        """Deliver all chunks."""
        self.flush_below(self.first + len(self.open))


def _taken(ring: _ChunkRingbuffer) -> Chunk:
    """A chunk of any kind of ring, waiting for it."""
    return ChunkRingbuffer.get(ring)  # type: ignore[arg-type]


def _given(ring: _ChunkRingbuffer, chunk: Chunk) -> None:
    ChunkRingbuffer.put(ring, chunk)  # type: ignore[arg-type]


class ChunkRingPair:
    """The two rings of a chunk stream or group."""

    _data: _ChunkRingbuffer
    _free: _ChunkRingbuffer

    def _take_rings(self, data: _ChunkRingbuffer, free: _ChunkRingbuffer) -> None:
        for ring in (data, free):
            if not isinstance(ring, _ChunkRingbuffer):
                raise TypeError(f"not a ChunkRingbuffer: {ring!r}")
        self._data, self._free = data, free

    @property
    def data_ringbuffer(self) -> _ChunkRingbuffer:
        """The ring of filled chunks."""
        return self._data

    @property
    def free_ringbuffer(self) -> _ChunkRingbuffer:
        """The ring of chunks to fill."""
        return self._free

    def add_free_chunk(self, chunk: Chunk) -> None:
        """Add a chunk to fill, and clear its presence marks. Full if the free ring has no room."""
        np.frombuffer(memoryview(chunk.present), np.uint8)[:] = 0
        try:
            self._free.put_nowait(chunk)
        except Stopped:
            pass


class _Filling(_Stream):
    """A native stream, and the thread that puts its heaps into chunks."""

    def _fill(
        self, thread_pool: ThreadPool, config: StreamConfig, chunks: ChunkStreamConfig, window: _Window, group: Any = None
    ) -> None:
        if not isinstance(chunks, ChunkStreamConfig):
            raise TypeError(f"not a ChunkStreamConfig: {chunks!r}")
        config = config._copy()
        for name in (_TOO_OLD, _REJECTED):
            config.add_stat(name)
        if chunks.place is None:
            raise ValueError("a chunk stream needs a place callback")
        # spead2 calls whatever the signature says: a third argument that it leaves out is null here, not garbage.
        self._chunks, self._function = chunks, _place.native(chunks.place, chunks.items, is_strict=False)
        self._window, self._group = window, group
        self._most = min(chunks.max_chunks, window.most)
        self._open(thread_pool, config)
        window.data.add_producer()
        # The thread references the native stream only, so an unreferenced stream ends.
        weakref.finalize(self, _end, self._native)
        work = (weakref.ref(self), self._native, window)
        self._thread = threading.Thread(target=_place_heaps, args=work, name="spead2 chunks", daemon=True)
        _open.add(self)
        _threads.add(self._thread)
        self._thread.start()

    def _made(self, settings: dict[str, Any]) -> _native.PlacedStream:
        largest = [stat.mode is StreamStatConfig.Mode.MAXIMUM for stat in self._config.stats]
        extra, payload = self._chunks.max_heap_extra, self._chunks.packet_presence_payload_size
        return _native.PlacedStream(_native.ReceiveConfig(**settings), self._function, largest, extra, payload)

    @property
    def stats(self) -> StreamStats:
        """A sample of the statistics."""
        sample = super().stats
        for at, (stat, counted) in enumerate(zip(sample.config, self._native.counts())):
            sample[at] = stat.combine(sample[at], counted)
        return sample

    def _finish(self) -> None:
        try:
            self._window.flush()
        except Stopped:
            pass
        self._window.data.remove_producer()

    def _chunk(self, id: int) -> tuple[_native.OpenChunk | None, int]:
        """The chunk with this number, None if it is too old; and the oldest that this stream may still write to."""
        return self._window.chunk(id, self._config.stream_id), self._window.first

    def stop(self) -> None:
        """End the stream and its rings."""
        self._window.free.stop()
        self._window.data.stop()
        super().stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _end(native: _native.PlacedStream) -> None:
    if not native.forked:
        native.stop()


def _place_heaps(held: weakref.ref[_Filling], native: _native.PlacedStream, window: _Window) -> None:
    """The loop of a stream's thread, until the stream or a ring ends."""
    try:
        while True:
            wanted = native.run(PERIOD)
            stream = held()
            if stream is None:
                break
            if wanted is not None:
                native.proceed(wanted, *stream._chunk(wanted))
            if stream._log.is_due():
                stream._log.look(native.stats())
            del stream
    except Stopped:
        pass
    finally:
        native.stop()
        stream = held()
        if stream is not None:
            stream._finish()
        else:
            window.data.remove_producer()


#: Streams and their threads, which end before the interpreter; a forked process has none of its parent's.
_open: weakref.WeakSet[_Filling] = weakref.WeakSet()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _forget_all() -> None:
    _open.clear()
    _threads.clear()


def _end_all() -> None:
    for stream in list(_open):
        _Filling.stop(stream)
    for thread in list(_threads):
        thread.join()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_end_all)


class ChunkRingStream(_Filling, ChunkRingPair):
    """One stream of chunks between two rings, which streams of the same lifetime may share."""

    def __init__(
        self,
        thread_pool: ThreadPool,
        config: StreamConfig,
        chunk_stream_config: ChunkStreamConfig,
        data_ringbuffer: _ChunkRingbuffer,
        free_ringbuffer: _ChunkRingbuffer,
    ) -> None:
        self._take_rings(data_ringbuffer, free_ringbuffer)
        window = _Window(chunk_stream_config.max_chunks, data_ringbuffer, free_ringbuffer)
        self._fill(thread_pool, config, chunk_stream_config, window)


class ChunkStreamGroupMember(_Filling):
    """One of the streams that fill the chunks of a group, made by `ChunkStreamRingGroup.emplace_back`."""

    #: The oldest chunk that this stream may still write to.
    _oldest = 0
    _ended = False

    def _chunk(self, id: int) -> tuple[_native.OpenChunk | None, int]:
        group = self._group
        with group._moved:
            if id < max(self._oldest, self._window.first):
                return None, self._oldest
            self._oldest = max(self._oldest, id - self._most + 1)
            group._moved.notify_all()
            while group._is_lossless and not group._may_reach(id):
                group._moved.wait(0.1)
                if self._window.data._stopped:
                    raise Stopped("the ring was stopped")
            return self._window.chunk(id, self._config.stream_id), self._oldest

    def _finish(self) -> None:
        with self._group._moved:
            self._ended = True
            self._group._moved.notify_all()
            if all(member._ended for member in self._group):
                super()._finish()
            else:
                self._window.data.remove_producer()

    def stop(self) -> None:
        """End the whole group."""
        self._group.stop()


class ChunkStreamRingGroup(ChunkRingPair, Sequence[ChunkStreamGroupMember]):
    """Several streams, each with its own thread, that fill the same chunks. A sequence of its members."""

    def __init__(
        self, config: ChunkStreamGroupConfig, data_ringbuffer: _ChunkRingbuffer, free_ringbuffer: _ChunkRingbuffer
    ) -> None:
        self._take_rings(data_ringbuffer, free_ringbuffer)
        self._config = config
        self._is_lossless = config.eviction_mode is ChunkStreamGroupConfig.EvictionMode.LOSSLESS
        self._window = _Window(config.max_chunks, data_ringbuffer, free_ringbuffer)
        self._members: list[ChunkStreamGroupMember] = []
        self._moved = _fork.Condition("group")

    @property
    def config(self) -> ChunkStreamGroupConfig:
        """The settings of the group."""
        return self._config

    def emplace_back(
        self, thread_pool: ThreadPool, config: StreamConfig, chunk_stream_config: ChunkStreamConfig
    ) -> ChunkStreamGroupMember:
        """Add a stream. RuntimeError once chunks are being filled."""
        with self._moved:
            if self._window.open:
                raise RuntimeError("a stream cannot be added to a group that receives; hint: add all of them first")
            member = ChunkStreamGroupMember()
            self._members.append(member)
            try:
                member._fill(thread_pool, config, chunk_stream_config, self._window, self)
            except BaseException:
                self._members.pop()
                raise
            return member

    def _may_reach(self, id: int) -> bool:
        """Whether no stream would lose a chunk if the window moved up to this one."""
        start = id - self._config.max_chunks + 1
        return all(member._ended or member._oldest >= start for member in self._members)

    def stop(self) -> None:
        """End all streams, and the rings."""
        for member in self._members:
            _Filling.stop(member)

    @overload
    def __getitem__(self, index: int) -> ChunkStreamGroupMember: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ChunkStreamGroupMember]: ...

    def __getitem__(self, index: int | slice) -> ChunkStreamGroupMember | Sequence[ChunkStreamGroupMember]:
        return self._members[index]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ChunkStreamGroupMember]:
        return iter(self._members)
