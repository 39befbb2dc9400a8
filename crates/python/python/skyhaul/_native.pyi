"""The compiled part. Programs use `skyhaul.spead`, whose documentation refers to the descriptions here."""

import builtins
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer, disjoint_base

from ._named import RawItem, Span

# Objects with the buffer protocol; before Python 3.12 type checkers do not know that arrays have it.
_Buffer: TypeAlias = Buffer | npt.NDArray[Any]

__all__ = [
    "BalancerClient", "Batch", "Bytes", "Cancelled", "Chunk", "ChunkMemory", "ChunkReader", "ChunkStream", "Damaged", "Empty",
    "EventPayload", "EventSender", "EventStream", "FrameMaker", "FrameSender", "Full", "Gaps", "Heap", "InprocQueue", "OpenChunk", "Owner",
    "PlaceFunction", "PlacedStream", "RdmaClient", "RdmaServer", "RdmaStop", "ReceiveConfig", "ReceiveStream", "RecordedHeaps", "Recording", "RegionMemory",
    "SendConfig", "SendHeap",
    "Samples", "SendStream", "Stopped", "TickBuilder", "Ticket", "VERSION", "Wake", "list_scans", "most_array_bytes", "pack_bits",
    "read_descriptor", "scattered_files", "unpack_bits", "write_descriptor",
]  # fmt: skip

VERSION: str

class Empty(TimeoutError):
    """Nothing arrived within the timeout."""

class Stopped(Exception):
    """The stream has ended, and all of its heaps have been taken."""

class Full(BlockingIOError):
    """The send queue is full."""

class Damaged(OSError):
    """A chunk of a recording is missing, damaged or unproven."""

class Cancelled(OSError):
    """Cancelled before everything was sent."""

# (id, name, description, shape, format, NumPy header)
_RawDescriptor: TypeAlias = tuple[int, str, str, list[int | None], list[tuple[str, int]], str | None]
# (id, immediate, value, start, stop)
_RawItem: TypeAlias = tuple[int, bool, int, int, int]
# (heap, counter, substream, rate)
_Given: TypeAlias = tuple[SendHeap, int | None, int, float | None]

# Index of the region, connection, numbers, whether the ranges are of the region, valid, missing, complete, immediate data
_RawMessage: TypeAlias = tuple[
    int, int, tuple[int, int], bool, list[tuple[int, int]], list[tuple[int, int]], bool, int | None
]

def read_descriptor(packet: _Buffer, bug_compat: int = 0) -> _RawDescriptor: ...
def write_descriptor(
    id: int, name: str, description: str, shape: list[int | None], format: list[tuple[str, int]], numpy: str | None,
    address_bits: int = 48, bug_compat: int = 0,
) -> bytes: ...  # fmt: skip
def unpack_bits(data: _Buffer, format: list[tuple[str, int]], elements: int) -> bytearray:
    """Unpack bit fields into packed records in native byte order, as in a NumPy structured array."""

def pack_bits(records: _Buffer, format: list[tuple[str, int]], elements: int) -> bytes:
    """The inverse of `unpack_bits`."""

@final
class Bytes(Buffer):
    """The payload of a heap: any number of arrays may view it, and it lives as long as the last."""

    def __len__(self) -> int: ...
    def __dlpack__(self, **how: Any) -> Any:
        """For `from_dlpack` of other libraries: the bytes as an array."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class RegionMemory(Buffer):
    """The memory of a region: any number of arrays may view it, and it lives as long as the last. Peers may write it at any time."""

    def __len__(self) -> int: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class RdmaServer:
    """Regions that peers may write and read: see `skyhaul.rdma.Server`."""

    def __new__(
        cls,
        listen: str,
        regions: list[str],
        *,
        connections: int | None = None,
        duration: float | None = None,
        queue: int = 65536,
        faults: str | None = None,
        packet: int | None = None,
        crc: bool | None = None,
        buffer: int | None = None,
    ) -> Self: ...
    @property
    def address(self) -> str:
        """Its address, with the port that the system chose."""
    def regions(self) -> list[tuple[str, bool, bool, RegionMemory]]:
        """Its regions: name, read, write, memory."""
    def place(self, region: int, offset: int, data: _Buffer) -> None:
        """Put bytes into a region, for peers to read."""
    def get(self, timeout: float | None = None) -> _RawMessage:
        """The next message. Raises `Empty` after `timeout` seconds, `Stopped` when the server has ended and no message is left."""
    def fileno(self) -> int:
        """A file descriptor that is readable while a message is queued, or the server has ended. The server owns it."""
    @property
    def not_queued(self) -> int:
        """Messages for which the queue had no room."""
    def report(self) -> str:
        """What it did so far, as JSON."""
    def stop(self) -> str:
        """Close the connections, and end; the last report as JSON. Queued messages can still be taken."""
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, where every call raises RuntimeError."""

