//! The meaning of a rule, and what its program is compared with.

use super::{
    ANCHOR, ARRIVED, BLOCK, HIGH, LoggedPacket, Otherwise, PlacementRule, RuleLoad, RuleOp, RuleStep,
    RuleTarget, RuleValue, SIZE, SLOT_HEAD_WORDS, STATE,
};
use crate::placement::{Reject, Rejects};
use core::ops::Range;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAnswer {
    /// Its payload is copied.
    Placed {
        /// Its slot.
        slot: u32,
        /// Its unit there.
        unit: u32,
        /// Where to: from the start of the arena, whose elements follow each other.
        address: u64,
        /// First byte of the payload in the packet.
        start: u32,
        /// Bytes from there on.
        length: u32,
        /// It was the last that its object lacked.
        is_complete: bool,
        /// The reader is woken.
        wakes: bool,
    },
    /// Dropped and counted.
    Refused(Reject),
    /// Up the socket.
    Passed,
}

impl RuleAnswer {
    /// What it becomes in the log; `None` if the packet goes up the socket.
    fn logged(&self) -> Option<LoggedPacket> {
        match *self {
            Self::Placed { slot, unit, .. } => Some(LoggedPacket::Placed { slot, unit }),
            Self::Refused(_) => Some(LoggedPacket::Refused),
            Self::Passed => None,
        }
    }
}

/// What became of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainAnswer {
    /// So many packets at its front go up the socket; the others are done.
    pub passed: usize,
    /// The reader is woken, if only by an empty datagram.
    pub wakes: bool,
}

/// What a rule knows beside the packet: slots and parameters, as the program has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTable {
    /// The words of all slots.
    pub slots: Vec<u64>,
    /// The numbers that may change.
    pub parameters: Vec<u64>,
    /// What became of trains, if the rule has a log.
    pub log: Vec<LoggedTrain>,
}

/// The packets of a train with what is kept of their heads, and how many at its front went up the socket.
pub type LoggedTrain = (Vec<(LoggedPacket, Vec<u8>)>, usize);

impl RuleTable {
    /// All slots closed, all parameters 0.
    #[must_use]
    pub fn new(rule: &PlacementRule) -> RuleTable {
        let words = rule.shape.words() * rule.shape.slots as usize;
        RuleTable { slots: vec![0; words], parameters: vec![0; rule.parameters.into()], log: Vec::new() }
    }

    /// The words of a slot.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn slot(&mut self, rule: &PlacementRule, slot: u32) -> &mut [u64] {
        let words = rule.shape.words();
        &mut self.slots[slot as usize * words..][..words]
    }

    /// Empties a slot and opens it for this object.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn open(&mut self, rule: &PlacementRule, slot: u32, number: u64) {
        let words = self.slot(rule, slot);
        words.fill(0);
        words[STATE] = number << 1 | 1;
    }
}

/// What a program counts. Every packet is placed, refused or passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Packets placed.
    pub placed: u64,
    /// Their payload in bytes.
    pub placed_bytes: u64,
    /// Objects that became complete.
    pub completed: u64,
    /// Packets that went up the socket.
    pub passed: u64,
    /// Runs: one for each train.
    pub runs: u64,
    /// Runs with packets that went up the socket.
    pub passing_runs: u64,
    /// Runs that woke the reader by an empty datagram.
    pub wakes: u64,
    /// Packets refused, by reason.
    pub refused: Rejects,
}

impl RuleCounts {
    /// Packets judged.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.placed + self.passed + self.refused.total()
    }

    /// Runs after which nothing was left for the socket. The kernel counts each as a drop of the socket.
    #[must_use]
    pub fn silent_runs(&self) -> u64 {
        self.runs.saturating_sub(self.passing_runs + self.wakes)
    }

    /// Adds all of `other`'s counts.
    pub fn merge(&mut self, other: &RuleCounts) {
        self.placed += other.placed;
        self.placed_bytes += other.placed_bytes;
        self.completed += other.completed;
        self.passed += other.passed;
        self.runs += other.runs;
        self.passing_runs += other.passing_runs;
        self.wakes += other.wakes;
        self.refused.merge(&other.refused);
    }
}

