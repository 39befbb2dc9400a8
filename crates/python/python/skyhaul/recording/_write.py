"""Samples to files of VDIF or Mark 5B."""

from __future__ import annotations

import os
from fractions import Fraction
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from .. import _native
from . import _time
from ._samples import whole_rate

_BILLION = 10**9


class Writer:
    """Writes samples to a file, frame by frame: `recording.create`."""

    def __init__(self, file: BinaryIO, maker: _native.FrameMaker, shape: tuple[int, int], complex_: bool, rate: int) -> None:
        self._file, self._maker, self._shape = file, maker, shape
        self._dtype = np.dtype(np.complex64 if complex_ else np.float32)
        self._rest: npt.NDArray[Any] = np.empty((0, *shape), self._dtype)
        self._failed = False
        self.frame_samples = maker.frame_rows
        """Complete samples of a frame."""
        self.sample_rate = rate
        """Complete samples per second."""

    def write(self, samples: npt.ArrayLike) -> None:
        """Append samples of (time, thread, channel); axes of length one may be left out. Frames are written when they are
        whole. One with a missing sample (NaN, or masked) is marked invalid.
        """
        if self._failed:
            raise ValueError("an earlier write failed, and the file may end within a frame; hint: write another file")
        given: Any = np.ma.asarray(samples)
        if given.dtype.kind == "c" and self._dtype.kind != "c":
            raise ValueError("complex samples for a file of real ones; hint: create(..., complex=True)")
        array: npt.NDArray[Any] = given.astype(self._dtype).filled(np.nan)
        try:
            array = array.reshape(len(array), *self._shape)
        except (ValueError, TypeError):
            raise ValueError(f"samples of shape {array.shape}; these are (time, {self._shape[0]}, {self._shape[1]})") from None
        array = np.concatenate((self._rest, array))
        whole = len(array) // self.frame_samples * self.frame_samples
        # A copy: the caller may change the array.
        self._rest = array[whole:].copy()
        # What fails here leaves a part of a frame: nothing may follow it.
        self._failed = True
        self._file.write(self._maker.frames(np.ascontiguousarray(array[:whole])))
        self._failed = False

    def close(self, *, drop: bool = False) -> None:
        """Close the file. `drop`: even if samples are left over that do not fill a frame."""
        left = len(self._rest)
        self._file.close()
        if left and not drop:
            text = f"{left} samples are left over: a frame has {self.frame_samples}"
            raise ValueError(f"{text}; hint: write whole frames, or close(drop=True)")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drop=kind is not None)


def create(
    path: str | os.PathLike[str],
    *,
    sample_rate: Any,
    start: _time.Start,
    format: str = "vdif",
    bits: int = 2,
    channels: int = 1,
    threads: int | list[int] = 1,
    complex: bool = False,
    edv: int | str | None = None,
    station: str = "Sk",
    payload: int | None = None,
) -> Writer:
    """Create a file of VDIF or Mark 5B to write samples to: for `with`.

    | argument | is |
    |---|---|
    | `sample_rate` | complete samples per second, a number or a `Quantity` of astropy |
    | `start` | time of the first sample; a frame has to begin then |
    | `format` | "vdif" or "mark5b" |
    | `bits` | of an elementary sample: 1, 2, 4, 8, 16 or 32; Mark 5B 1 or 2 |
    | `channels`, `complex` | of each thread |
    | `threads` | their number, or a list of their numbers |
    | `edv` | of VDIF: "legacy", 0 (default), 1, 2, 3, 4 or 0xAB |
    | `payload` | bytes of samples in a frame of VDIF: 8000, for EDV 3 5000, if not given |
    """
    since = _time.absolute(start)
    if since is None:
        raise ValueError(f"start={start!r}: the time of the first sample is needed, like 2026-11-22T05:58:31.5")
    rate = whole_rate(sample_rate)
    ids = list(range(threads)) if isinstance(threads, int) else list(threads)
    second, nanoseconds = divmod(round(since * _BILLION), _BILLION)
    if Fraction(nanoseconds, _BILLION) + second != since:
        raise ValueError(f"start={start!r} is no whole number of nanoseconds")
    version = None if edv is None else str(edv)
    settings = {
        "bits": bits,
        "channels": channels,
        "complex": complex,
        "sample_rate": rate,
        "payload": payload,
        "threads": ids,
        "start": (second, nanoseconds),
        "station": station,
        "version": version,
    }
    maker = _native.FrameMaker(format, settings)
    # A file that is there is not replaced by mistake.
    return Writer(open(path, "xb"), maker, (len(ids), channels), complex, rate)
