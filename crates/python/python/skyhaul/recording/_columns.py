"""Recorded heaps by number: each item a column, as arrays, and as lazy `xarray` datasets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _native
from ..spead._flavour import BugCompat
from ..spead._items import Descriptor
from . import _lazy, _time
from ._chunks import Gap, gap_of

if TYPE_CHECKING:
    import xarray

    from ._scan import Stream

    # What makes a column of an item in any process.
    _Raw = tuple[_native._RawDescriptor, int]

# What the compiled part says of an item in a heap.
_VALID, _ABSENT = 1, 2
# Times of datetime64[ns] are within so many seconds of 1970.
_MOST_SECONDS = 9 * 10**9
# Heaps whose times are read at a time.
_SLICE = 1 << 16

# Names of coordinates.
_COORDINATES = {"counter", "complete", "item", "valid", "time"}

Order = Literal["arrival", "counter", "time"]


class Column:
    """An item of fixed shape as a column."""

    def __init__(self, raw: _native._RawDescriptor, bug_compat: int) -> None:
        self.raw = raw
        self.item = Descriptor._received(raw, bool(bug_compat & BugCompat.SWAP_ENDIAN))
        codec = self.item.codec
        if codec.count is None:
            raise ValueError("its shape is variable")
        if codec.count == 0:
            raise ValueError("its values are empty")
        self.shape: tuple[int, ...] = tuple(size or 0 for size in self.item.shape)
        wire = codec.dtype
        fill = np.zeros((), wire)
        if wire.kind in "fc":
            fill[()] = np.nan
        if wire.kind in "mM":
            fill[()] = np.array("NaT", wire)
        bits = None if codec.bits is None else list(codec.format)
        count = codec.count if bits else codec.count * wire.itemsize
        self._given: _native._GivenItem = (raw, bits, count, fill.tobytes())
        self._wire = wire
        self.dtype = wire.newbyteorder("=")
        self.bytes = codec.count * wire.itemsize
        self._fill = fill

    def read(self, heaps: _native.RecordedHeaps, first: int, count: int, hold: bool) -> tuple[Any, npt.NDArray[np.bool_]]:
        """The values of some heaps, and which are there. With `hold`, a heap without the item has that of the last heap with
        one.
        """
        values = np.empty((count, *self._order()), self._wire)
        if not count:
            return self._native_order(values), np.zeros(0, np.bool_)
        octets = heaps.read(first, count, self._given, values.reshape(-1).view(np.uint8))
        states = np.frombuffer(octets, np.uint8)
        valid = states == _VALID
        if hold and (states == _ABSENT).any():
            self._hold(heaps, first, values, states, valid)
        return self._native_order(values), valid

    def _hold(self, heaps: _native.RecordedHeaps, first: int, values: Any, states: Any, valid: Any) -> None:
        absent = states == _ABSENT
        # The last row with a value, up to each row.
        carrier = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))
        early = absent & (carrier < 0)
        if early.any():
            before = heaps.carrier_before(first, self._given)
            if before is not None:
                value = np.empty((1, *self._order()), self._wire)
                heaps.read(before, 1, self._given, value.reshape(-1).view(np.uint8))
                values[early] = value[0]
                valid[early] = True
        late = np.flatnonzero(absent & (carrier >= 0))
        values[late] = values[carrier[late]]
        valid[late] = True

    def _order(self) -> tuple[int, ...]:
        return self.shape[::-1] if self.item.order == "F" else self.shape

    def _native_order(self, values: Any) -> Any:
        if self._wire != self.dtype:
            # In place, as it may be large; but fields may have different byte orders.
            is_mixed = self._wire.names is not None
            values = values.astype(self.dtype) if is_mixed else values.byteswap(inplace=True).view(self.dtype)
        return values.transpose(0, *range(values.ndim - 1, 0, -1)) if self.item.order == "F" else values


def load_values(spec: _lazy.Spec, first: int, count: int, raw: _Raw, hold: bool) -> Any:
    """The values of an item in a block of heaps."""
    return Column(*raw).read(_lazy.opened(spec).recorded(raw[1]), first, count, hold)[0]


def load_valid(spec: _lazy.Spec, first: int, count: int, raw: _Raw, hold: bool) -> Any:
    """Which of them are there."""
    return Column(*raw).read(_lazy.opened(spec).recorded(raw[1]), first, count, hold)[1][:, np.newaxis]


def load_times(spec: _lazy.Spec, first: int, count: int, raw: _Raw, clock: Clock) -> Any:
    """The times of a block of heaps."""
    return _times(Column(*raw), clock, _lazy.opened(spec).recorded(raw[1]), first, first + count)


def load_counters(spec: _lazy.Spec, first: int, count: int, bug_compat: int) -> Any:
    """The counters of a block of heaps."""
    return np.frombuffer(_lazy.opened(spec).recorded(bug_compat).counters(first, first + count), np.int64)


def load_complete(spec: _lazy.Spec, first: int, count: int, bug_compat: int) -> Any:
    """Which heaps of a block are complete."""
    return np.frombuffer(_lazy.opened(spec).recorded(bug_compat).complete(first, first + count), np.bool_)


@dataclass(frozen=True)
class Clock:
    """How an item tells the time of its heap."""

    item: str
    """Its name."""
    per_second: float | _time.Quantity = 1.0
    """Its ticks in a second."""
    epoch: np.datetime64 | str | _time.Time = "1970-01-01"
    """The time of tick 0, UTC; also a `Time` of astropy."""

    def _since(self) -> Any:
        epoch = _time.absolute(self.epoch) if isinstance(self.epoch, _time.Time) else None
        return np.array(self.epoch if epoch is None else int(epoch * 10**9), "M8[ns]")

    def times(self, ticks: Any) -> Any:
        """Times; NaT beyond what `datetime64` can express. To the nanosecond, if ticks are integers and `per_second` is a multiple of 2⁻²⁰."""
        per_second, since = float(_time.per_second(self.per_second)), self._since()
        ratio = per_second.as_integer_ratio() if math.isfinite(per_second) else (0, 1)
        if np.issubdtype(ticks.dtype, np.integer) and 1 <= per_second < 2**62 and ratio[1] <= 1 << 20 and math.prod(ratio) < 2**62:
            # Exact: ticks may have more digits than a float, also unsigned ones than an int64. 195312.5 in a second are 390625 in two.
            rate, parts = ratio
            divisor = np.array(rate, np.uint64 if ticks.dtype.kind == "u" else np.int64)
            whole = np.clip(ticks // divisor, None if ticks.dtype.kind == "u" else -_MOST_SECONDS, _MOST_SECONDS).astype(np.int64)
            rest = (ticks % divisor).astype(np.int64) * parts
            seconds, rest = whole * parts + rest // rate, rest % rate
            nanoseconds = rest * 10**9 // rate if rate < _MOST_SECONDS else rest * (1e9 / rate)
        else:
            exact = ticks / per_second
            seconds = np.floor(exact)
            # What is not finite has no fraction; it becomes NaT below.
            nanoseconds = np.round(np.where(np.isfinite(exact), exact, 0) % 1 * 1e9)
        known = (seconds > -_MOST_SECONDS) & (seconds < _MOST_SECONDS)
        offset = np.where(known, seconds, 0).astype(np.int64) * 10**9 + np.where(known, nanoseconds, 0).astype(np.int64)
        from_epoch = int(since.astype(np.int64)) // 10**9
        known &= np.abs(np.where(known, seconds, 0) + from_epoch) < _MOST_SECONDS
        return np.where(known, since + offset.astype("m8[ns]"), np.datetime64("NaT", "ns"))


def columns_of(
    heaps: _native.RecordedHeaps, first: int, end: int, items: list[str] | None, bug_compat: int
) -> tuple[dict[str, Column], dict[str, str]]:
    """The items of a range of heaps that can be columns, and the others with the reason."""
    described, unknown = heaps.descriptors(first, end)
    columns: dict[str, Column] = {}
    left_out = {f"item {number:#x}": "it has no descriptor" for number in unknown}
    for raw in sorted(described, key=lambda raw: raw[0]):
        if items is not None and raw[1] not in items:
            continue
        try:
            columns[raw[1]] = Column(raw, bug_compat)
        except ValueError as error:
            left_out[raw[1]] = str(error)
    for name in items or []:
        if name not in columns:
            known = ", ".join(sorted(raw[1] for raw in described)) or "none"
            raise ValueError(f"no column {name!r}: {left_out.get(name, f'the items are {known}')}")
    return columns, left_out


def variable_of(name: str, items: Container[str]) -> str:
    """What the variable of an item is called: another name if that is a coordinate's, and no other item's."""
    if name in _COORDINATES:
        while name in _COORDINATES or name in items:
            name += "_"
    return name


def to_dataset(
    stream: Stream,
    first: int,
    end: int | None,
    items: list[str] | None,
    hold: bool,
    clock: Clock | None,
    order: Order | None,
    block_bytes: int,
    bug_compat: int,
) -> xarray.Dataset:
    """See `Stream.to_dataset`."""
    order = order or ("arrival" if clock is None else "time")
    if order not in ("arrival", "counter", "time"):
        raise ValueError(f'order={order!r}; hint: "arrival", "counter" or "time"')
    if order == "time" and clock is None:
        raise ValueError('order="time" without a time; hint: time= names the item that tells it')
    _, xr, tokenize = _lazy.libraries()
    heaps, spec = stream.recorded(bug_compat), stream.heaps_spec()
    end = heaps.rows if end is None else end
    if not 0 <= first <= end <= heaps.rows:
        raise ValueError(f"heaps {first} to {end}: there are {heaps.rows}")
    columns, left_out = columns_of(heaps, first, end, items, bug_compat)
    if left_out:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        warnings.warn(f"{stream.name}: left out {reasons}", stacklevel=3)
    row = sum(column.bytes for column in columns.values()) + 1
    blocks = _lazy.divided(heaps.piece_rows(), first, end - first, 1, max(block_bytes // row, 1))
    token = f"{stream.name}-{tokenize(spec, first, end, hold, block_bytes, bug_compat)}"
    variables: dict[str, Any] = {}
    for name, column in columns.items():
        dims = ("heap", *(f"{name}_{n}" for n in range(len(column.shape))))
        raw = (column.raw, bug_compat)
        values = _lazy.lazy(f"{name}-{token}", load_values, spec, blocks, column.dtype, column.shape, raw, hold)
        attributes = {"id": column.item.id, "description": column.item.description}
        variables[variable_of(name, columns)] = (dims, values, attributes)
    coordinates: dict[str, Any] = {
        "counter": ("heap", _lazy.lazy(f"counter-{token}", load_counters, spec, blocks, np.int64, (), bug_compat)),
        "complete": ("heap", _lazy.lazy(f"complete-{token}", load_complete, spec, blocks, np.bool_, (), bug_compat)),
    }
    if columns:
        da, _, _ = _lazy.libraries()
        each = [
            _lazy.lazy(f"valid-{name}-{token}", load_valid, spec, blocks, np.bool_, (1,), (column.raw, bug_compat), hold)
            for name, column in columns.items()
        ]
        coordinates["item"] = ("item", np.array(list(columns)))
        coordinates["valid"] = (("heap", "item"), da.concatenate(each, axis=1))
    if clock is not None:
        if clock.item not in columns or columns[clock.item].shape:
            raise ValueError(f"no item {clock.item!r} with a single value in each heap tells the time")
        if order == "time":
            coordinates["time"] = ("heap", _times(columns[clock.item], clock, heaps, first, end))
        else:
            told = columns[clock.item].raw, bug_compat
            times = _lazy.lazy(f"time-{token}", load_times, spec, blocks, "datetime64[ns]", (), told, clock)
            coordinates["time"] = ("heap", times)
    if order == "counter":
        coordinates["counter"] = ("heap", np.frombuffer(heaps.counters(first, end), np.int64))
    dataset: xarray.Dataset = xr.Dataset(
        variables,
        coords=xr.Coordinates(coordinates, indexes={}),
        attrs={"stream": stream.name, "left_out": [f"{name}: {why}" for name, why in left_out.items()]},
    )
    return dataset if order == "arrival" else _ordered(dataset, order)


def _times(column: Column, clock: Clock, heaps: _native.RecordedHeaps, first: int, end: int) -> Any:
    """The times of heaps; NaT for those whose own item is missing. Never held: another heap's time is not theirs."""
    times = np.empty(end - first, "M8[ns]")
    for at in range(first, end, _SLICE):
        ticks, valid = column.read(heaps, at, min(_SLICE, end - at), hold=False)
        times[at - first : at - first + len(valid)] = np.where(valid, clock.times(ticks), np.datetime64("NaT", "ns"))
    return times


def _ordered(dataset: xarray.Dataset, order: Order) -> xarray.Dataset:
    """The rows in ascending order of a coordinate, which is an index then. Rows without a value of it are left out, and said."""
    keys = dataset[order].values
    known = np.flatnonzero(~np.isnat(keys) if order == "time" else keys >= 0)
    rows = known[np.argsort(keys[known], kind="stable")]
    missing = len(keys) - len(rows)
    if missing:
        text = f"{dataset.attrs['stream']}: left out {missing} of {len(keys)} heaps, whose {order} is not known"
        warnings.warn(f'{text}; hint: order="arrival" keeps them', stacklevel=5)
    dataset.attrs[f"without_{order}"] = missing
    if not np.array_equal(rows, np.arange(len(keys))):
        dataset = dataset.isel(heap=rows)
    return dataset.set_xindex(order)


def gaps_of(heaps: _native.RecordedHeaps) -> list[Gap]:
    """What is missing, as far as it is known by now."""
    return [gap_of(raw) for raw in heaps.gaps()]
