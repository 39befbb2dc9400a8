//! What a path is made of: queues, buckets, links that fail, things that pause or change.

/// A queue that drains at a rate; what does not fit is lost.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// ns for a packet, and for each of its bits.
    pub(super) per_packet: f64,
    pub(super) per_bit: f64,
    /// What fits: bits, or packets if it drains by packets.
    pub(super) room: f64,
    free: f64,
}

impl Queue {
    pub(super) fn bits(rate: f64, octets: f64) -> Queue {
        Queue { per_packet: 0.0, per_bit: 1e9 / rate, room: octets * 8.0, free: 0.0 }
    }

    pub(super) fn packets(rate: f64, packets: f64) -> Queue {
        Queue { per_packet: 1e9 / rate, per_bit: 0.0, room: packets, free: 0.0 }
    }

    /// When a packet leaves; `None` if it is lost.
    pub(super) fn pass(&mut self, t: f64, bits: f64) -> Option<f64> {
        let waiting = (self.free - t).max(0.0);
        let takes = self.per_packet + self.per_bit * bits;
        let full = waiting / (self.per_packet + self.per_bit) > self.room;
        if full {
            return None;
        }
        self.free = t + waiting + takes;
        Some(self.free)
    }
}

/// A bucket of tokens: bits, or packets.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) per_second: f64,
    pub(super) most: f64,
    pub(super) packets: bool,
    pub(super) tokens: f64,
    pub(super) at: f64,
}

impl Bucket {
    pub(super) fn pass(&mut self, t: f64, bits: f64) -> bool {
        let cost = if self.packets { 1.0 } else { bits };
        self.tokens = (self.tokens + (t - self.at).max(0.0) * self.per_second / 1e9).min(self.most);
        self.at = self.at.max(t);
        let passes = self.tokens >= cost;
        self.tokens -= if passes { cost } else { 0.0 };
        passes
    }
}

/// A link of two states: packet by packet it begins and ends to fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    pub(super) begins: f64,
    pub(super) ends: f64,
    /// Part that arrives all the same.
    pub(super) arrives: f64,
    pub(super) bad: bool,
}

/// When a firewall forgets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cut {
    /// Silence, s.
    Silence(f64),
    /// A part of each run has passed.
    After(f64),
}

/// Times at which something pauses, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) chance: f64,
    pub(super) length: f64,
}

/// A change in the middle of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) point: usize,
    pub(super) part: f64,
    pub(super) gap: u64,
    pub(super) nanos: f64,
    pub(super) hops: u8,
}
