"""Streams that send heaps: their base, and one class for each transport.

    stream.send_heap(heap) ─▶ native stream ─▶ packets         returns when the last packet has left, or raises OSError

At most `max_heaps` heaps are being sent at a time, by all threads; one more raises BlockingIOError.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from ... import _fork, _native
from .. import _network
from .._ibverbs import SendUdpIbvConfig, refuse
from .._inproc import InprocQueue
from .._pools import ThreadPool
from .._settings import endpoints as checked_endpoints
from .._settings import named, positive, unsigned, whole
from ._config import GroupMode, StreamConfig
from ._heaps import Heap, HeapReference, HeapReferenceList, Order, native_order

Endpoints = Sequence[tuple[str, int]]
Heaps = Iterable[HeapReference] | HeapReferenceList


class Stream:
    """Base of every send stream."""

    def _open(
        self,
        thread_pool: ThreadPool,
        config: StreamConfig | None,
        opener: Callable[[_native.SendConfig], _native.SendStream],
        datagrams: bool = False,
    ) -> None:
        if not isinstance(thread_pool, ThreadPool):
            raise TypeError(f"not a ThreadPool: {thread_pool!r}")
        config = StreamConfig() if config is None else config
        if not isinstance(config, StreamConfig):
            raise TypeError(f"not a StreamConfig: {config!r}")
        self._pool = thread_pool
        self._max_heaps = config.max_heaps
        self._on_their_way = 0
        self._lock = _fork.Condition("stream")
        self._max_packet = config.max_packet_size
        settings = _native.SendConfig(
            packet=min(config.max_packet_size, _LONGEST_DATAGRAM) if datagrams else config.max_packet_size,
            rate=config.rate * 8,
            burst=config.burst_size,
            max_heaps=config.max_heaps,
            split="full",
            # As in spead2, a stream that is dropped sends its queued heaps.
            linger=3600.0,
        )
        self._native = opener(settings)

    @property
    def num_substreams(self) -> int:
        """Number of destinations."""
        return self._native.substreams

    def set_cnt_sequence(self, next: int, step: int) -> None:
        """The next heap without an explicit counter gets `next`, and each one after it `step` more. ValueError for step 0."""
        self._native.set_counter_sequence(unsigned(next), positive(step))

    def _take_room(self, heaps: int) -> None:
        with self._lock:
            if self._on_their_way + heaps > self._max_heaps:
                raise BlockingIOError(errno.EAGAIN, f"{self._max_heaps} heaps are being sent already (max_heaps)")
            self._on_their_way += heaps

    def _give_room(self, heaps: int) -> None:
        with self._lock:
            self._on_their_way -= heaps

    def _order(self, heap: Heap, cnt: int, substream_index: int, rate: float) -> Order:
        """A heap for the native stream. OSError if it cannot be sent on this stream."""
        if not isinstance(heap, Heap):
            raise TypeError(f"not a Heap: {heap!r}")
        order = native_order(heap, cnt, substream_index, rate)
        self._check_substream(order[2])
        heap._refresh()
        return order

    def _batch(self, heaps: Heaps, mode: GroupMode) -> tuple[_native.Batch, bool]:
        """The same for a list, and whether packets alternate between heaps."""
        if not isinstance(mode, GroupMode):
            raise TypeError(f"not a GroupMode: {mode!r}")
        if not isinstance(heaps, HeapReferenceList):
            heaps = HeapReferenceList(heaps)
        if not len(heaps):
            raise OSError(errno.EINVAL, "an empty list of heaps")
        self._check_substream(heaps._last_substream())
        return heaps._as_it_is_now(), mode is GroupMode.ROUND_ROBIN

    def _check_substream(self, index: int) -> None:
        if index >= self.num_substreams:
            raise OSError(errno.EINVAL, f"no substream {index}: this stream has {self.num_substreams}")


class SyncStream(Stream):
    """Blocking sends."""

    def send_heap(self, heap: Heap, cnt: int = -1, substream_index: int = 0, rate: float = -1.0) -> int:
        """Send a heap; returns the bytes sent. OSError if it could not be sent."""
        order = self._order(heap, cnt, substream_index, rate)
        self._take_room(1)
        try:
            return self._native.send(*order)
        finally:
            self._give_room(1)

    def send_heaps(self, heaps: Heaps, mode: GroupMode) -> int:
        """Send heaps together; returns the bytes sent. OSError if they could not be sent."""
        batch, in_turns = self._batch(heaps, mode)
        self._take_room(len(batch))
        try:
            return self._native.send_heaps(batch, in_turns)
        finally:
            self._give_room(len(batch))


#: Maximum length of an IPv4 datagram, rounded down to whole pointers.
_LONGEST_DATAGRAM = 65504


class _UdpStream(Stream):
    """Opening of UDP streams.

    (thread_pool, endpoints, config, buffer_size, interface_address)
    (thread_pool, endpoints, config, buffer_size, ttl[, interface_address or interface_index])      to multicast groups
    (thread_pool, socket, endpoints, config)                                                        from a socket
    """

    DEFAULT_BUFFER_SIZE = 512 * 1024

    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig = ...,
        buffer_size: int = ...,
        interface_address: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self, thread_pool: ThreadPool, endpoints: Endpoints, config: StreamConfig, buffer_size: int, ttl: int
    ) -> None: ...
    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig = ...,
        buffer_size: int = ...,
        *,
        ttl: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig,
        buffer_size: int,
        ttl: int,
        interface_address: str,
    ) -> None: ...
    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig = ...,
        buffer_size: int = ...,
        *,
        ttl: int,
        interface_address: str,
    ) -> None: ...
    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig,
        buffer_size: int,
        ttl: int,
        interface_index: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig = ...,
        buffer_size: int = ...,
        *,
        ttl: int,
        interface_index: int,
    ) -> None: ...
    @overload
    def __init__(
        self, thread_pool: ThreadPool, socket: socket.socket, endpoints: Endpoints, config: StreamConfig = ...
    ) -> None: ...
    def __init__(self, thread_pool: ThreadPool, *args: Any, **kwargs: Any) -> None:
        given = _udp_arguments(args, kwargs)
        targets = checked_endpoints(given.pop("endpoints"))
        if not targets:
            raise ValueError("no endpoints")
        resolved = [(*_network.resolve(host, number), number) for host, number in targets]
        if len({family for family, _, _ in resolved}) > 1:
            raise ValueError("the endpoints of a stream must be all IPv4 or all IPv6")
        addresses = [_network.joined(*target) for target in resolved]
        if "socket" in given:
            fd = _network.descriptor(given["socket"])
            self._open(thread_pool, given.get("config"), lambda how: _native.SendStream.udp_fd(fd, addresses, how), True)
            return
        options = _udp_options(given, resolved)
        opener = lambda how: _native.SendStream.udp(addresses, how, **options)  # noqa: E731
        self._open(thread_pool, given.get("config"), opener, True)

    def _order(self, heap: Heap, cnt: int, substream_index: int, rate: float) -> Order:
        if self._is_too_long(heap):
            raise OSError(errno.EMSGSIZE, f"a packet of this heap would be longer than {_LONGEST_DATAGRAM} bytes")
        return super()._order(heap, cnt, substream_index, rate)

    def _batch(self, heaps: Heaps, mode: GroupMode) -> tuple[_native.Batch, bool]:
        heaps = heaps if isinstance(heaps, HeapReferenceList) else HeapReferenceList(heaps)
        if self._max_packet > _LONGEST_DATAGRAM and any(self._is_too_long(reference.heap) for reference in heaps):
            raise OSError(errno.EMSGSIZE, f"a packet of these heaps would be longer than {_LONGEST_DATAGRAM} bytes")
        return super()._batch(heaps, mode)

    def _is_too_long(self, heap: Heap) -> bool:
        return self._max_packet > _LONGEST_DATAGRAM and heap._whole_bytes() > _LONGEST_DATAGRAM


def _udp_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positional and named arguments of any of the forms, as one dictionary."""
    if args and not isinstance(args[0], (list, tuple)) or "socket" in kwargs:
        names = ["socket", "endpoints", "config"]
    else:
        names = ["endpoints", "config", "buffer_size"]
        rest = args[3:]
        if rest:
            names.append("interface_address" if isinstance(rest[0], str) else "ttl")
        if len(rest) > 1:
            names.append("interface_address" if isinstance(rest[1], str) else "interface_index")
    allowed = {*names, "ttl", "interface_address", "interface_index", "socket"}
    if len(args) > len(names) or set(kwargs) - allowed or set(kwargs) & set(names[: len(args)]):
        raise TypeError("UdpStream takes (thread_pool, endpoints, config, buffer_size, ttl, interface_address or "
                        "interface_index) or (thread_pool, socket, endpoints, config)")
    given = dict(zip(names, args))
    given.update(kwargs)
    if "endpoints" not in given:
        raise TypeError("UdpStream needs endpoints")
    return given


