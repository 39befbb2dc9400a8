"""Receiving SPEAD heaps.

    from skyhaul.spead import ItemGroup, recv

    stream = recv.Stream(heap_timeout=0.5)
    stream.add_udp("239.1.2.3:7148", interface="10.0.0.5")
    for heap in stream:                      # or: async for heap in stream
        ...

One stream receives from any number of readers, each on its own thread. A heap ends when it is complete, when the window
passes it, or by `heap_timeout`; a stream ends by a stop item, when all its readers have ended, by `idle_timeout`,
`deadline`, `heap_limit`, `byte_limit` or `stop()`. So a lost packet does not block a call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _native, _place
from .._awaited import Awaited
from .._named import RawItem, Span
from .._native import Empty, Heap, ReceiveConfig, ReceiveStream, Stopped
from .._place import PlaceData
from ._stats import ChunkStats, Counts, ReaderStats, Stats

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Chunk", "ChunkStats", "ChunkStream", "Counts", "Empty", "Heap", "PlaceData", "RawItem", "ReaderStats", "Span", "Stats", "Stopped", "Stream",
]  # fmt: skip

Key: TypeAlias = Literal["counter", "sender"]
Full: TypeAlias = Literal["auto", "wait", "refuse"]
Stop: TypeAlias = Literal["first", "never"] | int
Counting: TypeAlias = Literal["incomplete", "begun"]
# How many of the largest heap of a packet, and the name of threads, if they are not given: as in the compiled part.
_LARGEST, _NAME = 1 << 30, "spead"

# Former names of methods.
_FORMER = {
    "add_udp_reader": "add_udp",
    "add_tcp_reader": "add_tcp",
    "add_pcap_reader": "add_pcap",
    "add_buffer_reader": "add_bytes",
    "add_inproc_reader": "add_inproc",
}


class Stream(ReceiveStream, Awaited[Heap]):
    """A stream of heaps. All arguments are optional.

    | argument | is |
    |---|---|
    | `window` | heaps under construction in each substream; if one more begins, the oldest ends |
    | `substreams` | heaps are divided by counter modulo this (by sender, with `key="sender"`) |
    | `in_order` | reject a packet that is not the next of its heap, as spead2 does by default |
    | `unsized_heaps` | accept heaps that do not state their size |
    | `largest` | maximum size of a heap in bytes |
    | `heap_timeout` | maximum time in seconds from a heap's first packet to its end; None: no limit |
    | `key` | "counter"; or "sender": heaps of different senders may have the same counter |
    | `stop` | the stream ends at the "first" stop item, "never" by one, or after this number of senders have sent one |
    | `idle_timeout`, `deadline` | the stream ends after this many seconds without a packet (once one arrived), or after its start |
    | `heap_limit`, `byte_limit` | the stream ends after it has delivered this many heaps or bytes |
    | `start_at` | heaps with a smaller counter are rejected |
    | `counting` | which heaps count towards the window: "incomplete" ones, or all that have "begun", as in spead2 |
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
    | `allocator` | returns writable memory for a payload of so many bytes; see below |

    With `allocator`, payloads are in memory of your own (shared, pinned, of a pool): it is called with a number of bytes when a
    heap is taken, in the thread that takes it, and returns an object with the buffer protocol, which is `heap.memory` then. If it
    raises, the heap is lost, and `get` raises the same.

    Each heap costs one copy more, made by the thread that takes it: readers assemble heaps without the GIL, before the allocator
    is asked. A `ChunkStream` has no such copy, because it is given its arrays in advance.
    """

    def __init__(
        self,
        *,
        window: int = 16,
        substreams: int = 1,
        in_order: bool = False,
        unsized_heaps: bool = True,
        largest: int = _LARGEST,
        heap_timeout: float | None = 1.0,
        key: Key = "counter",
        stop: Stop | None = None,
        idle_timeout: float | None = None,
        deadline: float | None = None,
        heap_limit: int | None = None,
        byte_limit: int | None = None,
        start_at: int | None = None,
        incomplete: bool = False,
        incomplete_payload: bool = True,
        ring: int = 4096,
        full: Full = "auto",
        overflow: int = 0,
        memory: int | None = None,
        remember: int = 262144,
        remember_for: float = 1.0,
        runs: int = 1024,
        senders: int = 65536,
        cpus: Sequence[int] = (),
        name: str = _NAME,
        explicit_start: bool = False,
        counting: Counting = "incomplete",
        allocator: Callable[[int], Any] | None = None,
    ) -> None:
        # The compiled part has taken the arguments in `__new__`.
        self._waiting = []

    if TYPE_CHECKING:

        def stats(self) -> Stats:  # type: ignore[override]
            """Every counter of the stream; in `readers`, those of each reader."""
            ...

    # ---- taking heaps: readers, `get` and iteration are native

    def get_nowait(self) -> Heap:
        """The next heap if one is queued, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the stream is its parent's.
        if not self.forked:
            self.stop()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _FORMER:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"{name} is now {_FORMER[name]}", DeprecationWarning, stacklevel=2)
            return getattr(self, _FORMER[name])


