//! A place the stream may have jumped to.
//!
//! One packet that names a place far from the stream's is either damaged, hostile, or the first after a long
//! outage or a restarted counter. It opens an object *beside* the window. Packets that follow it there confirm
//! it, and the window moves with nothing lost; if none do, the object is dismissed as [`Cause::Stray`] with the
//! window untouched.

use super::{Assembly, Cause, Coverage, Live, SUSPECT};
use crate::placement::{Nanos, ObjectId, Reject};

#[derive(Debug)]
pub(super) struct Suspect<B> {
    pub(super) live: Live<B>,
    /// It is behind the window: believing it begins a new epoch.
    backward: bool,
    packets: u32,
}

impl<B> Assembly<B> {
    /// Open a suspect for a packet that was refused for `why`, or say so.
    pub(super) fn suspect(
        &mut self,
        object: ObjectId,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
        why: Reject,
        backward: bool,
    ) -> Result<usize, Reject> {
        if let Some(held) = &self.suspect {
            // The suspect's own successor confirms it as well as packets of its own do.
            let successor = held.backward == backward && object.0.checked_sub(held.live.object.0) == Some(1);
            if !successor || (backward && self.refused < self.config.resync) {
                return Err(why);
            }
            self.believe_now();
            return match self.find(object, &(0..0)) {
                super::Found::Live(at) => Ok(at),
                super::Found::New(from) => self.open(object, from, now, take),
                _ => Err(why),
            };
        }
        // Single duplicates are everyday and must cost no block.
        if backward && self.refused < self.config.resync / 8 {
            return Err(why);
        }
        let block = take().ok_or(Reject::NoBuffer)?;
        let geometry = self.config.geometry;
        let seen = Coverage::new(geometry.grain, geometry.object_bytes);
        let live = Live { object, block, seen, from: 0, size: None, first: now, last: now };
        self.suspect = Some(Suspect { live, backward, packets: 0 });
        Ok(SUSPECT)
    }

    /// One more packet came for the suspect. Enough of them move the window there.
    pub(super) fn believe(&mut self) {
        let Some(suspect) = &mut self.suspect else { return };
        suspect.packets += 1;
        if suspect.backward {
            self.refused = self.refused.saturating_add(1);
        }
        let enough = match suspect.backward {
            false => suspect.packets >= self.config.confirm,
            true => self.refused >= self.config.resync,
        };
        if enough {
            self.believe_now();
        }
    }

    /// The window came near the suspect by itself: it is no suspect any more.
    pub(super) fn reach_suspect(&mut self) {
        let (Some(suspect), Some(newest)) = (&self.suspect, self.live.back()) else { return };
        let (object, newest) = (suspect.live.object, newest.object);
        if suspect.backward || object.0.saturating_sub(newest.0) > self.config.ahead {
            return;
        }
        if self.horizon.is_some_and(|h| object < h.object) || self.live.iter().any(|l| l.object == object) {
            return self.dismiss();
        }
        if let Some(suspect) = self.suspect.take() {
            self.admit(suspect.live);
        }
    }

    fn believe_now(&mut self) {
        let Some(suspect) = self.suspect.take() else { return };
        self.refused = 0;
        if suspect.backward {
            self.retire_all(Cause::Restart);
            self.epoch += 1;
            self.horizon = None;
            self.tombstones.clear();
        }
        self.hint = self.admit(suspect.live);
        self.retire_complete();
    }

    /// Nothing confirmed the suspect: hand its block back, marked as no part of the stream.
    pub(super) fn dismiss(&mut self) {
        let Some(Suspect { live, .. }) = self.suspect.take() else { return };
        let range = live.seen.low().unwrap_or(0)..live.seen.high();
        self.retired.push_back(super::Retired {
            object: live.object,
            epoch: self.epoch,
            block: live.block,
            missing: live.seen.missing(range.clone()),
            range,
            after: None,
            first: live.first,
            last: live.last,
            cause: Cause::Stray,
        });
    }
}
