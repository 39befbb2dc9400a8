//! Objects of which little arrived: what they may hold together.
//!
//! A packet says how long its object is, and a forged one says anything. So large objects are unconfirmed until a second part
//! arrives, which follows within microseconds if the sender is honest. If all of them together hold more than a share, those
//! to which nothing was added for an eighth of their timeout retire, the largest first: at that pace they would not complete.
//! So what is announced does not keep memory from what arrives, and many honest senders that begin at the same moment lose
//! nothing.
//!
//! A very large object gets memory for 1/[`EVIDENCE`] of what it announces at first, and all of it when half of that has
//! arrived: who announces gigabytes without sending megabytes keeps memory from nobody. A part that lies further ahead gets its
//! place too, as long as the share has room.

/// Smaller objects are not counted.
pub(super) const LARGE: u64 = 1 << 20;
/// The second part comes within this part of the timeout, if the object is to complete: datagrams have at most 64 KiB, so it
/// has sixteen parts or more.
pub(super) const GRACE: u64 = 8;

/// See the module.
pub(super) const EVIDENCE: u64 = 256;

/// What unconfirmed objects hold.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    bytes: u64,
    most: u64,
    /// Larger objects get memory in two stages.
    staged: u64,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        Self { bytes: 0, most: u64::MAX, staged: u64::MAX }
    }
}

impl Unconfirmed {
    /// An object with this room begins with one part of it. Returns what it counts for.
    pub(super) fn announce(&mut self, room: u64) -> u64 {
        let counted = if room >= LARGE && self.most < u64::MAX { room } else { 0 };
        self.bytes += counted;
        counted
    }

    /// An object that counted for this is confirmed, or has ended.
    #[inline]
    pub(super) fn settle(&mut self, counted: &mut u64) {
        if *counted > 0 {
            self.bytes -= std::mem::take(counted);
        }
    }

    /// At most so much; objects that announce more than `staged` get memory in two stages.
    pub(super) fn limit(&mut self, bytes: u64, staged: u64) {
        (self.most, self.staged) = (bytes, staged);
    }

    /// Memory for an object of `size` bytes that begins with a part up to `end`.
    #[inline]
    pub(super) fn first_room(&self, size: u64, end: u64) -> u64 {
        if size <= self.staged { size } else { end.max(size / EVIDENCE) }
    }

    /// Whether `bytes` of an object that announces `size` are enough for all of its memory.
    #[inline]
    pub(super) fn is_earned(&self, bytes: u64, size: u64) -> bool {
        size <= self.staged || bytes >= size / EVIDENCE / 2
    }

    /// Whether there is room for so much more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.most
    }

    /// What they hold.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > self.most
    }
}
