"""The chunks and heaps of a recording, in order, each verified before it is returned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _native
from ..spead import recv

# Unix second and frame number.
Time: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Gap:
    """A part of a stream that is missing, damaged or unproven."""

    stream: str
    """The stream's name on disk."""
    first: int
    """Its first chunk."""
    end: int
    """One past its last chunk; equal to `first` if no chunk of it is known."""
    lack: str
    """Why: missing, lost, unfinished, damaged, unproven, headers_only, open_end or ambiguous."""
    start_time: Time | None
    """Unix second and frame number of its first frame, or of the last one before it."""
    end_time: Time | None
    """Unix second and frame number of its last frame, or of the first one after it."""
    length: int | None
    """Its length in bytes, if known."""
    instead: str
    """What is returned in its place: left_out, filled or as_it_is."""
    text: str
    """A description of all this."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Finding:
    """A problem found from names, lengths and indexes, without reading data."""

    verdict: str
    """Severity: whole or holes (harmless), unproven, damaged."""
    path: str | None
    """The file it is about."""
    text: str
    """Description."""


class Damaged(_native.Damaged):
    """A chunk of a recording is missing, damaged or unproven."""

    gap: Gap
    """Which one, and why."""

    def __init__(self, text: str, gap: Gap) -> None:
        super().__init__(text)
        self.gap = gap


@dataclass(frozen=True)
class Chunk:
    """Consecutive whole frames of a stream."""

    number: int
    """Its number; for fill, the first number of the gap."""
    filled: bool
    """Whether it fills a gap: frames marked invalid, in pieces of at most 4 MiB."""
    data: memoryview
    """The frames, with their headers, where they were read: for reading only. `bytes(chunk.data)` is a copy."""
    start_time: Time | None
    """Unix second and frame number of its first frame."""
    end_time: Time | None
    """Unix second and frame number of its last frame."""
    frame_bytes: int
    """Bytes of a frame; 0 if they differ."""

    @property
    def frames(self) -> npt.NDArray[np.uint8]:
        """Its frames, one in a row: a view of `data`, which lives as long as any array that views it."""
        if self.frame_bytes == 0:
            raise ValueError("these are no frames of one size; hint: data")
        return np.frombuffer(self.data, np.uint8).reshape(-1, self.frame_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        # For other processes: a copy.
        return _chunk, (self.number, self.filled, bytes(self.data), self.start_time, self.end_time, self.frame_bytes)


def _chunk(number: int, filled: bool, data: bytes, start_time: Time | None, end_time: Time | None, frame_bytes: int) -> Chunk:
    return Chunk(number, filled, memoryview(data), start_time, end_time, frame_bytes)


class Chunks(Iterator[Chunk]):
    """The chunks of a stream, in order, for `for` and `async for`."""

    def __init__(self, reader: _native.ChunkReader, frame_bytes: int = 0) -> None:
        self._reader, self._frame_bytes = reader, frame_bytes
        self._gaps: list[Gap] = []

    def __next__(self) -> Chunk:
        try:
            found = self._reader.next()
        except _native.Damaged as error:
            raise Damaged(str(error), self.gaps[-1]) from None
        if found is None:
            raise StopIteration
        number, filled, memory, start_time, end_time = found
        return Chunk(number, filled, memoryview(memory), start_time, end_time, self._frame_bytes)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        # A thread waits for the disk, or for the recorder.
        chunk = await asyncio.to_thread(next, self, None)
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    @property
    def gaps(self) -> list[Gap]:
        """The gaps so far; after the end, all of them."""
        self._gaps += [Gap(*raw) for raw in self._reader.gaps(len(self._gaps))]
        return list(self._gaps)


class Heaps(Iterator[recv.Heap]):
    """The heaps of a stream, in order of arrival. Incomplete ones have `complete` false."""

    def __init__(self, recording: _native.Recording, at: int, missing: str, verify: bool, follow: bool) -> None:
        # The packets of a heap are contiguous in a recording: the next heap ends it.
        self._stream = recv.Stream(
            window=1, heap_timeout=None, remember=0, stop="never", incomplete=True, name="recording"
        )
        self._raises = missing == "raise"
        self._gaps: list[Gap] = []
        self._met = self._stream.add_recording(recording, at, missing, verify, follow)

    def __next__(self) -> recv.Heap:
        try:
            return self._stream.get()
        except recv.Stopped:
            if self._raises and self.gaps:
                gap = self.gaps[-1]
                raise Damaged(str(gap), gap) from None
            raise StopIteration from None

    @property
    def gaps(self) -> list[Gap]:
        """The gaps so far, which may be ahead of the heaps; after the end, all of them."""
        self._gaps += [Gap(*raw) for raw in self._met.since(len(self._gaps))]
        return list(self._gaps)