/// Where the later packets of a train went: those that follow each other down to the last one placed, and the span of all others. So a
/// train that goes back to the start of its region meets nothing.
#[derive(Debug)]
struct Later {
    run: Range<u64>,
    others: Range<u64>,
}

impl Default for Later {
    fn default() -> Self {
        let nothing = Range { start: u64::MAX, end: 0 };
        Self { run: nothing.clone(), others: nothing }
    }
}

impl Later {
    fn meets(&self, bytes: &Range<u64>) -> bool {
        [&self.run, &self.others].into_iter().any(|of| bytes.start < of.end && bytes.end > of.start)
    }

    fn note(&mut self, bytes: Range<u64>) {
        if bytes.end == self.run.start {
            self.run.start = bytes.start;
        } else {
            let (others, run) = (&self.others, &self.run);
            self.others = others.start.min(run.start)..others.end.max(run.end);
            self.run = bytes;
        }
    }
}

/// Ends the judgement of a packet.
type Judged<T> = Result<T, Otherwise>;

impl RuleLoad {
    /// The field in a packet that is long enough.
    fn read(&self, packet: &[u8]) -> u64 {
        let word = &packet[usize::from(self.byte)..][..usize::from(self.width)];
        let add = |word: u64, octet: &u8| word << 8 | u64::from(*octet);
        let word = if self.is_big_endian { word.iter().fold(0, add) } else { word.iter().rev().fold(0, add) };
        word >> self.lsb & (u64::MAX >> (64 - self.bits))
    }
}

impl PlacementRule {
    /// Judges the packets of a train from the last to the first, as the program does: so what goes up the socket is a front of
    /// the train. `place` copies.
    pub fn judge_train(
        &self,
        packets: &[&[u8]],
        table: &mut RuleTable,
        counts: &mut RuleCounts,
        mut place: impl FnMut(&RuleAnswer, &[u8]),
    ) -> TrainAnswer {
        let mut train = TrainAnswer::default();
        counts.runs += 1;
        if packets.len() > self.train() as usize {
            counts.passed += packets.len() as u64;
            counts.passing_runs += 1;
            return TrainAnswer { passed: packets.len(), wakes: true };
        }
        let (mut logged, mut later) = (Vec::new(), Later::default());
        for (at, packet) in packets.iter().enumerate().rev() {
            let answer = self.judge_before(packet, table, &later);
            let head = |of| match of {
                LoggedPacket::Placed { .. } => packet[..self.log.head_bytes as usize].to_vec(),
                LoggedPacket::Refused => Vec::new(),
            };
            logged.extend(answer.logged().map(|of| (of, head(of))));
            match answer {
                RuleAnswer::Placed { address, start, length, is_complete, wakes, .. } => {
                    later.note(address..address.saturating_add(length.into()));
                    counts.placed += 1;
                    counts.placed_bytes += u64::from(length);
                    counts.completed += u64::from(is_complete);
                    train.wakes |= wakes;
                    place(&answer, &packet[start as usize..][..length as usize]);
                }
                RuleAnswer::Refused(why) => counts.refused.add(why),
                RuleAnswer::Passed => {
                    train.passed = at + 1;
                    counts.passed += at as u64 + 1;
                    break;
                }
            }
        }
        if self.log.words > 0 {
            logged.reverse();
            table.log.push((logged, train.passed));
        }
        if train.passed > 0 {
            counts.passing_runs += 1;
        } else if train.wakes {
            counts.wakes += 1;
        }
        train.wakes |= train.passed > 0;
        train
    }

    /// Judges one packet. If it is placed, the slots know it; the caller copies.
    pub fn judge(&self, packet: &[u8], table: &mut RuleTable) -> RuleAnswer {
        self.judge_before(packet, table, &Later::default())
    }

    /// Judges a packet of a train whose later packets went to these bytes.
    fn judge_before(&self, packet: &[u8], table: &mut RuleTable, later: &Later) -> RuleAnswer {
        match self.judged(packet, table, later) {
            Ok(placed) => placed,
            Err(Otherwise::Pass) => RuleAnswer::Passed,
            Err(Otherwise::Refuse(why)) => RuleAnswer::Refused(why),
        }
    }

