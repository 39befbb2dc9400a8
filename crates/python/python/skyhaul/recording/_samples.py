"""The samples of a stream as numbers."""

from __future__ import annotations

import math
import os
import sys
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from .. import _native
from . import _time
from ._chunks import Damaged, Gap, gap_of

Missing = Literal["nan", "mask", "raise"]
_Numbers = npt.NDArray[Any]
# First frame, and one past the last.
Frames = tuple[int, int]


def _warn(text: str) -> None:
    """A warning at the line that called this package. (`skip_file_prefixes` is of Python 3.12.)"""
    own = os.path.dirname(__file__)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


class Options(TypedDict, total=False):
    """How to read the samples of a stream; all are optional."""

    sample_rate: float | _time.Quantity | None
    """Complete samples per second, if the headers do not state it."""
    threads: list[int] | None
    """Threads, in the order of their columns; otherwise all, ascending."""
    bits: int | None
    """Mark 5B: bits of a sample, 1 or 2 (default)."""
    channels: int | None
    """Mark 5B: channels; the bitstreams are theirs, in order."""
    mask: int | None
    """Mark 5B: the recorded bitstreams, as the mask of the formatter."""
    tracks: list[int] | None
    """Mark 5B: the bitstreams to decode, numbered as in the mask; with 2 bits sign and magnitude of each channel."""
    ref_time: _time.Start | None
    """Mark 5B: a time within 500 days of the data; otherwise that of the recording, or now."""
    verify: bool
    """Verify each chunk before its first sample is used."""
    workers: int
    """Threads of the processor to decode with; 0: as many as it has."""


def native_options(options: Options) -> dict[str, Any]:
    """The same, as the compiled part takes it."""
    near = options.get("ref_time")
    since = None if near is None else _time.absolute(near)
    if near is not None and since is None:
        raise ValueError(f"ref_time={near!r} is no absolute time")
    given: dict[str, Any] = {name: options.get(name) for name in ("sample_rate", "threads", "bits", "channels", "mask", "tracks")}
    given["near"] = None if since is None else int(since)
    given["verify"], given["workers"] = options.get("verify", True), options.get("workers", 0)
    if given["sample_rate"] is not None:
        given["sample_rate"] = whole_rate(given["sample_rate"])
    return given


def whole_rate(rate: Any) -> int:
    """Samples per second, also from a Quantity of astropy."""
    value = _time.per_second(rate)
    if value != int(value):
        raise ValueError(f"sample_rate={rate!r}: a whole number of samples per second is needed")
    return int(value)


@dataclass(frozen=True)
class About:
    """What is known of the samples of a stream."""

    format: str
    """Its format."""
    describe: str
    """Its format, in a line."""
    station: str | None
    """Its station, if the headers state it."""
    threads: tuple[int, ...]
    """Threads, in the order of their columns."""
    channels: int
    """Channels of a thread."""
    complex: bool
    """Whether samples have a real and an imaginary part."""
    bits: int
    """Bits of an elementary sample."""
    sample_rate: int
    """Complete samples per second."""
    frames_per_second: int
    """Frames of a thread per second."""
    frame_samples: int
    """Complete samples of a frame."""
    samples: int
    """Complete samples from the first frame to the last, missing ones included."""
    start: np.datetime64 = field(compare=False)
    """Time of the first sample, to a nanosecond."""
    bytes: int
    """Bytes of all files."""
    notes: tuple[str, ...] = ()
    """What a user of the samples has to know: threads whose clocks are wrong, so that the times of their frames are repaired,
    rates that frame numbers disprove, other deviations from the standard."""

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the end of the last."""
        return self.samples / self.sample_rate

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of all its samples: time, thread, channel."""
        return self.samples, len(self.threads), self.channels


