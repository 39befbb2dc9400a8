//! A place the stream may have jumped to.
//!
//! A packet far from the stream's position is either damaged, hostile, or the first after a long outage or a
//! restart. It opens an object *beside* the window. Packets that follow it there confirm it, and the window
//! moves without loss; if none do, the object is dismissed as [`Cause::Stray`] and the window is unchanged.
//!
//! ```text
//!   forward    more than `ahead` beyond the newest     `confirm` packets in a row for it or its successor
//!   backward   late or duplicate, several in a row     `resync` in a row for it or for what follows it
//! ```

use super::{Found, Ordered, OrderedConfig, SUSPECT, Suspect};
use crate::assembly::{Cause, Mark};
use crate::placement::{Nanos, Reject};
use std::ops::Range;

impl<B> Ordered<B> {
    /// Consecutive late or duplicate packets that are only rejected: single ones are common and must not cost
    /// a block.
    fn patience(&self) -> u32 {
        (self.config.resync / 32).max(1)
    }

    /// Open a suspect for a packet that was rejected for `why`, or return the reason.
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
                // Without a block for a suspect, a late packet is just late.
                let none = if backward { why } else { Reject::NoBuffer };
                let live = self.begin(number, 0, part, now, || take().ok_or(none))?;
                self.suspect = Some(Suspect { live, backward, packets: 0, contradicted: false, against: 0 });
                Ok(SUSPECT)
            }
        }
    }

    /// Packets of the objects after the suspect confirm it too: the next object after a jump forward, any
    /// near one after a restart.
    fn follows(&self, held: &Suspect<B>, number: u64) -> bool {
        let OrderedConfig { ahead, resync, .. } = self.config;
        let most = if held.backward { ahead.max(u64::from(resync)) } else { ahead.max(1) };
        number.checked_sub(held.live.number).is_some_and(|beyond| (1..=most).contains(&beyond))
    }

    /// A packet that belongs neither to the window nor to the suspect. After several of them and none for the
    /// suspect, the suspect is dismissed, so that the window can follow the stream elsewhere.
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
            // Objects of few packets end before enough have arrived; then no other packet may have arrived
            // between.
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

    /// Count a packet for the suspect. Enough of them move the window there.
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

    /// The window accepted a packet: reset the evidence for a restart or a jump.
    #[cold]
    pub(super) fn doubt(&mut self) {
        self.refused = 0;
        if let Some(suspect) = &mut self.suspect {
            suspect.packets = 0;
            suspect.contradicted = true;
        }
    }

    /// If the window has come near the suspect, move the suspect into it. Without `now`, only if the window
    /// has room, so that nothing is retired before another packet or a timeout requires it.
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

    /// When an unconfirmed suspect is dismissed: soon if the window accepted packets since, else after the
    /// time in which a slow stream may confirm it.
    pub(super) fn suspect_due(&self) -> Option<Nanos> {
        let last = self.suspect.as_ref()?.live.last;
        let contradicted = self.last_arrival >= last;
        Some(last.plus(if contradicted { self.config.linger } else { self.config.flush }))
    }

    /// Dismiss the unconfirmed suspect: return its block as [`Cause::Stray`].
    pub(super) fn dismiss(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.hand_back(suspect.live);
        }
    }
}
