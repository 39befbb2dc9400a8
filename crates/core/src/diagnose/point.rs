//! Statistics of one measured point, computed from its packets.

use super::clusters::{Arrived, Clusters, LossBurst, times};
use crate::measure::loss::Gilbert;
use std::ops::Range;

/// How a point was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Setting {
    /// Payload of a packet, bytes.
    pub size: u32,
    /// Mean time between packets, ns.
    pub spacing: f64,
    /// Packets sent back to back; 1 for an even stream.
    pub burst: u32,
    /// The flow. Points that differ only in this were sent at the same time from different ports.
    pub flow: u16,
    /// How long the flow was silent before this point, s.
    pub idle: f64,
    /// Packets sent.
    pub sent: u64,
    /// How busy the reader's thread was, 0 to 1.
    pub reader_busy: f64,
}

/// Statistics of a point. Delays are in ns, relative to the point's smallest delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Payload of a packet, bytes.
    pub size: u32,
    /// Mean time between packets, ns.
    pub spacing: f64,
    /// Packets sent back to back; 1 for an even stream.
    pub burst: u32,
    /// The flow.
    pub flow: u16,
    /// How long the flow was silent before this point, s.
    pub idle: f64,
    /// How busy the reader's thread was, 0 to 1.
    pub reader_busy: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received, without duplicates.
    pub received: u64,
    /// Packets lost in a host, according to its counters.
    pub in_hosts: u64,
    /// Duplicate packets.
    pub duplicates: u64,
    /// Reordered packets: they arrived after a packet that was sent later.
    pub reordered: u64,
    /// Mean length of a run of losses, relative to independent random loss.
    pub burstiness: f64,
    /// The longest run of losses, packets.
    pub longest_run: u64,
    /// Bursts of losses, each of which began and ended within the point.
    pub bursts: u64,
    /// Of these, long bursts in which no packet at all arrived.
    pub solid: u64,
    /// Packets lost in the bursts.
    pub burst_lost: u64,
    /// Total duration of the bursts, ns.
    pub burst_time: f64,
    /// Each burst.
    pub each_burst: Vec<LossBurst>,
    /// `burstiness` and `longest_run` of the losses outside the bursts.
    pub calm: (f64, u64),
    /// Number of independent loss events that vary as much as the losses of ten equal parts of the run do.
    pub events: u64,
    /// `steady` and `events` of the losses outside the bursts.
    pub calm_steady: (f64, u64),
    /// Loss events outside the bursts; losses near each other are one event.
    pub times: u64,
    /// Median loss of ten equal parts of the run after the first loss: a rate limit loses packets all the time, an
    /// outage only at times.
    pub steady: f64,
    /// Fraction of the sent bursts whose first packet arrived and whose later ones did not all: a queue that overflows is empty at
    /// first, and a path that is down is not.
    pub hit: f64,
    /// Packets that arrived before the first loss.
    pub passed_first: u64,
    /// Length of the run of losses with which the point begins, packets.
    pub front_lost: u64,
    /// Length of the run of losses with which the point ends, packets.
    pub end_lost: u64,
    /// Median delay.
    pub delay: f64,
    /// 99th percentile of the delay.
    pub delay_p99: f64,
    /// Median delay of the packets just before runs of losses; 0 without losses.
    pub delay_at_loss: f64,
    /// Variation of the delay in the quietest twentieth of the run: its 90th less its 10th percentile.
    pub noise: f64,
    /// The largest lasting change of the delay.
    pub shift: f64,
    /// Number of the packet at which the delay changed.
    pub shift_at: u64,
    /// Whether the number of hops changed.
    pub ttl_changed: bool,
    /// The smallest difference of the time stamps, ns; it may be negative, because the clocks of the hosts differ.
    pub floor: f64,
    /// Median delay of the first packets of bursts.
    pub first: f64,
    /// Smallest delay of the first packets of bursts.
    pub first_least: f64,
    /// If packets arrive in batches, the time between two batches, ns; else 0.
    pub comb: f64,
    /// How often the delay rose abruptly and fell again.
    pub spikes: u64,
    /// Gaps between arrivals that neither losses nor the path's usual variation explain.
    pub stalls: u64,
    /// Rate of delivery in the half of the run with the most losses, packets per second.
    pub delivered_pps: f64,
    /// The same by the times at which packets were sent, which a sender that was held up stretches.
    pub limit_pps: f64,
    /// Packets per second that arrived behind the first loss, 0 if nothing was lost: a limit that drops packets had let pass all that it
    /// could, so it lets at least as many pass.
    pub passed_pps: f64,
    /// Time between packets while the sender was at work, ns: in the fastest quarter of the run. A sender that is held up again
    /// and again has a low mean rate, and exceeds a limit in between.
    pub pace: f64,
}

