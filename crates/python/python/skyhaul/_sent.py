"""Telling an event loop what became of heaps that were queued on a stream.

    stream's thread ─ sends ─▶ descriptor ─▶ loop ─▶ told(ticket), in the order in which heaps were queued

The stream's thread touches the descriptor only. It never calls Python: a thread that did so while the interpreter ends would
be killed in the middle of it, and the process with it.
"""

from __future__ import annotations

import asyncio
import collections
import weakref
from collections.abc import Callable

from . import _native

Told = Callable[[_native.Ticket], object]


class Watch:
    """What one loop waits for on one stream. The loop watches the descriptor while there is something."""

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
        """Tell of all that is done."""
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
        """Those of loops that were closed, which tell nobody any more."""
        return [watch for loop, watch in list(self._of.items()) if loop.is_closed()]
