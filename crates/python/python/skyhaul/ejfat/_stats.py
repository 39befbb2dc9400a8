"""Types of the counters that workers and senders return, and of a worker's session."""

from __future__ import annotations

from typing import TypedDict

from ..spead._stats import Stats


class ReceiveStats(Stats):
    """Counters of a worker's stream. Its heaps are events."""


class BuildCounts(TypedDict):
    """Counters of ticks that are built of several sources."""

    whole: int
    """Ticks with the events of all sources."""
    partial: int
    """Ticks that ended without some of them."""
    crowded: int
    """Of these, ticks that ended before their time, because more than `build_window` were under construction."""
    late: int
    """Events whose tick had ended."""
    doubled: int
    """Duplicate events."""
    other_sources: int
    """Events of other sources."""
    live: int
    """Ticks under construction."""


class BuildStats(ReceiveStats):
    """Counters of a worker with `sources`."""

    building: BuildCounts
    """Those of its ticks."""


class Session(TypedDict):
    """A worker's session with its balancer."""

    control_plane: str
    """The control plane, `host:port`."""
    balancer: str
    """The id of the balancer."""
    name: str
    """Its name."""
    session: str
    """The id of the session; empty if it has none."""
    address: str
    """Where the balancer sends to."""
    port: int
    """Its first port."""
    ports: int
    """Number of ports."""
    registrations: int
    """Times it registered: more than one if the control plane forgot it."""
    reports: int
    """Reports of its state."""
    reports_failed: int
    """Reports that could not be sent."""
    times_away: int
    """Times the control plane was unreachable."""
    seconds_away: float
    """Seconds for which it was."""
    is_ready: bool
    """Whether it wants events."""
    fill: float
    """The last fill level, 0 to 1."""
    signal: float
    """The last control signal, in thousandths of its share."""
    events: int
    """Events that arrived, including those for which it had no room (an estimate if packets were dropped)."""
    taken: int
    """Events that were taken."""
    has_left: bool
    """Whether it deregistered at the end."""
    removed: bool
    """Whether an operator ended its session."""
    seconds_leaving: float
    """Seconds from the beginning of its departure to the end."""
    error: str | None
    """The last error of the control plane."""


class SendStats(TypedDict):
    """Counters of a sender of events."""

    events: int
    """Events sent."""
    packets: int
    """Packets sent."""
    payload_bytes: int
    """Bytes of payload in them."""
    wire_bytes: int
    """Bytes of packets, without UDP and IP headers."""
    cancelled: int
    """Events that were cancelled."""
    failed: int
    """Events that could not be sent."""
    refused: int
    """Packets that the kernel refused."""
    unreachable: int
    """Times a destination was unreachable."""
    slipped_seconds: float
    """Time by which the schedule was late."""
    cpu_seconds: float
    """CPU time of sending."""
    waiting: int
    """Events queued."""
    syncs: int
    """Synchronisation messages sent."""
    syncs_failed: int
    """Synchronisation messages that could not be sent, or that nobody received."""
