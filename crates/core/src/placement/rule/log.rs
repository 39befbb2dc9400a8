//! The log of a program: what became of each packet, in the order in which the kernel had them.
//!
//! ```text
//!   words   0: head   8: tail   16: │ run: 3 packets │ slot 2, unit 7 │ slot 2, unit 8 │ refused │ run: … │
//! ```
//!
//! A run reserves its words by advancing the head, and writes its first word last. The reader takes runs from the tail on, clears
//! their words, and advances the tail. So an engine that did not copy a payload knows when it arrived among the others, and decides as
//! if it had copied it itself. Of a log that is half full a program writes nothing more: it passes all packets.

use crate::placement::Nanos;

/// Word of the log: words reserved so far.
pub const LOG_HEAD: usize = 0;
/// Word of the log: words that the reader is done with.
pub const LOG_TAIL: usize = 8;
/// Word of the log: the first of the runs.
pub const LOG_ENTRIES: usize = 16;

pub(super) const PASSED_BITS: i32 = 8;
pub(super) const TIME_BITS: i32 = 16;

/// How a program keeps its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleLog {
    /// Words of all runs: a power of two, from 2⁸ for each word of a packet to 2²⁴. 0: there is no log.
    pub words: u32,
    /// Bytes of each packet's head that are kept behind its word, for an engine that needs more than slot and unit: a multiple of
    /// 8, within the rule's head.
    pub head_bytes: u32,
}

impl RuleLog {
    /// Words of a packet.
    #[inline]
    #[must_use]
    pub fn packet_words(&self) -> u32 {
        1 + self.head_bytes / 8
    }

    /// Words of memory: the words of a packet lie side by side, also where the log begins anew.
    #[must_use]
    pub fn memory(&self) -> usize {
        LOG_ENTRIES + (self.words + self.packet_words()) as usize
    }

    /// Whether a program with heads of so many bytes can have it.
    pub(super) fn is_possible(&self, head_bytes: u32) -> bool {
        let is_long = self.words >> 8 >= self.packet_words() && self.words <= 1 << 24;
        self.words == 0
            || (self.words.is_power_of_two()
                && is_long
                && self.head_bytes.is_multiple_of(8)
                && self.head_bytes <= head_bytes)
    }
}

/// The first word of a run: how many packets follow, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRun {
    /// Packets of the train. Each has its [words](RuleLog::packet_words) behind this one.
    pub packets: usize,
    /// So many at its front went up the socket; their words mean nothing.
    pub passed: usize,
    /// The time on the kernel's monotonic clock, 48 bits of it: 78 hours.
    pub time: Nanos,
}

impl LoggedRun {
    /// The run of this word; `None` if it is not written yet.
    #[must_use]
    pub fn read(word: u64) -> Option<LoggedRun> {
        let octet = |shift: i32| (word >> shift) as usize & 0xFF;
        let run = LoggedRun { packets: octet(0), passed: octet(PASSED_BITS), time: Nanos(word >> TIME_BITS) };
        (run.packets > 0).then_some(run)
    }

    /// Its word.
    #[must_use]
    pub fn word(&self) -> u64 {
        self.packets as u64 | (self.passed as u64) << PASSED_BITS | self.time.0 << TIME_BITS
    }
}

/// The word of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedPacket {
    /// Its payload is in its place.
    Placed {
        /// The slot.
        slot: u32,
        /// The unit in the slot.
        unit: u32,
    },
    /// It was dropped.
    Refused,
}

impl LoggedPacket {
    /// The packet of this word.
    #[must_use]
    pub fn read(word: u64) -> LoggedPacket {
        match (word as u32).checked_sub(1) {
            Some(unit) => LoggedPacket::Placed { slot: (word >> 32) as u32, unit },
            None => LoggedPacket::Refused,
        }
    }

    /// Its word.
    #[must_use]
    pub fn word(&self) -> u64 {
        match *self {
            LoggedPacket::Placed { slot, unit } => u64::from(slot) << 32 | (u64::from(unit) + 1),
            LoggedPacket::Refused => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let run = LoggedRun { packets: 46, passed: 45, time: Nanos(0x0000_FEDC_BA98_7654) };
        assert_eq!(LoggedRun::read(run.word()), Some(run));
        assert_eq!(LoggedRun::read(0), None);
        for packet in [LoggedPacket::Refused, LoggedPacket::Placed { slot: 31, unit: 0 }] {
            assert_eq!(LoggedPacket::read(packet.word()), packet);
        }
    }
}
