//! Predicts the ticks of the senders, from synchronisation messages and from the data.
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
//! when the slowest track has passed it. Only sources that agree with the *leader* count. The leader is the data, if
//! there are data, else the source that has been consistent for longest. Sources that disagree with it are outliers,
//! however many there are, until the leader falls silent. So neither forged sources nor a source that jumps can move a
//! boundary, and a restarted sender is followed as soon as its data are.
//!
//! Only arrival times count; the clocks of senders may be wrong by any amount. **Error bound:** if messages of a sender
//! with a constant rate arrive at least every second and with a delay between `d` and `d + j`, its predicted tick at a
//! time `h` after the last message is off by at most `rate · (d + 2 j + 4 j h / s)`, where `s` is the time over which
//! its messages are kept. The delay `d` only makes the prediction lower. A source that slows down is predicted at its
//! former rate, half of which is forgotten in 30 s: a prediction that is too high is safe. The bound is tested in
//! simulated worlds.
//!
//! Limits: [`SOURCES`] sources. Without any message or packet, there is no prediction.

mod track;

use super::epochs::WAITED_FOR;
use crate::placement::Nanos;
use crate::wire::labelled::Sync;
use track::{Heard, Track};

/// Maximum number of sources. A further one replaces a silent source, or is ignored if there is none.
pub const SOURCES: usize = 64;
/// A source is silent after this time without a message. E2SAR sends one at least every 10 s.
const SILENT: Nanos = Nanos(12_000_000_000);
/// A source that resumes at its last tick within this time was held up, and not restarted.
const HELD_UP: Nanos = Nanos(60_000_000_000);
/// Sources agree if they differ by less than this time's ticks.
const AGREE: f64 = 2e9;
/// The ticks of a source that lags by more than this time's are not waited for.
const LAGS: f64 = WAITED_FOR.0 as f64;
/// The data have ended after this time without a packet. Their ticks are checked often, so it can be short.
const DATA_SILENT: Nanos = Nanos(3_000_000_000);

/// The highest tick forwarded counts for this time, even if later ticks are lower: after the end of the data, only late
/// packets arrive.
const PEAK: Nanos = Nanos(10_000_000_000);
/// Minimum time between two samples of the data's track.
const DATA_APART: Nanos = Nanos(100_000_000);

/// Counters of a predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictStats {
    /// Messages that agree with the prediction.
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
    /// Its ticks were those of the data when these were last forwarded, or at most [`LAGS`] behind.
    is_with_data: bool,
}

/// Predicts ticks. It has no clock.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    sources: Vec<Source>,
    data: Option<Track>,
    /// The highest credible tick of the data, and when it was forwarded.
    peak: Option<(u64, Nanos)>,
    /// The same since ticks began, however long ago.
    top: Option<(u64, Nanos)>,
    stats: PredictStats,
}

impl Predictor {
    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> PredictStats {
        self.stats
    }

