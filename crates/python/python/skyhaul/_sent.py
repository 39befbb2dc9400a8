"""Reports the results of queued heaps and events to an event loop.

    stream's thread ─ sends ─▶ descriptor ─▶ loop ─▶ told(ticket), in the order of queueing

The stream's thread only sets the descriptor. It never calls Python: CPython kills a thread that does so while the
interpreter ends, and with it the process.
"""

from __future__ import annotations

import asyncio
import collections
import weakref
from collections.abc import Callable

from . import _native

Told = Callable[[_native.Ticket], object]
# Queues something, which sets the descriptor when it is done.
Start = Callable[[_native.Wake], _native.Ticket]


class Watch:
    """What one loop queued on one stream. The loop watches the descriptor while there are any."""

    def __init__(self) -> None:
        self._wake = _native.Wake()
        self._queued: collections.deque[tuple[_native.Ticket, Told]] = collections.deque()

    def queue(self, loop: asyncio.AbstractEventLoop, start: Start, told: Told) -> None:
        """Queue heaps or events; the loop calls `told` when they are sent or have failed. RuntimeError if it is closed."""
        if not self._queued:
            loop.add_reader(self._wake.fileno(), self._look, loop)
        try:
            ticket = start(self._wake)
        except BaseException:
            if not self._queued:
                loop.remove_reader(self._wake.fileno())
            raise
        self._queued.append((ticket, told))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._wake.clear()
        try:
            self.tell()
        finally:
            if not self._queued:
                loop.remove_reader(self._wake.fileno())

    def tell(self) -> None:
        """Report everything that is done."""
        while self._queued and self._queued[0][0].done():
            ticket, told = self._queued.popleft()
            told(ticket)


class Watches:
    """The watches of a stream, one for each loop that uses it."""

    def __init__(self) -> None:
        self._of: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = weakref.WeakKeyDictionary()

    def of(self, loop: asyncio.AbstractEventLoop) -> Watch:
        watch = self._of.get(loop)
        if watch is None:
            watch = self._of[loop] = Watch()
        return watch

    def closed(self) -> list[Watch]:
        """Those of closed loops, which are not reported any more."""
        return [watch for loop, watch in list(self._of.items()) if loop.is_closed()]
