"""Types of the counters that streams return."""

from __future__ import annotations

from typing import TypedDict


class Counts(TypedDict):
    """Counters since the beginning."""

    packets: int
    """Packets received, regardless of their fate. A long packet on TCP is one."""
    bytes: int
    """Their bytes."""
    trains: int
    """Trains (UDP) or reads (TCP) they came in."""
    batches: int
    """Polls of readers that returned packets."""
    heaps: int
    """Heaps put into the ring."""
    heap_bytes: int
    """Payload bytes in them."""
    incomplete_heaps: int
    """Of these, heaps with something missing."""
    incomplete_dropped: int
    """Incomplete heaps dropped because they were not requested."""
    repeated_heaps: int
    """Heaps that arrived again in full, 100 ms or longer after they were finished, and were rejected: their counters were reused while they were remembered. Duplicates made by a network arrive sooner."""
    forgotten_heaps: int
    """Finished heaps that were forgotten before remember_for was over, because more than remember were finished within it: a late packet would begin one of them again."""
    single_packet_heaps: int
    """Heaps received in a single packet."""
    ring_full: int
    """Finished heaps for which the ring had no room."""
    stopped: int
    """Finished heaps dropped because the stream was stopped, or a limit was reached."""
    blocked: int
    """Times a reader, or one of its TCP connections, waited for room in the ring, or for memory."""
    stops: int
    """Packets with an effective stop item."""
    single_packet_stops: int
    """Of these, packets that were heaps of their own."""
    pauses: int
    """Times a reader did not read for longer than 0.1 s: the program was stopped or suspended, had no processor, or a user function took that long."""
    paused_ms: int
    """Total of these pauses in milliseconds."""
    pointers_refused: int
    """Item pointers beyond the limit of a heap."""
    items_outside: int
    """Items that begin beyond the end of their heap: they are not delivered."""
    skipped_bytes: int
    """Bytes outside packets, or of a packet that ended before any of it was used (TCP, bytes); not in bytes."""
    refused_bytes: int
    """Part of bytes that was not placed because the packet was rejected, or its heap given up: payload, and the head if it could not be read."""
    connections: int
    """TCP connections accepted."""
    connections_refused: int
    """TCP connections closed at once: not from the requested sender, or beyond the limit of a reader."""
    closed_orderly: int
    """TCP connections closed by the peer in order."""
    closed_reset: int
    """TCP connections that were reset."""
    closed_timed_out: int
    """TCP connections that timed out."""
    closed_mid_packet: int
    """TCP connections that ended within a packet."""
    max_batch: int
    """Maximum number of packets in one batch."""
    rejected: dict[str, int]
    """Packets rejected, by reason."""
    retired: dict[str, int]
    """Heaps, by what ended them: complete, window, timeout or finish."""


class ReaderStats(Counts):
    """Counters of a reader."""

    name: str
    """Its address or file."""
    kernel_drops: int | None
    """Packets that the kernel dropped because the socket buffer was full."""
    malformed: int
    """Records of a capture that are no packet."""
    fragments: int
    """IP fragments in a capture, which are not reassembled."""
    truncated: int
    """Packets that were cut short."""
    buffer_asked: int | None
    """Bytes of socket buffer requested."""
    buffer_granted: int | None
    """Bytes of socket buffer granted."""
    tier: str | None
    """How it receives."""
    remedies: list[str]
    """What would help against loss."""
    cpu_seconds: float
    """CPU time of its thread."""
    error: str | None
    """Why it failed, if it has."""
    ended: bool
    """Whether it has ended."""


class Stats(Counts):
    """Counters of a stream."""

    kernel_drops: int | None
    """Packets that the kernel dropped because a socket buffer was full."""
    missing_heaps: int | None
    """Heaps of which no packet arrived; None if no sender's counters have a regular step."""
    unknown_senders: int
    """Senders that `missing_heaps` does not cover."""
    live_heaps: int
    """Heaps under construction."""
    waiting_heaps: int
    """Heaps queued."""
    memory_used: int
    """Bytes of memory taken from the system."""
    memory_refused: int
    """Times there was no memory for a heap."""
    ended: str | None
    """Why the stream ended, if it has."""
    readers: list[ReaderStats]
    """Each reader."""


class ChunkStats(TypedDict):
    """Counters of a chunk stream."""

    chunks: int
    """Chunks delivered."""
    too_old_heaps: int
    """Heaps of chunks that had left the window."""
    rejected_heaps: int
    """Heaps without a place, or that do not fit into it."""
    unwanted_heaps: int
    """Heaps that `where` excludes."""
    stray_heaps: int
    """Heaps far beyond the window that did not move it."""
    waits: int
    """Times a heap found no free chunk, or had to wait for another stream."""
    counters: dict[str, int]
    """Counters of the user."""
    streams: list[Stats]
    """Each of the streams."""


class SendStats(TypedDict):
    """Counters of a sending stream."""

    heaps: int
    """Heaps sent."""
    packets: int
    """Packets sent."""
    payload_bytes: int
    """Bytes of payload in them."""
    wire_bytes: int
    """Bytes of packets, without UDP and IP headers."""
    cancelled: int
    """Heaps that were cancelled."""
    failed: int
    """Heaps that could not be sent."""
    refused: int
    """Packets that the kernel refused."""
    unreachable: int
    """Times a destination was unreachable."""
    calls: int
    """System calls."""
    slipped_seconds: float
    """Time by which the schedule was late."""
    cpu_seconds: float
    """CPU time of sending."""
    waiting: int
    """Heaps queued."""