def _udp_options(given: dict[str, Any], resolved: list[tuple[int, str, int]]) -> dict[str, Any]:
    """Options of the socket for the native stream."""
    options: dict[str, Any] = {}
    buffer = whole(given.get("buffer_size", _UdpStream.DEFAULT_BUFFER_SIZE))
    if buffer:
        options["buffer"] = buffer
    if "ttl" in given:
        if not all(_network.is_multicast(address) for _, address, _ in resolved):
            raise ValueError("ttl is for multicast groups only")
        options["ttl"] = whole(given["ttl"])
    if given.get("interface_address"):
        options["interface"] = _network.resolve(given["interface_address"], 0)[1]
    if given.get("interface_index"):
        options["interface"] = _network.interface_name(given["interface_index"])
    return options


class _TcpStream(Stream):
    """Opening of TCP streams: (thread_pool, endpoints, config, buffer_size, interface_address) or
    (thread_pool, socket, config) with a connected socket."""

    DEFAULT_BUFFER_SIZE = 208 * 1024

    @overload
    def __init__(self, thread_pool: ThreadPool, socket: socket.socket, config: StreamConfig = ...) -> None: ...
    @overload
    def __init__(
        self,
        thread_pool: ThreadPool,
        endpoints: Endpoints,
        config: StreamConfig = ...,
        buffer_size: int = ...,
        interface_address: str = ...,
    ) -> None: ...
    def __init__(self, thread_pool: ThreadPool, *args: Any, **kwargs: Any) -> None:
        names = ["endpoints", "config", "buffer_size", "interface_address"]
        if (args and not isinstance(args[0], (list, tuple))) or "socket" in kwargs:
            names = ["socket", "config"]
        given = named("TcpStream", names, names[:1], args, kwargs)
        config = given.get("config")
        if "socket" in given:
            fd = _network.descriptor(given["socket"])
            self._open(thread_pool, config, lambda how: _native.SendStream.tcp_fd(fd, how))
            return
        target = tcp_target(given["endpoints"])
        options = tcp_options(given.get("buffer_size"), given.get("interface_address", ""))
        self._open(thread_pool, config, lambda how: _native.SendStream.tcp(target, how, **options))