class Chunk(_native.Chunk):
    """Memory into which heaps are placed: an array to fill, or a filled one. A stream returns the object that it was given, so a
    subclass may carry anything, and a plain one has its `tag`.

    | argument | is |
    |---|---|
    | `data` | the array to fill: writable, in one run |
    | `heaps` | number of heaps that it has room for, if `present` is not given |
    | `extra` | bytes of notes, or an array for them |
    | `present` | an array of your own with a byte for each heap (bool or uint8) |
    | `tag` | anything |

    `present` and `extra` are written by `ChunkStream.get`. Where a heap is missing, `data` has its previous content. Another
    array may be assigned to each of the three, unless a stream is filling the chunk.
    """

    _data: Any
    _present: Any
    _extra: Any
    tag: Any
    """Anything."""

    def __init__(
        self, data: Buffer | npt.NDArray[Any], heaps: int | None = None, extra: int | Buffer | npt.NDArray[Any] = 0,
        *, present: Buffer | npt.NDArray[Any] | None = None, tag: Any = None,
    ) -> None:  # fmt: skip
        if present is None:
            if heaps is None:
                raise TypeError("a chunk for an unknown number of heaps; hint: pass heaps or present")
            _bounded(heaps, "heaps", 1 << 28)
            present = np.zeros(heaps, np.bool_)
        else:
            given = _marks(present)
            if heaps not in (None, given):
                raise ValueError(f"present is for {given} heaps, not {heaps}; hint: leave out heaps")
        if isinstance(extra, (int, np.integer)):
            _bounded(int(extra), "extra", 1 << 30)
            extra = np.zeros(int(extra), np.uint8)
        self.tag = tag
        self._hold(data, present, extra)

    def _hold(self, data: Any, present: Any, extra: Any) -> None:
        self.hold(data, present, extra)
        self._data, self._present, self._extra = data, present, extra

    @property
    def data(self) -> Any:
        """The array that is filled."""
        return self._data

    @data.setter
    def data(self, array: Any) -> None:
        self._hold(array, self._present, self._extra)

    @property
    def present(self) -> Any:
        """One byte for each heap: 1 if it is complete. An array of bool, if none was given."""
        return self._present

    @present.setter
    def present(self, array: Any) -> None:
        _marks(array)
        self._hold(self._data, array, self._extra)

    @property
    def extra(self) -> Any:
        """The notes of each heap."""
        return self._extra

    @extra.setter
    def extra(self, array: Any) -> None:
        self._hold(self._data, self._present, array)

    def __dlpack__(self, **how: Any) -> Any:
        """For `from_dlpack` of other libraries: its data."""
        return np.asarray(self.data).__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return 1, 0


def _marks(present: Any) -> int:
    """The number of heaps that an array of marks is for."""
    given = np.asarray(present)
    if given.itemsize != 1:
        raise ValueError("present has more than a byte for each heap; hint: an array of bool or uint8")
    return given.size


def _bounded(number: int, name: str, most: int) -> None:
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number}; hint: 0 or more, at most {most}")


