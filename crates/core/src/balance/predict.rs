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

use super::epochs::WAITED_FOR;
use crate::placement::Nanos;
use crate::wire::labelled::Sync;
use std::collections::VecDeque;

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
            // Both are compared at the time of its last message, so that a message that is lost does not put it further
            // behind. One that was held up says what was not predicted, and goes on nevertheless.
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

/// Maximum number of messages kept.
const KEPT: usize = 12;
/// A rate is measured over at least this time, ns; until then, the rate that the source states is used.
const MEASURED: u64 = 1_000_000_000;
/// The highest rate decays by half in this time, ns: a source that stops may continue at its former rate at any moment.
const FORGET: f64 = 30e9;
/// A shorter track does not determine the rate.
const SETTLED: Nanos = Nanos(500_000_000);
/// A message fits if its error is at most the ticks in this time, ns, plus a fraction of the time since the last
/// message.
const FITS: f64 = 1e9;
const FITS_PART: f64 = 0.1;
/// A jump is followed when this many consecutive messages fit each other but not the track.
const CONFIRMED: usize = 3;

/// How a message relates to its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// As predicted.
    Fits,
    /// Not as predicted; kept as a suspect.
    Suspect,
    /// Sent before a message that was already handled.
    Stale,
    /// The third consecutive suspect that fits the others: the track begins again with them.
    Jumps,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    tick: u64,
    /// Rate that the source states, ticks per nanosecond; 0 if it states none.
    claimed: f64,
    at: Nanos,
}

/// The ticks of one source.
#[derive(Clone, Debug)]
struct Track {
    samples: VecDeque<Sample>,
    suspects: Vec<Sample>,
    since: Nanos,
    heard: Nanos,
    /// When the last message was sent, by the source's clock.
    sent: u64,
    /// Ticks per nanosecond; 0 if unknown.
    rate: f64,
    /// The highest rate, which decays slowly.
    fastest: f64,
    /// It has gone on, though it may stand still now.
    has_moved: bool,
    /// The tick of its last message, and since when no message stated an earlier one.
    latest: u64,
    risen: Nanos,
}

impl Track {
    /// The track of a source after its first message.
    #[must_use]
    fn new(tick: u64, rate: u32, sent: u64, now: Nanos) -> Track {
        let claimed = f64::from(rate) / 1e9;
        let samples = VecDeque::from([Sample { tick, claimed, at: now }]);
        Track {
            samples,
            suspects: Vec::new(),
            since: now,
            heard: now,
            sent,
            rate: claimed,
            fastest: 0.0,
            has_moved: false,
            latest: tick,
            risen: now,
        }
    }

