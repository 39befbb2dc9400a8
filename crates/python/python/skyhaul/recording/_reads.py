"""What a stream, and a scan with one stream, can read: samples, headers, surveys, chunks as they are recorded."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from . import _columns, _headers, _lazy, _survey, _time
from ._chunks import Chunks
from ._samples import About, Frames, Missing

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from ._scan import Stream


@dataclass(frozen=True)
class Exported:
    """What was exported."""

    path: str
    """The file, or directory."""
    format: str
    """Its format: npy, raw, hdf5 or zarr."""
    dtype: str
    """Type of a number."""
    shape: tuple[int, ...]
    """Axes of the samples: time, thread, channel, and component for complex integers."""
    bytes: int
    """Bytes of the samples."""
    frames: int
    """Frames of threads in the range."""
    missing: int
    """How many of them are missing."""
    not_shown: int
    """Recorded frames that have no place in the array: their times are outside it, or another frame of the thread has the same."""
    repaired: int
    """Frames whose time was repaired, as the clock of their thread is wrong."""
    notes: tuple[str, ...]
    """What is unusual about the data."""


class Reads:
    """Methods of a stream, and of a scan with one stream.

    A range is given by `start`, a time (a string in UTC, `datetime`, `numpy.datetime64`) or seconds from the first sample on,
    and `duration` in seconds or `count` in samples; or by `frames`, the numbers of its first frame and of the one behind its
    last. Without these it is all there is.
    """

    def _stream(self) -> Stream:
        """What is read. Each class with these methods says which stream that is."""
        raise NotImplementedError

    @property
    def about(self) -> About:
        """What is known of the samples: format, threads, channels, rate, extent."""
        return self._stream().decoded().about

    @property
    def repaired(self) -> int:
        """Frames that were used so far with a repaired time, because the clock of their thread is wrong (`about.notes` says of
        which). Not counted: blocks that other processes read."""
        return self._stream().decoded().repaired

    @overload
    def samples(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        count: int | None = None,
        frames: Frames | None = None,
        raw: bool = False,
        missing: Literal["nan", "raise"] = "nan",
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]: ...

    @overload
    def samples(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        count: int | None = None,
        frames: Frames | None = None,
        raw: bool = False,
        missing: Literal["mask"],
        out: npt.NDArray[Any] | None = None,
    ) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[Any]]: ...

    @overload
    def samples(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        count: int | None = None,
        frames: Frames | None = None,
        raw: bool = False,
        missing: Missing,
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]: ...

    def samples(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        count: int | None = None,
        frames: Frames | None = None,
        raw: bool = False,
        missing: Missing = "nan",
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Decode a range to an array of (time, thread, channel): float32, or complex64 if samples are complex. Levels are
        those of VLBI's standard quantisers: 2 bits are ±1 and ±3.316505.

        Samples that are missing (lost, marked invalid, in a damaged chunk) are NaN; with `missing="mask"` the result is a
        masked array, with `missing="raise"` they raise `Damaged`.

        `raw` gives integers: codes less their offset, as int8, int16 or int32, with the lowest number of the type where
        samples are missing; complex ones have a last axis of two. `out` is an array to decode into; without it, memory of
        arrays that are gone is used again.
        """
        samples = self._stream().decoded()
        first, count = samples.range(start, duration, count, frames)
        return samples.read_range(first, count, raw=raw, missing=missing, out=out)

    def times(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        count: int | None = None,
        frames: Frames | None = None,
    ) -> npt.NDArray[np.datetime64]:
        """The times of the same samples, to the nanosecond before."""
        samples = self._stream().decoded()
        return samples.times(*samples.range(start, duration, count, frames))

    def validity(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        frames: Frames | None = None,
    ) -> npt.NDArray[np.bool_]:
        """For each frame of a range, for each thread: whether its samples are there. Only headers are looked at."""
        samples = self._stream().decoded()
        return samples.validity(*samples.range(start, duration, None, frames))

    def headers(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        frames: Frames | None = None,
    ) -> npt.NDArray[Any]:
        """The headers of the frames of a range that are there, as a structured array, by time, then by thread.

        Fields: `number` (of the frame, from the first on), `time`, `thread`, `valid`, and those of the header as its standard
        names them, as unsigned integers. `dtype.metadata` describes these.
        """
        samples = self._stream().decoded()
        return _headers.headers(samples, *samples.frame_range(*samples.range(start, duration, None, frames)))

    def survey(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        frames: Frames | None = None,
        block: int | None = None,
        at_most: int | None = 1 << 26,
        times: int = 120,
    ) -> _survey.Survey:
        """Spectrum, autocorrelation, how often each level occurs, and losses.

        `block` is the length of a block in samples (1024, fewer for very many channels). Of a long range at most `at_most`
        elementary samples are decoded, spread evenly over it; None decodes all. Losses are counted in `times` equal parts.
        """
        stream = self._stream()
        samples = stream.decoded()
        first, count = samples.range(start, duration, None, frames)
        return _survey.survey(samples.native, stream.name, first, count, block, at_most, times)

    def plot(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        frames: Frames | None = None,
        block: int | None = None,
        at_most: int | None = 1 << 26,
        figure: Figure | None = None,
    ) -> Figure:
        """Draw a survey with matplotlib, in `figure` or a new one."""
        return self.survey(start, duration, frames=frames, block=block, at_most=at_most).plot(figure)

    def export(
        self,
        path: str | os.PathLike[str],
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        frames: Frames | None = None,
        format: Literal["npy", "raw", "hdf5", "zarr"] | None = None,
        raw: bool = False,
    ) -> Exported:
        """Write the samples of a range to a file: NumPy (`.npy`), raw numbers (`.f32`, …), HDF5 (`.h5`) or Zarr (`.zarr`),
        as its name says, or `format`. `raw` writes integers, as with `samples`. The range may be larger than memory.
        """
        samples = self._stream().decoded()
        first, count = samples.range(start, duration, None, frames)
        done = json.loads(samples.native.export(path, first, count, format, raw))
        return Exported(**{**done, "shape": tuple(done["shape"]), "notes": tuple(done["notes"])})

    def to_xarray(
        self,
        start: _time.Start | None = None,
        duration: _time.Duration | None = None,
        *,
        raw: bool = False,
        block_bytes: int = 64 << 20,
    ) -> xarray.DataArray:
        """The samples of a range of time as a lazy array of (time, thread, channel) over Dask blocks.

        No block is in two chunks of the recording, nor larger than `block_bytes`. Blocks can be pickled: processes that see
        the same paths compute them, each opening the chunks of its own blocks only. Coordinates: `time` and `valid`, lazy
        too, and `thread` and `channel`. Times have no index, which would be larger than the samples: to select by time,
        give `start` and `duration`.
        """
        stream = self._stream()
        samples = stream.decoded()
        return _lazy.to_xarray(stream, *samples.range(start, duration, None), raw=raw, block_bytes=block_bytes)

    def to_dataset(
        self,
        first: int = 0,
        end: int | None = None,
        *,
        items: list[str] | None = None,
        hold: bool = True,
        time: _columns.Clock | str | None = None,
        order: _columns.Order | None = None,
        block_bytes: int = 64 << 20,
        bug_compat: int = 0,
    ) -> xarray.Dataset:
        """The heaps of a recording of SPEAD as a lazy dataset over Dask blocks, as with `to_xarray`: a variable for each item
        (or those of `items`), a row for each heap, of the heaps that arrived from number `first` to before `end`.

        A heap without an item has the value of the last heap that brought one, as in an item group; with `hold=False` it is
        missing there. What is missing (in an incomplete heap, a damaged chunk, or before the first value) is NaN, or 0 in
        integers, and false in the coordinate `valid` of (heap, item). Other coordinates: `counter` (-1 where it is not
        known), `complete`, and `time` if an item with one number in each heap tells it: its name (seconds since 1970), or a
        `Clock`.

        With `time`, rows are in order of time, and `time` is an index: `sel(time=…)` and `resample(time=…)` work. Its item is
        read for that. `order="counter"` does the same for `counter`, and `order="arrival"` (the default without `time`) leaves
        the rows as they arrived, without an index. Heaps whose time or counter is not known have no place in such an order:
        they are left out, with a warning and in `attrs["without_time"]`.

        An item that is called as a coordinate is the variable with an underscore behind its name, such as `time_` (two, if another
        item has that name).

        Items of variable shape or without descriptor are left out, with a warning and in `attrs["left_out"]`. An item whose
        descriptor changes within the range raises ValueError when it is computed, with the number of the heap.
        """
        clock = _columns.Clock(time) if isinstance(time, str) else time
        return _columns.to_dataset(self._stream(), first, end, items, hold, clock, order, block_bytes, bug_compat)

    def follow(self, missing: Literal["raise", "skip", "fill"] = "skip") -> Chunks:
        """The chunks in order while they are recorded, each as soon as it is safe: from the recorder's memory, if it is still
        there. Ends when the recorder has ended. For `for` and `async for`.
        """
        return self._stream().chunks(missing, follow=True)
