"""A queue of packets between streams of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from ._errors import Stopped

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Maximum number of queued bytes. spead2's queues have no limit; this one is reached only without a reader.
_LIMIT = 16 << 30


class InprocQueue:
    """Written by any number of streams, read by one. Limited only to 16 GiB: for tests and small streams."""

    def __init__(self) -> None:
        self._native = _native.InprocQueue(_LIMIT)

    def add_packet(self, packet: Buffer) -> None:
        """Queue a packet. Stopped after `stop`."""
        if self._native.closed:
            raise Stopped("the queue was stopped")
        if not self._native.push(packet, 0.0):
            raise BlockingIOError(f"more than {_LIMIT >> 30} GiB are in the queue")

    def stop(self) -> None:
        """End the queue: receivers end when they have taken the queued packets."""
        self._native.close()
