"""Whether files are still those that were opened: a name may stand for another file, or for another recording, by now.

    open ─▶ Identity ─▶ lazy array ─▶ … another process, later ─▶ block ─▶ check ─▶ samples, or OSError (ESTALE)

A plain file is known by its length and its time of change, in its own process by its inode, too. A recording is known by the
sessions of its indexes, so it may grow; without an index, by its first chunks.

Limits: a file that another host sees with another length or time is not recognised there.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Sequence
from typing import Any

from .. import _native

# What tells it from another of this name, in any process.
Key = tuple[Any, ...]


def _stamp(path: str) -> tuple[int, ...]:
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return about.st_size, about.st_mtime_ns, about.st_dev, about.st_ino


class Identity:
    """What was opened, and when."""

    def __init__(self, source: _native.Recording | Sequence[str | os.PathLike[str]], paths: Sequence[str | os.PathLike[str]]) -> None:
        self._recording = source if isinstance(source, _native.Recording) else None
        self._paths = [os.fspath(path) for path in paths]
        watched = self._paths if self._recording is None else self._recording.watched
        self._watched = [str(path) for path in watched]
        self._stamps = [_stamp(path) for path in self._watched]
        self.key: Key = self._known()
        #: Another opening is another view, even of the same files.
        self.opening: str = uuid.uuid4().hex

    def _known(self) -> Key:
        if self._recording is not None:
            return tuple(self._recording.sessions)
        return tuple(stamp[:2] for stamp in self._stamps)

    def check(self, key: Key | None = None) -> None:
        """OSError if the files are not those that were opened, or not those with this key."""
        if key is not None and key != self.key:
            raise self._changed(self._watched[0])
        for at, path in enumerate(self._watched):
            now = _stamp(path)
            if now == self._stamps[at]:
                continue
            # An index grows while its scan is recorded.
            if self._recording is None or self._another():
                raise self._changed(path)
            self._stamps[at] = now

    def _another(self) -> bool:
        assert self._recording is not None
        try:
            return tuple(_native.Recording(list(self._paths), self._recording.name).sessions) != self.key
        except OSError:
            return True

    @staticmethod
    def _changed(path: str) -> OSError:
        return OSError(errno.ESTALE, "it is not the one that was opened any more; hint: open it again", path)