@final
class RdmaStop:
    """Ends an operation of another thread."""

    def __new__(cls) -> Self: ...
    def set(self) -> None:
        """End it: it raises `Cancelled`."""

@final
class RdmaClient:
    """A connection to a region: see `skyhaul.rdma.RemoteRegion`."""

    def __new__(
        cls,
        to: str,
        *,
        faults: str | None = None,
        arrival_faults: str | None = None,
        packet: int | None = None,
        crc: bool | None = None,
        buffer: int | None = None,
        stop: RdmaStop | None = None,
    ) -> Self: ...
    @property
    def address(self) -> str:
        """Where it is connected."""
    @property
    def nbytes(self) -> int:
        """Length of the region in bytes."""
    @property
    def rights(self) -> tuple[bool, bool]:
        """What may be done: read, write."""
    def write(
        self, data: _Buffer, offset: int, message: int | None, immediate: bool, rate: float, stop: RdmaStop | None = None
    ) -> tuple[int, int, int, float, float]:
        """Write the bytes of an object, which are not copied: first number, number behind the last, bytes, seconds, seconds by which the
        schedule slipped."""
    def read(
        self, memory: _Buffer, start: int, deadline: float, stop: RdmaStop | None = None
    ) -> tuple[list[tuple[int, int]], int, float]:
        """Read as many bytes as fit into a writable object, from byte `start` of the region on: ranges that are missing, requests, seconds.
        What is missing is zero."""
    def report(self) -> str:
        """What was done so far, as JSON."""
    def close(self) -> str:
        """Close the connection; the last report as JSON."""
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, where every call raises RuntimeError."""

@final
class Heap:
    """A heap: its payload in place, and its properties."""

    @property
    def counter(self) -> int: ...
    @property
    def address_bits(self) -> int:
        """Bits of an immediate value or address: 48 for SPEAD-64-48."""
    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
    @property
    def received(self) -> int:
        """Bytes received."""
    @property
    def size(self) -> int | None:
        """Size of the payload in bytes, if a packet stated it."""
    @property
    def length(self) -> int:
        """Length of the payload in bytes: its size, or up to the last byte received."""
    @property
    def missing(self) -> list[Span]:
        """Missing bytes of the payload, which are zero."""
    @property
    def sender(self) -> str:
        """Address and port of the sender of its first packet."""
    @property
    def first(self) -> np.datetime64:
        """Arrival of its first packet, to the nanosecond."""
    @property
    def last(self) -> np.datetime64:
        """Arrival of its last packet."""
    @property
    def cause(self) -> str:
        """Why it was delivered: complete, window, timeout or finish."""
    @property
    def payload(self) -> Bytes:
        """The payload: an object with the buffer protocol, and `__dlpack__`."""
    @property
    def memory(self) -> Any:
        """What the stream's allocator returned for the payload; None if the stream has none."""
    def items(self) -> list[RawItem]:
        """Its items, with their places in the payload."""
    def raw_items(self) -> list[_RawItem]:
        """The same as plain tuples, for item groups."""
    def pointers(self) -> list[int]:
        """Its item pointers, each once, in order of arrival."""
    def descriptors(self, bug_compat: int = 0) -> list[_RawDescriptor]:
        """Its descriptors. Invalid ones are omitted: see `descriptor_errors`."""
    def descriptor_errors(self, bug_compat: int = 0) -> list[str]:
        """Why each of its invalid descriptors cannot be read."""
    @property
    def outside(self) -> bool:
        """Whether an item begins beyond its end."""
    def items_outside(self) -> list[tuple[int, int]]:
        """Items that begin beyond its end, which `items` omits: (id, address)."""
    def is_start_of_stream(self) -> bool: ...
    def is_end_of_stream(self) -> bool: ...

