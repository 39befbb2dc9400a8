//! Faults between a source and its reader.

use super::{Damage, Fate, FaultPlan, Faults, Injected};
use crate::source::{Source, SourceStats, Train};
use skyhaul_core::placement::Nanos;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A [`Source`] with injected loss, duplication, reordering and damage.
///
/// Unaffected packets stay in their trains, uncopied. Late packets are delivered when packets follow, or when the source
/// falls silent.
pub struct FaultSource<S> {
    inner: S,
    line: Line<Kept>,
    packets: u64,
    bytes: u64,
    trains: u64,
}

/// A packet that is delivered later.
#[derive(Clone, Debug)]
struct Kept {
    bytes: Box<[u8]>,
    sender: SocketAddr,
    time: Option<Nanos>,
}

impl Kept {
    fn deliver(mut self, damage: Damage, each: &mut dyn FnMut(Train<'_>)) {
        let length = damage.apply(&mut self.bytes);
        each(Train { time: self.time, ..Train::single(&self.bytes[..length], &self.sender) });
    }
}

impl<S: Source> FaultSource<S> {
    /// Put `faults` behind `inner`.
    #[must_use]
    pub fn new(inner: S, faults: &Faults) -> Self {
        Self { inner, line: Line::new(faults), packets: 0, bytes: 0, trains: 0 }
    }

    /// The faults injected so far. Packets are numbered in the order of the source.
    #[must_use]
    pub fn injected(&self) -> &Injected {
        self.line.injected()
    }

    /// The source itself.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }
}

/// Pass one train through the line: stretches without faults are passed on as trains.
fn pass_train(line: &mut Line<Kept>, train: &Train<'_>, each: &mut dyn FnMut(Train<'_>)) {
    let (mut clean, mut at, mut dropped) = (0, 0, train.dropped);
    let mut stretch = |from: usize, to: usize, each: &mut dyn FnMut(Train<'_>)| {
        if from < to {
            each(Train { bytes: &train.bytes[from..to], dropped: std::mem::take(&mut dropped), ..*train });
        }
    };
    for packet in train.packets() {
        let fate = line.decide();
        let next = at + packet.len();
        if fate != Fate::default() || line.is_due() || packet.is_empty() {
            stretch(clean, at, each);
            let keep = || Kept { bytes: packet.into(), sender: *train.sender, time: train.time };
            if line.keep(fate, keep) {
                keep().deliver(fate.damage, each);
            }
            clean = next;
        }
        at = next;
        line.step(&mut |kept, damage| kept.deliver(damage, each));
    }
    stretch(clean, at, each);
}

impl<S: Source> Source for FaultSource<S> {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let (mut packets, mut bytes, mut trains) = (0, 0, 0);
        let mut count = |train: Train<'_>| {
            packets += train.count();
            bytes += train.bytes.len();
            trains += 1;
            each(train);
        };
        let line = &mut self.line;
        let came = self.inner.poll(wait, &mut |train| pass_train(line, &train, &mut count))?;
        if came == 0 && (!wait.is_zero() || self.inner.is_finished()) {
            line.flush(&mut |kept, damage| kept.deliver(damage, &mut count));
        }
        self.packets += packets as u64;
        self.bytes += bytes as u64;
        self.trains += trains;
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        SourceStats { packets: self.packets, bytes: self.bytes, trains: self.trains, ..self.inner.stats() }
    }

    fn describe(&self) -> String {
        format!("{}, with faults {}", self.inner.describe(), self.line.faults())
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished() && self.line.held() == 0
    }
}

/// Passes packets, or their numbers, through the faults.
///
/// A packet that is `n` places late is delivered after the `n`th packet following it. At most two packets are held for
/// each place of depth.
#[derive(Debug)]
pub struct Line<T> {
    plan: FaultPlan,
    /// Packets to deliver after packet number `n`, at `n` modulo the length.
    due: Vec<Vec<(T, Damage)>>,
    now: usize,
    held: usize,
}

impl<T: Clone> Line<T> {
    /// A line with these faults.
    #[must_use]
    pub fn new(faults: &Faults) -> Self {
        // A late packet's duplicate may be as late again.
        let places = faults.reorder as usize * 2 + 2;
        Self { plan: FaultPlan::new(faults), due: (0..places).map(|_| Vec::new()).collect(), now: 0, held: 0 }
    }

