"""Reports the results of queued heaps and events to an event loop.

    stream's thread ─ sends ─▶ descriptor ─▶ loop ─▶ told(ticket), in the order of queueing

The stream's thread only sets the descriptor. It never calls Python: CPython kills a thread that does so while the
interpreter ends, and with it the process.
"""

from __future__ import annotations

import asyncio
import collections
import select
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
            loop.add_reader(self._wake.fileno(), self.look, loop)
        try:
            ticket = start(self._wake)
        except BaseException:
            if not self._queued:
                loop.remove_reader(self._wake.fileno())
            raise
        self._queued.append((ticket, told))

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report everything that is done, in the thread of the loop; the descriptor then stands for what follows."""
        self._wake.clear()
        try:
            self.tell()
        finally:
            if not self._queued and not loop.is_closed():
                loop.remove_reader(self._wake.fileno())

    def fileno(self) -> int:
        """The descriptor."""
        return self._wake.fileno()

    def tell(self) -> None:
        """Report everything that is done."""
        while self._queued and self._queued[0][0].done():
            ticket, told = self._queued.popleft()
            told(ticket)


class Watches:
    """The watches of a stream, one for each loop that uses it."""

    def __init__(self) -> None:
        self._of: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = weakref.WeakKeyDictionary()
        # Of all watches together, for users with a loop of their own.
        self._any: select.epoll | None = None

    def of(self, loop: asyncio.AbstractEventLoop) -> Watch:
        watch = self._of.get(loop)
        if watch is None:
            watch = self._of[loop] = Watch()
            if self._any is not None:
                self._any.register(watch.fileno(), select.EPOLLIN)
        return watch

    def fileno(self) -> int:
        """A descriptor that is readable while something is done that was not reported, to whichever loop."""
        if self._any is None:
            self._any = select.epoll()
            for watch in list(self._of.values()):
                self._any.register(watch.fileno(), select.EPOLLIN)
        return self._any.fileno()

    def look(self) -> None:
        """Report everything that is done now, not when the loops look. In the thread of the loops."""
        for loop, watch in list(self._of.items()):
            watch.look(loop)

    def closed(self) -> list[Watch]:
        """Those of closed loops, which are not reported any more."""
        return [watch for loop, watch in list(self._of.items()) if loop.is_closed()]