@final
class InprocQueue:
    """A bounded queue of packets between streams of this process."""

    def __new__(cls, limit: int = ...) -> Self: ...
    def push(self, packet: _Buffer, timeout: float | None = None) -> bool:
        """Queue one packet; False if there was no room within the timeout."""
    def as_sender(self, number: int) -> InprocQueue:
        """The same queue; packets pushed to it come from sender `number`."""
    def close(self) -> None:
        """Close the queue; queued packets can still be received."""
    @property
    def closed(self) -> bool: ...
    @property
    def waiting(self) -> int:
        """Number of queued packets."""

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
        """State of its recorder: live, ended, interrupted or unindexed."""
    @property
    def missing_disks(self) -> list[Any]:
        """Disks of the recording that were not given."""
    @property
    def sessions(self) -> list[str]:
        """What tells it from another scan of this name: its sessions; without an index, the first chunk of each datastream."""
    @property
    def watched(self) -> list[Any]:
        """Files that change when another scan takes its name: its indexes, or the first chunk of each datastream."""
    @property
    def streams(self) -> list[tuple[str, int, int | None, str]]:
        """Its datastreams: name, bytes of a frame, frames per second, format."""
    @property
    def findings(self) -> list[tuple[str, Any, str]]:
        """Problems found from names, lengths and indexes, without reading data: verdict, path, text."""

    def check(self) -> str:
        """Read everything and compare it with the index: the report as JSON."""
    def reader(self, stream: int, missing: str, verify: bool = True, follow: bool = False) -> ChunkReader:
        """Read a datastream, by its index in `streams`."""

def scattered_files(disks: list[str | os.PathLike[str]], scan: str) -> list[str]:
    """The files of a scan on the disks of a Mark 6; none if there are no such."""

def list_scans(disks: list[str | os.PathLike[str]]) -> str:
    """All scans on these disks, as JSON."""

@final
class ChunkMemory(Buffer):
    """The bytes of a chunk, where they were read: for reading only."""

    def __len__(self) -> int: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class ChunkReader:
    """The chunks of a datastream, in order."""

    def next(self) -> tuple[int, bool, ChunkMemory, _Time | None, _Time | None] | None:
        """The next chunk: number, filled, its bytes where they are, times of its first and last frame. None at the end."""
    def gaps(
        self, first: int = 0
    ) -> list[tuple[str, int, int, str, _Time | None, _Time | None, int | None, str, str]]:
        """The gaps that were met so far, from number `first` on."""

@final
class Gaps:
    """The gaps found by a reader of a recording."""

    def since(
        self, first: int = 0
    ) -> list[tuple[str, int, int, str, _Time | None, _Time | None, int | None, str, str]]:
        """The gaps that were met so far, from number `first` on."""

def most_array_bytes() -> int:
    """Bytes of the largest array that `Samples.read` makes; larger ones must be given."""

@final
class Samples:
    """The samples of a datastream."""

    @staticmethod
    def of_recording(recording: Recording, stream: int, options: dict[str, Any]) -> Samples:
        """The samples of a recording's datastream."""
    @staticmethod
    def of_files(paths: list[str | os.PathLike[str]], options: dict[str, Any]) -> Samples:
        """The samples of plain files."""
    def about(self) -> dict[str, Any]:
        """What is known of them."""
    def repaired(self) -> int:
        """Frames that were used so far with a repaired time."""
    def piece_rows(self) -> list[int]:
        """Rows with which the chunks begin."""
    def gaps(
        self, first: int = 0
    ) -> list[tuple[str, int, int, str, _Time | None, _Time | None, int | None, str, str]]:
        """What is missing, as far as it is known by now."""
    def read(self, row: int, rows: int, kind: str, out: _Buffer | None = None) -> tuple[Bytes | None, bytes]:
        """Decode rows to numbers of this NumPy type, into `out` or new memory: the memory, and for each frame and thread of
        the range a byte, 1 if its samples are there."""
    def validity(self, frame: int, frames: int) -> bytes:
        """For each frame from `frame` on, for each thread, a byte: 1 if its samples are there."""
    def headers(self, frame: int, frames: int) -> tuple[list[tuple[str, int, str]], bytes, bytes, bytes, bytes]:
        """The headers of frames: fields (name, bits, description), and for each frame that is there its number, thread,
        whether it is valid, and the values of its fields."""
    def survey(self, row: int, rows: int, block: int, most: int | None, times: int) -> str:
        """What they look like, as JSON."""
    def export(self, path: str | os.PathLike[str], row: int, rows: int, format: str | None, integers: bool) -> str:
        """Write them to a file: what was written, as JSON."""