/// Packets that arrived between two whose times of sending give the sender's pace.
const PACE: usize = 16;
/// A gap between arrivals that is too long to be a late interrupt, ns.
const STALL: f64 = 150_000.0;
/// Maximum number of gaps between arrivals that are neither of one batch nor of two, by the number of those between batches.
const BETWEEN: f64 = 0.5;

fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = ((values.len() - 1) as f64 * q).round() as usize;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

impl Point {
    /// Fraction of packets lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - self.received as f64 / self.sent as f64 }
    }

    /// Packets lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Packets lost outside the bursts.
    pub(super) fn single(&self) -> u64 {
        self.sent.saturating_sub(self.received + self.burst_lost)
    }

    /// Independent loss events: those that are apart, or, of losses that are near each other all the time, as many as their number in
    /// equal times shows.
    pub(super) fn loss_events(&self) -> u64 {
        (self.times + self.bursts).max(self.events)
    }

    /// Offered load, packets per second.
    #[must_use]
    pub fn pps(&self) -> f64 {
        1e9 / self.spacing.max(1e-3)
    }

    /// Offered load on the line, bits per second.
    #[must_use]
    pub fn bps(&self) -> f64 {
        self.pps() * self.wire_bits()
    }

    /// Load on the line while the sender was at work, bits per second.
    #[must_use]
    pub(super) fn pace_bps(&self) -> f64 {
        1e9 / self.at_work().max(1e-3) * self.wire_bits()
    }

    /// Time between packets while the sender was at work, ns.
    fn at_work(&self) -> f64 {
        if self.pace > 0.0 { self.pace.min(self.spacing) } else { self.spacing }
    }

    /// Size of a packet on the line, bits.
    #[must_use]
    pub fn wire_bits(&self) -> f64 {
        8.0 * (f64::from(self.size) + 66.0)
    }

    /// Computes the statistics of a point from its packets in order of arrival.
    #[must_use]
    pub fn of(setting: &Setting, arrived: &[Arrived]) -> Point {
        let Setting { size, spacing, burst, flow, idle, sent, reader_busy } = *setting;
        let mut point = Point { size, spacing, burst, flow, idle, sent, reader_busy, ..Point::default() };
        // By packet number, without duplicates.
        let mut by_number: Vec<Option<&Arrived>> =
            vec![None; usize::try_from(sent).unwrap_or(0).min(1 << 24)];
        let mut highest = None;
        for packet in arrived {
            let Some(slot) = by_number.get_mut(packet.number as usize) else { continue };
            if slot.is_some() {
                point.duplicates += 1;
                continue;
            }
            *slot = Some(packet);
            point.received += 1;
            point.reordered += u64::from(highest.is_some_and(|highest| packet.number < highest));
            highest = highest.max(Some(packet.number));
        }
        let lost = runs(&by_number);
        let here: Vec<&Arrived> = by_number.iter().flatten().copied().collect();
        point.paced(&here);
        point.losses(&lost);
        point.clusters(&lost, &by_number);
        let delay = |packet: &Arrived| packet.kernel.0.wrapping_sub(packet.sent.0) as i64;
        let Some(least) = here.iter().map(|packet| delay(packet)).min() else { return point };
        point.floor = least as f64;
        let delays: Vec<f64> = here.iter().map(|packet| delay(packet).abs_diff(least) as f64).collect();
        let before = lost.iter().filter_map(|run| by_number[run.start.checked_sub(1)? as usize]);
        let mut before: Vec<f64> = before.map(|packet| delay(packet).abs_diff(least) as f64).collect();
        point.delay_at_loss = median(&mut before);
        point.delays(&delays);
        point.shifts(&here, &delays);
        point.bursts(&here, &delays);
        point.arrivals(arrived, &delays);
        point.delivered(&by_number);
        point
    }

    /// Remove the run of losses at the end.
    pub(super) fn without_end(&mut self) {
        let runs = self.lost() as f64 * (1.0 - self.loss()) / self.burstiness.max(1e-9);
        self.sent -= self.end_lost.min(self.sent);
        let mean = self.lost() as f64 / (runs - 1.0).max(1.0);
        self.burstiness = mean * (1.0 - self.loss());
        if self.longest_run == self.end_lost {
            self.longest_run = mean as u64;
        }
        self.end_lost = 0;
        self.delivered_pps = self.pps() * (1.0 - self.loss());
    }

    fn losses(&mut self, lost: &[Range<u64>]) {
        self.burstiness = Gilbert::fit(lost, self.sent).map_or(0.0, |model| model.burstiness());
        self.longest_run = lost.iter().map(|run| run.end - run.start).max().unwrap_or(0);
        let ends = |run: &&Range<u64>| run.end == self.sent;
        self.passed_first = lost.first().map_or(self.sent, |run| run.start);
        self.front_lost = lost.first().filter(|run| run.start == 0).map_or(0, |run| run.end);
        self.end_lost = lost.last().filter(ends).map_or(0, |run| run.end - run.start);
    }

    /// Bursts of losses, and the losses outside them.
    fn clusters(&mut self, lost: &[Range<u64>], by_number: &[Option<&Arrived>]) {
        let sent_at = |number: u64| by_number.get(number as usize)?.map(|packet| packet.sent.0 as f64);
        let found = Clusters::of(lost, self.sent, self.spacing, &sent_at);
        let rest = found.rest(lost);
        let factor = Gilbert::fit(&rest, self.sent).map_or(0.0, |model| model.burstiness());
        let longest = rest.iter().map(|run| run.end - run.start).max().unwrap_or(0);
        (self.bursts, self.solid) = (found.all.len() as u64, found.solid);
        (self.burst_lost, self.burst_time) = (found.lost, found.time);
        self.each_burst = found.each(by_number, self.at_work());
        self.calm = (factor, longest);
        self.times = times(&rest);
        (self.steady, self.events) = steady(lost, self.sent);
        self.calm_steady = steady(&rest, self.sent);
        self.passed_pps = passed(lost, by_number);
        if self.burst > 1 {
            let burst = u64::from(self.burst);
            let begins = |run: &Range<u64>| !run.start.is_multiple_of(burst);
            let mut hit: Vec<u64> =
                lost.iter().filter(|run| begins(run)).map(|run| run.start / burst).collect();
            hit.dedup();
            let first = |of: &u64| by_number.get((of * burst) as usize).is_some_and(Option::is_some);
            hit.retain(first);
            self.hit = hit.len() as f64 / self.sent.div_ceil(u64::from(self.burst)).max(1) as f64;
        }
    }

    fn delays(&mut self, delays: &[f64]) {
        let mut all = delays.to_vec();
        self.delay = median(&mut all);
        self.delay_p99 = quantile(&mut all, 0.99);
        let part = (delays.len() / 20).max(20);
        let spread = |part: &[f64]| {
            let mut part = part.to_vec();
            quantile(&mut part, 0.9) - quantile(&mut part, 0.1)
        };
        self.noise = delays.chunks(part).map(spread).fold(f64::INFINITY, f64::min).max(0.0);
    }

    /// The largest lasting change of the delay: where the medians of all parts before differ most from those of all
    /// parts after.
    fn shifts(&mut self, here: &[&Arrived], delays: &[f64]) {
        let part = (delays.len() / 40).max(10);
        let medians: Vec<f64> = delays.chunks(part).map(|part| median(&mut part.to_vec())).collect();
        for at in 3..medians.len().saturating_sub(3) {
            let (before, after) = (&medians[..at], &medians[at..]);
            let most = |side: &[f64]| side.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = |side: &[f64]| side.iter().copied().fold(f64::INFINITY, f64::min);
            // Every median of one side must lie above every median of the other.
            let (up, down) = (least(after) - most(before), least(before) - most(after));
            let found = if up > down { up } else { -down };
            if up.max(down) > self.shift.abs() {
                (self.shift, self.shift_at) = (found, here[at * part].number);
            }
        }
        let ttl = |packet: Option<&&Arrived>| packet.map_or(0, |packet| packet.ttl);
        self.ttl_changed = ttl(here.first()) != ttl(here.last());
    }

    fn bursts(&mut self, here: &[&Arrived], delays: &[f64]) {
        if self.burst < 4 {
            return;
        }
        let place = |packet: &Arrived| packet.number % u64::from(self.burst);
        let first = here.iter().zip(delays).filter(|(packet, _)| place(packet) == 0);
        let mut first: Vec<f64> = first.map(|(_, &delay)| delay).collect();
        self.first_least = quantile(&mut first, 0.0);
        self.first = median(&mut first);
    }

    /// Batches in the kernel's time stamps, and peaks of the delay.
    fn arrivals(&mut self, arrived: &[Arrived], delays: &[f64]) {
        if self.burst > 1 || arrived.len() < 50 {
            return;
        }
        let gaps: Vec<f64> =
            arrived.windows(2).map(|pair| pair[1].kernel.0 as f64 - pair[0].kernel.0 as f64).collect();
        let mut long: Vec<f64> = gaps.iter().copied().filter(|&gap| gap > 2.0 * self.spacing).collect();
        let short = gaps.iter().filter(|&&gap| gap < 0.3 * self.spacing).count();
        // Most packets arrive in batches, most batches are equally far apart, and nearly nothing arrives between them. Packets that were
        // held up by a late one before them arrive in batches too, but at any distance.
        let usual = median(&mut long);
        let even = long.iter().filter(|&&gap| (gap / usual - 1.0).abs() < 0.3).count();
        let between = gaps.len() - short - long.len();
        let two_sizes = even * 10 > long.len() * 7 && between as f64 <= BETWEEN * long.len() as f64;
        if short * 2 > gaps.len() && long.len() * 30 > gaps.len() && two_sizes {
            self.comb = usual;
        }
        self.stalled(arrived, &gaps);
        let high = (20.0 * self.noise).max(10_000.0);
        let mut above = false;
        for &delay in delays {
            self.spikes += u64::from(!above && delay > high);
            above = if above { delay > high / 4.0 } else { delay > high };
        }
    }

    /// Gaps between arrivals of packets that were sent consecutively.
    fn stalled(&mut self, arrived: &[Arrived], gaps: &[f64]) {
        let long = (8.0 * self.spacing).max(1.7 * self.comb).max(STALL);
        // Loss and reordering make the numbers jump: such gaps do not count.
        let jump = |pair: &[Arrived]| pair[1].number.abs_diff(pair[0].number) as f64 * self.spacing;
        self.stalls =
            arrived.windows(2).zip(gaps).filter(|&(pair, &gap)| gap > long && jump(pair) < gap / 2.0).count()
                as u64;
    }

    /// The pace of the sender, from trains whose first and last packets arrived.
    fn paced(&mut self, here: &[&Arrived]) {
        if self.burst > 1 || here.len() < 4 * PACE {
            return;
        }
        let pace = |(first, last): (&&Arrived, &&Arrived)| {
            let numbers = last.number.saturating_sub(first.number).max(1);
            last.sent.0.wrapping_sub(first.sent.0) as i64 as f64 / numbers as f64
        };
        let mut all: Vec<f64> = here.iter().zip(&here[PACE..]).map(pace).collect();
        self.pace = quantile(&mut all, 0.25).max(0.0);
    }

    /// Rate of delivery in the half with the most losses.
    fn delivered(&mut self, by_number: &[Option<&Arrived>]) {
        let half = (by_number.len() / 2).max(1);
        let arrived = |part: &&[Option<&Arrived>]| part.iter().flatten().count();
        let Some(worst) = by_number.chunks_exact(half).min_by_key(arrived) else { return };
        let (least, mut here) = (arrived(&worst) as f64, worst.iter().flatten());
        self.delivered_pps = self.pps() * least / half as f64;
        // From the first that arrived to the last: the others took in proportion as long.
        let took = here.next().zip(here.next_back()).map(|(first, last)| {
            let numbers = last.number.saturating_sub(first.number).max(1) as f64;
            (numbers, last.sent.0.wrapping_sub(first.sent.0) as f64)
        });
        let (numbers, took) = took.filter(|(n, _)| 2.0 * n > half as f64).unwrap_or((1.0, self.spacing));
        self.limit_pps = least * 1e9 * numbers / (half as f64 * took.max(1.0));
    }
}

