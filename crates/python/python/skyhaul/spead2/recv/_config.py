"""Settings of receive streams, rings and chunks."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from .. import _flavour as spead
from .._pools import MemoryAllocator
from .._settings import Setting, Settings, flag, positive, setting, unsigned, whole
from ._stats import CORE, StreamStatConfig


def _copying(value: Any) -> int:
    way = whole(value)
    if way not in (spead.MEMCPY_STD, spead.MEMCPY_NONTEMPORAL):
        raise ValueError(f"invalid memcpy function: {way}")
    return way


def _allocator(value: Any) -> MemoryAllocator:
    if not isinstance(value, MemoryAllocator):
        raise TypeError(f"not a MemoryAllocator: {value!r}")
    return value


def _bug_compat(value: Any) -> int:
    return spead.check_bug_compat(whole(value))


class StreamConfig(Settings):
    """How a stream assembles heaps. `max_heaps` applies to each of `substreams`; `add_stat` adds custom statistics."""

    DEFAULT_MAX_HEAPS = 4

    max_heaps: Setting[int] = setting(DEFAULT_MAX_HEAPS, positive)
    substreams: Setting[int] = setting(1, positive)
    bug_compat: Setting[int] = setting(0, _bug_compat)
    memcpy: Setting[int] = setting(spead.MEMCPY_STD, _copying)
    memory_allocator: Setting[MemoryAllocator] = Setting(MemoryAllocator, _allocator)
    stop_on_stop_item: Setting[bool] = setting(True, flag)
    allow_unsized_heaps: Setting[bool] = setting(True, flag)
    allow_out_of_order: Setting[bool] = setting(False, flag)
    stream_id: Setting[int] = setting(0, unsigned)
    explicit_start: Setting[bool] = setting(False, flag)

    if TYPE_CHECKING:
        _stats: list[StreamStatConfig]

        def __init__(
            self,
            *,
            max_heaps: int = DEFAULT_MAX_HEAPS,
            substreams: int = 1,
            bug_compat: int = 0,
            memcpy: int = spead.MEMCPY_STD,
            memory_allocator: MemoryAllocator = MemoryAllocator(),
            stop_on_stop_item: bool = True,
            allow_unsized_heaps: bool = True,
            allow_out_of_order: bool = False,
            stream_id: int = 0,
            explicit_start: bool = False,
        ) -> None: ...
    else:

        def __init__(self, **given):
            super().__init__(**given)
            self._stats = list(CORE)

    @property
    def stats(self) -> list[StreamStatConfig]:
        """A list of `StreamStatConfig`."""
        return list(self._stats)

    def add_stat(self, name: str, mode: StreamStatConfig.Mode = StreamStatConfig.Mode.COUNTER) -> int:
        """Register a statistic; returns its index. ValueError if the name is in use."""
        if any(stat.name == name for stat in self._stats):
            raise ValueError(f"a statistic named {name} exists already")
        self._stats.append(StreamStatConfig(name, mode))
        return len(self._stats) - 1

    def next_stat_index(self) -> int:
        """The index that the next `add_stat` returns."""
        return len(self._stats)

    def get_stat_index(self, name: str) -> int:
        """The index of a statistic. IndexError if the name is unknown."""
        for at, stat in enumerate(self._stats):
            if stat.name == name:
                return at
        raise IndexError(f"no statistic named {name}")

    def _copy(self) -> StreamConfig:
        """A copy: later changes do not affect a stream."""
        copy = StreamConfig(**{name: getattr(self, name) for name in _STREAM_SETTINGS})
        copy._stats = list(self._stats)
        return copy


_STREAM_SETTINGS = [name for name, value in vars(StreamConfig).items() if isinstance(value, Setting)]


class RingStreamConfig(Settings):
    """The ring between a stream and its user, and whether incomplete heaps are delivered."""

    DEFAULT_HEAPS = 4

    heaps: Setting[int] = setting(DEFAULT_HEAPS, positive)
    contiguous_only: Setting[bool] = setting(True, flag)
    incomplete_keep_payload_ranges: Setting[bool] = setting(False, flag)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            heaps: int = DEFAULT_HEAPS,
            contiguous_only: bool = True,
            incomplete_keep_payload_ranges: bool = False,
        ) -> None: ...

    def _copy(self) -> RingStreamConfig:
        return RingStreamConfig(
            heaps=self.heaps,
            contiguous_only=self.contiguous_only,
            incomplete_keep_payload_ranges=self.incomplete_keep_payload_ranges,
        )


class ChunkStreamGroupConfig(Settings):
    """The window of a group of chunk streams, and the handling of a chunk that some of them still fill."""

    DEFAULT_MAX_CHUNKS = 2

    class EvictionMode(enum.Enum):
        LOSSY = 0
        LOSSLESS = 1

    max_chunks: Setting[int] = setting(DEFAULT_MAX_CHUNKS, positive)
    eviction_mode: Setting[EvictionMode] = setting(EvictionMode.LOSSY, EvictionMode)

    if TYPE_CHECKING:

        def __init__(
            self, *, max_chunks: int = DEFAULT_MAX_CHUNKS, eviction_mode: EvictionMode = EvictionMode.LOSSY
        ) -> None: ...