# Descriptor, bit fields if they are unpacked, octets or elements of a value, octets of a missing element.
_GivenItem: TypeAlias = tuple[_RawDescriptor, list[tuple[str, int]] | None, int, bytes]

@final
class RecordedHeaps:
    """The recorded heaps of a datastream, by their numbers."""

    def __new__(cls, recording: Recording, stream: int, verify: bool, bug_compat: int) -> Self: ...
    @property
    def rows(self) -> int:
        """Number of heaps."""
    def piece_rows(self) -> list[int]:
        """The rows with which the chunks begin."""
    def gaps(
        self, first: int = 0
    ) -> list[tuple[str, int, int, str, _Time | None, _Time | None, int | None, str, str]]:
        """What is missing, as far as it is known by now."""
    def counters(self, first: int, end: int) -> bytes:
        """The counters of heaps, 8 octets each, -1 where it is not known."""
    def complete(self, first: int, end: int) -> bytes:
        """For each heap an octet: 1 if it is there without a gap."""
    def descriptors(self, first: int, end: int) -> tuple[list[_RawDescriptor], list[int]]:
        """The descriptors of items that these heaps may carry, and the ids of items without one."""
    def read(self, first: int, rows: int, item: _GivenItem, out: _Buffer) -> bytes:
        """The values of an item in the rows from `first` on, into `out`: for each row an octet, 0 unknown, 1 valid, 2 absent,
        3 partial."""
    def carrier_before(self, row: int, item: _GivenItem) -> int | None:
        """The last row before `row` whose heap carried all of an item."""

@final
class FrameMaker:
    """Makes frames from samples."""

    def __new__(cls, format: str, stream: dict[str, Any]) -> Self: ...
    @property
    def frame_rows(self) -> int:
        """Complete samples of a frame."""
    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame, with its header."""
    def frames(self, samples: _Buffer) -> bytes:
        """The next frames, from float32 or complex64 in C order."""

@final
class FrameSender:
    """Sends frames from a thread."""

    def __new__(cls, to: str, frame_bytes: int, rate: int, sequence: str | None, name: str) -> Self: ...
    def write(self, frames: _Buffer) -> None:
        """Queue whole frames; waits while there is no room for them."""
    def close(self, drop: bool) -> str:
        """Send the rest, or with `drop` what is on its way only; the report as JSON."""

@final
class ReceiveConfig:
    """Every limit of a receiving stream.

    | argument | is |
    |---|---|
    | `window` | heaps under construction in each substream; if one more begins, the oldest ends |
    | `counting` | which heaps count towards the window: "incomplete" ones, or all that have "begun", as in spead2 |
    | `substreams` | heaps are divided by counter modulo this (by sender, with `key="sender"`) |
    | `in_order` | reject a packet that is not the next of its heap, as spead2 does by default |
    | `unsized_heaps` | accept heaps that do not state their size |
    | `largest` | maximum size of a heap in bytes |
    | `heap_timeout` | maximum time in seconds from a heap's first packet to its end; None: no limit |
    | `key` | "counter"; or "sender": heaps of different senders may have the same counter |
    | `stop` | the stream ends at the "first" stop item, "never" by one, or after this number of senders have sent one |
    | `idle_timeout`, `deadline` | the stream ends after this many seconds without a packet (once one arrived), or after
    its start |
    | `heap_limit`, `byte_limit` | the stream ends after it has delivered this many heaps or bytes |
    | `start_at` | heaps with a smaller counter are rejected |
    | `incomplete` | deliver incomplete heaps too |
    | `incomplete_payload` | incomplete heaps keep their payload; without, its memory is free although the program keeps them |
    | `ring` | maximum number of queued heaps |
    | `full` | if the ring is full: "wait" stops reading, "refuse" drops and counts, "auto" waits except for UDP |
    | `overflow` | bytes of finished heaps that a UDP reader holds with "wait" before it stops reading (at most 1024 heaps) |
    | `memory` | bytes for heaps, including those that the program still holds |
    | `remember`, `remember_for` | maximum number of finished heaps whose late packets are recognised, and for how many seconds |
    | `runs` | maximum number of separate ranges tracked in one heap |
    | `senders` | maximum number of senders distinguished |
    | `cpus` | CPUs for the readers' threads |
    | `name` | name of threads and in statistics |
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
        remember: int = 262144,
        remember_for: float = 1.0,
        runs: int = 1024,
        senders: int = 65536,
        cpus: list[int] = ...,
        name: str = ...,
        explicit_start: bool = False,
        counting: str = "incomplete",
        incomplete_payload: bool = True,
    ) -> Self: ...