class ChunkStream(_native.ChunkStream, Awaited[Chunk]):
    """Heaps placed side by side into your own arrays, with one copy from the network; several arrays are filled at a time.

        stream = recv.ChunkStream("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1024")
        for _ in range(4):
            stream.add_free(recv.Chunk(np.zeros((4, 1024), "u1"), heaps=4))
        for chunk in stream:
            use(chunk.id, chunk.data, chunk.present)
            stream.add_free(chunk)

    The three expressions give for each heap the number of its chunk, its index in the chunk, and its first byte there.
    They consist of integers, `+ - * / % & | << >>`, comparisons, `and`, `or` and parentheses, `item(ID)` for an immediate item,
    `counter`, `size`, and `stream`, the number of the receiving stream. A heap without a value, or that does not fit, is
    rejected and counted.

    | argument | meaning |
    |---|---|
    | `where` | place only heaps for which this expression is not 0, such as `"item(0x4101) == 3"`; others are counted as unwanted |
    | `place`, `items` | instead of the expressions: a compiled function (see below), and the ids of its items |
    | `extra_at`, `extra` | notes: their place in `Chunk.extra` (an expression), and their values, as (expression, bytes) |
    | `counters` | user-defined counters: (name, "sum" or "max", expression); without an expression, the place function adds
    to `batch_stats`, whose elements are these counters in their order, up to 16, once for each heap |
    | `packet_presence` | the payload bytes of a packet: `Chunk.present` marks each packet that arrived, not whole heaps, and
    the index is that of the heap's first packet |
    | `max_chunks`, or `max_bytes` | maximum number of chunks filled at a time, or of their bytes |
    | `ahead` | a heap further ahead than this number of chunks is not followed at once |
    | `streams` | several streams fill one sequence of chunks; readers are added with `stream=0`, `1`, … |
    | `lossless` | the streams wait for each other instead of moving the window past the slowest |
    | `stream_id` | stored in every chunk |

    The other arguments are those of `Stream`.

    `place` is a `scipy.LowLevelCallable`, a `numba.cfunc`, or a function of a ctypes library: `void (PlaceData *,
    size_t)`; `skyhaul.spead.numba.place_data` is its type for numba. It reads `items` (an `int64_t *`, -1 for a missing item; ids 1 and 2 are counter and size) and
    `packet`, the heap's first packet of `packet_size` bytes (over TCP only its head, as its payload is read straight into the
    chunk), both valid during the call. It sets
    `chunk_id`, `heap_index` and `heap_offset`, and, for up to 64 bytes of notes in `extra`, `extra_offset` and
    `extra_size`. The readers call it without the GIL at each heap's first packet, concurrently if there are several
    streams; it must not block. Its results are checked like those of expressions.
    """

    def __new__(
        cls,
        chunk: str | None = None,
        index: str | None = None,
        offset: str | None = None,
        *,
        where: str | None = None,
        place: Any = None,
        items: Sequence[int] = (),
        extra_at: str | None = None,
        extra: Sequence[tuple[str, int]] = (),
        counters: Sequence[tuple[str, str, str] | tuple[str, str]] = (),
        max_chunks: int = 2,
        max_bytes: int | None = None,
        ahead: int = 1024,
        lossless: bool = False,
        streams: int = 1,
        stream_id: int = 0,
        packet_presence: int | None = None,
        window: int = 16,
        substreams: int = 1,
        in_order: bool = False,
        unsized_heaps: bool = True,
        largest: int = _LARGEST,
        heap_timeout: float | None = 1.0,
        key: Key = "counter",
        stop: Stop | None = None,
        idle_timeout: float | None = None,
        deadline: float | None = None,
        heap_limit: int | None = None,
        byte_limit: int | None = None,
        start_at: int | None = None,
        incomplete: bool = False,
        incomplete_payload: bool = True,
        ring: int = 4096,
        full: Full = "auto",
        overflow: int = 0,
        memory: int | None = None,
        remember: int = 262144,
        remember_for: float = 1.0,
        runs: int = 1024,
        senders: int = 65536,
        cpus: Sequence[int] = (),
        name: str = _NAME,
        explicit_start: bool = False,
        counting: Counting = "incomplete",
    ) -> Self:
        if packet_presence is not None and packet_presence < 1:
            raise ValueError(f"packet_presence is {packet_presence}; hint: the payload bytes of a packet, or None")
        counted = [(name, tally, value[0] if value else None) for name, tally, *value in counters]
        if place is None and any(value is None for _, _, value in counted):
            raise ValueError("a counter without an expression is counted by a place function; hint: pass place")
        rule: tuple[str, str, str] | _native.PlaceFunction
        if place is not None and chunk is index is offset is None:
            rule = _place.native(place, items)
        elif place is None and chunk is not None and index is not None and offset is not None:
            rule = chunk, index, offset
        else:
            raise TypeError("a chunk stream needs a rule; hint: pass chunk, index and offset, or place")
        config = ReceiveConfig(
            window=window, substreams=substreams, in_order=in_order, unsized_heaps=unsized_heaps, largest=largest,
            heap_timeout=heap_timeout, key=key, stop=stop, idle_timeout=idle_timeout, deadline=deadline,
            heap_limit=heap_limit, byte_limit=byte_limit, start_at=start_at, incomplete=incomplete,
            incomplete_payload=incomplete_payload, ring=ring, full=full, overflow=overflow, memory=memory, remember=remember,
            remember_for=remember_for, runs=runs, senders=senders, cpus=list(cpus), name=name,
            explicit_start=explicit_start, counting=counting,
        )  # fmt: skip
        return super().__new__(
            cls, config, rule, wanted=where, extra_at=extra_at, extra=list(extra), counters=counted,
            max_chunks=max_chunks, max_bytes=max_bytes, ahead=ahead, lossless=lossless, streams=streams,
            stream_id=stream_id, packet_presence=packet_presence or 0,
        )  # fmt: skip

    def __init__(self, *_: Any, **__: Any) -> None:
        self._waiting = []

    if TYPE_CHECKING:

        def get(self, timeout: float | None = None) -> Chunk:
            """The next chunk. Raises `Empty` after `timeout` seconds, `Stopped` when all streams have ended."""
            ...

        def stats(self) -> ChunkStats:  # type: ignore[override]
            """Counters of the chunks; in `streams`, those of each stream."""
            ...

    def get_nowait(self) -> Chunk:
        """The next chunk if one is queued, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        try:
            return self.get(None)
        except Stopped:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the stream is its parent's.
        if not self.forked:
            self.stop()
