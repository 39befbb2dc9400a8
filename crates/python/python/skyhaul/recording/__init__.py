"""Recordings on disks, and plain files of VDIF or Mark 5B: their samples, chunks and heaps.

```python
from skyhaul import recording

scan = recording.open(["/data/d1", "/data/d2"], "exp_st_no0001")
print(scan)                                        # what, when, how much, what is missing
x = scan.samples(start="2026-11-22T05:58:31.5", duration=0.1)      # (time, thread, channel); NaN where lost
```

Chunks are verified before they are used. A missing, damaged or unproven chunk is NaN in samples, and in `gaps`; read as
a chunk, it raises `Damaged`, unless `missing` says otherwise:

```python
for chunk in scan.streams[0].chunks():
    print(len(chunk.data))                         # whole frames with their headers

chunks = scan.streams[0].chunks(missing="fill")    # frames marked invalid in its place; "skip" leaves it out
for chunk in chunks:
    print(len(chunk.data), chunk.filled)
if chunks.gaps:
    print(*chunks.gaps, sep="\\n")
```

`with recording.open(…) as scan:` closes it at the end, and with it its files; so does `scan.close()`.

`scan.follow()` gives chunks while they are recorded, `recording.ls(disks)` lists scans, and `scan.check()` verifies one.

A stream that ends without an exception and without gaps is complete, to its last byte.

A recording of SPEAD gives heaps:

```python
from skyhaul.spead import ItemGroup

group = ItemGroup()
for heap in recording.open(["/data/d1", "/data/d2"], "heaps_no0001").streams[0].heaps():
    group.update(heap)                             # as with heaps from a network
```
"""

from __future__ import annotations

import os

from .. import _native
from ._chunks import Chunk, Chunks, Damaged, Finding, FrameTime, Gap, Heaps
from ._columns import Clock
from ._reads import Exported
from ._samples import About, Options
from ._scan import Check, Path, Paths, Recording, Stream, Summary, scans
from ._survey import Survey
from ._time import Quantity, Start
from ._write import Writer, create

__all__ = [
    "About", "Check", "Chunk", "Chunks", "Clock", "Damaged", "Exported", "Finding", "FrameTime", "Gap", "Heaps", "Options", "Recording",
    "Stream", "Summary", "Survey", "Writer", "create", "ls", "open",
]  # fmt: skip


def ls(disks: Paths) -> list[Summary]:
    """All scans on these disks, from names, lengths and indexes: `skyhaul ls`."""
    return scans([disks] if isinstance(disks, (str, os.PathLike)) else list(disks))


def open(
    paths: Paths,
    name: str | None = None,
    *,
    sample_rate: float | Quantity | None = None,
    threads: list[int] | None = None,
    bits: int | None = None,
    channels: int | None = None,
    mask: int | None = None,
    tracks: list[int] | None = None,
    ref_time: Start | None = None,
    verify: bool = True,
    workers: int = 0,
) -> Recording:
    """Open the scan `name` on its disks: the directories of the recorder, of a FlexBuff or of a Mark 6, mounted anywhere. Or,
    without a name, plain files of VDIF or Mark 5B that continue each other, or the files of a Mark 6.

    The other arguments say how to read its samples:

    | argument | is |
    |---|---|
    | `sample_rate` | complete samples per second, also a `Quantity` of astropy, if the headers do not state it |
    | `threads` | threads of VDIF, in the order of their columns; otherwise all, ascending |
    | `bits`, `channels` | Mark 5B: bits of a sample (2), and channels, whose bitstreams are in order |
    | `mask`, `tracks` | Mark 5B: the recorded bitstreams, and those to decode, numbered as in the mask |
    | `ref_time` | Mark 5B: a time within 500 days of the data, if not now and not in the recording |
    | `verify` | verify each chunk before its first sample is used |
    | `workers` | threads of the processor to decode with; 0: as many as it has |
    """
    given: list[Path] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    options: Options = {
        "sample_rate": sample_rate,
        "threads": threads,
        "bits": bits,
        "channels": channels,
        "mask": mask,
        "tracks": tracks,
        "ref_time": ref_time,
        "verify": verify,
        "workers": workers,
    }
    if name is not None:
        scattered = _native.scattered_files([os.fspath(path) for path in given], name)
        return Recording(scattered, None, options) if scattered else Recording(given, name, options)
    if not given:
        raise ValueError("no files; hint: give files, or the directories of a recorder and the name of a scan")
    if any(os.path.isdir(path) for path in given):
        raise ValueError(f"{os.fspath(given[0])} is a directory; hint: give the name of the scan on it (`skyhaul ls`)")
    return Recording(given, None, options)
