"""The compiled part. Programs use `skyhaul.spead`; the words here are what its documentation refers to."""

import builtins
import os
import sys
from typing import Any, Literal, Self, TypeAlias, final

import numpy.typing as npt
from typing_extensions import Buffer, disjoint_base

# What has the buffer protocol; before Python 3.12 type checkers do not know it of arrays.
_Buffer: TypeAlias = Buffer | npt.NDArray[Any]

__all__ = [
    "Batch", "Bytes", "Cancelled", "Chunk", "ChunkReader", "ChunkStream", "Damaged", "Empty", "Full", "Gaps", "Heap",
    "InprocQueue", "OpenChunk", "Owner", "PlaceFunction", "Placer", "ReceiveConfig", "ReceiveStream", "Recording", "SendConfig",
    "SendHeap",
    "SendStream", "Stopped", "Ticket", "VERSION", "Wake", "pack_bits", "read_descriptor", "unpack_bits", "write_descriptor",
]  # fmt: skip

VERSION: str

class Empty(Exception):
    """Nothing came in the time given."""

class Stopped(Exception):
    """The stream has ended, and all of its heaps are taken."""

class Full(BlockingIOError):
    """As many heaps wait to be sent as may."""

class Damaged(OSError):
    """A chunk of a recording is missing, damaged or unproven."""

class Cancelled(OSError):
    """Cancelled before all of it was sent."""

# (id, name, description, shape, format, NumPy header)
_RawDescriptor: TypeAlias = tuple[int, str, str, list[int | None], list[tuple[str, int]], str | None]
# (id, immediate, value, start, stop)
_RawItem: TypeAlias = tuple[int, bool, int, int, int]
# (heap, counter, substream, rate)
_Given: TypeAlias = tuple[SendHeap, int | None, int, float | None]

def read_descriptor(packet: _Buffer, bug_compat: int = 0) -> _RawDescriptor: ...
def write_descriptor(
    id: int, name: str, description: str, shape: list[int | None], format: list[tuple[str, int]], numpy: str | None,
    address_bits: int = 48, bug_compat: int = 0,
) -> bytes: ...  # fmt: skip
def unpack_bits(data: _Buffer, format: list[tuple[str, int]], elements: int) -> bytearray:
    """Values of packed fields, as packed records of this machine's byte order: what a NumPy structured array holds."""

def pack_bits(records: _Buffer, format: list[tuple[str, int]], elements: int) -> bytes:
    """The way back."""

@final
class Bytes(Buffer):
    """The payload of a heap: any number of arrays may view it, and it lives as long as the last."""

    def __len__(self) -> int: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Heap:
    """A heap: its payload where it was received, and what is known about it."""

    @property
    def counter(self) -> int:
        """Its number."""
    @property
    def address_bits(self) -> int:
        """Bits of an immediate value or address: 48 for SPEAD-64-48."""
    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
    @property
    def received(self) -> int:
        """Bytes that came."""
    @property
    def size(self) -> int | None:
        """Bytes of the payload, if a packet told."""
    @property
    def length(self) -> int:
        """Bytes of the payload: its size, or up to the last byte that came."""
    @property
    def missing(self) -> list[tuple[int, int]]:
        """Bytes of the payload that did not come (they are zero), as pairs of start and end."""
    @property
    def sender(self) -> str:
        """Address and port of who sent its first packet."""
    @property
    def first(self) -> int:
        """When its first packet came: nanoseconds since 1970."""
    @property
    def last(self) -> int:
        """When its last packet came."""
    @property
    def cause(self) -> str:
        """Why it was handed on: complete, window, timeout or finish."""
    @property
    def payload(self) -> Bytes:
        """The payload: an object with the buffer protocol."""
    def items(self) -> list[_RawItem]:
        """Its items: (id, immediate, value, start, stop); the last two say where the bytes of others lie."""
    def pointers(self) -> list[int]:
        """Its item pointers, each once, in order of arrival."""
    def descriptors(self, bug_compat: int = 0) -> list[_RawDescriptor]:
        """Its descriptors. One that cannot be read is left out."""
    def is_start_of_stream(self) -> bool: ...
    def is_end_of_stream(self) -> bool: ...

