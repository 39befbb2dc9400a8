"""Reports the results of queued heaps to an event loop.

    stream's thread ─ sends ─▶ descriptor ─▶ loop ─▶ told(ticket), in the order in which heaps were queued

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


class Watch:
    """The queued heaps of one loop on one stream. The loop watches the descriptor while there are any."""

    def __init__(self) -> None:
        self._wake = _native.Wake()
        self._queued: collections.deque[tuple[_native.Ticket, Told]] = collections.deque()

    def queue(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: _native.SendStream,
        batch: _native.Batch,
        round_robin: bool,
        told: Told,
    ) -> None:
        """Queue heaps; the loop calls `told` when they are sent or have failed. RuntimeError if it is closed."""
        if not self._queued:
            loop.add_reader(self._wake.fileno(), self._look, loop)
        try:
            ticket = stream.queue(batch, round_robin, self._wake)
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
