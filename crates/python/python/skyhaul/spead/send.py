"""Sending SPEAD heaps.

    from skyhaul.spead import HeapGenerator, ItemGroup, send

    with send.UdpStream("10.0.0.7:7148", rate=8e9) as stream:
        stream.send(generator.heap())

`send` and `send_heaps` send in the calling thread and return when everything is sent; other Python threads run
meanwhile, and Ctrl-C ends them. `queue` and `asend` use the stream's own thread. Arrays are sent without a copy.

Keywords of every stream:

| | |
|---|---|
| `packet` | bytes of a packet: 1472 fits an Ethernet of 1500 bytes; 0 sends each heap as one packet (not over UDP) |
| `payload` | instead: payload bytes of every packet |
| `rate` | bits per second, 0 for as fast as possible; "auto" (UDP): controlled by a receiver with `feedback=True` |
| `rate_start`, `rate_bounds` | for "auto": initial bits per second (100e6), minimum and maximum (1e6, 400e9) |
| `burst` | bytes that may be sent in one burst at a limited rate |
| `max_heaps` | maximum number of queued heaps |
| `split` | "even": equal packets where these are sent faster; "full": every packet except the last as large as allowed |
| `linger` | seconds for which dropping the stream waits for queued heaps |
| `cpu` | processor for the stream's own thread |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from .. import _native
from .._native import Batch, Cancelled, Full, InprocQueue, SendConfig, SendHeap, SendStream, Ticket
from .._sent import Watches
from ._stats import SendStats

__all__ = [
    "Batch", "BytesStream", "Cancelled", "Full", "Heap", "InprocStream", "Progress", "Send", "SendStats", "Stream",
    "TcpStream", "Ticket", "UdpStream", "batch",
]  # fmt: skip

Heap = SendHeap


Rate = float | Literal["auto"]
Split = Literal["even", "full"]


class Send(NamedTuple):
    """A heap of a batch, and how to send it: its counter, its destination, its own rate in bits per second."""

    heap: SendHeap
    counter: int | None = None
    substream: int = 0
    rate: float | None = None


class Progress(NamedTuple):
    """State of a destination that controls the rate.

    | | |
    |---|---|
    | `rate` | current bits per second |
    | `phase` | "climb": doubling; "raise": gently; "settle": just fell; "blind": no reports, falling back |
    | `reports` | reports it sent |
    | `lost` | packets lost or rejected |
    | `text` | a description, with remedies |
    """

    rate: int
    phase: str
    reports: int
    lost: int
    text: str


Heaps = SendHeap | Batch | Iterable[SendHeap | Send]


def batch(heaps: Heaps) -> Batch:
    """Heaps to be sent together; a batch is prepared once and can be sent many times."""
    if isinstance(heaps, Batch):
        return heaps
    if isinstance(heaps, SendHeap):
        heaps = [heaps]
    return Batch([heap if isinstance(heap, Send) else Send(heap) for heap in heaps])


class Stream:
    """Base of all sending streams."""

    def __init__(self, native: SendStream) -> None:
        self.native = native
        self._watches = Watches()

    def send(
        self, heap: SendHeap, counter: int | None = None, substream: int = 0, rate: float | None = None
    ) -> int:
        """Send one heap; returns its bytes on the wire (without UDP and IP headers) when it is sent."""
        return self.native.send(heap, counter, substream, rate)

    def send_heaps(self, heaps: Heaps, round_robin: bool = False) -> int:
        """Send several heaps, consecutively or a packet of each in turn; many packets go in one system call."""
        return self.native.send_heaps(batch(heaps), round_robin)

    def queue(self, heaps: Heaps, round_robin: bool = False) -> Ticket:
        """Queue heaps for the stream's thread. `Full` if more than `max_heaps` would be queued."""
        return self.native.queue(batch(heaps), round_robin)

    async def asend(self, heaps: Heaps, round_robin: bool = False) -> int:
        """As `send` or `send_heaps`, while other tasks run."""
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[_native.Ticket] = loop.create_future()

        def told(ticket: _native.Ticket) -> None:
            if not sent.done():
                sent.set_result(ticket)

        together = batch(heaps)
        start = partial(self.native.queue, together, round_robin)
        self._watches.of(loop).queue(loop, start, told)
        return (await sent).result()

    def set_counter_sequence(self, first: int, step: int = 1) -> None:
        """Heaps without an explicit counter get `first`, `first + step`, … Senders to one receiver must use different
        ones."""
        if step == 0:
            raise ValueError("step is 0: all heaps would have the same counter; hint: step=1 or more")
        self.native.set_counter_sequence(first, step)

    def set_rate(self, rate: float) -> None:
        """Bits per second from now on; 0 is as fast as possible. Not for a stream with the rate "auto"."""
        self.native.set_rate(rate)

    @property
    def rate(self) -> int:
        """Bits per second now, to all destinations together; 0 is as fast as possible."""
        return self.native.rate()

    @property
    def progress(self) -> list[Progress]:
        """With the rate "auto": the state of each destination. Empty before the first packet."""
        return [Progress(*one) for one in self.native.progress()]

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all queued heaps are sent; False after the timeout."""
        return self.native.flush(timeout)

    def cancel(self) -> None:
        """Cancel all heaps that are queued or being sent; they raise `Cancelled`."""
        self.native.cancel()

    def stats(self) -> SendStats:
        """What was sent so far."""
        stats: Any = self.native.stats()
        counts: SendStats = stats
        return counts

    @property
    def substreams(self) -> int:
        """Number of destinations."""
        return self.native.substreams

    def close(self) -> None:
        """Send queued heaps, and close. Nothing can be sent afterwards."""
        self.native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the stream is its parent's.
        if self.native.forked:
            return
        if kind is not None:
            self.cancel()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Other tasks run while queued heaps are sent.
        await asyncio.to_thread(self.__exit__, kind, value, trace)


class UdpStream(Stream):
    """Sends over UDP, to one target ("10.0.0.7:7148", "correlator:7148") or to several, selected for each heap by
    `substream`."""

    def __init__(
        self,
        targets: str | Sequence[str],
        *,
        interface: str | None = None,
        source: str | None = None,
        ttl: int | None = None,
        buffer: int | None = None,
        packet: int = 1472,
        payload: int | None = None,
        rate: Rate = 0.0,
        rate_start: float | None = None,
        rate_bounds: tuple[float, float] | None = None,
        burst: int = 65536,
        max_heaps: int = 4,
        split: Split = "even",
        linger: float = 10.0,
        cpu: int | None = None,
    ) -> None:
        to = [targets] if isinstance(targets, str) else list(targets)
        config = SendConfig(
            packet=packet, payload=payload, rate=rate, rate_start=rate_start, rate_bounds=rate_bounds, burst=burst, max_heaps=max_heaps,
            split=split, linger=linger, cpu=cpu,
        )  # fmt: skip
        super().__init__(SendStream.udp(to, config, interface=interface, source=source, ttl=ttl, buffer=buffer))


class TcpStream(Stream):
    """Sends over a TCP connection, each heap as one packet unless `packet` says otherwise."""

    def __init__(
        self,
        target: str,
        *,
        timeout: float = 10.0,
        interface: str | None = None,
        source: str | None = None,
        buffer: int | None = None,
        packet: int = 0,
        payload: int | None = None,
        rate: float = 0.0,
        burst: int = 65536,
        max_heaps: int = 4,
        split: Split = "even",
        linger: float = 10.0,
        cpu: int | None = None,
    ) -> None:
        config = SendConfig(
            packet=packet, payload=payload, rate=rate, burst=burst, max_heaps=max_heaps,
            split=split, linger=linger, cpu=cpu,
        )  # fmt: skip
        super().__init__(
            SendStream.tcp(target, config, timeout=timeout, interface=interface, source=source, buffer=buffer)
        )


class InprocStream(Stream):
    """Sends to queues of this process; each heap as one packet unless `packet` says otherwise."""

    def __init__(
        self,
        queues: InprocQueue | Sequence[InprocQueue],
        *,
        packet: int = 0,
        payload: int | None = None,
        rate: float = 0.0,
        burst: int = 65536,
        max_heaps: int = 4,
        split: Split = "even",
        linger: float = 10.0,
        cpu: int | None = None,
    ) -> None:
        to = [queues] if isinstance(queues, InprocQueue) else list(queues)
        config = SendConfig(
            packet=packet, payload=payload, rate=rate, burst=burst, max_heaps=max_heaps,
            split=split, linger=linger, cpu=cpu,
        )  # fmt: skip
        super().__init__(SendStream.inproc(to, config))


class BytesStream(Stream):
    """Collects the packets in memory, as in a TCP stream or a file."""

    def __init__(
        self,
        *,
        packet: int = 1472,
        payload: int | None = None,
        rate: float = 0.0,
        burst: int = 65536,
        max_heaps: int = 4,
        split: Split = "even",
        linger: float = 10.0,
        cpu: int | None = None,
    ) -> None:
        config = SendConfig(
            packet=packet, payload=payload, rate=rate, burst=burst, max_heaps=max_heaps,
            split=split, linger=linger, cpu=cpu,
        )  # fmt: skip
        super().__init__(SendStream.bytes(config))

    def getvalue(self) -> bytes:
        """All bytes sent so far."""
        return self.native.taken()