    /// Handles a message that arrived at `now` from the source `from`, a number that stands for both its address and
    /// its own name, so that no other sender can impersonate it. The caller must pass only messages of allowed senders.
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
        let track = Track::new(sync.tick, sync.rate, sync.sent, now);
        self.sources.push(Source { from, track, is_with_data: false });
    }

    /// Handles the highest tick of the packets forwarded since the last call. Call it at least ten times a second.
    /// Returns whether the tick is credible: it fits the earlier data, or they would have passed it by now if nothing had held them
    /// up.
    pub fn handle_data(&mut self, newest: u64, now: Nanos) -> bool {
        let is_due = self.data.as_ref().is_some_and(|track| track.may_have_reached(newest, now));
        let fits = match &mut self.data {
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
        let credible = fits || is_due;
        let peak = self.peak.filter(|(_, then)| now.since(*then) < PEAK);
        if credible && peak.is_none_or(|(tick, _)| newest >= tick) {
            self.peak = Some((newest, now));
        }
        if credible && self.top.is_none_or(|(tick, _)| newest >= tick) {
            self.top = Some((newest, now));
        }
        self.compare(now);
        credible
    }

    /// Note which sources state the ticks of the data.
    fn compare(&mut self, now: Nanos) {
        let Some(data) = self.live_data(now) else { return };
        let (here, rate) = (data.highest(now), data.fastest());
        let with = here.saturating_sub((rate * LAGS) as u64)..=here.saturating_add((rate * AGREE) as u64);
        for source in &mut self.sources {
            source.is_with_data = with.contains(&source.track.highest(now));
        }
    }

    /// Whether the message shows that a known source began to count again: its tick is far behind. A source whose ticks
    /// were not those of the data says nothing about them.
    #[must_use]
    pub(super) fn falls_back(&self, from: u64, sync: &Sync, now: Nanos) -> bool {
        let source = self.sources.iter().find(|source| source.from == from);
        // Before the first packet, nothing can be split.
        let source = source.filter(|source| source.is_with_data || self.top.is_none());
        source.is_some_and(|source| source.track.falls_back(sync.tick, sync.sent, now))
    }

    /// Whether data with this tick are far behind recent data.
    #[must_use]
    pub(super) fn is_behind(&self, tick: u64, now: Nanos) -> bool {
        let peak = self.peak.filter(|(_, then)| now.since(*then) < PEAK);
        let near = self.data.as_ref().map_or(0.0, |data| data.fastest() * AGREE).max(1.0) as u64;
        peak.is_some_and(|(peak, _)| tick.saturating_add(near) < peak)
    }

    /// Whether data with this tick are from a source that lags behind: it was known before the data with the highest tick
    /// arrived, has gone on since, and its messages state this tick, or one up to `behind` later.
    #[must_use]
    pub(super) fn lags(&self, tick: u64, behind: Nanos, now: Nanos) -> bool {
        let (Some((_, then)), Some(behind)) = (self.top, self.ticks_in(behind)) else { return false };
        let mut tracks = self.sources.iter().map(|source| &source.track);
        tracks.any(|track| {
            track.risen < then && track.is_live(now, HELD_UP) && track.continues(tick, behind, now)
        })
    }

    /// Whether a source still sends ticks that others have sent before: it is heard, it was known before the highest tick was
    /// forwarded, has gone on since, and has not reached it. Those ticks keep their calendars.
    #[must_use]
    pub(super) fn is_followed(&self, now: Nanos) -> bool {
        let Some((top, then)) = self.top else { return false };
        let mut tracks = self.sources.iter().map(|source| &source.track);
        tracks.any(|track| {
            track.risen < then && track.is_live(now, SILENT) && track.has_moved && track.latest < top
        })
    }

    /// Whether a sender that was heard less than `recent` ago, by its messages or its data, has not reached `tick`.
    #[must_use]
    pub(super) fn is_before(&self, tick: u64, recent: Nanos, now: Nanos) -> bool {
        let sources = self.sources.iter().filter(|source| source.is_with_data || self.top.is_none());
        let mut tracks = sources.map(|source| &source.track).chain(&self.data);
        tracks.any(|track| track.is_live(now, recent) && track.latest < tick)
    }

    /// Number of ticks in `time` at the highest recent rate; `None` if no rate is known.
    #[must_use]
    pub(super) fn ticks_in(&self, time: Nanos) -> Option<u64> {
        let tracks = self.sources.iter().map(|source| &source.track).chain(&self.data);
        let fastest = tracks.map(Track::fastest).fold(0.0, f64::max);
        (fastest > 0.0).then_some((fastest * time.0 as f64) as u64)
    }

    /// Ticks begin again: forget all tracks.
    pub(super) fn rebase(&mut self) {
        (self.data, self.peak, self.top) = (None, None, None);
        // Their next messages arrive within about a second.
        self.sources.clear();
    }

    /// Returns a tick that no sender reaches before `at`, as predicted at `now`: a boundary. `None` if too little is
    /// known: it takes three messages over half a second. Just after data begin, the result is `None` too, until their
    /// rate is known: before, messages may have reported ticks that stood still.
    #[must_use]
    pub fn ahead(&self, now: Nanos, at: Nanos) -> Option<u64> {
        let agreed = self.known(now)?;
        // The sender of the highest tick may be held up, and go on from it at any moment.
        let fastest = agreed.iter().map(|track| track.fastest()).fold(0.0, f64::max);
        let more = (fastest * at.since(now).0 as f64) as u64;
        let peak = self.peak.filter(|(_, then)| now.since(*then) < PEAK);
        let peak = if self.is_followed(now) { self.top } else { peak };
        let peak = peak.map(|(tick, _)| tick.saturating_add(more));
        let highest = agreed.into_iter().map(|track| track.highest(at)).max();
        highest.max(peak).map(|tick| tick.saturating_add(1))
    }

    /// Returns a tick that every sender had reached at `at`, which is before `now`, as far as it was heard: one that is held up
    /// does not go on. A source that lags behind the others by less than ten seconds counts too, though it is too far away to
    /// agree with them. `None` if too little is known.
    #[must_use]
    pub fn slowest(&self, now: Nanos, at: Nanos) -> Option<u64> {
        let agreed = self.known(now)?;
        let slowest = agreed.iter().map(|track| track.reached(at)).min()?;
        let far = agreed.iter().map(|track| track.fastest()).fold(0.0, f64::max) * LAGS;
        let lags = |track: &&Track| {
            // Both are compared at the time of its last message, so that a lost message does not put it further behind.
            // The ticks of one that was held up do not fit the prediction, yet it is still sending.
            let others = agreed.iter().map(|other| other.reached(track.heard)).min();
            let behind = others.map_or(0, |tick| tick.saturating_sub(track.latest));
            track.is_live(now, SILENT) && track.is_confirmed() && track.has_moved && behind as f64 <= far
        };
        let behind = self.sources.iter().map(|source| &source.track).filter(lags);
        behind.map(|track| track.reached(at)).min().map_or(Some(slowest), |tick| Some(tick.min(slowest)))
    }

    /// Number of sources that are not silent, and how many of them agree with the leader.
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

    /// The tracks that count: the leader and those that agree with it. If all are silent, the one heard last.
    fn agreed(&self, now: Nanos) -> Vec<&Track> {
        let all = || self.sources.iter().map(|source| &source.track).chain(&self.data);
        let mut heard: Vec<&Track> = self.sources.iter().map(|source| &source.track).collect();
        heard.retain(|track| track.is_live(now, SILENT));
        heard.sort_by_key(|track| track.since());
        let leader = self
            .live_data(now)
            .or_else(|| heard.iter().find(|track| track.is_settled()).or(heard.first()).copied());
        let Some(leader) = leader else {
            // The one heard last.
            let last = all().max_by_key(|track| track.heard());
            return last.into_iter().collect();
        };
        let here = leader.highest(now);
        let near = |track: &&Track| {
            // Use the leader's rate, because the others' own rates prove nothing.
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
