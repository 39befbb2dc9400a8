"""Threads and memory: spead2's settings, and their effect here.

Each reader of a stream has its own thread, so a `ThreadPool` starts none: its affinity applies to the readers of its
streams. Heap memory comes from one bounded store that reuses it, so an allocator only sets a size.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from ._settings import whole

_logger = logging.getLogger("spead2")


def _bind(core: int) -> bool:
    """Bind the calling thread to a core. A failure is logged, and has no other effect."""
    try:
        os.sched_setaffinity(0, [core])
    except (OSError, OverflowError, ValueError) as error:
        _logger.warning("bind a thread to core %d: %s; hint: this process may use %s", core, error, _cores())
        return False
    return True


def _cores() -> str:
    return ", ".join(map(str, sorted(os.sched_getaffinity(0))))


def _there(cores: list[int]) -> list[int]:
    """The cores to which a thread can be bound."""
    before = os.sched_getaffinity(0)
    try:
        return [core for core in cores if _bind(core)]
    finally:
        os.sched_setaffinity(0, before)


class ThreadPool:
    """The cores for the streams of a program; unavailable ones are logged. ValueError for 0 threads."""

    def __init__(self, threads: int = 1, affinity: Sequence[int] = ()) -> None:
        if whole(threads) < 1:
            raise ValueError("a thread pool must have at least one thread")
        self._threads = whole(threads)
        self._affinity = _there([whole(core) for core in affinity])

    def stop(self) -> None:
        """No effect: threads end with their streams."""

    @staticmethod
    def set_affinity(core: int) -> None:
        """Bind the calling thread to a core. An unavailable core is logged, and has no other effect."""
        _bind(whole(core))


class MemoryAllocator:
    """The default: memory of the stream's store."""


class MmapAllocator(MemoryAllocator):
    """Accepted; the store maps its memory itself, with huge pages if the system provides them."""

    def __init__(self, flags: int = 0, prefer_huge: bool = False) -> None:
        self._flags, self._prefer_huge = whole(flags), bool(prefer_huge)


class MemoryPool(MemoryAllocator):
    """MemoryPool([thread_pool,] lower, upper, max_free, initial[, low_water][, allocator])

    Accepted, with its arguments checked: the store keeps and reuses memory of every size.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = ["lower", "upper", "max_free", "initial"]
        if (args and isinstance(args[0], ThreadPool)) or "thread_pool" in kwargs:
            names = ["thread_pool", *names, "low_water"]
        names.append("allocator")
        if len(args) > len(names):
            raise TypeError(f"MemoryPool takes {', '.join(names)}")
        given = dict(zip(names, args))
        if set(given) & set(kwargs) or set(kwargs) - set(names) or set(names[:-1]) - set(given) - set(kwargs):
            raise TypeError(f"MemoryPool takes {', '.join(names)}")
        given.update(kwargs)
        if whole(given["upper"]) < whole(given["lower"]):
            raise ValueError("the upper bound of a pool is below its lower one")
        self._given = given
        self._warn = True

    @property
    def warn_on_empty(self) -> bool:
        """Accepted. No pool here becomes empty, so there is nothing to warn of: the store allocates within its limit, and heaps
        beyond it are refused and counted."""
        return self._warn

    @warn_on_empty.setter
    def warn_on_empty(self, warn: bool) -> None:
        if not isinstance(warn, bool):
            raise TypeError(f"warn_on_empty is True or False, not {warn!r}")
        self._warn = warn
