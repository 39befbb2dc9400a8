"""What a stream rejected, and the lines of it in the log of spead2's name.

    spead2: 3 packets rejected: out_of_order (31 in all)

spead2 logs each rejected packet; here they are counted by reason, and new ones are logged once a second, so that a flood
of them costs nothing.
"""

from __future__ import annotations

import logging
import time
from typing import Any

_logger = logging.getLogger("spead2")
#: Least time between two looks, in seconds.
PERIOD = 1.0
#: What is counted beside rejected packets.
_TEXTS = {
    "items_outside": "heap dropped: %d items begin beyond its end (%d in all)",
    "skipped_bytes": "%d bytes skipped that belong to no packet (%d in all)",
}


def rejections(native: dict[str, Any]) -> dict[str, int]:
    """The reasons in the statistics of a native stream, and how often each occurred."""
    counted = {reason: count for reason, count in native["rejected"].items() if count}
    return counted | {name: native[name] for name in _TEXTS if native[name]}


class RejectionLog:
    """Logs what a stream rejected since the last look."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._due = time.monotonic() + PERIOD

    def is_due(self) -> bool:
        """Whether the last look was some time ago."""
        return time.monotonic() >= self._due

    def look(self, native: dict[str, Any]) -> None:
        """Log what is new in these statistics."""
        self._due = time.monotonic() + PERIOD
        for reason, count in rejections(native).items():
            new = count - self._known.get(reason, 0)
            if new <= 0:
                continue
            self._known[reason] = count
            if reason in _TEXTS:
                _logger.info(_TEXTS[reason], new, count)
            else:
                _logger.info("%d packets rejected: %s (%d in all)", new, reason, count)