@disjoint_base
class ReceiveStream:
    """A stream of heaps, from any number of readers. The arguments are those of `ReceiveConfig`."""

    def __new__(cls, *, allocator: Callable[[int], Any] | None = None, **config: Any) -> Self: ...
    def add_udp(
        self,
        address: str,
        *,
        interface: str | None = None,
        source: str | None = None,
        buffer: int | None = None,
        reuse_port: bool = False,
        feedback: bool = False,
        tier: Literal["auto", "stage", "plain", "ring", "bpf"] = "auto",
    ) -> str:
        """Listen on a UDP address ("10.0.0.1:7148"), or join a multicast group on `interface`, of one `source` only.

        Returns the address, with the port chosen by the system if it was 0. `buffer` is the socket's, in bytes. With
        `feedback`, the stream reports to senders with the rate "auto"; not for a group.

        `tier`: who receives. With "bpf", which needs CAP_BPF, the kernel places the payloads of senders whose heaps have one size; heaps
        that the program keeps hold memory that the kernel then lacks. Not with `feedback`, and not for a group.
        """
    def add_udp_fd(
        self,
        fd: int,
        *,
        feedback: bool = False,
        tier: Literal["auto", "stage", "plain", "ring", "bpf"] = "auto",
    ) -> str:
        """Receive from a bound UDP socket. The descriptor is duplicated, so the socket may be closed."""
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

        `connections`: accept this many, and end when they are closed. Without it, any number is accepted, and the
        reader ends with the last open one, or, with `end_with_last=False`, never. A connection without any response is
        closed after twice `keepalive` seconds.
        """
    def add_tcp_fd(
        self, fd: int, *, connections: int | None = None, end_with_last: bool = True, keepalive: float = 10.0
    ) -> str:
        """Accept connections of a listening TCP socket, or receive from a connected one. The descriptor is duplicated."""
    def add_bytes(self, data: _Buffer) -> None:
        """Read consecutive packets in memory. `bytes` are kept until they are read; other, mutable objects are copied."""
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
        """Read a datastream of a recording, by its index in `streams`. Missing parts are in the returned `Gaps`."""
    def add_inproc(self, queue: InprocQueue) -> None:
        """Receive the packets of a queue, until it is closed."""
    def start(self) -> None:
        """Start the readers, with `explicit_start`."""
    def stop(self) -> None:
        """End the stream. Queued heaps can still be taken."""
    def get(self, timeout: float | None = None) -> Heap:
        """The next heap. Raises `Empty` after `timeout` seconds, `Stopped` when the stream has ended and no heap is left."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Heap: ...
    def get_many(self, most: int, timeout: float | None = None, bytes: int = ...) -> list[Heap]:
        """At least one heap, as `get`, and more if they are queued: up to `most`, of about `bytes` together. With an allocator,
        one."""
    def fileno(self) -> int:
        """A file descriptor that is readable while a heap is queued, or the stream has ended. The stream owns it."""
    def waiting(self) -> int:
        """Number of queued heaps."""
    def stats(self) -> dict[str, Any]:
        """Every counter of the stream; in `readers`, those of each reader."""
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, which can do nothing with it: every call raises RuntimeError."""
    @property
    def capacity(self) -> int:
        """Maximum number of queued heaps."""
    @property
    def name(self) -> str: ...

@disjoint_base
class Chunk:
    """Memory into which heaps are placed; `skyhaul.spead.recv.Chunk` is for programs."""

    def __new__(cls, *_given: Any, **_named: Any) -> Self:
        """A chunk without memory."""
    def hold(self, data: _Buffer, present: _Buffer, extra: _Buffer) -> None:
        """Give it memory: the array to fill, a byte for each heap, and notes."""
    @property
    def id(self) -> int:
        """Its number."""
    @property
    def stream_id(self) -> int:
        """The number of its stream or group."""
    @property
    def heaps(self) -> int:
        """Number of heaps present."""
    @property
    def bytes(self) -> int:
        """Their bytes."""

@final
class PlaceFunction:
    """A compiled function that places heaps, and the items that it gets: see `skyhaul._place`."""

    def __new__(cls, address: int, context: int | None, kept: object, items: list[int]) -> Self: ...

@final
class OpenChunk:
    """The buffers of a chunk that streams of `skyhaul.spead2` fill."""

    def __new__(cls, data: _Buffer, present: _Buffer, extra: _Buffer | None = None) -> Self: ...
    def close(self) -> None:
        """End all writes to it."""

@final
class PlacedStream:
    """A stream whose heaps are placed by a compiled function into chunks that Python opens."""

    def __new__(
        cls, config: ReceiveConfig, function: PlaceFunction, largest: list[bool], extra: int, payload: int
    ) -> Self: ...
    def add_udp(
        self,
        address: str,
        *,
        interface: str | None = None,
        buffer: int | None = None,
        tier: Literal["auto", "stage", "plain", "ring", "bpf"] = "auto",
    ) -> str:
        """As `ReceiveStream.add_udp`. With "bpf", payloads are copied from where the kernel has placed them to their chunk."""
    def add_udp_fd(self, fd: int, *, tier: Literal["auto", "stage", "plain", "ring", "bpf"] = "auto") -> str:
        """As `ReceiveStream.add_udp_fd`."""
    def add_tcp(self, address: str, *, connections: int | None = None, buffer: int | None = None) -> str:
        """As `ReceiveStream.add_tcp`."""
    def add_tcp_fd(self, fd: int, *, connections: int | None = None) -> str:
        """As `ReceiveStream.add_tcp_fd`."""
    def add_bytes(self, data: _Buffer) -> None:
        """As `ReceiveStream.add_bytes`."""
    def add_pcap(self, path: str | os.PathLike[str], port: int | None = None) -> None:
        """As `ReceiveStream.add_pcap`."""
    def add_inproc(self, queue: InprocQueue) -> None:
        """As `ReceiveStream.add_inproc`."""
    def start(self) -> None:
        """Start the readers, with `explicit_start`."""
    def stop(self) -> None:
        """End the stream: readers stop, heaps under construction are given up."""
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, where every call raises RuntimeError."""
    def stats(self) -> dict[str, Any]:
        """Every counter of the stream; in `readers`, those of each reader."""
    def counts(self) -> list[int]:
        """The statistics of the function so far."""
    def run(self, timeout: float) -> int | None:
        """Wait until a reader needs a chunk that is not open; returns its number, or None after `timeout` seconds. Raises
        Stopped at the end."""
    def proceed(self, id: int, chunk: OpenChunk | None, oldest: int) -> None:
        """Supply that chunk, or None if the window is past it. Chunks before `oldest` are finished."""

