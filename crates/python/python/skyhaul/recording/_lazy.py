"""Recordings as `xarray` and Dask arrays: nothing is read before it is needed, and any process that sees the disks can read it.

A block is a part of a chunk of the recording, of at most `block_bytes`. It is described by names and numbers, so it is pickled
in a few hundred bytes; who computes it opens the scan once, and the chunks of its own blocks. The description says which files
it is about, too: a block of files that have been replaced raises OSError.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._identity import Key

if TYPE_CHECKING:
    import xarray

    from ._scan import Stream


class Spec(NamedTuple):
    """What opens a stream again elsewhere."""

    paths: tuple[str, ...]
    name: str | None
    at: int
    options: tuple[tuple[str, Any], ...]
    key: Key
    """Which files these were."""
    opening: str
    """Which opening of them: another one may show more."""


# Streams of this process, by opening and number.
_here: weakref.WeakValueDictionary[tuple[str, int], Stream] = weakref.WeakValueDictionary()
# First row and number of rows of each block.
Blocks = list[tuple[int, int]]


def opened(spec: Spec) -> Stream:
    """The stream, in this process, of the same files."""
    stream = _here.get((spec.opening, spec.at)) or _reopened(spec)
    stream.identity.check(spec.key)
    return stream


@functools.lru_cache(maxsize=8)
def _reopened(spec: Spec) -> Stream:
    from . import _scan

    given: Any = {key: list(value) if isinstance(value, tuple) else value for key, value in spec.options}
    return _scan.reopened(spec.paths, spec.name, given).streams[spec.at]


def known_here(stream: Stream, spec: Spec) -> Spec:
    """The same; this process finds the stream by it, as long as it lives."""
    _here[spec.opening, spec.at] = stream
    return spec


def load_samples(spec: Spec, first: int, count: int, raw: bool) -> npt.NDArray[Any]:
    """A block of samples."""
    return opened(spec).decoded().read_range(first, count, raw=raw)


def load_times(spec: Spec, first: int, count: int) -> npt.NDArray[np.datetime64]:
    """The times of a block."""
    return opened(spec).decoded().times(first, count)


def load_valid(spec: Spec, first: int, count: int) -> npt.NDArray[np.bool_]:
    """Whether the samples of a block are there."""
    return opened(spec).decoded().valid_samples(first, count)


def divided(pieces: list[int], first: int, count: int, frame: int, most: int) -> Blocks:
    """Blocks of a range of rows: no block is in two pieces, nor longer than `most` where frames allow."""
    most = max(most // frame, 1) * frame
    cuts = sorted({first, first + count, *(cut for cut in pieces if first < cut < first + count)})
    blocks = []
    for begin, end in zip(cuts, cuts[1:], strict=False):
        while begin < end:
            # Blocks begin with a frame, but for the first.
            step = min(most - begin % frame, end - begin)
            blocks.append((begin, step))
            begin += step
    return blocks


def libraries() -> Any:
    """Dask's arrays, `xarray` and `tokenize`."""
    try:
        import dask.array as da
        import xarray as xr
        from dask.base import tokenize
    except ImportError as error:
        raise ImportError(f"{error}; hint: pip install xarray 'dask[array]'") from None
    return da, xr, tokenize


def lazy(name: str, load: Any, spec: Spec, blocks: Blocks, dtype: Any, tail: tuple[int, ...], *more: Any) -> Any:
    """A Dask array along blocks; `tail` are its other dimensions, `more` what `load` is told besides the block."""
    da, _, _ = libraries()
    none = (0,) * len(tail)
    # An array without rows has a block without rows.
    blocks = blocks or [(0, 0)]
    graph = {(name, n, *none): (load, spec, begin, length, *more) for n, (begin, length) in enumerate(blocks)}
    lengths = tuple(length for _, length in blocks)
    return da.Array(graph, name, chunks=(lengths, *((size,) for size in tail)), dtype=dtype)


def to_xarray(stream: Stream, first: int, count: int, raw: bool, block_bytes: int) -> xarray.DataArray:
    """See `Reads.to_xarray`."""
    _, xr, tokenize = libraries()
    samples, about = stream.decoded(), stream.about
    spec = stream.spec()
    dtype, tail = samples.kind(raw)
    item = np.dtype(dtype).itemsize * int(np.prod(tail))
    if block_bytes < item:
        raise ValueError(f"block_bytes={block_bytes}: a sample of all channels has {item} bytes")
    blocks = divided(samples.piece_starts(), first, count, about.frame_samples, block_bytes // item)
    token = f"{stream.name}-{tokenize(spec, first, count, raw, block_bytes)}"
    dims = ["time", "thread", "channel"] + ["component"] * (len(tail) - 2)
    coordinates: dict[str, Any] = {
        "time": ("time", lazy(f"times-{token}", load_times, spec, blocks, "datetime64[ns]", ())),
        "valid": (("time", "thread"), lazy(f"valid-{token}", load_valid, spec, blocks, np.bool_, tail[:1])),
        "thread": ("thread", np.array(about.threads)),
        "channel": ("channel", np.arange(about.channels)),
    }
    # No index over times: it would hold all of them in memory.
    array: xarray.DataArray = xr.DataArray(
        lazy(f"samples-{token}", load_samples, spec, blocks, dtype, tail, raw),
        dims=dims,
        coords=xr.Coordinates(coordinates, indexes={}),
        name=stream.name,
        attrs={
            "sample_rate": about.sample_rate,
            "bits": about.bits,
            "format": about.describe,
            "station": about.station or "",
        },
    )
    return array
