"""Sending events to a balancer, or to a receiver directly.

    from skyhaul import ejfat

    with ejfat.Sender(rate=8e9, mtu=9000) as sender:         # to the URI in the environment variable EJFAT_URI
        tick = sender.send(event, data_id=3)                 # any object with the buffer protocol, in place

    with ejfat.Sender("10.0.0.7:17750", first_tick=0) as sender:     # to a receiver directly
        await sender.asend(event)
"""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from .. import _native
from .._sent import Watches
from ._stats import SendStats

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    # Before Python 3.12 type checkers do not know that arrays have the buffer protocol.
    Bytes: TypeAlias = Buffer | npt.NDArray[Any]

__all__ = ["Sender"]

VARIABLE = "EJFAT_URI"


class Sender:
    """Sends events: any object with the buffer protocol, in place.

    `to` is the `EJFAT_URI` of a reservation, with `data=` and `sync=`, or the address of a receiver ("10.0.0.7:17750",
    "node7:17750"), which gets no balancer's header. Without it, the environment variable `EJFAT_URI` says where. All threads may send.

    | | |
    |---|---|
    | `mtu` | largest IP packet: 1500, or 9000 where all of the path carries it |
    | `rate` | bits per second of packets, 0 for as fast as possible |
    | `events_per_second` | events at equal intervals |
    | `first_tick`, `tick_step` | ticks are counted; without `first_tick` they are the clock's: microseconds since 1970 |
    | `lb_version` | 2 or 3: version of the balancer's header |
    | `slot` | version 3: "tick", its low bits choose the receiver; "spread", all do |
    | `entropy` | chooses the receiver's port: "event", "source" (the data id) or a number |
    | `re_version` | 1; 0 or 2 for receivers that expect what udplbd or packetBlaster send |
    | `sockets` | sockets, each with a source port of its own, which take events in turn |
    | `buffer` | bytes of each socket's send buffer |
    | `ipv6` | of a URI's addresses, use those of IPv6 |
    | `sync`, `sync_period`, `sync_source` | address of synchronisation messages, if not the URI's; seconds between them; their source |
    | `warm_up` | seconds from the first synchronisation message to the first event |
    | `max_events` | maximum number of events queued by `queue` and `asend` |
    | `linger` | seconds for which dropping the sender waits for queued events |
    """

    def __init__(
        self,
        to: str | None = None,
        *,
        mtu: int = 1500,
        rate: float = 0.0,
        events_per_second: float | None = None,
        first_tick: int | None = None,
        tick_step: int = 1,
        lb_version: Literal[2, 3] = 2,
        slot: Literal["tick", "spread"] = "tick",
        entropy: Literal["event", "source"] | int = "event",
        re_version: Literal[0, 1, 2] = 1,
        sockets: int = 1,
        buffer: int | None = None,
        ipv6: bool = False,
        sync: str | None = None,
        sync_period: float = 1.0,
        sync_source: int = 0,
        warm_up: float = 1.0,
        max_events: int = 64,
        linger: float = 10.0,
    ) -> None:
        to = to or os.environ.get(VARIABLE)
        if not to:
            raise ValueError(f"nothing says where to send; hint: give an address or a URI, or set {VARIABLE}")
        self._native = _native.EventSender(
            to, mtu=mtu, rate=rate, events_per_second=events_per_second, first_tick=first_tick, tick_step=tick_step,
            lb_version=lb_version, slot=slot, entropy=entropy, re_version=re_version, sockets=sockets, buffer=buffer,
            ipv6=ipv6, sync=sync, sync_period=sync_period, sync_source=sync_source, warm_up=warm_up,
            max_events=max_events, linger=linger,
        )  # fmt: skip
        self._watches = Watches()

    def send(self, data: Bytes, tick: int | None = None, data_id: int = 0) -> int:
        """Send an event in this thread; returns its tick when it is sent. Without `tick` it gets the sender's next one."""
        return self._native.send(data, tick, data_id)

    def queue(self, data: Bytes, tick: int | None = None, data_id: int = 0) -> _native.Ticket:
        """Queue an event for the sender's own thread. `Full` if more than `max_events` would be queued; then it takes no tick."""
        return self._native.queue(data, tick, data_id)[1]

    async def asend(self, data: Bytes, tick: int | None = None, data_id: int = 0) -> int:
        """As `send`, while other tasks run."""
        await asyncio.sleep(self._native.warming())
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[_native.Ticket] = loop.create_future()
        ticks: list[int] = []

        def start(wake: _native.Wake) -> _native.Ticket:
            taken, ticket = self._native.queue(data, tick, data_id, wake)
            ticks.append(taken)
            return ticket

        def told(ticket: _native.Ticket) -> None:
            if not sent.done():
                sent.set_result(ticket)

        self._watches.of(loop).queue(loop, start, told)
        (await sent).result()
        return ticks[0]

    def set_rate(self, rate: float) -> None:
        """Bits per second from now on; 0 is as fast as possible."""
        self._native.set_rate(rate)

    @property
    def to(self) -> str:
        """Where it sends, without the token."""
        return self._native.to

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all queued events are sent; False after the timeout."""
        return self._native.flush(timeout)

    def cancel(self) -> None:
        """Cancel all events that are queued or being sent; they raise `Cancelled`."""
        self._native.cancel()

    def stats(self) -> SendStats:
        """What was sent so far."""
        stats: Any = self._native.stats()
        counts: SendStats = stats
        return counts

    def close(self) -> None:
        """Send queued events, and close. Nothing can be sent afterwards."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the sender is its parent's.
        if self._native.forked:
            return
        if kind is not None:
            self.cancel()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Other tasks run while queued events are sent.
        await asyncio.to_thread(self.__exit__, kind, value, trace)
