//! What must hold, kept apart from how the assembly does it: every payload that was accepted, and what became of it.
//!
//! ```text
//!   accept ─▶ waiting, by (object, offset) ─▶ retired once, in order, byte for byte
//!                                          └▶ stray: given back, told as such
//!   honest worlds: parts and gaps, laid end to end, are the stream from its first packet to its last
//! ```

use crate::sender::{Sender, Spot};
use skyhaul_core::assembly::{Cause, Mark, Retired};
use skyhaul_core::placement::Placement;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Says what does not hold.
pub type Held<T = ()> = Result<T, String>;

/// `Err` with the text unless the condition holds.
macro_rules! hold {
    ($condition:expr, $($text:tt)+) => {
        match $condition {
            true => {}
            false => return Err(format!($($text)+)),
        }
    };
}
pub(crate) use hold;

/// Everything that was accepted, and what was told of it.
#[derive(Debug, Default)]
pub struct Model {
    /// Accepted, not yet retired. A place may be there twice: in the window and in a suspect.
    waiting: BTreeMap<(u64, u64), Vec<Vec<u8>>>,
    ever: BTreeSet<(u64, u64)>,
    last: Option<(u32, Mark)>,
    /// Payloads accepted.
    pub accepted: u64,
    /// Payloads retired as part of the stream.
    pub retired: u64,
    /// Payloads given back as no part of it.
    pub strays: u64,
    /// Places retired as there, in order of retirement.
    pub there: BTreeSet<Spot>,
    /// Positions told as missing, as ranges; of streams whose positions are told.
    pub missing: Vec<Range<u64>>,
    /// Where the told part of the stream ends.
    end: Option<u64>,
}

impl Model {
    /// A payload was accepted at this place.
    pub fn accept(&mut self, placement: &Placement, payload: &[u8]) {
        let key = (placement.key.number, placement.offset);
        self.ever.insert(key);
        self.waiting.entry(key).or_default().push(payload.to_vec());
        self.accepted += 1;
    }

    /// Whether something was accepted at this place before.
    #[must_use]
    pub fn knows(&self, placement: &Placement) -> bool {
        self.ever.contains(&(placement.key.number, placement.offset))
    }

    /// A part, or a stray, came out.
    ///
    /// # Errors
    /// What does not hold.
    pub fn retire(&mut self, part: &Retired<Vec<u8>>, sender: &Sender) -> Held {
        let range = &part.range;
        let mut from = range.start;
        for hole in &part.missing {
            hold!(
                hole.start >= from && hole.start < hole.end && hole.end <= range.end,
                "holes out of order: {part:?}"
            );
            from = hole.end;
        }
        let (count, bytes) = self.take(part)?;
        hold!(
            bytes == part.received(),
            "{} bytes told of object {:?}, {bytes} accepted",
            part.received(),
            part.key
        );
        if part.cause == Cause::Stray {
            self.strays += count;
            return Ok(());
        }
        self.retired += count;
        hold!(
            part.cause != Cause::Complete || part.missing.is_empty(),
            "complete with holes: {:?}",
            part.missing
        );
        self.in_order(part)?;
        if sender.counts_gaps() { self.tell_positions(part, sender) } else { Ok(()) }
    }

    /// Take what lies in the part from what waits: how many payloads, of how many bytes.
    fn take(&mut self, part: &Retired<Vec<u8>>) -> Held<(u64, u64)> {
        let (mut count, mut bytes) = (0, 0);
        let object = part.key.number;
        let mut emptied = Vec::new();
        for (&(_, offset), payloads) in
            self.waiting.range_mut((object, part.range.start)..(object, part.range.end))
        {
            if part.missing.iter().any(|hole| hole.contains(&offset)) {
                continue;
            }
            let here = |payload: &Vec<u8>| {
                part.block.get(offset as usize..).is_some_and(|rest| rest.starts_with(payload))
            };
            let Some(at) = payloads.iter().position(here) else { continue };
            let length = payloads.swap_remove(at).len();
            count += 1;
            bytes += length as u64;
            if part.cause != Cause::Stray {
                self.there.insert(Spot { object, offset, length: length as u32 });
            }
            if payloads.is_empty() {
                emptied.push((object, offset));
            }
        }
        emptied.iter().for_each(|key| drop(self.waiting.remove(key)));
        Ok((count, bytes))
    }

    fn in_order(&mut self, part: &Retired<Vec<u8>>) -> Held {
        let start = Mark { number: part.key.number, offset: part.range.start };
        let end = Mark { number: part.key.number, offset: part.range.end };
        match self.last {
            Some((epoch, last)) if epoch == part.epoch => {
                hold!(last <= start, "out of order: {start:?} after {last:?}");
                let Some(after) = part.after else {
                    return Err(format!("{start:?} follows nothing, but {last:?} was"));
                };
                hold!(
                    last <= after && after <= start,
                    "{start:?} is said to follow {after:?}, but {last:?} was"
                );
            }
            Some((epoch, _)) => {
                hold!(part.epoch == epoch + 1 && part.after.is_none(), "epoch {} after {epoch}", part.epoch);
            }
            None => hold!(part.after.is_none() && part.epoch == 0, "the first part follows {:?}", part.after),
        }
        self.last = Some((part.epoch, end));
        Ok(())
    }

    fn tell_positions(&mut self, part: &Retired<Vec<u8>>, sender: &Sender) -> Held {
        let unit = sender.object_bytes() / sender.units;
        let linear = |mark: Mark| mark.number.wrapping_mul(sender.units).wrapping_add(mark.offset / unit);
        let start = Mark { number: part.key.number, offset: part.range.start };
        if let Some(after) = part.after {
            let gap = sender.layout.units_between(after.number, start.number);
            let told = gap.map(|gap| gap.wrapping_add(start.offset / unit).wrapping_sub(after.offset / unit));
            let counted = linear(start).wrapping_sub(linear(after));
            hold!(told.is_none_or(|told| told == counted), "a gap of {counted} is told as {told:?}");
            hold!(self.end == Some(linear(after)), "told up to {:?}, this part follows {after:?}", self.end);
            self.miss(linear(after)..linear(start));
        }
        for hole in &part.missing {
            let at = |offset| linear(Mark { number: part.key.number, offset });
            self.miss(at(hole.start)..at(hole.end));
        }
        self.end = Some(linear(Mark { number: part.key.number, offset: part.range.end }));
        Ok(())
    }

    fn miss(&mut self, positions: Range<u64>) {
        match self.missing.last_mut() {
            Some(last) if last.end == positions.start => last.end = positions.end,
            _ if positions.is_empty() => {}
            _ => self.missing.push(positions),
        }
    }

    /// Nothing more will come out: everything that was accepted is accounted for.
    ///
    /// # Errors
    /// What does not hold.
    pub fn finish(&self) -> Held {
        hold!(
            self.waiting.is_empty(),
            "{} payloads never came out",
            self.waiting.values().map(Vec::len).sum::<usize>()
        );
        hold!(
            self.accepted == self.retired + self.strays,
            "{} accepted, {} out",
            self.accepted,
            self.retired + self.strays
        );
        Ok(())
    }
}