/// Number of parts into which the run after the first loss is divided, to see whether loss is lasting.
const PARTS: u64 = 10;

/// Median loss of these parts, and the number of events of equal size whose number in a part varies as much as the losses do. A part has `k`
/// events of `m` losses with a variance of `k m²`; single losses, by chance or evenly, are events each.
fn steady(lost: &[Range<u64>], sent: u64) -> (f64, u64) {
    let first = lost.first().map_or(sent, |run| run.start);
    let part = (sent - first).div_ceil(PARTS).max(1);
    let of = |from: u64| {
        let to = (from + part).min(sent);
        let cut = |run: &Range<u64>| run.end.min(to).saturating_sub(run.start.max(from));
        (lost.iter().map(cut).sum::<u64>() as f64, (to - from).max(1) as f64)
    };
    let parts: Vec<(f64, f64)> = (first..sent).step_by(part as usize).map(of).collect();
    let (number, all) = (parts.len().max(1) as f64, parts.iter().map(|part| part.0).sum::<f64>());
    let mean = all / number;
    let variance = parts.iter().map(|part| (part.0 - mean).powi(2)).sum::<f64>() / (number - 1.0).max(1.0);
    // A run of losses is one.
    let events = ((mean * all / variance.max(mean).max(1e-9)).round() as u64)
        .clamp(1, u64::MAX)
        .min(lost.len() as u64);
    (median(&mut parts.iter().map(|part| part.0 / part.1).collect::<Vec<_>>()), events)
}