@final
class InprocQueue:
    """A bounded queue of packets that streams of this process send to and receive from."""

    def __new__(cls, limit: int = ...) -> Self: ...
    def push(self, packet: _Buffer, timeout: float | None = None) -> bool:
        """Queue one packet; False if there was no room in time."""
    def as_sender(self, number: int) -> InprocQueue:
        """The same queue, whose packets pushed from here come from sender `number`."""
    def close(self) -> None:
        """No more packets come; what is queued is still received."""
    @property
    def closed(self) -> bool: ...
    @property
    def waiting(self) -> int:
        """Packets that wait to be received."""

# Unix second and frame number.
_Time: TypeAlias = tuple[int, int]

@final
class Recording:
    """A scan on its disks."""

    def __new__(cls, disks: list[str | os.PathLike[str]], name: str) -> Self: ...
    @property
    def name(self) -> str:
        """The scan's label."""
    @property
    def state(self) -> str:
        """How its recorder is: live, ended, interrupted or unindexed."""
    @property
    def missing_disks(self) -> list[Any]:
        """Disks of the recording that were not given."""
    @property
    def streams(self) -> list[tuple[str, int, int | None, str]]:
        """Its datastreams: name, bytes of a frame, frames per second, format."""
    @property
    def findings(self) -> list[tuple[str, Any, str]]:
        """What was found amiss by names, lengths and indexes alone: verdict, path, text."""

    def reader(self, stream: int, missing: str, verify: bool = True, follow: bool = False) -> ChunkReader:
        """Read a datastream, by its place in `streams`."""

@final
class ChunkReader:
    """The chunks of a datastream, in order."""

    def next(self) -> tuple[int, bool, bytes, _Time | None, _Time | None] | None:
        """The next chunk: number, filled, bytes, times of its first and last frame. None at the end."""
    def gaps(
        self, first: int = 0
    ) -> list[tuple[str, int, int, str, _Time | None, _Time | None, int | None, str, str]]:
        """The gaps that were met so far, from number `first` on."""

@final
class Gaps:
    """What a reader of a recording meets."""

    def since(
        self, first: int = 0
    ) -> list[tuple[str, int, int, str, _Time | None, _Time | None, int | None, str, str]]:
        """The gaps that were met so far, from number `first` on."""

@final
class ReceiveConfig:
    """Every limit of a receiving stream.

    | argument | is |
    |---|---|
    | `window` | heaps under construction at a time, for each substream; one more, and the oldest ends |
    | `substreams` | heaps are divided by counter modulo this (by sender, with `key="sender"`) |
    | `in_order` | refuse a packet that is not the next of its heap, as spead2 does by default |
    | `unsized_heaps` | accept heaps that do not tell their size |
    | `largest` | bytes of the largest heap |
    | `heap_timeout` | seconds from a heap's first packet to its end, at most; None: no limit |
    | `key` | "counter"; or "sender": heaps of different senders may have the same counter |
    | `stop` | "first" stop item ends the stream, "never", or after so many senders sent one |
    | `idle_timeout`, `deadline` | the stream ends after so many seconds without a packet, once one came, or since its start |
    | `heap_limit`, `byte_limit` | the stream ends after so much was handed on |
    | `start_at` | heaps with a smaller counter are refused |
    | `incomplete` | hand on incomplete heaps too |
    | `ring` | heaps that may wait to be taken |
    | `full` | then: "wait" stops reading, "refuse" drops and counts, "auto" waits except for UDP |
    | `overflow` | bytes of finished heaps that a reader of UDP holds with "wait" before it stops reading (at most 1024 heaps) |
    | `memory` | bytes for heaps, those that the program still holds included |
    | `remember`, `remember_for` | finished heaps whose late packets are known, and for how many seconds |
    | `runs` | separate ranges of one heap that are kept apart |
    | `senders` | senders that are told apart |
    | `cpus` | processors for the readers' threads |
    | `name` | for threads and statistics |
    | `explicit_start` | readers wait for `start()` |
    """

    def __new__(
        cls,
        *,
        window: int = 16,
        substreams: int = 1,
        in_order: bool = False,
        unsized_heaps: bool = True,
        largest: int = ...,
        heap_timeout: float | None = ...,
        key: str = "counter",
        stop: str | int | None = None,
        idle_timeout: float | None = None,
        deadline: float | None = None,
        heap_limit: int | None = None,
        byte_limit: int | None = None,
        start_at: int | None = None,
        incomplete: bool = False,
        ring: int = 4096,
        full: str = "auto",
        overflow: int = 0,
        memory: int | None = None,
        remember: int = 4096,
        remember_for: float = 1.0,
        runs: int = 1024,
        senders: int = 65536,
        cpus: list[int] = ...,
        name: str = ...,
        explicit_start: bool = False,
    ) -> Self: ...
