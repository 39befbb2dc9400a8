"""Times of samples: exact, in whole nanoseconds since 1970. `Time`, `TimeDelta` and `Quantity` of astropy are known by what they
have, so astropy need not be installed."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from typing import Any, Protocol, SupportsFloat, TypeAlias, runtime_checkable

import numpy as np


@runtime_checkable
class Time(Protocol):
    """A time of astropy."""

    # Differences of times have a time scale, too, and no sidereal time.
    def sidereal_time(self, *args: Any, **kwargs: Any) -> Any: ...
    def to_value(self, *args: Any, **kwargs: Any) -> Any: ...


@runtime_checkable
class Quantity(Protocol):
    """A quantity of astropy, or a difference of times."""

    def to_value(self, *args: Any, **kwargs: Any) -> Any: ...


# Absolute: ISO 8601 (UTC), datetime, numpy.datetime64, Time; relative: seconds from the first sample on, numpy.timedelta64,
# Quantity.
Start: TypeAlias = "str | datetime.datetime | np.datetime64 | Time | datetime.timedelta | np.timedelta64 | Quantity | SupportsFloat"
Duration: TypeAlias = "datetime.timedelta | np.timedelta64 | Quantity | SupportsFloat"

_BILLION = 10**9
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?(Z|[+-]\d{2}:?\d{2})?")


def seconds(duration: Duration) -> Fraction:
    """A duration in seconds, exact as it is written: 0.1 is a tenth."""
    if isinstance(duration, np.timedelta64):
        return Fraction(int(duration.astype("timedelta64[ns]").astype(np.int64)), _BILLION)
    if isinstance(duration, datetime.timedelta):
        return Fraction(duration // datetime.timedelta(microseconds=1), 10**6)
    if isinstance(duration, (int, Fraction)):
        return Fraction(duration)
    value = float(_plain(duration, "s"))
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"a time of {value} seconds")
    return Fraction(repr(value))


def _plain(quantity: Any, unit: str) -> Any:
    """A number in this unit, of a quantity or of a number."""
    if not isinstance(quantity, Quantity):
        return quantity
    # A difference of times names the unit otherwise.
    return quantity.to_value(unit) if hasattr(quantity, "unit") else quantity.to_value("sec")


def per_second(rate: Any, unit: str = "Hz") -> Any:
    """A rate, also a quantity, in this unit."""
    return _plain(rate, unit)


def _utc(time: Any) -> Any:
    return time.utc


def absolute(start: Start) -> Fraction | None:
    """Seconds since 1970; None if it is relative."""
    if isinstance(start, str):
        return _iso(start)
    if isinstance(start, Time):
        start = np.datetime64(_utc(start).to_value("datetime64"), "ns")
    if isinstance(start, np.datetime64):
        return Fraction(int(start.astype("datetime64[ns]").astype(np.int64)), _BILLION)
    if isinstance(start, datetime.datetime):
        aware = start if start.tzinfo else start.replace(tzinfo=datetime.timezone.utc)
        since = aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return Fraction(since // datetime.timedelta(microseconds=1), 10**6)
    return None


def _iso(text: str) -> Fraction:
    found = _ISO.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a time; hint: write it in UTC, like 2026-11-22T05:58:31.5")
    whole, fraction, zone = found.groups()
    moment = datetime.datetime.fromisoformat(whole + (zone or "+00:00").replace("Z", "+00:00"))
    since = absolute(moment)
    assert since is not None
    return since + Fraction(int((fraction or "0").ljust(9, "0")), _BILLION)


def shown(since: Fraction) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, to a nanosecond."""
    nanoseconds = round(since * _BILLION)
    text = str(np.datetime64(nanoseconds, "ns"))
    return text.rstrip("0").rstrip(".") + "Z"
