"""Types of the reports, which are those of `skyhaul rdma serve --json` and of a connection."""

from __future__ import annotations

from typing import TypedDict


class DatagramReport(TypedDict):
    """What became of every datagram of one end."""

    arrived: int
    """Datagrams that arrived. Each is placed, consumed, control or refused."""
    placed: int
    """Of these: payload that was put into memory."""
    placed_by_kernel: int
    """Of those placed: by the program in the kernel (`skyhaul rdma serve --tier bpf`)."""
    placed_late_by_kernel: int
    """Of those refused: the program in the kernel had placed them before it was known that their message had ended."""
    counted_as_errors: int
    """Arrivals that the kernel's own counters show as dropped or as errors because its program placed them; no losses."""
    placed_bytes: int
    """Bytes that were placed."""
    consumed: int
    """Of these: segments without payload for memory, such as requests to read and immediate data."""
    control: int
    """Of these: connection control."""
    refused: dict[str, int]
    """Of these: refused, by reason."""
    kernel_drops: int
    """Arrivals that the kernel dropped at the socket, for lack of room."""
    arrivals_lost_on_purpose: int
    """Datagrams that were withheld on purpose before they arrived."""
    handed_out: int
    """Datagrams handed out for sending: segments, and connection control."""
    segments: int
    """Of these: segments."""
    segments_sent: int
    """Segments that the kernel accepted, duplicates among them."""
    segment_bytes_sent: int
    """Bytes in these, with their headers."""
    unsent: int
    """Datagrams that the kernel did not accept: no room, no route, or too long for the path; frames of streams that had ended (TCP)."""
    waiting: int
    """Frames that the kernel has not taken yet, as the peer reads slowly (TCP)."""
    lost_on_purpose: int
    """Segments withheld on purpose."""
    lost_on_purpose_ranges: list[list[int]]
    """Their numbers in the order of sending from 0, as ranges [first, behind the last]."""
    duplicated_on_purpose: int
    """Segments sent twice on purpose."""
    reordered_on_purpose: int
    """Segments sent out of order on purpose."""
    damaged_on_purpose: int
    """Segments with a flipped bit or cut short on purpose."""


class RegionReport(TypedDict):
    """A region."""

    name: str
    """Its name."""
    bytes: int
    """Its length in bytes."""
    rights: str
    """What peers may do: "read", "write" or "read,write"."""


class ConnectionReport(TypedDict):
    """A connection that has ended."""

    peer: str
    """The peer."""
    region: str
    """The region that it was for."""
    complete: int
    """Writes that ended complete."""
    incomplete: int
    """Writes that arrived in part."""
    lost: int
    """Messages lost whole: Writes, Sends, or requests to read."""
    received: int
    """Sends that ended complete: none, as a server in Python has no buffers for them."""
    received_incomplete: int
    """Sends that arrived in part: none."""
    received_bytes: int
    """Bytes of Sends that arrived: none."""
    written_bytes: int
    """Bytes of Writes that arrived."""
    datagrams_lost: int
    """Datagrams of the peer that did not arrive."""
    closed_by: str | None
    """Why it ended: "peer", "here", "silence" … Only if the peer closed it is `datagrams_lost` exact."""


class LossReport(TypedDict):
    """A message that did not arrive whole."""

    connection: int
    """The connection, by the order of acceptance from 1."""
    messages: list[int]
    """Numbers of the messages: [first, behind the last]."""
    whole: bool
    """Nothing of them arrived."""
    missing: list[list[int]]
    """Otherwise: ranges that did not arrive."""
    in_region: bool
    """Whether these are of the region; otherwise they count from the start of the message."""
    immediate: bool
    """Its immediate data arrived."""
    is_send: bool
    """It is a Send."""


class ServerReport(TypedDict):
    """What a server did."""

    version: int
    """Of the format."""
    listen: str
    """Where it listened."""
    profile: str
    """What carries the segments: "uc" over UDP, or "tcp"."""
    tier: str
    """How datagrams were read."""
    mode: str
    """How datagrams were handed to the kernel."""
    seconds: float
    """Wall seconds."""
    cpu_seconds: float
    """CPU seconds of its thread."""
    voluntary_switches: int
    """Times that its thread went to sleep."""
    involuntary_switches: int
    """Times that the CPU was taken from it."""
    placing: str
    """Who places Writes: "bpf", the kernel; or "stage", and why."""
    regions: list[RegionReport]
    """What it exposes."""
    requested: int
    """Requests with a proven address."""
    rejected: int
    """Of these: rejected, as they named no region, or after the last connection that was asked for."""
    connections: list[ConnectionReport]
    """Accepted connections that have ended, the first thousand."""
    connections_not_listed: int
    """Further ones."""
    datagrams: DatagramReport
    """Its datagrams."""
    read_requests: int
    """Requests to read that arrived."""
    complete: int
    """Writes that ended complete."""
    incomplete: int
    """Writes that arrived in part."""
    lost: int
    """Messages lost whole: Writes, Sends, or requests to read."""
    received: int
    """Sends that ended complete: none, as a server in Python has no buffers for them."""
    received_incomplete: int
    """Sends that arrived in part: none."""
    received_bytes: int
    """Bytes of Sends that arrived: none."""
    solicited: int
    """Sends that asked for the program to be woken: none."""
    invalidated: list[str]
    """Regions that a peer ended by a Send: none."""
    not_written: int
    """Sends that could not be written to a file: none."""
    write_error: str | None
    """Why, of the first: None."""
    written_bytes: int
    """Bytes of Writes that arrived."""
    immediates: int
    """Immediate data that arrived."""
    datagrams_lost: int
    """Datagrams of peers that did not arrive, of connections that have ended."""
    losses: list[LossReport]
    """The first ten thousand losses."""
    losses_not_listed: int
    """Further messages that did not arrive whole."""
    not_queued: int
    """Messages that were not given to the program, which had `queue` others to take. Their bytes are in memory, and they are counted
    above."""


class ClientReport(TypedDict):
    """What was done over a connection."""

    version: int
    """Of the format."""
    to: str
    """The region."""
    profile: str
    """What carries the segments: "uc" over UDP, or "tcp"."""
    mode: str
    """How datagrams were handed to the kernel."""
    region_bytes: int
    """Length of the region in bytes."""
    datagram_bytes: int
    """Payload and headers of a datagram, at most."""
    messages: int
    """Writes handed out whole. They are numbered from 1."""
    bytes: int
    """Bytes of the payload of these."""
    reads: int
    """Reads: pieces of at most 1 MiB."""
    read_bytes: int
    """Bytes that arrived for them."""
    closed_by: str | None
    """Why the connection ended: "here" if the peer confirmed. None: it is open."""
    datagrams: DatagramReport
    """Its datagrams."""
