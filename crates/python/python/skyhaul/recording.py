"""Recordings on disks, chunk by chunk, each verified before it is returned.

```python
from skyhaul import recording

scan = recording.open(["/data/d1", "/data/d2"], "exp_st_no0001")
for chunk in scan.streams[0].chunks():
    use(chunk.data)             # whole frames with their headers
```

A chunk is returned if its bytes match its index record, on whichever disk they are. A missing, damaged or unproven
chunk raises `Damaged`, unless `missing` says otherwise; it is then in `gaps`:

```python
chunks = scan.streams[0].chunks(missing="fill")     # frames marked invalid in its place; "skip" leaves it out
for chunk in chunks:
    use(chunk.data, chunk.filled)
if chunks.gaps:
    print(*chunks.gaps, sep="\\n")
```

A stream that ends without an exception and without gaps is complete, to its last byte.

A recording of SPEAD gives heaps:

```python
for heap in scan.streams[0].heaps():
    group.update(heap)          # skyhaul.spead.ItemGroup, as with heaps from a network
```
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from . import _native
from .spead import recv

__all__ = ["Chunk", "Chunks", "Damaged", "Finding", "Gap", "Heaps", "Recording", "Stream", "open"]

# Unix second and frame number.
Time: TypeAlias = tuple[int, int]
_Disks: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


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
    data: bytes
    """The frames, with their headers."""
    start_time: Time | None
    """Unix second and frame number of its first frame."""
    end_time: Time | None
    """Unix second and frame number of its last frame."""


class Chunks(Iterator[Chunk]):
    """The chunks of a stream, in order."""

    def __init__(self, reader: _native.ChunkReader) -> None:
        self._reader = reader
        self._gaps: list[Gap] = []

    def __next__(self) -> Chunk:
        try:
            found = self._reader.next()
        except _native.Damaged as error:
            raise Damaged(str(error), self.gaps[-1]) from None
        if found is None:
            raise StopIteration
        return Chunk(*found)

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


class Stream:
    """A datastream of a recording."""

    def __init__(self, recording: _native.Recording, at: int) -> None:
        self._recording, self._at = recording, at
        self.name, self.frame_bytes, self.frames_per_second, self.format = recording.streams[at]

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}, {self.format or 'unknown format'}, {self.frame_bytes} bytes per frame>"

    def chunks(
        self, missing: Literal["raise", "skip", "fill"] = "raise", *, verify: bool = True, follow: bool = False
    ) -> Chunks:
        """Its chunks in order.

        `missing`: what to do for a missing, damaged or unproven chunk. `verify=False` returns damaged and unproven
        chunks as they are (they are still gaps). `follow` waits for data that are still being recorded.
        """
        return Chunks(self._recording.reader(self._at, missing, verify, follow))

    def heaps(
        self, missing: Literal["raise", "skip"] = "raise", *, verify: bool = True, follow: bool = False
    ) -> Heaps:
        """Its heaps in order of arrival, if it was recorded from SPEAD; the arguments are those of `chunks`."""
        if self.format != "spead":
            hint = "hint: use chunks()"
            raise ValueError(f"{self.name}: not a recording of SPEAD but of {self.format or 'an unknown format'}; {hint}")
        return Heaps(self._recording, self._at, missing, verify, follow)


class Recording:
    """A scan on its disks."""

    def __init__(self, disks: _Disks, name: str) -> None:
        given = [disks] if isinstance(disks, (str, os.PathLike)) else list(disks)
        self._native = _native.Recording(given, name)
        self.streams = [Stream(self._native, at) for at in range(len(self._native.streams))]
        """Its datastreams, in order of their names."""

    def __repr__(self) -> str:
        return f"<Recording {self.name!r}, {self.state}, {len(self.streams)} streams>"

    @property
    def name(self) -> str:
        """Its label."""
        return self._native.name

    @property
    def state(self) -> str:
        """State of its recorder: live, ended, interrupted or unindexed."""
        return self._native.state

    @property
    def missing_disks(self) -> list[str]:
        """Disks of the recording that were not given."""
        return [str(path) for path in self._native.missing_disks]

    @property
    def findings(self) -> list[Finding]:
        """Problems found from names, lengths and indexes. No data are read; use `skyhaul check` for that."""
        found = self._native.findings
        return [Finding(verdict, None if path is None else str(path), text) for verdict, path, text in found]


def open(disks: _Disks, name: str) -> Recording:
    """Open the scan `name` on `disks`: the recorder's directories, mounted anywhere."""
    return Recording(disks, name)