    /// Offer one packet. Packets delivered now go to `out`: none, this one, and others that were late.
    pub fn pass(&mut self, item: T, out: &mut impl FnMut(T, Damage)) {
        let fate = self.decide();
        if !self.keep(fate, || item.clone()) {
            self.step(out);
            return;
        }
        out(item, fate.damage);
        self.step(out);
    }

    /// The fate of the next packet. [`keep`](Self::keep), delivery and [`step`](Self::step) must follow.
    pub(super) fn decide(&mut self) -> Fate {
        self.plan.next_fate()
    }

    /// Keep the copies that are delivered later; returns whether the packet itself is delivered now.
    pub(super) fn keep(&mut self, fate: Fate, copy: impl Fn() -> T) -> bool {
        if fate.lost {
            return false;
        }
        if fate.late > 0 {
            self.hold(fate.late, copy(), fate.damage);
        }
        if let Some(again) = fate.again {
            self.hold(fate.late + again, copy(), fate.damage);
        }
        fate.late == 0
    }

    /// Whether packets pass as if there were no line, for as long as its faults are not changed.
    pub(super) fn is_idle(&self) -> bool {
        self.held == 0 && self.plan.is_idle()
    }

    /// Whether a late packet is delivered directly after the current one.
    pub(super) fn is_due(&self) -> bool {
        self.held > 0 && !self.due[self.now].is_empty()
    }

    fn hold(&mut self, late: u32, item: T, damage: Damage) {
        let place = (self.now + late as usize) % self.due.len();
        self.due[place].push((item, damage));
        self.held += 1;
    }

    /// Deliver the packets that are due after this one.
    pub(super) fn step(&mut self, out: &mut impl FnMut(T, Damage)) {
        if self.held > 0 {
            self.held -= self.due[self.now].len();
            for (item, damage) in self.due[self.now].drain(..) {
                out(item, damage);
            }
        }
        self.now = (self.now + 1) % self.due.len();
    }

    /// The input has ended (for now): deliver all packets held back, in order.
    pub fn flush(&mut self, out: &mut impl FnMut(T, Damage)) {
        for _ in 0..self.due.len() {
            if self.held == 0 {
                break;
            }
            self.step(out);
        }
    }

    /// Follow other faults from the next packet on. Packets held back are delivered first, in order.
    pub fn change(&mut self, faults: &Faults, out: &mut impl FnMut(T, Damage)) {
        self.flush(out);
        self.plan.change(faults);
        let places = faults.reorder as usize * 2 + 2;
        self.due.resize_with(places, Vec::new);
        self.now = 0;
    }

    /// Number of packets held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// The faults injected so far.
    #[must_use]
    pub fn injected(&self) -> &Injected {
        self.plan.injected()
    }

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        self.plan.faults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trains of numbered packets, 12 bytes each.
    struct Numbers {
        next: u32,
        end: u32,
    }

