//! Holds back late packets until it is their turn.

use super::{Damage, Fate, FaultPlan, Faults, Injected};

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

    /// Everything that comes out for `count` numbered packets.
    fn run(text: &str, count: u64) -> (Vec<(u64, Damage)>, Injected) {
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
        let (out, did) = run("", 1000);
        assert!(out.iter().enumerate().all(|(i, &(n, d))| i as u64 == n && d == Damage::NONE));
        assert_eq!((did.offered, did.lost()), (1000, 0));
    }

    #[test]
    fn what_is_late_is_late_by_no_more_than_the_depth() {
        let (out, did) = run("reorder=64@0.3,seed=2", 10_000);
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
        let (out, did) = run(
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
        let (out, _) = run("duplicate=1", 3);
        assert!(out.iter().map(|o| o.0).eq([0, 0, 1, 1, 2, 2]));
    }
}
