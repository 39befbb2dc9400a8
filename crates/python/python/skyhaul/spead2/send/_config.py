"""Settings of send streams."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from .._settings import Setting, Settings, positive, rate, real, setting, unsigned


class RateMethod(enum.Enum):
    """What limits the rate. Here it is always software; the setting is stored."""

    SW = 0
    HW = 1
    AUTO = 2


class GroupMode(enum.Enum):
    """Order of the packets of heaps that are sent together: one of each in turn, or heap after heap."""

    ROUND_ROBIN = 0
    SERIAL = 1


def _ratio(value: Any) -> float:
    ratio = real(value)
    if not 1.0 <= ratio < float("inf"):
        raise ValueError(f"the catch-up rate must be at least the rate, a ratio of 1, not {ratio}")
    return ratio


def _method(value: Any) -> RateMethod:
    if not isinstance(value, RateMethod):
        raise TypeError(f"not a RateMethod: {value!r}")
    return value


class StreamConfig(Settings):
    """How heaps are sent. `rate` is in bytes per second (0: no limit); after a delay it may be `burst_rate`."""

    DEFAULT_MAX_PACKET_SIZE = 1472
    DEFAULT_MAX_HEAPS = 4
    DEFAULT_BURST_SIZE = 65536
    DEFAULT_BURST_RATE_RATIO = 1.05
    DEFAULT_RATE_METHOD = RateMethod.AUTO

    max_packet_size: Setting[int] = setting(DEFAULT_MAX_PACKET_SIZE, positive)
    rate: Setting[float] = setting(0.0, rate)
    burst_size: Setting[int] = setting(DEFAULT_BURST_SIZE, unsigned)
    max_heaps: Setting[int] = setting(DEFAULT_MAX_HEAPS, positive)
    burst_rate_ratio: Setting[float] = setting(DEFAULT_BURST_RATE_RATIO, _ratio)
    rate_method: Setting[RateMethod] = setting(DEFAULT_RATE_METHOD, _method)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            max_packet_size: int = DEFAULT_MAX_PACKET_SIZE,
            rate: float = 0.0,
            burst_size: int = DEFAULT_BURST_SIZE,
            max_heaps: int = DEFAULT_MAX_HEAPS,
            burst_rate_ratio: float = DEFAULT_BURST_RATE_RATIO,
            rate_method: RateMethod = DEFAULT_RATE_METHOD,
        ) -> None: ...

    @property
    def burst_rate(self) -> float:
        """The rate after a delay, in bytes per second."""
        return self.rate * self.burst_rate_ratio
