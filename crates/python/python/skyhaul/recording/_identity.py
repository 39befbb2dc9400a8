"""Whether files are still those that were opened: a name may stand for another file, or for another recording, by now.

    open ─▶ Identity ─▶ lazy array ─▶ … another process, later ─▶ block ─▶ check ─▶ samples, or OSError (ESTALE)

A plain file is known by its length, its time of change and its first bytes, in its own process by its inode, too; one with the same
first bytes that is longer has grown. A recording is known by the sessions of its indexes, so it may grow; without an index, by its
first chunks.

Limits: a file that another host sees with another time is not recognised there.
"""

from __future__ import annotations

import errno
import os
import uuid
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _native

# What tells it from another of this name, in any process.
Key = tuple[Any, ...]


# Bytes at the beginning of a file that tell it from another one.
_HEAD = 4096


class _Stamp(NamedTuple):
    size: int
    changed: int
    place: tuple[int, int]
    head: int

    @classmethod
    def of(cls, path: str, before: _Stamp | None = None) -> _Stamp | None:
        """What a file is now; None if it is not there."""
        try:
            about = os.stat(path)
            now = about.st_size, about.st_mtime_ns, (about.st_dev, about.st_ino)
            if before is not None and now == before[:3]:
                return before
            with open(path, "rb") as file:
                return cls(*now, zlib.crc32(file.read(_HEAD)))
        except OSError:
            return None


def _grew(before: tuple[Any, ...], now: _Stamp | None) -> bool:
    """Whether a file with this length and these first bytes is longer by now."""
    return now is not None and now.size > before[0] and now.head == before[-1] and before[0] >= _HEAD


class Identity:
    """What was opened, and when."""

    def __init__(self, source: _native.Recording | Sequence[str | os.PathLike[str]], paths: Sequence[str | os.PathLike[str]]) -> None:
        self._recording = source if isinstance(source, _native.Recording) else None
        self._paths = [os.fspath(path) for path in paths]
        watched = self._paths if self._recording is None else self._recording.watched
        self._watched = [str(path) for path in watched]
        self._stamps = [_Stamp.of(path) for path in self._watched]
        self.key: Key = self._known()
        #: Another opening is another view, even of the same files.
        self.opening: str = uuid.uuid4().hex

    def _known(self) -> Key:
        if self._recording is not None:
            return tuple(self._recording.sessions)
        return tuple(None if stamp is None else (stamp.size, stamp.changed, stamp.head) for stamp in self._stamps)

    def check(self, key: Key | None = None) -> None:
        """OSError if the files are not those that were opened, or not those with this key."""
        if key is not None and key != self.key and not self._grown_from(key):
            raise self._changed(self._watched[0])
        for at, path in enumerate(self._watched):
            before = self._stamps[at]
            now = _Stamp.of(path, before)
            if now is before:
                continue
            # An index grows while its scan is recorded.
            if self._another() if self._recording is not None else before is None or not _grew(before, now):
                raise self._changed(path)
            self._stamps[at] = now

    def _grown_from(self, key: Key) -> bool:
        """Whether plain files with this key are the same, or have grown."""
        if self._recording is not None or len(key) != len(self.key):
            return False
        pairs = zip(key, self.key, self._stamps, strict=True)
        return all(then == now or (then is not None and _grew(then, stamp)) for then, now, stamp in pairs)

    def _another(self) -> bool:
        assert self._recording is not None
        try:
            return tuple(_native.Recording(list(self._paths), self._recording.name).sessions) != self.key
        except OSError:
            return True

    @staticmethod
    def _changed(path: str) -> OSError:
        return OSError(errno.ESTALE, "it was replaced after it was opened; hint: open it again", path)