@disjoint_base
class ChunkStream:
    """One or several streams whose heaps go into one sequence of chunks: see `skyhaul.spead.recv.ChunkStream`."""

    def __new__(
        cls,
        config: ReceiveConfig,
        rule: tuple[str, str, str] | PlaceFunction,
        *,
        wanted: str | None = None,
        extra_at: str | None = None,
        extra: list[tuple[str, int]] = ...,
        counters: list[tuple[str, str, str | None]] = ...,
        max_chunks: int = 2,
        max_bytes: int | None = None,
        ahead: int = 1024,
        lossless: bool = False,
        streams: int = 1,
        stream_id: int = 0,
        packet_presence: int = 0,
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
        tier: Literal["auto", "stage", "plain", "ring", "bpf"] = "auto",
        stream: int = 0,
    ) -> str:
        """As `ReceiveStream.add_udp`, for one of the streams. With "bpf", payloads are copied from where the kernel has placed them to
        their chunk."""
    def add_udp_fd(
        self,
        fd: int,
        *,
        feedback: bool = False,
        tier: Literal["auto", "stage", "plain", "ring", "bpf"] = "auto",
        stream: int = 0,
    ) -> str:
        """As `ReceiveStream.add_udp_fd`, for one of the streams."""
    def add_tcp(
        self,
        address: str,
        *,
        connections: int | None = None,
        end_with_last: bool = True,
        keepalive: float = 10.0,
        buffer: int | None = None,
        stream: int = 0,
    ) -> str:
        """As `ReceiveStream.add_tcp`, for one of the streams."""
    def add_bytes(self, data: _Buffer, *, stream: int = 0) -> None: ...
    def add_inproc(self, queue: InprocQueue, *, stream: int = 0) -> None: ...
    def add_free(self, chunk: Chunk) -> None:
        """Add a chunk to be filled: a new one, or one from `get` that is no longer used."""
    def get(self, timeout: float | None = None) -> Chunk:
        """The next chunk. Raises `Empty` after `timeout` seconds, `Stopped` when all streams have ended."""
    def fileno(self) -> int:
        """A file descriptor that is readable while a chunk is queued, or all streams have ended. The stream owns it."""
    def start(self) -> None: ...
    def stop(self) -> None: ...
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, which can do nothing with it: every call raises RuntimeError."""
    def stats(self) -> dict[str, Any]:
        """Counters of the chunks; in `streams`, those of each stream."""
    @property
    def streams(self) -> int: ...

@final
class SendHeap:
    """A heap to be sent. The bytes of its items are not copied, but read when it is sent."""

    def __new__(cls, address_bits: int = 48) -> Self: ...
    def add_item(self, id: int, data: _Buffer) -> None:
        """Add an item with the bytes of an object (one run in C order), which is kept."""
    def add_immediate(self, id: int, value: int) -> int:
        """Add an immediate item. Returns its index, for `set_immediate`."""
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
        """All its packets."""

@final
class Batch:
    """Heaps to be sent together, any number of times: tuples (heap, counter, substream, rate)."""

    def __new__(cls, heaps: list[_Given]) -> Self: ...
    def __len__(self) -> int: ...

@final
class SendConfig:
    """Settings of a sending stream of any transport."""

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
        """Send from an unconnected socket of the program; the descriptor is duplicated, so the socket may be closed."""
    @staticmethod
    def tcp_fd(fd: int, config: SendConfig) -> SendStream:
        """Send over a connected socket of the program; the descriptor is duplicated, so the socket may be closed."""
    @staticmethod
    def inproc(queues: list[InprocQueue], config: SendConfig) -> SendStream: ...
    @staticmethod
    def bytes(config: SendConfig) -> SendStream: ...
    def taken(self) -> builtins.bytes:
        """The bytes sent to memory so far."""
    def send(
        self, heap: SendHeap, counter: int | None = None, substream: int = 0, rate: float | None = None
    ) -> int: ...
    def send_heaps(self, batch: Batch, round_robin: bool = False) -> int: ...
    def queue(self, batch: Batch, round_robin: bool = False, done: Wake | None = None) -> Ticket:
        """Queue heaps for the stream's thread, which sets `done` when all are sent or have failed."""
    def set_counter_sequence(self, first: int, step: int) -> None: ...
    def set_rate(self, rate: float) -> None: ...
    def rate(self) -> int:
        """Bits per second now."""
    def progress(self) -> list[tuple[int, str, int, int, str]]:
        """With the rate "auto", for each destination: rate, phase, reports, packets lost, description."""
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
class EventSender:
    """Sends events; `skyhaul.ejfat.Sender` describes the keywords."""

    def __new__(
        cls,
        to: str,
        *,
        mtu: int,
        rate: float,
        events_per_second: float | None,
        first_tick: int | None,
        tick_step: int,
        lb_version: int,
        slot: str,
        entropy: str | int,
        re_version: int,
        sockets: int,
        buffer: int | None,
        ipv6: bool,
        sync: str | None,
        sync_period: float,
        sync_source: int,
        warm_up: float,
        max_events: int,
        linger: float,
    ) -> Self: ...
    @property
    def to(self) -> str:
        """Where it sends, without the token of a URI."""
    def send(self, data: _Buffer, tick: int | None = None, data_id: int = 0) -> int:
        """Send an event; its tick when it is sent."""
    def queue(
        self, data: _Buffer, tick: int | None = None, data_id: int = 0, done: Wake | None = None
    ) -> tuple[int, Ticket]:
        """Queue an event for the sender's thread, which sets `done` when it is sent or has failed: its tick, and a ticket."""
    def warming(self) -> float:
        """Seconds until the first event may go."""
    def set_rate(self, rate: float) -> None: ...
    def flush(self, timeout: float | None = None) -> bool: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, which can do nothing with it: every call raises RuntimeError."""
    def stats(self) -> dict[str, Any]: ...

@final
class Owner:
    """The current process, as the owner of an object called `what` in error messages."""

    def __new__(cls, what: str) -> Self: ...
    def check(self) -> None:
        """RuntimeError in any other process."""

@final
class Ticket:
    """Queued heaps, and the result of sending them."""

    def done(self) -> bool:
        """Whether all are sent or have failed."""
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until they are done; False after the timeout."""
    def result(self) -> int:
        """Wait until they are done; returns the bytes on the wire, or raises the error."""

