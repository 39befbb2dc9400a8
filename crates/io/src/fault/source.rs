//! Faults between a source and its reader.

use super::{Damage, Fate, Faults, Injected, Line};
use crate::source::{Source, SourceStats, Train};
use skyhaul_core::placement::Nanos;
use std::{io, net::SocketAddr, time::Duration};

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
}
