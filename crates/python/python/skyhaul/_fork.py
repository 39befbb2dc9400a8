"""Locks on which a forked process does not wait.

    parent   thread A holds the lock, thread B forks
    child    thread B only: no thread will release the copy of the lock
"""

from __future__ import annotations

import threading

from . import _native


class Condition(threading.Condition):
    """A condition that raises RuntimeError in a process forked from the one that made it. `what` names the guarded
    object."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._owner = _native.Owner(what)

    def check(self) -> None:
        """RuntimeError in a forked process, without locking."""
        self._owner.check()

    def __enter__(self) -> bool:
        self._owner.check()
        return super().__enter__()
