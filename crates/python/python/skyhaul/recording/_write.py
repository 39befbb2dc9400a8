"""Samples to files of VDIF or Mark 5B, or over the network."""

from __future__ import annotations

import asyncio
import json
import math
import os
from fractions import Fraction
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt

from .. import _native
from . import _time
from ._samples import whole_rate

_BILLION = 10**9


class _Sending:
    """A sender of frames, in place of a file."""

    def __init__(self, to: str, frame_bytes: int, rate: int, sequence: str | None) -> None:
        self._native = _native.FrameSender(to, frame_bytes, rate, sequence, "samples")
        self.report: dict[str, Any] | None = None

    def write(self, frames: bytes) -> None:
        self._native.write(frames)

    def close(self, drop: bool = False) -> None:
        self.report = json.loads(self._native.close(drop)) or self.report


class Writer:
    """Writes samples to a file or the network, frame by frame: `recording.create`."""

    def __init__(self, file: BinaryIO | _Sending, maker: _native.FrameMaker, shape: tuple[int, int], complex_: bool, rate: int) -> None:
        self._file, self._maker, self._shape = file, maker, shape
        self._dtype = np.dtype(np.complex64 if complex_ else np.float32)
        self._rest: npt.NDArray[Any] = np.empty((0, *shape), self._dtype)
        self._failed = False
        self.frame_samples: int = maker.frame_rows
        """Complete samples of a frame."""
        self.sample_rate: int = rate
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
        frames = self._maker.frames(np.ascontiguousarray(array[:whole]))
        self._file.write(frames)
        self._failed = False

    def close(self, *, drop: bool = False) -> None:
        """Close the file. `drop`: even if samples are left over that do not fill a frame."""
        left = len(self._rest)
        if isinstance(self._file, _Sending):
            self._file.close(drop)
        else:
            self._file.close()
        if left and not drop:
            text = f"{left} samples are left over: a frame has {self.frame_samples}"
            raise ValueError(f"{text}; hint: write whole frames, or close(drop=True)")

    @property
    def report(self) -> dict[str, Any] | None:
        """Of a closed writer to the network: what was sent, as `skyhaul send --json` reports it."""
        return self._file.report if isinstance(self._file, _Sending) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drop=kind is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Other tasks run while the rest is sent.
        await asyncio.to_thread(self.close, drop=kind is not None)


def create(
    path: str | os.PathLike[str],
    *,
    sample_rate: float | _time.Quantity,
    start: _time.Start,
    format: Literal["vdif", "mark5b"] = "vdif",
    bits: int = 2,
    channels: int = 1,
    threads: int | list[int] = 1,
    complex: bool = False,
    edv: int | str | None = None,
    station: str = "Sk",
    payload: int | None = None,
    rate: float | _time.Quantity | None = None,
    sequence: Literal["little", "big", "auto"] | None = "auto",
) -> Writer:
    """Create a file of VDIF or Mark 5B to write samples to: for `with`. Or send them: `path` is an address then, like
    `udp://10.0.0.7:46227` or `tcp://10.0.0.7:2630`, and closing waits until all are sent.

    | argument | is |
    |---|---|
    | `sample_rate` | complete samples per second, a number or a `Quantity` of astropy |
    | `start` | time of the first sample, also a `Time` of astropy; a frame has to begin then |
    | `format` | "vdif" or "mark5b" |
    | `bits` | of an elementary sample: 1, 2, 4, 8, 16 or 32; Mark 5B 1 or 2 |
    | `channels`, `complex` | of each thread |
    | `threads` | their number, or a list of their numbers |
    | `edv` | of VDIF: "legacy", 0 (default), 1, 2, 3, 4 or 0xAB |
    | `payload` | bytes of samples in a frame of VDIF: 8000, for EDV 3 5000, if not given |
    | `rate` | of sending, bits per second, a number or a `Quantity`; 0 is as fast as possible; that of the samples, if not given |
    | `sequence` | byte order of the sequence number before each frame; None: no number; "auto": little-endian on UDP, none on TCP |
    """
    since = _time.absolute(start)
    if since is None:
        raise ValueError(f"start={start!r}: the time of the first sample is needed, like 2026-11-22T05:58:31.5")
    samples = whole_rate(sample_rate)
    ids = list(range(threads)) if isinstance(threads, int) else list(threads)
    second, nanoseconds = divmod(round(since * _BILLION), _BILLION)
    if Fraction(nanoseconds, _BILLION) + second != since:
        raise ValueError(f"start={start!r} is no whole number of nanoseconds")
    version = None if edv is None else str(edv)
    settings = {
        "bits": bits,
        "channels": channels,
        "complex": complex,
        "sample_rate": samples,
        "payload": payload,
        "threads": ids,
        "start": (second, nanoseconds),
        "station": station,
        "version": version,
    }
    maker = _native.FrameMaker(format, settings)
    shape = len(ids), channels
    if not isinstance(path, str) or not path.startswith(("udp://", "tcp://")):
        # A file that is there is not replaced by mistake.
        return Writer(open(path, "xb"), maker, shape, complex, samples)
    if sequence == "auto":
        sequence = "little" if path.startswith("udp://") else None
    packet = maker.frame_bytes + (8 if sequence else 0)
    if rate is None:
        rate = packet * 8 * len(ids) * samples / maker.frame_rows
    rate = float(_time.per_second(rate, "bit/s"))
    if not 0 <= rate < 1e15:
        raise ValueError(f"rate={rate}: bits per second, 0 for as fast as possible")
    return Writer(_Sending(path, maker.frame_bytes, math.ceil(rate), sequence), maker, shape, complex, samples)