    fn judged(&self, packet: &[u8], table: &mut RuleTable, later: &Later) -> Judged<RuleAnswer> {
        if packet.is_empty() {
            return Err(Otherwise::Refuse(Reject::Truncated));
        }
        if packet.len() < self.head_bytes as usize {
            return Err(self.doubt(Reject::Truncated));
        }
        let values = self.values(packet, &table.parameters)?;
        let value = |of: RuleValue| values[usize::from(of.0)];
        let slot = u32::try_from(value(self.slot)).ok().filter(|&slot| slot < self.shape.slots);
        let slot = slot.ok_or(Otherwise::Pass)?;
        let words = table.slot(self, slot);
        let number = self.numbered(self.number.map(value), words[STATE])?;
        let (unit, length) = (value(self.unit), value(self.length));
        let unit_bytes = u64::from(self.shape.unit_bytes);
        if unit >= u64::from(self.shape.units) || !(1..=unit_bytes).contains(&length) {
            return Err(Otherwise::Pass);
        }
        let address = self.address((slot, words[BLOCK]), unit * unit_bytes, &values)?;
        let is_at = matches!(self.target, RuleTarget::At { .. });
        if is_at && later.meets(&(address..address.saturating_add(length))) {
            return Err(Otherwise::Pass);
        }
        let end = unit * unit_bytes + length;
        let is_last = self.last.is_some_and(|last| value(last) != 0);
        self.agrees(words, end, is_last)?;
        if let RuleTarget::At { anchor, .. } = self.target {
            let anchor = value(anchor).wrapping_add(1);
            match words[ANCHOR] {
                0 => words[ANCHOR] = anchor,
                known if known != anchor => return Err(self.doubt(Reject::BadField)),
                _ => {}
            }
        }
        let (bits, bit) = (SLOT_HEAD_WORDS + (unit >> 6) as usize, 1 << (unit & 63));
        if words[bits] & bit != 0 {
            return Err(self.repeated);
        }
        words[bits] |= bit;
        if is_last {
            words[SIZE] = end;
        }
        if self.last.is_some() {
            words[HIGH] = words[HIGH].max(end);
        }
        words[ARRIVED] += 1;
        let total = match self.last {
            Some(_) => words[SIZE].div_ceil(unit_bytes),
            None => u64::from(self.shape.units),
        };
        let is_complete = words[ARRIVED] == total;
        let (begun, completed) = (u64::from(self.wake.begun), u64::from(self.wake.completed));
        let wakes = (begun > 0 && words[ARRIVED] == 1 && number % begun == 0)
            || (completed > 0 && is_complete && number % completed == completed - 1);
        let (unit, length) = (unit as u32, length as u32);
        let start = self.start + self.skip.map_or(0, value) as u32;
        Ok(RuleAnswer::Placed { slot, unit, address, start, length, is_complete, wakes })
    }

    /// Where a unit of the object in this slot goes, whose block is that. A unit begins here in its slot.
    fn address(&self, (slot, block): (u32, u64), begin: u64, values: &[u64]) -> Judged<u64> {
        let value = |of: RuleValue| values[usize::from(of.0)];
        let (element, elements) = self.arena();
        let within = match self.target {
            RuleTarget::Block { offset: Some(offset), .. } => value(offset),
            _ => begin,
        };
        let address = match self.target {
            RuleTarget::Slot => u64::from(slot) * element as u64 + within,
            RuleTarget::Block { .. } => block.saturating_mul(element as u64).saturating_add(within),
            RuleTarget::At { address, .. } => value(address),
        };
        let (index, at) = match self.target {
            RuleTarget::Block { .. } => (block, within),
            _ => (address / element as u64, address % element as u64),
        };
        let unit_bytes = u64::from(self.shape.unit_bytes);
        let is_inside = index < u64::from(elements) && at <= element as u64 - unit_bytes;
        is_inside.then_some(address).ok_or(Otherwise::Pass)
    }

