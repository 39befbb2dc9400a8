//! Where the senders' ticks will be: from synchronisation messages, and from the data.
//!
//! ```text
//!   tick │        ╱ ╱ boundary: the furthest of those that agree, `lead` from now
//!        │     · ╱╱        · a message: it arrived no earlier than it was sent, so the truth is on or above it
//!        │   ·╱╱ ·
//!        │  ╱╱·       x    x one that does not fit: followed only if the next two fit it
//!        └──────────────── arrival, by the balancer's clock
//! ```
//!
//! Each source has a track. A boundary must lie ahead of every sender, so the furthest track counts; an epoch is over
//! when the slowest has passed it. Among sources, those count that agree with the *leader*: the data, if there are data, else
//! the source that has been consistent for longest. Who disagrees with it is an outlier, however many they are, until it
//! falls silent. So neither forged sources nor one that jumps move a boundary, and a sender that was restarted is followed
//! once its data are.
//!
//! Only arrival times count; the clocks of senders may be wrong by any amount. **Error bound:** if messages of a sender with
//! a constant rate arrive every second at least and with a delay between `d` and `d + j`, its predicted tick at a time `h`
//! after the last message is off by at most `rate · (d + 2 j + 4 j h / s)`, where `s` is the time over which its messages are
//! kept. `d` only makes it lower. A source that slows down is predicted at its former rate, half of which is forgotten in 30 s:
//! too high is safe. Tested in simulated worlds.
//!
//! Limits: [`SOURCES`] sources. Without any message or packet there is no prediction.

mod track;

use crate::{placement::Nanos, wire::labelled::Sync};
use track::{Heard, Track};

/// Sources that are followed. One more takes the place of a silent one, or is not heard.
pub const SOURCES: usize = 64;
/// A source is silent after this time. E2SAR sends every 10 s at the least.
const SILENT: Nanos = Nanos(12_000_000_000);
/// Sources agree if they differ by less than this time's ticks.
const AGREE: f64 = 2e9;
/// Data are looked at often, and need no longer silence to be over.
const DATA_SILENT: Nanos = Nanos(3_000_000_000);

/// A tick that was forwarded counts for this time, whatever is forwarded later: after the end of the data only late packets
/// come, and say less than was known.
const PEAK: Nanos = Nanos(10_000_000_000);
/// Time between two looks that are kept.
const DATA_APART: Nanos = Nanos(100_000_000);

/// Counters of a predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictStats {
    /// Messages that fit what was known.
    pub fitting: u64,
    /// Messages that do not, and are not followed so far.
    pub suspect: u64,
    /// Messages overtaken by a newer one.
    pub stale: u64,
    /// Jumps that were confirmed and followed, forward or back.
    pub jumps: u64,
    /// Messages of sources beyond [`SOURCES`].
    pub crowded: u64,
}

#[derive(Clone, Debug)]
struct Source {
    from: u64,
    track: Track,
}

/// Predicts ticks. It has no clock.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    sources: Vec<Source>,
    data: Option<Track>,
    /// The highest credible tick of the data, and when it was forwarded.
    peak: Option<(u64, Nanos)>,
    stats: PredictStats,
}

impl Predictor {
    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> PredictStats {
        self.stats
    }