@final
class Wake:
    """A file descriptor that becomes readable when heaps are sent or have failed, for event loops."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int:
        """The file descriptor, owned by this object."""
    def clear(self) -> None:
        """Make it unreadable."""

@final
class BalancerClient:
    """A client of EJFAT's control plane; `skyhaul.ejfat.Balancer` is for programs."""

    def __new__(
        cls, uri: str | None = None, *, certificate: str | None = None, any_certificate: bool = False, deadline: float = 5.0
    ) -> Self: ...
    @property
    def uri(self) -> str: ...
    @property
    def at(self) -> str: ...
    def reserve(self, name: str, seconds: float | None, senders: list[str], strategy: str) -> str: ...
    def get(self) -> str: ...
    def free(self) -> None: ...
    def extend(self, seconds: float) -> float | None: ...
    def add_senders(self, senders: list[str]) -> None: ...
    def remove_senders(self, senders: list[str]) -> None: ...
    def reset(self, sync: bool, epochs: bool, senders: bool, workers: bool) -> None: ...
    def status(self) -> str: ...
    def overview(self) -> str: ...
    def timeseries(self, paths: list[str], since: float | None) -> str: ...
    def version(self) -> tuple[str, str, str]: ...
    def create_token(self, name: str, permissions: list[tuple[str, str, str]]) -> str: ...
    def tokens(self) -> str: ...
    def revoke_token(self, id: int | None, token: str | None) -> None: ...

