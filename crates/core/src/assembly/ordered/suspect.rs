//! A place the stream may have jumped to.
//!
//! One packet that names a place far from the stream's is either damaged, hostile, or the first after a long
//! outage or a restarted counter. It opens an object *beside* the window. Packets that follow it there confirm
//! it, and the window moves with nothing lost; if none do, the object is dismissed as [`Cause::Stray`] with the
//! window untouched.
//!
//! ```text
//!   forward    more than `ahead` beyond the newest     `confirm` packets in a row for it or its successor
//!   backward   late or doubled, several in a row       `resync` in a row for it or for what follows it
//! ```

use super::object::Suspect;
use super::{Cause, Found, Mark, Ordered, OrderedConfig, SUSPECT};
use crate::placement::{Nanos, Reject};
use std::ops::Range;

impl<B> Ordered<B> {
    /// Late or doubled packets in a row that are only refused: single ones are everyday and must cost no block.
    fn patience(&self) -> u32 {
        (self.config.resync / 32).max(1)
    }

    /// Open a suspect for a packet that was refused for `why`, or say so.
    pub(super) fn suspect(
        &mut self,
        number: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
        why: Reject,
        backward: bool,
    ) -> Result<usize, Reject> {
        match &self.suspect {
            Some(held) if held.backward == backward && held.live.number == number => return Ok(SUSPECT),
            Some(held) if held.backward == backward && self.follows(held, number) => {
                return self.follow_suspect(number, part, now, take, why);
            }
            Some(_) => self.disagree(why)?,
            None => {}
        }
        match &self.suspect {
            Some(_) => Err(why),
            None if backward && self.refused < self.patience() => Err(why),
            None => {
                // A late packet stays one where there is no block to doubt it with.
                let none = if backward { why } else { Reject::NoBuffer };
                let live = self.begin(number, 0, part, now, || take().ok_or(none))?;
                self.suspect = Some(Suspect { live, backward, packets: 0, contradicted: false, against: 0 });
                Ok(SUSPECT)
            }
        }
    }

    /// What follows the suspect confirms it as well as packets of its own do: the next object of a stream that
    /// jumped forward, any near one of a stream that restarted.
    fn follows(&self, held: &Suspect<B>, number: u64) -> bool {
        let OrderedConfig { ahead, resync, .. } = self.config;
        let most = if held.backward { ahead.max(u64::from(resync)) } else { ahead.max(1) };
        number.checked_sub(held.live.number).is_some_and(|beyond| (1..=most).contains(&beyond))
    }

    /// One more packet for a place that is neither the window nor the suspect. Several, and none for the suspect,
    /// and it gives way: it must not keep the window from following the stream elsewhere.
    fn disagree(&mut self, why: Reject) -> Result<(), Reject> {
        let Some(held) = &mut self.suspect else { return Ok(()) };
        held.against += 1;
        if held.against < self.config.confirm {
            return Err(why);
        }
        self.dismiss();
        Ok(())
    }

    fn follow_suspect(
        &mut self,
        number: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
        why: Reject,
    ) -> Result<usize, Reject> {
        let restart = self.config.resync.saturating_sub(self.patience());
        let Some(held) = &mut self.suspect else { return Err(why) };
        held.against = 0;
        held.packets = held.packets.saturating_add(1);
        let enough = match held.backward {
            true => held.packets >= restart,
            // Objects of few packets are over before enough have come; then nothing else may have come between.
            false => held.packets >= self.config.confirm || (held.packets >= 2 && !held.contradicted),
        };
        self.refused = self.refused.saturating_add(1);
        if !enough {
            return Err(why);
        }
        self.believe_now();
        match self.find(number, part) {
            Found::Live(at) => Ok(at),
            Found::New(from) => self.open(number, from, part, now, take),
            Found::Far => self.suspect(number, part, now, take, Reject::Stray, false),
            Found::Suspect | Found::Old(_) => Err(why),
        }
    }

    /// One more packet came for the suspect. Enough of them move the window there.
    pub(super) fn believe(&mut self) {
        let restart = self.config.resync.saturating_sub(self.patience());
        let Some(suspect) = &mut self.suspect else { return };
        suspect.packets = suspect.packets.saturating_add(1);
        suspect.against = 0;
        let enough = if suspect.backward { restart } else { self.config.confirm };
        self.refused = self.refused.saturating_add(1);
        if suspect.packets >= enough {
            self.believe_now();
        }
    }

    /// The window goes on: what was late or doubled was no restart, what was far ahead no jump. Agreement begins anew.
    #[cold]
    pub(super) fn doubt(&mut self) {
        self.refused = 0;
        if let Some(suspect) = &mut self.suspect {
            suspect.packets = 0;
            suspect.contradicted = true;
        }
    }

    /// The window came near the suspect by itself: it is no suspect any more. Without `now`, only where the window
    /// has room for it: nothing is retired before one more packet, or time, asks for it.
    pub(super) fn reach_suspect(&mut self, now: bool) {
        let newest = self.live.back().map(|l| l.number).or(self.horizon.map(|h| h.number));
        let (Some(suspect), Some(newest)) = (&self.suspect, newest) else { return };
        let number = suspect.live.number;
        if suspect.backward
            || number.saturating_sub(newest) > self.config.ahead
            || (!now && self.live.len() == self.config.window)
        {
            return;
        }
        if self.has_passed(number) || self.live.iter().any(|l| l.number == number) {
            return self.dismiss();
        }
        if let Some(suspect) = self.suspect.take() {
            self.admit(suspect.live);
            self.retire_complete();
        }
    }

    fn has_passed(&self, number: u64) -> bool {
        self.horizon.is_some_and(|horizon| Mark { number, offset: 0 } < horizon)
    }

    fn believe_now(&mut self) {
        let Some(suspect) = self.suspect.take() else { return };
        self.refused = 0;
        self.last_arrival = suspect.live.last;
        if suspect.backward {
            self.retire_all(Cause::Restart);
            self.epoch = self.epoch.saturating_add(1);
            self.horizon = None;
            self.tombstones.clear();
        } else if self.has_passed(suspect.live.number) {
            return self.hand_back(suspect.live);
        }
        self.admit(suspect.live);
        self.retire_complete();
    }

    /// When an unconfirmed suspect is dismissed: soon if the window went on since, else as late as a slow stream
    /// may need to confirm it.
    pub(super) fn suspect_due(&self) -> Option<Nanos> {
        let last = self.suspect.as_ref()?.live.last;
        let contradicted = self.last_arrival >= last;
        Some(last.plus(if contradicted { self.config.linger } else { self.config.flush }))
    }

    /// Nothing confirmed the suspect: hand its block back, marked as no part of the stream.
    pub(super) fn dismiss(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.hand_back(suspect.live);
        }
    }
}
