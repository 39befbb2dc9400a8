//! The part of a stream that takes what the [log of a program](super::placer) says.

use super::placer::{Placer, TakenFromLog, Until};
use super::stream::Stream;
use skyhaul_core::assembly::{Slot, Window};
use skyhaul_core::placement::rule::{LoggedPacket, SlotShape};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_io::bpf;
use skyhaul_io::memory::{Block, Pool};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bits of the kernel's time in the log.
const TIME_MASK: u64 = u64::MAX >> 16;

/// The time of this host's clock at a time of the kernel's monotonic clock that has just been.
struct Clock {
    monotonic: u64,
    real: Nanos,
}

impl Clock {
    fn now() -> Clock {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { monotonic: bpf::now(), real: Nanos::from(real) }
    }

    fn real(&self, time: Nanos) -> Nanos {
        let ago = self.monotonic.wrapping_sub(time.0) & TIME_MASK;
        // A run may have ended after this clock was read.
        let ahead = time.0.wrapping_sub(self.monotonic) & TIME_MASK;
        if ahead < ago { self.real.plus(Nanos(ahead)) } else { Nanos(self.real.0.saturating_sub(ago)) }
    }
}

impl Stream {
    /// Takes what the log has, in order.
    pub(super) fn take_log(&mut self, until: Until, now: Nanos) -> TakenFromLog {
        let mut taken = TakenFromLog::default();
        let Some(mut placer) = self.placer.take() else { return taken };
        let mut clock = None;
        while let Some((time, has_front)) = placer.next_run(until) {
            let time = clock.get_or_insert_with(Clock::now).real(time);
            if has_front {
                self.arrivals.at(Some(time));
            } else {
                self.train_arrived(Some(time));
            }
            let run = std::mem::take(&mut placer.run);
            let mut rest = &run[..];
            while let Some((&first, behind)) = rest.split_first() {
                let LoggedPacket::Placed { slot, unit } = first else {
                    (taken.packets, self.report.packets) = (taken.packets + 1, self.report.packets + 1);
                    self.refused(Reject::Truncated, 1);
                    rest = behind;
                    continue;
                };
                let follows = |&(at, packet): &(u32, &LoggedPacket)| {
                    *packet == LoggedPacket::Placed { slot, unit: unit + at }
                };
                let count = 1 + (1..).zip(behind).take_while(follows).count();
                rest = &rest[count..];
                let bytes = count as u64 * placer.packet_bytes;
                taken = TakenFromLog { packets: taken.packets + count as u64, bytes: taken.bytes + bytes };
                self.placed_run(&mut placer, (slot, unit), count as u64, now);
            }
            placer.run = run;
        }
        self.placer = Some(placer);
        taken
    }

    /// Packets that lie side by side in an object: at once, as far as they have a place.
    fn placed_run(&mut self, placer: &mut Placer<Block>, (slot, unit): (u32, u32), count: u64, now: Nanos) {
        self.report.packets += count;
        self.report.bytes += count * placer.packet_bytes;
        let SlotShape { units, unit_bytes, .. } = placer.shape;
        let (each, Some(object)) = (u64::from(unit_bytes), placer.object(slot)) else {
            // There is no such slot in the log: it was open while these were placed.
            return self.refused(Reject::Late, count);
        };
        let place = Placement {
            key: Key::of(object.number),
            offset: u64::from(unit) * each,
            start: 0,
            length: count * each,
            size: Some(u64::from(units) * each),
            number_bits: 0,
        };
        let at_once = count > 1 && self.assembly.goes_on(&place);
        let (parts, packets) = if at_once { (1, count) } else { (count, 1) };
        for part in 0..parts {
            let length = packets * each;
            let place = Placement { offset: place.offset + part * length, length, ..place };
            if let Err(why) = self.commit_placed(placer, slot, place, (packets, now)) {
                self.refused(why, packets);
            }
        }
    }

    fn commit_placed(
        &mut self,
        placer: &mut Placer<Block>,
        slot: u32,
        place: Placement,
        (packets, now): (u64, Nanos),
    ) -> Result<(), Reject> {
        let element = placer.object(slot).map(|object| object.element);
        let room = |_: u64, old: Option<Block>| placer.give(place.key.number).ok_or(old);
        let mut reserved = self.assembly.reserve(place, now, room)?;
        // The object was delivered, and began anew in other memory.
        if Some(reserved.block().index()) != element {
            return Err(Reject::Late);
        }
        let is_suspect = reserved.is_suspect();
        reserved.commit(now);
        self.placed(&place, packets, is_suspect, now);
        Ok(())
    }

    /// Closes the slots of objects that have left the window, before anything reads them.
    pub(super) fn close_left(&mut self) {
        if let Some(placer) = &mut self.placer {
            placer.close(|object| object.block.is_none() && !self.assembly.holds(object.number));
        }
    }

    /// Opens slots for the objects to come.
    pub(super) fn open_ahead(&mut self, pool: &Pool) {
        let Some(placer) = self.placer.as_mut().filter(|placer| !placer.has_ended) else { return };
        placer.release();
        let Some(next) = self.assembly.next_number() else { return };
        let wanted =
            next.saturating_sub(self.assembly.config().window as u64 + 1)..next.saturating_add(placer.ahead);
        placer.close(|object| object.block.is_some() && !wanted.contains(&object.number));
        let mut spare = pool.free().saturating_sub(self.leaves.max(pool.blocks() / 4));
        placer.open(next, |_| {
            spare = spare.checked_sub(1)?;
            let block = pool.take()?;
            Some((block.index(), block))
        });
    }

    /// Runs `act` while nothing is placed, after all that was placed before.
    pub(super) fn while_held(&mut self, now: Nanos, act: impl FnOnce(&mut Stream)) {
        if let Some(placer) = &self.placer {
            placer.hold();
            self.take_log(Until::End, now);
        }
        act(self);
        self.close_left();
        if let Some(placer) = &self.placer {
            placer.go_on();
        }
    }

    /// Nothing is placed from now on: all goes up.
    pub(super) fn end_placing(&mut self, now: Nanos) {
        let Some(placer) = &mut self.placer else { return };
        placer.has_ended = true;
        placer.close(|_| true);
        self.take_log(Until::End, now);
        if let Some(placer) = &mut self.placer {
            placer.release();
        }
    }
}