/// Packets that an empty bucket, and one that a clock shows too early, may pass beyond what its rate brings.
const PASSED_DOUBT: f64 = 4.0;

/// Packets per second that arrived behind the first loss, by the clock, the sender's or the receiver's, that gives fewer.
fn passed(lost: &[Range<u64>], by_number: &[Option<&Arrived>]) -> f64 {
    let Some(first) = lost.first() else { return 0.0 };
    let (before, behind) = by_number.split_at((first.start as usize).min(by_number.len()));
    let mut behind = behind.iter().flatten();
    let Some(last) = behind.next_back() else { return 0.0 };
    // The first loss came after the packet before it.
    let Some(from) = before.iter().flatten().next_back().or_else(|| behind.next()) else { return 0.0 };
    let took = |of: fn(&Arrived) -> u64| of(last).wrapping_sub(of(from)) as i64 as f64;
    let took = took(|packet| packet.sent.0).max(took(|packet| packet.kernel.0));
    let arrived = behind.count() as f64 + 1.0;
    if took > 0.0 { (arrived - PASSED_DOUBT).max(0.0) * 1e9 / took } else { 0.0 }
}

/// The runs of numbers that did not arrive.
fn runs(by_number: &[Option<&Arrived>]) -> Vec<Range<u64>> {
    let mut lost: Vec<Range<u64>> = Vec::new();
    for (number, packet) in by_number.iter().enumerate() {
        let number = number as u64;
        match (packet, lost.last_mut()) {
            (Some(_), _) => {}
            (None, Some(last)) if last.end == number => last.end += 1,
            (None, _) => lost.push(number..number + 1),
        }
    }
    lost
}