def tcp_target(peers: Endpoints) -> str:
    """The only address of a list. ValueError for none or several."""
    peers = checked_endpoints(peers)
    if len(peers) != 1:
        raise ValueError("a TCP stream must have exactly one endpoint")
    host, number = peers[0]
    return _network.joined(*_network.resolve(host, number, socket.SOCK_STREAM), number)


def tcp_options(buffer_size: int | None, interface_address: str) -> dict[str, Any]:
    """Options of the socket for the native stream."""
    options: dict[str, Any] = {}
    buffer = _TcpStream.DEFAULT_BUFFER_SIZE if buffer_size is None else whole(buffer_size)
    if buffer:
        options["buffer"] = buffer
    if interface_address:
        options["source"] = _network.resolve(interface_address, 0)[1]
    return options


class _InprocStream(Stream):
    """Opening of streams into queues, one for each substream."""

    def __init__(
        self, thread_pool: ThreadPool, queues: Sequence[InprocQueue], config: StreamConfig | None = None
    ) -> None:
        queues = list(queues)
        for queue in queues:
            if not isinstance(queue, InprocQueue):
                raise TypeError(f"not an InprocQueue: {queue!r}")
        if not queues:
            raise ValueError("no queues")
        self._queues = queues
        natives = [queue._native for queue in queues]
        self._open(thread_pool, config, lambda how: _native.SendStream.inproc(natives, how))

    @property
    def queues(self) -> list[InprocQueue]:
        """The queues, one for each substream."""
        return list(self._queues)


class _UdpIbvStream(Stream):
    """Refusal of streams past the kernel."""

    def __init__(
        self, thread_pool: ThreadPool, config: StreamConfig | None = None, *args: Any, **kwargs: Any
    ) -> None:
        given = named("UdpIbvStream", ["udp_ibv_config"], ["udp_ibv_config"], args, kwargs)["udp_ibv_config"]
        if not isinstance(given, SendUdpIbvConfig):
            raise TypeError(f"not a UdpIbvConfig: {given!r}")
        remedy = f"UdpStream(thread_pool, {given.endpoints}, config, ttl={given.ttl}, "
        refuse("UdpIbvStream", given, f"{remedy}interface_address={given.interface_address!r}) sends the same")


class UdpStream(_UdpStream, SyncStream):
    """Heaps as datagrams."""


class UdpIbvStream(_UdpIbvStream, SyncStream):
    """Not here: RuntimeError."""


class TcpStream(_TcpStream, SyncStream):
    """Heaps as consecutive packets on a connection."""


class InprocStream(_InprocStream, SyncStream):
    """Heaps to queues of this process."""


class BytesStream(SyncStream):
    """Heaps as consecutive packets in memory."""

    def __init__(self, thread_pool: ThreadPool, config: StreamConfig | None = None) -> None:
        self._open(thread_pool, config, lambda how: _native.SendStream.bytes(how))

    def getvalue(self) -> bytes:
        """All bytes sent so far."""
        return self._native.taken()


__all__ = [
    "BytesStream",
    "HeapReference",
    "InprocStream",
    "Stream",
    "SyncStream",
    "TcpStream",
    "UdpIbvStream",
    "UdpStream",
]