    /// Handles a message that arrived at `now`; `sent` is the send time by the source's clock, if stated.
    fn hear(&mut self, tick: u64, rate: u32, sent: Option<u64>, now: Nanos) -> Heard {
        let sample = Sample { tick, claimed: f64::from(rate) / 1e9, at: now };
        let Some(&last) = self.samples.back() else { return Heard::Stale };
        // If the clock was set back but the tick advanced, the message is not stale.
        if sent.is_some_and(|sent| sent < self.sent) && tick <= last.tick {
            return Heard::Stale;
        }
        self.heard = now;
        self.risen = if tick < self.latest { now } else { self.risen };
        self.latest = tick;
        if self.fits(&sample, &last) {
            self.sent = sent.unwrap_or(self.sent);
            self.suspects.clear();
            self.has_moved |= tick > last.tick;
            if self.samples.len() == KEPT {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
            self.rate = measured(&self.samples);
            if self.samples.len() == KEPT {
                let passed = now.since(last.at).0 as f64;
                self.fastest = self.rate.max(self.fastest * (-passed / FORGET).exp2());
            }
            return Heard::Fits;
        }
        if !follows(&self.suspects, &sample) {
            self.suspects.clear();
        }
        self.suspects.push(sample);
        if self.suspects.len() < CONFIRMED {
            return Heard::Suspect;
        }
        self.samples = self.suspects.drain(..).collect();
        self.sent = sent.unwrap_or(self.sent);
        self.since = now;
        self.rate = measured(&self.samples);
        Heard::Jumps
    }

    /// Whether a message at `now` puts the source, whose rate is known, far behind its track.
    #[must_use]
    fn falls_back(&self, tick: u64, sent: u64, now: Nanos) -> bool {
        let here = self.samples.back().map_or(0, |last| last.tick).max(self.lowest(now));
        let near = (self.fastest() * 2.0 * FITS).max(1.0) as u64;
        // A source that was only delayed continues from where it was.
        let is_back = self.samples.back().is_some_and(|last| tick < last.tick);
        sent > self.sent && self.is_settled() && is_back && tick.saturating_add(near) < here
    }

    /// Whether the source has gone on to about this tick: its last message states it, or a tick at most `behind` later, or a little
    /// before. One that was held up has, though nothing that it says was predicted.
    #[must_use]
    fn continues(&self, tick: u64, behind: u64, now: Nanos) -> bool {
        let near = (self.fastest() * (2.0 * FITS + now.since(self.heard).0 as f64)).max(1.0) as u64;
        let range = self.latest.saturating_sub(behind)..=self.latest.saturating_add(near);
        self.samples.len() + self.suspects.len() >= CONFIRMED && range.contains(&tick)
    }

    /// Whether it has passed this tick since its last message, if nothing held it up.
    #[must_use]
    fn may_have_reached(&self, tick: u64, now: Nanos) -> bool {
        self.samples.back().is_some_and(|last| (last.tick..=self.highest(now)).contains(&tick))
    }

    /// Whether a message that arrives at `now` would fit.
    #[must_use]
    fn would_fit(&self, tick: u64, now: Nanos) -> bool {
        let sample = Sample { tick, claimed: 0.0, at: now };
        self.samples.back().is_some_and(|last| self.fits(&sample, last))
    }

    fn fits(&self, sample: &Sample, last: &Sample) -> bool {
        if self.rate == 0.0 {
            // The rate is unknown: accept any progress for the first messages.
            return sample.tick >= last.tick && self.samples.len() < CONFIRMED;
        }
        let passed = sample.at.since(last.at).0 as f64;
        let off = ticks(last, sample) - self.rate * passed;
        off.abs() <= (self.rate * (FITS + FITS_PART * passed)).max(1.0)
    }

    /// Whether it was heard less than `silent` ago.
    #[must_use]
    fn is_live(&self, now: Nanos, silent: Nanos) -> bool {
        now.since(self.heard) < silent
    }

    /// Whether it has been consistent for three messages, and its rate is known.
    #[must_use]
    fn is_settled(&self) -> bool {
        self.is_confirmed() && self.rate > 0.0
    }

    /// Whether it has been consistent for three messages, though it may stand still.
    #[must_use]
    fn is_confirmed(&self) -> bool {
        let ends = self.samples.front().zip(self.samples.back());
        let span = ends.map_or(Nanos(0), |(first, last)| last.at.since(first.at));
        self.samples.len() >= CONFIRMED && span >= SETTLED
    }

    /// Since when it has been consistent.
    #[must_use]
    fn since(&self) -> Nanos {
        self.since
    }

    /// When it was last heard.
    #[must_use]
    fn heard(&self) -> Nanos {
        self.heard
    }

    /// The highest recent rate, ticks per nanosecond; 0 if unknown.
    #[must_use]
    fn fastest(&self) -> f64 {
        self.fastest.max(self.rate)
    }

    /// This track in place of `old`, a track of the same source: keeps its highest rate.
    #[must_use]
    fn after(self, old: &Track) -> Track {
        Track { fastest: old.fastest, ..self }
    }

    /// The tick at `at` according to the message that was delayed least, extrapolated at the highest rate after the
    /// last message.
    #[must_use]
    fn highest(&self, at: Nanos) -> u64 {
        let last = self.samples.back().map_or(at, |last| last.at);
        let then = self.samples.iter().map(|sample| self.carried(sample, last)).max().unwrap_or(0);
        then.saturating_add((self.fastest() * at.since(last).0 as f64) as u64)
    }

    /// The tick at `at` according to the message that was delayed most; before the last message, extrapolated back at
    /// the highest rate.
    #[must_use]
    fn lowest(&self, at: Nanos) -> u64 {
        let last = self.samples.back().map_or(at, |last| last.at);
        let then = self.samples.iter().map(|sample| self.carried(sample, last)).min().unwrap_or(0);
        if at >= last {
            return then.saturating_add((self.rate * at.since(last).0 as f64) as u64);
        }
        then.saturating_sub((self.fastest() * last.since(at).0 as f64) as u64)
    }

    /// The tick that it had certainly reached at `at`: nobody knows whether it went on after its last message.
    #[must_use]
    fn reached(&self, at: Nanos) -> u64 {
        self.lowest(self.samples.back().map_or(at, |last| at.min(last.at)))
    }

    /// The tick at `at`, which is after `sample`, extrapolated from `sample` alone.
    fn carried(&self, sample: &Sample, at: Nanos) -> u64 {
        sample.tick.saturating_add((self.rate * at.since(sample.at).0 as f64) as u64)
    }
}

/// Ticks from `a` to `b`. A tick has more bits than the mantissa of an `f64`, but the differences that matter are
/// small.
fn ticks(a: &Sample, b: &Sample) -> f64 {
    let ticks = b.tick.abs_diff(a.tick) as f64;
    if b.tick >= a.tick { ticks } else { -ticks }
}

/// Whether `next` continues the suspects: forward, and after two of them at their rate.
fn follows(suspects: &[Sample], next: &Sample) -> bool {
    let step = |a: &Sample, b: &Sample| (ticks(a, b), b.at.since(a.at).0 as f64);
    let Some(before) = suspects.last() else { return true };
    let (ticks, passed) = step(before, next);
    let rate = match suspects {
        [first, second, ..] => {
            let (ticks, passed) = step(first, second);
            ticks / passed
        }
        _ => return passed > 0.0 && ticks >= 0.0,
    };
    passed > 0.0
        && ticks >= 0.0
        && (ticks - rate * passed).abs() <= (rate * (FITS + FITS_PART * passed)).max(1.0)
}

/// The median rate of all pairs that are at least half of the span apart (Theil–Sen). Until the messages span a second,
/// the rate that the source states.
fn measured(samples: &VecDeque<Sample>) -> f64 {
    let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return 0.0 };
    let span = last.at.since(first.at).0;
    if (span < MEASURED || samples.len() < CONFIRMED) && last.claimed > 0.0 {
        return last.claimed;
    }
    let mut rates = Vec::with_capacity(KEPT * KEPT / 2);
    for (n, a) in samples.iter().enumerate() {
        for b in samples.iter().skip(n + 1) {
            let apart = b.at.since(a.at).0;
            if apart > 0 && apart >= span / 2 {
                rates.push(ticks(a, b) / apart as f64);
            }
        }
    }
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(last.claimed).max(0.0)
}

#[cfg(test)]
mod tests;
