"""Streams that receive heaps, and their readers.

    stream.add_…_reader(…) ─▶ native stream, a thread for each reader ─▶ ring of `heaps` ─▶ stream.get()

A full ring blocks the readers, as in spead2; packets that a UDP socket receives meanwhile are in its buffer.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, overload

from ... import _native
from .. import _network
from .._errors import Empty, Stopped, UnusableBuffer
from .._ibverbs import RecvUdpIbvConfig, refuse
from .._inproc import InprocQueue
from .._pools import ThreadPool
from .._settings import named, whole
from ._config import RingStreamConfig, StreamConfig
from ._heaps import Heap, IncompleteHeap
from ._rejections import PERIOD, RejectionLog, rejections
from ._stats import StreamStats

if TYPE_CHECKING:
    from typing_extensions import Buffer

_logger = logging.getLogger("spead2")
_Tier: TypeAlias = Literal["auto", "stage", "plain", "ring", "bpf"]
#: Maximum number of finished heaps whose duplicates are recognised.
_REMEMBERED = 1 << 18


class _Stream:
    """Readers, statistics and end of a stream. Every reader has its own thread."""

    DEFAULT_UDP_MAX_SIZE = 9200
    DEFAULT_UDP_BUFFER_SIZE = 8 << 20
    DEFAULT_TCP_MAX_SIZE = 65536
    DEFAULT_TCP_BUFFER_SIZE = 208 << 10

    def _open(self, thread_pool: ThreadPool, config: StreamConfig | None, **settings: Any) -> None:
        if not isinstance(thread_pool, ThreadPool):
            raise TypeError(f"not a ThreadPool: {thread_pool!r}")
        config = StreamConfig() if config is None else config
        if not isinstance(config, StreamConfig):
            raise TypeError(f"not a StreamConfig: {config!r}")
        self._pool = thread_pool
        self._config = config._copy()
        self._started = self._stopped = False
        self._log = RejectionLog()
        self._native = self._made(dict(
            window=config.max_heaps,
            counting="begun",
            substreams=config.substreams,
            in_order=not config.allow_out_of_order,
            unsized_heaps=config.allow_unsized_heaps,
            stop="first" if config.stop_on_stop_item else "never",
            # spead2 has no timeouts: a heap stays until newer ones push it out.
            heap_timeout=None,
            # Duplicates of a finished heap's packets are recognised for a second; but after an ignored stop item, a new
            # stream may begin with the same counters at once.
            remember=_REMEMBERED if config.stop_on_stop_item else 0,
            remember_for=1.0,
            full="wait",
            overflow=self.DEFAULT_UDP_BUFFER_SIZE,
            explicit_start=config.explicit_start,
            cpus=thread_pool._affinity,
            **settings,
        ))  # fmt: skip

    def _made(self, settings: dict[str, Any]) -> Any:
        """The native stream."""
        raise NotImplementedError

    @property
    def config(self) -> StreamConfig:
        """The settings that it was made with."""
        return self._config

    @property
    def stats(self) -> StreamStats:
        """A sample of the statistics."""
        native = self._native.stats()
        self._log.look(native)
        return StreamStats(self._config.stats, _statistics(native, self._config))

    @property
    def rejected(self) -> dict[str, int]:
        """Packets that were rejected, by reason; items that begin beyond their heap (`items_outside`), whose heaps are
        dropped; bytes between packets (`skipped_bytes`; TCP, buffers). New ones are also logged, at most once a second."""
        return rejections(self._native.stats())

    def start(self) -> None:
        """Begin to receive, with `explicit_start`. Readers cannot be added afterwards."""
        self._started = True
        self._native.start()

    def stop(self) -> None:
        """End the stream: readers stop, heaps in the ring can still be taken."""
        self._stopped = True
        self._native.stop()
        self._log.look(self._native.stats())

    def _may_add(self) -> None:
        if self._stopped:
            raise RuntimeError("a reader cannot be added after stop(); hint: make a new stream")
        if self._started and self._config.explicit_start:
            raise RuntimeError("a reader cannot be added after start(); hint: add all readers before it")

    def add_buffer_reader(self, buffer: Buffer) -> None:
        """Read consecutive packets in a buffer. ValueError if it is not contiguous."""
        self._may_add()
        with memoryview(buffer) as view:
            if not view.c_contiguous:
                raise UnusableBuffer("the buffer must be contiguous, in C order")
        self._opened(self._native.add_bytes, buffer)

    @overload
    def add_udp_reader(
        self,
        port: int,
        max_size: int = ...,
        buffer_size: int = ...,
        bind_hostname: str = ...,
        *,
        tier: _Tier = ...,
    ) -> None: ...
    @overload
    def add_udp_reader(self, socket: socket.socket, max_size: int = ..., *, tier: _Tier = ...) -> None: ...
    @overload
    def add_udp_reader(
        self,
        multicast_group: str,
        port: int,
        max_size: int = ...,
        buffer_size: int = ...,
        interface_address: str = ...,
        *,
        tier: _Tier = ...,
    ) -> None: ...
    @overload
    def add_udp_reader(
        self,
        multicast_group: str,
        port: int,
        max_size: int = ...,
        buffer_size: int = ...,
        interface_index: int = ...,
        *,
        tier: _Tier = ...,
    ) -> None: ...
    def add_udp_reader(self, *args: Any, tier: _Tier = "auto", **kwargs: Any) -> None:
        """Receive packets on a UDP port, or from a socket.

        (port, max_size, buffer_size, bind_hostname)
        (multicast_group, port, max_size, buffer_size, interface_address or interface_index)
        (socket, max_size)

        `tier`, which spead2 does not have, is who receives: as in `skyhaul.spead.recv.Stream.add_udp`.

        TypeError for an invalid port, RuntimeError (and OSError) if the socket cannot be opened.
        """
        self._may_add()
        given = _udp_arguments(args, kwargs)
        if "socket" in given:
            self._opened(self._native.add_udp_fd, _network.descriptor(given["socket"]), tier=tier)
            return
        options: dict[str, Any] = {"tier": tier}
        buffer = whole(given.get("buffer_size", self.DEFAULT_UDP_BUFFER_SIZE))
        if buffer:
            options["buffer"] = buffer
        number = _network.port(given["port"])
        if given.get("interface_address"):
            options["interface"] = _network.resolve(given["interface_address"], 0)[1]
        if given.get("interface_index"):
            options["interface"] = _network.interface_name(given["interface_index"])
        host = given.get("multicast_group", given.get("bind_hostname", ""))
        self._opened(self._native.add_udp, _network.joined(*_network.resolve(host, number), number), **options)

    @overload
    def add_tcp_reader(
        self, port: int, max_size: int = ..., buffer_size: int = ..., bind_hostname: str = ...
    ) -> None: ...
    @overload
    def add_tcp_reader(self, acceptor: socket.socket, max_size: int = ...) -> None: ...
    def add_tcp_reader(self, *args: Any, **kwargs: Any) -> None:
        """Receive packets from the first connection to a port, or to a listening socket.

        (port, max_size, buffer_size, bind_hostname)
        (acceptor, max_size)
        """
        self._may_add()
        names = ["port", "max_size", "buffer_size", "bind_hostname"]
        if (args and not isinstance(args[0], int)) or "acceptor" in kwargs:
            names = ["acceptor", "max_size"]
        given = named("add_tcp_reader", names, names[:1], args, kwargs)
        options = {"connections": 1}
        if "acceptor" in given:
            self._opened(self._native.add_tcp_fd, _network.descriptor(given["acceptor"]), **options)
            return
        buffer = whole(given.get("buffer_size", self.DEFAULT_TCP_BUFFER_SIZE))
        if buffer:
            options["buffer"] = buffer
        number = _network.port(given["port"])
        resolved = _network.resolve(given.get("bind_hostname", ""), number, socket.SOCK_STREAM)
        self._opened(self._native.add_tcp, _network.joined(*resolved, number), **options)

    def add_udp_ibv_reader(self, config: RecvUdpIbvConfig) -> NoReturn:
        """Not here: RuntimeError. ValueError for a configuration that spead2 refuses too."""
        if not isinstance(config, RecvUdpIbvConfig):
            raise TypeError(f"not a UdpIbvConfig: {config!r}")
        self._may_add()
        group, number = config.endpoints[0] if config.endpoints else ("", 0)
        remedy = f"add_udp_reader({group!r}, {number}, interface_address={config.interface_address!r}) receives the same"
        refuse("add_udp_ibv_reader", config, remedy)

    def add_udp_pcap_file_reader(self, filename: str, filter: str = "") -> None:
        """Read the UDP packets of a capture file."""
        self._may_add()
        self._opened(self._native.add_pcap, filename, _port_of_filter(filter))

    def add_inproc_reader(self, queue: InprocQueue) -> None:
        """Receive packets from a queue of this process."""
        self._may_add()
        if not isinstance(queue, InprocQueue):
            raise TypeError(f"not an InprocQueue: {queue!r}")
        self._opened(self._native.add_inproc, queue._native)

    def _opened(self, add: Callable[..., object], *args: Any, **options: Any) -> None:
        try:
            add(*args, **options)
        except Stopped as error:
            # Ignored as in spead2, where a stop item may arrive at any moment; but logged.
            _logger.warning("%s", error)
        except OSError as error:
            raise _network.TransportError.of(error) from error
        else:
            reader = self._native.stats()["readers"][-1]
            for remedy in reader["remedies"]:
                _logger.warning("%s: %s", reader["name"], remedy)


def _udp_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of any form of `add_udp_reader`."""
    first = args[0] if args else None
    if "multicast_group" in kwargs or isinstance(first, str):
        names = ["multicast_group", "port", "max_size", "buffer_size", "interface_address", "interface_index"]
        if len(args) > 4 and isinstance(args[4], int):
            names.remove("interface_address")
        return named("add_udp_reader", names, names[:2], args, kwargs)
    if "socket" in kwargs or (first is not None and not isinstance(first, int)):
        return named("add_udp_reader", ["socket", "max_size"], ["socket"], args, kwargs)
    names = ["port", "max_size", "buffer_size", "bind_hostname"]
    return named("add_udp_reader", names, names[:1], args, kwargs)


