"""The chunks and heaps of a recording, in order, each verified before it is returned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .. import _native
from ..spead import recv


class FrameTime(NamedTuple):
    """The time of a frame as its header states it."""

    second: int
    """Unix second."""
    frame: int
    """Number of the frame in that second."""

    def datetime64(self, frames_per_second: int) -> np.datetime64:
        """The time, to the nanosecond before."""
        return np.datetime64(self.second * 10**9 + self.frame * 10**9 // frames_per_second, "ns")


def _time(raw: tuple[int, int] | None) -> FrameTime | None:
    return None if raw is None else FrameTime(*raw)


def gap_of(raw: Any) -> Gap:
    """A gap from what the compiled part says of it."""
    stream, first, end, lack, start, last, length, instead, text = raw
    return Gap(stream, first, end, lack, _time(start), _time(last), length, instead, text)


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
    """Why: missing, lost, unfinished, damaged, unproven, headers_only, open_end, ambiguous or contradicted."""
    start_time: FrameTime | None
    """Its first frame, or the last one before it."""
    end_time: FrameTime | None
    """Its last frame, or the first one after it."""
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
    start_time: FrameTime | None
    """Its first frame."""
    end_time: FrameTime | None
    """Its last frame."""
    frame_bytes: int
    """Bytes of a frame; 0 if they differ."""
    frames_per_second: int | None = None
    """Frames of a thread per second, if that is known."""

    @property
    def start(self) -> np.datetime64 | None:
        """The time of its first frame, if the rate is known."""
        return self._at(self.start_time)

    @property
    def end(self) -> np.datetime64 | None:
        """The time at which its last frame begins, if the rate is known."""
        return self._at(self.end_time)

    def _at(self, time: FrameTime | None) -> np.datetime64 | None:
        return None if time is None or not self.frames_per_second else time.datetime64(self.frames_per_second)

    def __dlpack__(self, **how: Any) -> Any:
        """For `from_dlpack` of other libraries: the bytes, for reading only."""
        return np.frombuffer(self.data, np.uint8).__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return 1, 0

    @property
    def frames(self) -> npt.NDArray[np.uint8]:
        """Its frames, one in a row: a view of `data`, which lives as long as any array that views it."""
        if self.frame_bytes == 0:
            raise ValueError("these are no frames of one size; hint: data")
        return np.frombuffer(self.data, np.uint8).reshape(-1, self.frame_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        # For other processes: a copy.
        times = self.start_time, self.end_time
        return _chunk, (self.number, self.filled, bytes(self.data), *times, self.frame_bytes, self.frames_per_second)


def _chunk(number: int, filled: bool, data: bytes, *rest: Any) -> Chunk:
    return Chunk(number, filled, memoryview(data), *rest)


class Chunks(Iterator[Chunk]):
    """The chunks of a stream, in order, for `for` and `async for`."""

    def __init__(self, reader: _native.ChunkReader, frame_bytes: int = 0, frames_per_second: int | None = None) -> None:
        self._frame_bytes, self._frames_per_second = frame_bytes, frames_per_second
        self._reader: _native.ChunkReader | None = reader
        self._gaps: list[Gap] = []

    def close(self) -> None:
        """End reading, and let go of its buffers. Chunks that were given stay."""
        self._gaps = self.gaps
        self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> Chunk:
        if self._reader is None:
            raise ValueError("reading was closed; hint: call chunks() again")
        try:
            found = self._reader.next()
        except _native.Damaged as error:
            raise Damaged(str(error), self.gaps[-1]) from None
        if found is None:
            raise StopIteration
        number, filled, memory, start_time, end_time = found
        times = _time(start_time), _time(end_time)
        return Chunk(number, filled, memoryview(memory), *times, self._frame_bytes, self._frames_per_second)

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
        if self._reader is not None:
            self._gaps += [gap_of(raw) for raw in self._reader.gaps(len(self._gaps))]
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
        self._gaps += [gap_of(raw) for raw in self._met.since(len(self._gaps))]
        return list(self._gaps)