@final
class EventPayload:
    """The payload of an event, which views of it keep."""

@final
class EventStream:
    """The events of a worker; `skyhaul.ejfat.Worker` is for programs."""

    def __new__(
        cls, uri: str | None = None, *, listen: str = "0.0.0.0:0", ports: int = 1, name: str | None = None,
        address: str | None = None, weight: float = 1.0, min_factor: float = 0.0, max_factor: float = 0.0,
        keep_label: bool = False, timeout: float = 1.0, window: int = 64, largest: int = 0xFFFF_FFFF, ring: int = 1024,
        memory: int | None = None, buffer: int | None = None, drain: float = 10.0, period: float = 0.1,
        certificate: str | None = None, any_certificate: bool = False, quiet: bool = False,
    ) -> Self: ...  # fmt: skip
    @property
    def capacity(self) -> int: ...
    @property
    def forked(self) -> bool: ...
    def get(self, timeout: float | None = None) -> tuple[int, int, Bytes]: ...
    def fileno(self) -> int: ...
    def set_ready(self, ready: bool) -> None: ...
    def leave(self, at_once: bool = False) -> None: ...
    def stop(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def session(self) -> str: ...

@final
class TickBuilder:
    """Ticks of which some parts are there; `skyhaul.ejfat.Worker` is for programs."""

    def __new__(cls, sources: Sequence[int], timeout: float, window: int) -> Self: ...
    def add(self, tick: int, data_id: int, data: object) -> None: ...
    def poll(self) -> tuple[int, list[tuple[int, Any]]] | None: ...
    @property
    def counts(self) -> dict[str, int]: ...