def _port_of_filter(expression: str) -> int | None:
    """The port of a capture filter. ValueError for any filter other than none or `[udp] [dst] port N`."""
    words = [word for word in expression.split() if word not in ("udp", "and", "dst")]
    if not words:
        return None
    if len(words) == 2 and words[0] == "port" and words[1].isdigit():
        return _network.port(int(words[1]))
    raise ValueError(f"filter {expression!r}: only 'udp dst port N' is supported")


def _statistics(native: dict[str, Any], config: StreamConfig) -> list[int]:
    """The values of `config.stats` from those of a native stream. Custom statistics stay 0 here."""
    retired = native["retired"]
    core = {
        "heaps": native["heaps"] + native["incomplete_dropped"],
        "incomplete_heaps_evicted": retired["window"] + retired["timeout"],
        "incomplete_heaps_flushed": retired["finish"],
        # spead2 does not look at packets behind the stop item.
        "packets": native["packets"] - native["rejected"].get("after_stop", 0),
        "batches": native["batches"],
        "max_batch": native["max_batch"],
        "single_packet_heaps": native["single_packet_heaps"] + native["single_packet_stops"],
        "worker_blocked": native["blocked"],
        # For chunk streams only: a heap that ends the stream has no place.
        "rejected_heaps": native["stops"],
    }
    return [core.get(stat.name, 0) for stat in config.stats]


