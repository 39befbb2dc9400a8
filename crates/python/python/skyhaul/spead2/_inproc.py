"""A queue of packets inside this process: what one stream sends, another receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from ._errors import Stopped

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Bytes that may wait. spead2's queues have no bound; this one is met only by a sender that nobody reads.
_LIMIT = 16 << 30


class InprocQueue:
    """Sent into by any number of streams, read by one. Bounded only by 16 GiB: for tests and small streams."""

    def __init__(self) -> None:
        self._native = _native.InprocQueue(_LIMIT)

    def add_packet(self, packet: Buffer) -> None:
        """Put a packet in. Stopped after `stop`."""
        if self._native.closed:
            raise Stopped("the queue was stopped")
        if not self._native.push(packet, 0.0):
            raise BlockingIOError(f"more than {_LIMIT >> 30} GiB wait in the queue")

    def stop(self) -> None:
        """Nothing more comes: receivers end when they have taken what is here."""
        self._native.close()
