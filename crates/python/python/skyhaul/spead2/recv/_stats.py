"""Named statistics of a stream, including custom ones, which can be added over streams."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Iterator
from typing import Any, Self


class StreamStatConfig:
    """A statistic's name, and how two samples are combined: their sum, or the larger."""

    class Mode(enum.Enum):
        COUNTER = 0
        MAXIMUM = 1

    def __init__(self, name: str, mode: Mode = Mode.COUNTER) -> None:
        self._name, self._mode = str(name), StreamStatConfig.Mode(mode)

    @property
    def name(self) -> str:
        return self._name

    @property
    def mode(self) -> Mode:
        return self._mode

    def combine(self, a: int, b: int) -> int:
        """Combine two samples."""
        return a + b if self._mode is StreamStatConfig.Mode.COUNTER else max(a, b)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamStatConfig):
            return NotImplemented
        return (self._name, self._mode) == (other._name, other._mode)

    def __hash__(self) -> int:
        return hash((self._name, self._mode))

    def __repr__(self) -> str:
        return f"StreamStatConfig({self._name!r}, {self._mode})"


#: The statistics of every stream, in the order of `stream_stat_indices`.
CORE = tuple(
    StreamStatConfig(name, StreamStatConfig.Mode.MAXIMUM if name == "max_batch" else StreamStatConfig.Mode.COUNTER)
    for name in (
        "heaps",
        "incomplete_heaps_evicted",
        "incomplete_heaps_flushed",
        "packets",
        "batches",
        "max_batch",
        "single_packet_heaps",
        "search_dist",
        "worker_blocked",
    )
)


class StreamStats:
    """One sample of all statistics of a stream: by name, by index, and the core ones as attributes."""

    def __init__(self, config: Iterable[StreamStatConfig], values: Iterable[int] | None = None) -> None:
        self._config = list(config)
        self._index = {stat.name: n for n, stat in enumerate(self._config)}
        self._values = list(values) if values is not None else [0] * len(self._config)

    @property
    def config(self) -> list[StreamStatConfig]:
        """A list of `StreamStatConfig`."""
        return list(self._config)

    def _at(self, key: int | str) -> int:
        if isinstance(key, str):
            return self._index[key]
        at = operator.index(key)
        if not 0 <= at < len(self._values):
            raise IndexError(f"there are {len(self._values)} statistics: no {at}")
        return at

    def __getitem__(self, key: int | str) -> int:
        return self._values[self._at(key)]

    def __setitem__(self, key: int | str, value: int) -> None:
        self._values[self._at(key)] = operator.index(value)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def get(self, name: str, default: Any = None) -> Any:
        return self._values[self._index[name]] if name in self._index else default

    def keys(self) -> list[str]:
        return [stat.name for stat in self._config]

    def values(self) -> list[int]:
        return list(self._values)

    def items(self) -> list[tuple[str, int]]:
        return list(zip(self.keys(), self._values))

    def __add__(self, other: StreamStats) -> StreamStats:
        if not isinstance(other, StreamStats):
            return NotImplemented
        if self._config != other._config:
            raise ValueError("these streams have different statistics")
        return StreamStats(self._config, [s.combine(a, b) for s, a, b in zip(self._config, self._values, other._values)])

    def __iadd__(self, other: StreamStats) -> Self:
        self._values = (self + other)._values
        return self

    def __repr__(self) -> str:
        return f"StreamStats({dict(self.items())})"


def _core(at: int) -> property:
    return property(lambda self: self._values[at], lambda self, value: self.__setitem__(at, value))


for _at, _stat in enumerate(CORE):
    setattr(StreamStats, _stat.name, _core(_at))