class _Ringbuffer:
    """Fill level of the ring of a stream."""

    def __init__(self, native: _native.ReceiveStream) -> None:
        self._native = native

    def size(self) -> int:
        """Number of queued heaps."""
        return self._native.waiting()

    def capacity(self) -> int:
        """Maximum number of queued heaps."""
        return self._native.capacity


class _RingStream(_Stream):
    """Heaps through a ring. Iteration gives heaps until the stream ends."""

    Ringbuffer = _Ringbuffer

    def __init__(
        self, thread_pool: ThreadPool, config: StreamConfig | None = None, ring_config: RingStreamConfig | None = None
    ) -> None:
        ring_config = RingStreamConfig() if ring_config is None else ring_config
        if not isinstance(ring_config, RingStreamConfig):
            raise TypeError(f"not a RingStreamConfig: {ring_config!r}")
        self._ring_config = ring_config._copy()
        # As in spead2, an incomplete heap has no payload: a program that keeps some holds no memory of the stream.
        incomplete = not ring_config.contiguous_only
        self._open(thread_pool, config, ring=ring_config.heaps, incomplete=incomplete, incomplete_payload=False)

    def _made(self, settings: dict[str, Any]) -> _native.ReceiveStream:
        return _native.ReceiveStream(**settings)

    @property
    def ring_config(self) -> RingStreamConfig:
        """The settings of the ring."""
        return self._ring_config

    @property
    def ringbuffer(self) -> _Ringbuffer:
        """The ring, to read its fill level."""
        return _Ringbuffer(self._native)

    @property
    def fd(self) -> int:
        """A file descriptor that is readable while a heap is queued, and when the stream has ended. Must not be read from."""
        fd: int = self._native.fileno()
        return fd

    def get_nowait(self) -> Heap:
        """The next heap. Empty if there is none now, Stopped after the end."""
        return self._next(0.0)

    def _get(self) -> Heap:
        """Wait for the next heap. Stopped after the end."""
        while True:
            try:
                return self._next(PERIOD)
            except Empty:
                self._log.look(self._native.stats())

    def _next(self, timeout: float) -> Heap:
        while True:
            try:
                native = self._native.get(timeout)
            except Stopped:
                self._log.look(self._native.stats())
                raise
            if self._log.is_due():
                self._log.look(self._native.stats())
            # As in spead2, a heap with an item beyond its end is dropped whole.
            if not native.outside:
                heap: Heap = self._wrapped(native)
                return heap

    def _wrapped(self, native: _native.Heap) -> Any:
        # An `IncompleteHeap` comes only to who asked for it; as in spead2, a heap is a `Heap` to type checkers.
        if native.complete:
            return Heap(native, self._config.bug_compat)
        return IncompleteHeap(native, self._config.bug_compat, self._ring_config.incomplete_keep_payload_ranges)

    def __iter__(self) -> Iterator[Heap]:
        # As `_get`, written out for speed.
        get, log, bug_compat, wrapped = self._native.get, self._log, self._config.bug_compat, self._wrapped
        while True:
            try:
                native = get(PERIOD)
            except Empty:
                log.look(self._native.stats())
                continue
            except Stopped:
                log.look(self._native.stats())
                return
            if log.is_due():
                log.look(self._native.stats())
            if not native.outside:
                yield Heap(native, bug_compat) if native.complete else wrapped(native)

    def __next__(self) -> Heap:
        try:
            return self._get()
        except Stopped:
            raise StopIteration from None


class Stream(_RingStream):
    """A stream of heaps for threads."""

    def get(self) -> Heap:
        """Wait for the next heap. Stopped after the end."""
        return self._get()