class Samples:
    """The samples of a stream: any range as an array of (time, thread, channel)."""

    def __init__(self, native: _native.Samples) -> None:
        self.native = native
        raw = native.about()
        second, frame = raw["start"]
        self._start = second + Fraction(frame, raw["frames_per_second"])
        self.about: About = About(
            format=raw["format"],
            describe=raw["describe"],
            station=raw["station"],
            threads=tuple(raw["threads"]),
            channels=raw["channels"],
            complex=raw["complex"],
            bits=raw["bits"],
            sample_rate=raw["sample_rate"],
            frames_per_second=raw["frames_per_second"],
            frame_samples=raw["frame_rows"],
            samples=raw["rows"],
            start=np.datetime64(round(self._start * 10**9), "ns"),
            bytes=raw["bytes"],
            notes=tuple(raw["notes"]),
        )
        if raw["rate_doubt"] is not None:
            _warn(raw["rate_doubt"])

    @property
    def gaps(self) -> list[Gap]:
        """Chunks that are missing or damaged, as far as that is known by now."""
        return [gap_of(raw) for raw in self.native.gaps()]

    @property
    def repaired(self) -> int:
        """Frames used so far with a repaired time, because the clock of their thread is wrong. A frame read twice counts twice."""
        return self.native.repaired()

    def piece_starts(self) -> list[int]:
        """The samples with which the chunks begin."""
        return self.native.piece_rows()

    def range(
        self,
        start: _time.Start | None,
        duration: _time.Duration | None,
        count: int | None,
        frames: Frames | None = None,
    ) -> tuple[int, int]:
        """First sample and number of samples of a range."""
        rate = self.about.sample_rate
        if frames is not None:
            if start is not None or duration is not None or count is not None:
                raise ValueError("give frames, or start with duration or count, not both")
            return self._range_of_frames(*frames)
        if start is None:
            first = 0
        else:
            since = _time.absolute(start)
            relative = since - self._start if since is not None else _time.seconds(start)  # type: ignore[arg-type]
            first = round(relative * rate)
        if count is not None and duration is not None:
            raise ValueError("give duration or count, not both")
        if duration is not None:
            count = round(_time.seconds(duration) * rate)
        elif count is None:
            count = self.about.samples - first
        if first < 0 or count < 0 or first + count > self.about.samples:
            end = self._start + Fraction(self.about.samples, rate)
            wanted = f"{_time.shown(self._start + Fraction(first, rate))} and {count} samples on"
            raise ValueError(f"{wanted}: the data are from {_time.shown(self._start)} to {_time.shown(end)}")
        return first, count

    def _range_of_frames(self, first: int, end: int) -> tuple[int, int]:
        each = self.about.frame_samples
        if not 0 <= first <= end <= self.about.samples // each:
            raise ValueError(f"frames {first} to {end}: there are {self.about.samples // each}")
        return first * each, (end - first) * each

    def frame_range(self, first: int, count: int) -> tuple[int, int]:
        """First frame and number of frames in which these samples are."""
        frame = first // self.about.frame_samples
        end = -(-(first + count) // self.about.frame_samples)
        return frame, max(end - frame, 0)

    def frame_times(self, frames: npt.NDArray[np.uint64]) -> npt.NDArray[np.datetime64]:
        """Times of frames, to the nanosecond before."""
        fps = self.about.frames_per_second
        second, frame = divmod(self._start * fps, fps)
        numbers = frames.astype(np.int64) + int(frame)
        nanoseconds = (int(second) + numbers // fps) * 10**9 + numbers % fps * 10**9 // fps
        return nanoseconds.astype("datetime64[ns]")

    def times(self, first: int, count: int) -> npt.NDArray[np.datetime64]:
        """Times of samples, to the nanosecond before."""
        rate = self.about.sample_rate
        whole, rest = divmod(self._start * 10**9 * rate + first * 10**9, rate)
        offsets = (np.arange(count, dtype=np.int64) * 10**9 + int(rest)) // rate if count < 9 * 10**9 else None
        if offsets is None:
            raise ValueError("too many samples for one array of times")
        return np.datetime64(int(whole), "ns") + offsets.astype("timedelta64[ns]")

    def read_range(
        self,
        first: int,
        count: int,
        *,
        raw: bool = False,
        missing: Missing = "nan",
        out: _Numbers | None = None,
    ) -> _Numbers:
        """See `Reads.samples`."""
        about = self.about
        if missing not in ("nan", "mask", "raise"):
            raise ValueError(f'missing={missing!r}; hint: "nan", "mask" or "raise"')
        dtype, tail = self.kind(raw)
        shape = (count, *tail)
        kind = dtype.str[1:] if raw else "f4"
        # Larger arrays than the memory that is kept for them.
        if out is None and math.prod(shape) * dtype.itemsize > _native.most_array_bytes():
            out = np.empty(shape, dtype)
        if out is not None and (out.shape != shape or out.dtype != dtype):
            raise ValueError(f"out is {out.dtype} {out.shape}; these samples are {dtype} {shape}")
        array, valid = self._decoded(first, shape, dtype, kind, out)
        frames = np.frombuffer(valid, np.bool_).reshape(-1, len(about.threads))
        if missing == "raise" and not frames.all():
            self._raise(first, frames)
        if missing == "mask":
            mask = ~self._by_sample(frames, first, count)
            full = np.broadcast_to(mask.reshape(mask.shape + (1,) * (array.ndim - 2)), array.shape)
            return np.ma.MaskedArray(array, full)
        return array

    def _decoded(
        self, first: int, shape: tuple[int, ...], dtype: np.dtype[Any], kind: str, out: _Numbers | None
    ) -> tuple[_Numbers, bytes]:
        # Memory of arrays that are gone, if there is any: new memory costs more than decoding into it.
        if out is None:
            try:
                memory, valid = self.native.read(first, shape[0], kind, None)
                kept: Any = memory
                return np.frombuffer(kept, dtype).reshape(shape), valid
            except MemoryError:
                out = np.empty(shape, dtype)
        return out, self.native.read(first, shape[0], kind, out)[1]

    def kind(self, raw: bool) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type of a sample, and shape of all samples of one instant."""
        about = self.about
        tail = (len(about.threads), about.channels)
        if not raw:
            return np.dtype(np.complex64 if about.complex else np.float32), tail
        kind = np.dtype(np.int8 if about.bits <= 8 else np.int16 if about.bits == 16 else np.int32)
        return kind, (*tail, 2) if about.complex else tail

    def _by_sample(self, frames: npt.NDArray[np.bool_], first: int, count: int) -> npt.NDArray[np.bool_]:
        skip = first % self.about.frame_samples
        return np.repeat(frames, self.about.frame_samples, axis=0)[skip : skip + count]

    def valid_samples(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """For each sample of a range, for each thread: whether it is there."""
        return self._by_sample(self.validity(first, count), first, count)

    def _raise(self, first: int, frames: npt.NDArray[np.bool_]) -> None:
        at, thread = np.argwhere(~frames)[0]
        about = self.about
        frame = first // about.frame_samples + int(at)
        time = _time.shown(self._start + Fraction(frame, about.frames_per_second))
        text = f"{np.count_nonzero(~frames)} of {frames.size} frames are missing or invalid, the first at {time}"
        text += f", thread {about.threads[int(thread)]}"
        known = self.gaps
        gap = known[0] if known else Gap(about.format, 0, 0, "missing", None, None, None, "left_out", text)
        raise Damaged(text, gap)

    def validity(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """For each frame in which these samples are, for each thread: whether its samples are there."""
        raw = self.native.validity(*self.frame_range(first, count))
        return np.frombuffer(raw, np.bool_).reshape(-1, len(self.about.threads))
