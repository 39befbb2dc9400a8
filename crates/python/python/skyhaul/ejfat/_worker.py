"""A worker of a load balancer: whole events, one by one or built from several sources."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Generic, NamedTuple, Self, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from .._awaited import Awaited
from .._native import Empty, EventStream, Stopped, TickBuilder
from .._signature import with_keywords_of
from ._stats import BuildStats, ReceiveStats, Session

__all__ = ["Built", "Empty", "Event", "Stopped", "Worker"]


class Event(NamedTuple):
    """A whole event of one source. `data` views the received bytes."""

    tick: int
    data_id: int
    data: npt.NDArray[np.uint8]


class Built(NamedTuple):
    """The events of one tick from all sources, by data id."""

    tick: int
    parts: dict[int, npt.NDArray[np.uint8]]


E = TypeVar("E", bound=Event | Built)


class Options(TypedDict, total=False):
    """Keywords of a worker."""

    listen: str
    ports: int
    name: str | None
    address: str | None
    weight: float
    min_factor: float
    max_factor: float
    keep_label: bool
    timeout: float
    window: int
    largest: int
    ring: int
    memory: int | None
    buffer: int | None
    drain: float
    period: float
    certificate: str | None
    any_certificate: bool
    quiet: bool


class Worker(Awaited[E], Generic[E]):
    """Joins the balancer that `uri` names, or `EJFAT_URI` of the environment, and receives its share of the events:

        with Worker() as worker:
            for tick, data_id, data in worker:         # or: async for
                ...

    It reports ten times a second how far behind it is, and the balancer gives it less, or more. If the control plane is
    away, it goes on, and says so on standard error. A worker that is dropped, or leaves its `with` block, leaves the
    balancer at once. To lose nothing, call `leave()` and go on iterating: the iteration ends with the last event.

    With `sources=[1, 2]`, an item is a tick with the events of all these data ids, `Built(tick, parts)`. Ticks that lack
    one for `build_timeout` seconds are given up; of `build_window` ticks some parts are held at a time.

    | argument | meaning |
    |---|---|
    | `listen`, `ports` | `"10.0.0.5:17750"`; by default a port that is free. With `ports` (1, 2, 4 …), so many from there on, each with a thread |
    | `address` | where the balancer reaches it (an address, or a host's name), if not at the address of the route to the balancer |
    | `name` | in the balancer's status |
    | `weight`, `min_factor`, `max_factor` | its first share; bounds in even shares, 0 for none |
    | `keep_label` | packets come with the balancer's header |
    | `timeout`, `window`, `largest` | an incomplete event is given up after these seconds, or when so many newer ones began; bytes of the largest |
    | `ring`, `memory`, `buffer` | queued events; bytes for all events; bytes of a socket's buffer |
    | `drain` | `leave` waits so many seconds at most |
    | `period` | seconds between reports |
    | `certificate`, `any_certificate` | as for `Balancer` |
    | `quiet` | nothing on standard error |

        >>> Worker("ejfat://secret@127.0.0.1:18008/", quiet=True)
        Traceback (most recent call last):
        ValueError: find the balancer: control plane 127.0.0.1:18008: EJFAT_URI names none; hint: reserve one, and take the URI of the reservation: ejfat://…/lb/<id>?…
    """

    @overload
    def __init__(self: Worker[Event], uri: str | None = None, **options: Unpack[Options]) -> None: ...
    @overload
    def __init__(
        self: Worker[Built],
        uri: str | None = None,
        *,
        sources: Sequence[int],
        build_timeout: float = 1.0,
        build_window: int = 1024,
        **options: Unpack[Options],
    ) -> None: ...
    @with_keywords_of(EventStream)
    def __init__(
        self,
        uri: str | None = None,
        *,
        sources: Sequence[int] | None = None,
        build_timeout: float = 1.0,
        build_window: int = 1024,
        **options: Unpack[Options],
    ) -> None:
        self._waiting = []
        self._builder = None if sources is None else TickBuilder(sources, build_timeout, build_window)
        self._stream = EventStream(uri, **options)

    # ---- taking events

    def get(self, timeout: float | None = None) -> E:
        """The next event, or whole tick; `Empty` after `timeout` seconds, `Stopped` when the worker has left and no event is
        left."""
        builder = self._builder
        if builder is None:
            return cast(E, self._event(timeout))
        end = None if timeout is None else time.monotonic() + timeout
        # Parts of other ticks do not keep it beyond its time, but what is queued is looked at.
        most = self._stream.capacity
        while True:
            built = builder.poll()
            if built is not None:
                tick, parts = built
                return cast(E, Built(tick, dict(parts)))
            left = 0.1 if end is None else max(0.0, end - time.monotonic())
            if end is not None and left == 0.0 and most <= 0:
                raise Empty("no whole tick within the timeout")
            most -= 1
            try:
                builder.add(*self._event(min(left, 0.1)))
            except Empty:
                if end is not None and left <= 0.1:
                    raise

    def _event(self, timeout: float | None) -> Event:
        tick, data_id, data = self._stream.get(timeout)
        return Event(tick, data_id, np.frombuffer(memoryview(data), np.uint8))

    def get_nowait(self) -> E:
        """The next event if one is queued, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        try:
            return self.get()
        except Stopped:
            raise StopIteration from None

    def fileno(self) -> int:
        """A descriptor that is readable while an event is queued, or the worker has left."""
        return self._stream.fileno()

    # ---- the balancer

    def set_ready(self, ready: bool) -> None:
        """Whether it wants events; without, it stays registered, and its share goes to the others."""
        self._stream.set_ready(ready)

    def leave(self) -> None:
        """Begin to leave, and return: no more events are given to it, and the iteration ends when its last have been taken,
        some seconds later."""
        self._stream.leave()

    def leave_on(self, *signals: int) -> None:
        """Leave at these signals, such as `signal.SIGTERM`, with which Slurm ends a job. From the main thread only."""

        def handler(_number: int, _frame: FrameType | None) -> None:
            self.leave()

        for number in signals:
            signal.signal(number, handler)

    def stop(self) -> None:
        """Leave at once. Queued events can still be taken."""
        self._stream.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the worker is its parent's.
        if not self._stream.forked:
            self.stop()

    # ---- accounts

    @property
    def session(self) -> Session:
        """Its session with the balancer."""
        read: Session = json.loads(self._stream.session())
        return read

    @overload
    def stats(self: Worker[Event]) -> ReceiveStats: ...
    @overload
    def stats(self: Worker[Built]) -> BuildStats: ...
    def stats(self) -> Any:
        """Every counter of its stream; with `sources`, in `building` those of ticks."""
        stats = self._stream.stats()
        if self._builder is not None:
            stats["building"] = self._builder.counts
        return stats

    def __repr__(self) -> str:
        session = self.session
        return f"<worker {session['name']} of balancer {session['balancer']}, session {session['session'] or 'none'}>"