@disjoint_base
class ReceiveStream:
    """A stream of heaps from any number of readers. The arguments are those of `ReceiveConfig`."""

    def __new__(cls, **config: Any) -> Self: ...
    def add_udp(
        self,
        address: str,
        *,
        interface: str | None = None,
        source: str | None = None,
        buffer: int | None = None,
        reuse_port: bool = False,
        feedback: bool = False,
    ) -> str:
        """Listen on a UDP address ("10.0.0.1:7148"), or join a multicast group on `interface`, of one `source` only.

        Returns the address, with the port that the system chose if 0 was asked for. `buffer` is the socket's, in bytes.
        With `feedback`, senders that ask are told what comes, for their rate "auto"; not for a group.
        """
    def add_udp_fd(self, fd: int, *, feedback: bool = False) -> str:
        """Take the datagrams of a bound UDP socket. The descriptor is duplicated, so the socket may be closed."""
    def add_tcp(
        self,
        address: str,
        *,
        connections: int | None = None,
        end_with_last: bool = True,
        keepalive: float = 10.0,
        buffer: int | None = None,
    ) -> str:
        """Listen on a TCP address. Returns the address.

        `connections`: accept so many, and end when they are closed. Without it any number may come, and the reader ends
        with the last one that is open, or, with `end_with_last=False`, never. A silent connection is given up after
        twice `keepalive` seconds without a sign of life.
        """
    def add_tcp_fd(
        self, fd: int, *, connections: int | None = None, end_with_last: bool = True, keepalive: float = 10.0
    ) -> str:
        """Take connections of a listening TCP socket, or the bytes of a connected one. The descriptor is duplicated."""
    def add_bytes(self, data: _Buffer) -> None:
        """Read packets that lie in memory one after the other. The object is kept until they are read."""
    def add_pcap(self, path: str | os.PathLike[str], port: int | None = None) -> None:
        """Read the UDP packets of a capture file, or those to one port."""
    def add_recording(
        self,
        recording: Recording,
        stream: int = 0,
        missing: str = "raise",
        verify: bool = True,
        follow: bool = False,
    ) -> Gaps:
        """Read a datastream of a recording, by its place in `streams`. What is missing is in the `Gaps` as it is met."""
    def add_inproc(self, queue: InprocQueue) -> None:
        """Take the packets of a queue, until it is closed."""
    def start(self) -> None:
        """Let the readers begin, with `explicit_start`."""
    def stop(self) -> None:
        """End the stream. Heaps that wait can still be taken."""
    def get(self, timeout: float | None = None) -> Heap:
        """The next heap. Raises `Empty` after `timeout` seconds, `Stopped` when the stream has ended and none is left."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Heap: ...
    def get_many(self, most: int, timeout: float | None = None, bytes: int = ...) -> list[Heap]:
        """At least one heap, as `get`, and more if they are there: up to `most`, of about `bytes` together."""
    def fileno(self) -> int:
        """A descriptor that is readable while a heap waits, or the stream has ended. It stays the stream's."""
    def waiting(self) -> int:
        """Heaps that wait to be taken."""
    def stats(self) -> dict[str, Any]:
        """Every counter: of the stream, and in `readers` of each reader."""
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, which can do nothing with it: every call raises RuntimeError."""
    @property
    def capacity(self) -> int:
        """Heaps that may wait."""
    @property
    def name(self) -> str: ...

@final
class Chunk:
    """Memory into which heaps are placed: a writable array to be filled, or one that was."""

    def __new__(cls, data: _Buffer, heaps: int, extra: int = 0) -> Self:
        """A chunk of this array, for so many heaps, with so many bytes of notes."""
    @property
    def data(self) -> Any:
        """The array it was made of. Where a heap is not present, whatever was there before."""
    @property
    def id(self) -> int:
        """Its number."""
    @property
    def stream_id(self) -> int: ...
    @property
    def heaps(self) -> int:
        """Heaps that are present."""
    @property
    def bytes(self) -> int:
        """Their bytes."""
    @property
    def present(self) -> builtins.bytes:
        """A byte for each heap: 1 if all of it is there."""
    @property
    def extra(self) -> builtins.bytes:
        """What the rule noted of each heap."""

@final
class PlaceFunction:
    """A compiled function that says where heaps go, and the items that it is told: see `skyhaul._place`."""

    def __new__(cls, address: int, context: int | None, kept: object, items: list[int]) -> Self: ...

@final
class OpenChunk:
    """The buffers of a chunk that streams of `skyhaul.spead2` fill."""

    def __new__(cls, data: _Buffer, present: _Buffer, extra: _Buffer | None = None) -> Self: ...
    def close(self) -> None:
        """Nobody writes to it any more when this returns."""

@final
class Placer:
    """Puts heaps into chunks on the thread that calls it."""

    def __new__(cls, function: PlaceFunction, largest: list[bool], extra: int, payload: int) -> Self: ...
    def run(self, stream: ReceiveStream) -> int:
        """Place heaps until one belongs to a chunk that is not open: its number. Raises Stopped at the end."""
    def proceed(self, chunk: OpenChunk | None, oldest: int) -> None:
        """What was asked for; None: the window is past it. Chunks before `oldest` get nothing more."""
    def counts(self) -> list[int]:
        """The statistics by now."""

@disjoint_base
class ChunkStream:
    """One or several streams whose heaps go into one sequence of chunks: see `skyhaul.spead.recv.ChunkStream`."""

    def __new__(
        cls,
        config: ReceiveConfig,
        rule: tuple[str, str, str] | PlaceFunction,
        *,
        extra_at: str | None = None,
        extra: list[tuple[str, int]] = ...,
        counters: list[tuple[str, str, str]] = ...,
        max_chunks: int = 2,
        max_bytes: int | None = None,
        ahead: int = 1024,
        lossless: bool = False,
        streams: int = 1,
        stream_id: int = 0,
    ) -> Self: ...
    def add_udp(
        self,
        address: str,
        *,
        interface: str | None = None,
        source: str | None = None,
        buffer: int | None = None,
        reuse_port: bool = False,
        feedback: bool = False,
        stream: int = 0,
    ) -> str:
        """As `ReceiveStream.add_udp`, for one of the streams."""
    def add_udp_fd(self, fd: int, *, feedback: bool = False, stream: int = 0) -> str:
        """As `ReceiveStream.add_udp_fd`, for one of the streams."""
    def add_tcp(
        self,
        address: str,
        *,
        connections: int | None = None,
        end_with_last: bool = True,
        keepalive: float = 10.0,
        stream: int = 0,
    ) -> str:
        """As `ReceiveStream.add_tcp`, for one of the streams."""
    def add_bytes(self, data: _Buffer, *, stream: int = 0) -> None: ...
    def add_inproc(self, queue: InprocQueue, *, stream: int = 0) -> None: ...
    def add_free(self, chunk: Chunk) -> None:
        """Give a chunk to be filled: a new one, or one that was got and is done with."""
    def get(self, timeout: float | None = None) -> Chunk:
        """The next chunk. Raises `Empty` after `timeout` seconds, `Stopped` when all streams have ended."""
    def fileno(self) -> int:
        """A descriptor that is readable while a chunk waits, or all streams have ended. It stays the stream's."""
    def start(self) -> None: ...
    def stop(self) -> None: ...
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, which can do nothing with it: every call raises RuntimeError."""
    def stats(self) -> dict[str, Any]:
        """Counters of the chunks, and in `streams` those of each stream."""
    @property
    def streams(self) -> int: ...

@final
class SendHeap:
    """A heap to be sent. The bytes of its items are read when it is sent, from where they lie."""

    def __new__(cls, address_bits: int = 48) -> Self: ...
    def add_item(self, id: int, data: _Buffer) -> None:
        """Add an item of the bytes of an object (one run in C order), which is kept."""
    def add_immediate(self, id: int, value: int) -> int:
        """Add an item whose value is in its pointer. Returns its number, for `set_immediate`."""
    def set_immediate(self, index: int, value: int) -> None:
        """Change the value of an immediate item."""
    def add_start(self) -> None: ...
    def add_end(self) -> None: ...
    def add_control(self, value: int) -> None:
        """Add a stream control item: 0 start, 1 descriptors again, 2 stop, 3 descriptors changed."""
    @property
    def repeat_pointers(self) -> bool:
        """Whether every packet carries all pointers."""
    @repeat_pointers.setter
    def repeat_pointers(self, repeat: bool, /) -> None: ...
    @property
    def address_bits(self) -> int: ...
    @property
    def length(self) -> int:
        """Bytes of its payload."""
    def packets(self, counter: int, max_packet: int = 1472, split: str = "full") -> list[bytes]:
        """All packets it is sent as."""

@final
class Batch:
    """Heaps to be sent together, any number of times: tuples (heap, counter, substream, rate)."""

    def __new__(cls, heaps: list[_Given]) -> Self: ...
    def __len__(self) -> int: ...

@final
class SendConfig:
    """How a stream sends, whatever its transport."""

    def __new__(
        cls,
        *,
        packet: int = 1472,
        payload: int | None = None,
        rate: float | Literal["auto"] = 0.0,
        rate_start: float | None = None,
        rate_bounds: tuple[float, float] | None = None,
        burst: int = 65536,
        max_heaps: int = 4,
        split: str = "even",
        linger: float = 10.0,
        cpu: int | None = None,
    ) -> Self: ...

@final
class SendStream:
    """A stream that heaps are sent on."""

    @staticmethod
    def udp(
        targets: list[str],
        config: SendConfig,
        *,
        interface: str | None = None,
        source: str | None = None,
        ttl: int | None = None,
        buffer: int | None = None,
    ) -> SendStream: ...
    @staticmethod
    def tcp(
        target: str,
        config: SendConfig,
        *,
        timeout: float = 10.0,
        interface: str | None = None,
        source: str | None = None,
        buffer: int | None = None,
    ) -> SendStream: ...
    @staticmethod
    def udp_fd(fd: int, targets: list[str], config: SendConfig) -> SendStream:
        """From an unconnected socket of the program; the descriptor is duplicated, so the socket may be closed."""
    @staticmethod
    def tcp_fd(fd: int, config: SendConfig) -> SendStream:
        """Over a connected socket of the program; the descriptor is duplicated, so the socket may be closed."""
    @staticmethod
    def inproc(queues: list[InprocQueue], config: SendConfig) -> SendStream: ...
    @staticmethod
    def bytes(config: SendConfig) -> SendStream: ...
    def taken(self) -> builtins.bytes:
        """What was sent into memory so far."""
    def send(
        self, heap: SendHeap, counter: int | None = None, substream: int = 0, rate: float | None = None
    ) -> int: ...
    def send_heaps(self, batch: Batch, round_robin: bool = False) -> int: ...
    def queue(self, batch: Batch, round_robin: bool = False, done: Wake | None = None) -> Ticket:
        """Leave heaps to the stream's own thread, which sets `done` when all are sent or have failed."""
    def set_counter_sequence(self, first: int, step: int) -> None: ...
    def set_rate(self, rate: float) -> None: ...
    def rate(self) -> int:
        """Bits per second now."""
    def progress(self) -> list[tuple[int, str, int, int, str]]:
        """With the rate "auto", for each destination: rate, phase, reports, packets lost, words."""
    def flush(self, timeout: float | None = None) -> bool: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, which can do nothing with it: every call raises RuntimeError."""
    def stats(self) -> dict[str, Any]: ...
    @property
    def substreams(self) -> int: ...

@final
class Owner:
    """The process that made this, as the owner of what users call `what`."""

    def __new__(cls, what: str) -> Self: ...
    def check(self) -> None:
        """RuntimeError in any other process."""

@final
class Ticket:
    """Heaps that were queued: when they are sent, and how that went."""

    def done(self) -> bool:
        """Whether all are sent or have failed."""
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for that; False if the time was over."""
    def result(self) -> int:
        """Wait for it; the bytes on the wire, or what went wrong."""

@final
class Wake:
    """A descriptor that becomes readable when heaps were sent or have failed, for event loops."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int:
        """The descriptor. It stays this object's."""
    def clear(self) -> None:
        """Make it unreadable."""