    fn values(&self, packet: &[u8], parameters: &[u64]) -> Judged<Vec<u64>> {
        let mut values: Vec<u64> = Vec::with_capacity(self.steps.len());
        let mut left_out = 0;
        for step in &self.steps {
            if left_out > 0 {
                left_out -= 1;
                match step {
                    RuleStep::Let(_) => values.push(0),
                    RuleStep::Find { columns, .. } => values.extend((0..*columns).map(|_| 0)),
                    _ => {}
                }
                continue;
            }
            let value = |of: RuleValue| values[usize::from(of.0)];
            match *step {
                RuleStep::Let(op) => {
                    let value = match op {
                        RuleOp::Load(load) => load.read(packet),
                        RuleOp::Length => packet.len() as u64,
                        RuleOp::Number(number) => number,
                        RuleOp::Parameter(at) => parameters[usize::from(at)],
                        RuleOp::Add(a, b) => value(a).wrapping_add(value(b)),
                        RuleOp::Subtract(a, b) => value(a).wrapping_sub(value(b)),
                        RuleOp::Multiply(a, b) => value(a).wrapping_mul(value(b)),
                        RuleOp::Divide(a, by) => value(a) / u64::from(by),
                        RuleOp::Remainder(a, by) => value(a) % u64::from(by),
                    };
                    values.push(value);
                }
                RuleStep::Within { value: of, least, most, otherwise } => {
                    if !(least..=most).contains(&value(of)) {
                        return Err(otherwise);
                    }
                }
                RuleStep::AtMost { value: of, limit, otherwise } => {
                    if value(of) > value(limit) {
                        return Err(otherwise);
                    }
                }
                RuleStep::Find { key, first, rows, columns, otherwise } => {
                    let (key, columns) = (value(key), usize::from(columns));
                    let rows = rows_of(usize::from(first), usize::from(rows), columns + 1);
                    let row = rows.into_iter().find(|row| parameters[row.start] == key).ok_or(otherwise)?;
                    values.extend(&parameters[row.start + 1..row.end]);
                }
                RuleStep::Words { byte, count, value, otherwise } => {
                    let from = packet.get(usize::from(byte)..).unwrap_or_default();
                    let words = from.as_chunks::<8>().0.get(..usize::from(count)).ok_or(otherwise)?;
                    if words.iter().any(|word| u64::from_be_bytes(*word) != value) {
                        return Err(otherwise);
                    }
                }
                RuleStep::Only { value: of, least, steps } => {
                    if value(of) < least {
                        left_out = steps;
                    }
                }
            }
        }
        Ok(values)
    }

    /// The number, if the slot is open for its object.
    fn numbered(&self, number: Option<u64>, state: u64) -> Judged<u64> {
        let is_open = state & 1 == 1;
        let Some(number) = number else {
            return if is_open { Ok(0) } else { Err(Otherwise::Pass) };
        };
        let above = 64 - u32::from(self.number_bits);
        let number = number & (u64::MAX >> above);
        let behind = (number.wrapping_sub(state >> 1) << above).cast_signed() >> above;
        match behind {
            0 if is_open => Ok(number),
            0 => Err(self.doubt(Reject::Late)),
            1.. => Err(Otherwise::Pass),
            _ if behind < -i64::from(self.horizon()) => Err(Otherwise::Pass),
            _ => Err(self.doubt(Reject::Late)),
        }
    }

    /// Whether a part that ends at `end` is compatible with what is known of its object's size.
    fn agrees(&self, words: &[u64], end: u64, is_last: bool) -> Judged<()> {
        if self.last.is_none() {
            return Ok(());
        }
        match words[SIZE] {
            0 if is_last && words[HIGH] > end => Err(self.doubt(Reject::Outside)),
            0 => Ok(()),
            size if is_last && size != end => Err(self.doubt(Reject::WrongSize)),
            size if end > size => Err(self.doubt(Reject::Outside)),
            _ => Ok(()),
        }
    }
}

/// Where the rows of a table are among the parameters.
pub(super) fn rows_of(first: usize, rows: usize, columns: usize) -> Vec<Range<usize>> {
    (0..rows).map(|row| first + row * columns..first + (row + 1) * columns).collect()
}