    impl Source for Numbers {
        fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
            let n = 40.min(self.end - self.next);
            let bytes: Vec<u8> =
                (self.next..self.next + n).flat_map(|n| [n.to_be_bytes(); 3].concat()).collect();
            self.next += n;
            let sender = SocketAddr::from(([127, 0, 0, 1], 1));
            if n > 0 {
                each(Train { bytes: &bytes, stride: 12, ..Train::single(&[], &sender) });
            }
            Ok(n as usize)
        }
        fn stats(&self) -> SourceStats {
            SourceStats::default()
        }
        fn describe(&self) -> String {
            "numbers".into()
        }
        fn is_finished(&self) -> bool {
            self.next == self.end
        }
    }

    fn run(text: &str, end: u32) -> (Vec<Vec<u8>>, FaultSource<Numbers>, usize) {
        let mut source = FaultSource::new(Numbers { next: 0, end }, &text.parse().unwrap());
        let (mut got, mut trains, mut said) = (Vec::new(), 0, 0);
        while !source.is_finished() {
            said += source
                .poll(Duration::ZERO, &mut |t| {
                    trains += 1;
                    got.extend(t.packets().map(<[u8]>::to_vec));
                })
                .unwrap();
        }
        assert_eq!((said, source.stats().packets), (got.len(), got.len() as u64));
        (got, source, trains)
    }

    #[test]
    fn without_faults_the_trains_are_untouched() {
        let (got, source, trains) = run("", 4000);
        assert_eq!((got.len(), trains), (4000, 100));
        assert_eq!(source.describe(), "numbers, with faults seed=1");
    }

    #[test]
    fn what_comes_out_equals_the_line_of_numbers() {
        let text = "loss=0.05,burst=9@0.001,reorder=16@0.2,duplicate=0.1,seed=4";
        let (got, source, _) = run(text, 20_000);
        let mut line = Line::new(&text.parse().unwrap());
        let mut expected = Vec::new();
        for n in 0..20_000u32 {
            line.pass(n, &mut |n, _| expected.push([n.to_be_bytes(); 3].concat()));
        }
        line.flush(&mut |n, _| expected.push([n.to_be_bytes(); 3].concat()));
        assert!(got == expected, "one engine serves sender and receiver");
        assert_eq!(source.injected(), line.injected());
    }

    #[test]
    fn damage_is_done_and_counted() {
        let (got, source, _) = run("corrupt=0.1,truncate=0.1,seed=6", 5000);
        let cut = got.iter().filter(|p| p.len() < 12).count();
        let flipped =
            got.iter().filter(|p| p.len() == 12 && (p[..4] != p[4..8] || p[4..8] != p[8..])).count();
        assert_eq!(cut as u64, source.injected().truncated);
        let corrupted = source.injected().corrupted as usize;
        assert!(flipped <= corrupted && flipped + cut >= corrupted, "{flipped} {cut} {corrupted}");
    }

    #[test]
    fn silence_lets_go_what_was_held() {
        let mut source = FaultSource::new(Numbers { next: 0, end: 10 }, &"reorder=1000@1".parse().unwrap());
        let mut got = 0;
        source.poll(Duration::ZERO, &mut |t| got += t.count()).unwrap();
        assert_eq!(got, 0, "all are late");
        source.poll(Duration::from_millis(1), &mut |t| got += t.count()).unwrap();
        assert_eq!(got, 10);
    }

    /// Everything that comes out for `count` numbered packets.
    fn run_line(text: &str, count: u64) -> (Vec<(u64, Damage)>, Injected) {
        let mut line = Line::new(&text.parse().unwrap());
        let mut out = Vec::new();
        for n in 0..count {
            line.pass(n, &mut |n, damage| out.push((n, damage)));
            assert!(line.held() <= 2 * (line.faults().reorder as usize * 2 + 2));
        }
        line.flush(&mut |n, damage| out.push((n, damage)));
        assert_eq!(line.held(), 0);
        (out, line.injected().clone())
    }

    #[test]
    fn without_faults_all_pass_in_order() {
        let (out, did) = run_line("", 1000);
        assert!(out.iter().enumerate().all(|(i, &(n, d))| i as u64 == n && d == Damage::NONE));
        assert_eq!((did.offered, did.lost()), (1000, 0));
    }

    #[test]
    fn what_is_late_is_late_by_no_more_than_the_depth() {
        let (out, did) = run_line("reorder=64@0.3,seed=2", 10_000);
        assert_eq!(out.len(), 10_000);
        let mut latest = 0;
        let mut late = 0;
        for &(n, _) in &out {
            assert!(n + 64 >= latest, "{n} came after {latest}");
            late += u64::from(n < latest);
            latest = latest.max(n);
        }
        assert!(late > 0 && late <= did.reordered);
        let mut sorted: Vec<_> = out.iter().map(|o| o.0).collect();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..10_000), "none lost, none twice");
    }

    #[test]
    fn the_account_equals_what_came_out() {
        let (out, did) = run_line(
            "loss=0.05,burst=20@0.002,reorder=16,duplicate=0.05,corrupt=0.01,truncate=0.01,seed=11",
            50_000,
        );
        assert_eq!(out.len() as u64, 50_000 - did.lost() + did.duplicated);
        let mut times = vec![0u32; 50_000];
        out.iter().for_each(|&(n, _)| times[n as usize] += 1);
        let lost: Vec<u64> = (0..).zip(&times).filter(|&(_, &t)| t == 0).map(|(n, _)| n).collect();
        assert!(did.lost_packets.ranges().iter().cloned().flatten().eq(lost));
        assert_eq!(times.iter().filter(|&&t| t == 2).count() as u64, did.duplicated);
    }

    #[test]
    fn a_duplicate_without_reordering_follows_at_once() {
        let (out, _) = run_line("duplicate=1", 3);
        assert!(out.iter().map(|o| o.0).eq([0, 0, 1, 1, 2, 2]));
    }
}