    /// A message came at `now`, from the source `from`: a number for its address and for what it calls itself, so that
    /// nobody else can speak for it. The caller admits only senders that are allowed.
    pub fn handle_sync(&mut self, from: u64, sync: &Sync, now: Nanos) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.from == from) {
            let heard = source.track.hear(sync.tick, sync.rate, Some(sync.sent), now);
            self.stats.count(heard);
            return;
        }
        if self.sources.len() == SOURCES {
            let silent = |source: &Source| !source.track.is_live(now, SILENT);
            let Some(at) = self.sources.iter().position(silent) else {
                self.stats.crowded += 1;
                return;
            };
            self.sources.swap_remove(at);
        }
        self.stats.count(Heard::Fits);
        self.sources.push(Source { from, track: Track::new(sync.tick, sync.rate, sync.sent, now) });
    }

    /// The highest tick of the packets forwarded since this was last called. To be called often, ten times a second or more.
    /// Returns whether it is credible: it is not if it does not fit the data before it.
    pub fn handle_data(&mut self, newest: u64, now: Nanos) -> bool {
        let credible = match &mut self.data {
            Some(track) if now.since(track.heard()) < DATA_APART => track.would_fit(newest, now),
            Some(track) if track.is_live(now, DATA_SILENT) => {
                let heard = track.hear(newest, 0, None, now);
                self.stats.jumps += u64::from(heard == Heard::Jumps);
                matches!(heard, Heard::Fits | Heard::Jumps)
            }
            old => {
                let new = Track::new(newest, 0, 0, now);
                *old = Some(old.as_ref().map_or(new.clone(), |old| new.after(old)));
                true
            }
        };
        let peak = self.peak.filter(|(_, then)| now.since(*then) < PEAK);
        if credible && peak.is_none_or(|(tick, _)| newest >= tick) {
            self.peak = Some((newest, now));
        }
        credible
    }

    /// Whether the message says that a source whose ticks were known has begun to count anew: it is far behind.
    #[must_use]
    pub(super) fn falls_back(&self, from: u64, sync: &Sync, now: Nanos) -> bool {
        let source = self.sources.iter().find(|source| source.from == from);
        source.is_some_and(|source| source.track.falls_back(sync.tick, sync.sent, now))
    }

    /// Whether data with this tick are far behind those of late.
    #[must_use]
    pub(super) fn is_behind(&self, tick: u64, now: Nanos) -> bool {
        let peak = self.peak.filter(|(_, then)| now.since(*then) < PEAK);
        let near = self.data.as_ref().map_or(0.0, |data| data.fastest() * AGREE).max(1.0) as u64;
        peak.is_some_and(|(peak, _)| tick.saturating_add(near) < peak)
    }

    /// Whether data with this tick are those of a source that lags behind: it was heard before the furthest data came, has gone
    /// on since, and says that it is there, or up to `behind` later.
    #[must_use]
    pub(super) fn lags(&self, tick: u64, behind: Nanos, now: Nanos) -> bool {
        let (Some((_, then)), Some(behind)) = (self.peak, self.ticks_in(behind)) else { return false };
        let mut tracks = self.sources.iter().map(|source| &source.track);
        tracks.any(|track| {
            track.since() < then && track.is_live(now, SILENT) && track.continues(tick, behind, now)
        })
    }

    /// Ticks in so much time, at the highest rate of late; `None` if no rate is known.
    #[must_use]
    pub(super) fn ticks_in(&self, time: Nanos) -> Option<u64> {
        let tracks = self.sources.iter().map(|source| &source.track).chain(&self.data);
        let fastest = tracks.map(Track::fastest).fold(0.0, f64::max);
        (fastest > 0.0).then_some((fastest * time.0 as f64) as u64)
    }

    /// Ticks begin anew: what the data were before says nothing.
    pub(super) fn rebase(&mut self) {
        (self.data, self.peak) = (None, None);
        // They are heard again within a second.
        self.sources.clear();
    }

    /// The tick that no sender reaches before `at`, as far as is known at `now`: a boundary. `None` if too little is known: it
    /// takes three messages over half a second. Data that just began are waited for: messages may have said little of ticks
    /// that stood still.
    #[must_use]
    pub fn ahead(&self, now: Nanos, at: Nanos) -> Option<u64> {
        let agreed = self.known(now)?;
        let peak = self.peak.filter(|(_, then)| now.since(*then) < PEAK).map(|(tick, _)| tick);
        let highest = agreed.into_iter().map(|track| track.highest(at)).max();
        highest.max(peak).map(|tick| tick.saturating_add(1))
    }

    /// The tick that every sender has reached at `at`, which is before `now`. `None` if too little is known.
    #[must_use]
    pub fn slowest(&self, now: Nanos, at: Nanos) -> Option<u64> {
        self.known(now)?.into_iter().map(|track| track.lowest(at)).min()
    }

    /// Sources that are heard, and how many of them agree with the leader.
    #[must_use]
    pub fn sources(&self, now: Nanos) -> (usize, usize) {
        let heard = self.sources.iter().filter(|source| source.track.is_live(now, SILENT));
        let (all, data) = (heard.count(), usize::from(self.live_data(now).is_some()));
        (all, self.agreed(now).len().saturating_sub(data).min(all))
    }

    fn live_data(&self, now: Nanos) -> Option<&Track> {
        self.data.as_ref().filter(|data| data.is_live(now, DATA_SILENT) && data.is_settled())
    }

    /// The tracks that count, if enough is known of them.
    fn known(&self, now: Nanos) -> Option<Vec<&Track>> {
        let began = |data: &Track| data.is_live(now, DATA_SILENT) && !data.is_settled();
        let agreed = self.agreed(now);
        let known = !self.data.as_ref().is_some_and(began) && agreed.iter().any(|track| track.is_settled());
        known.then_some(agreed)
    }

    /// The tracks that count: the leader, and those that agree with it. If none is heard any more, all go on as they were.
    fn agreed(&self, now: Nanos) -> Vec<&Track> {
        let all = || self.sources.iter().map(|source| &source.track).chain(&self.data);
        let mut heard: Vec<&Track> = self.sources.iter().map(|source| &source.track).collect();
        heard.retain(|track| track.is_live(now, SILENT));
        heard.sort_by_key(|track| track.since());
        let leader = self
            .live_data(now)
            .or_else(|| heard.iter().find(|track| track.is_settled()).or(heard.first()).copied());
        let Some(leader) = leader else {
            // The last that was heard.
            let last = all().max_by_key(|track| track.heard());
            return last.into_iter().collect();
        };
        let here = leader.highest(now);
        let near = |track: &&Track| {
            // By the leader's rate: a claim of the others' proves nothing.
            (track.highest(now).abs_diff(here) as f64) <= (leader.fastest() * AGREE).max(1.0)
        };
        heard.into_iter().chain(self.live_data(now)).filter(near).collect()
    }
}

impl PredictStats {
    fn count(&mut self, heard: Heard) {
        match heard {
            Heard::Fits => self.fitting += 1,
            Heard::Suspect => self.suspect += 1,
            Heard::Stale => self.stale += 1,
            Heard::Jumps => self.jumps += 1,
        }
    }
}

#[cfg(test)]
mod tests;
