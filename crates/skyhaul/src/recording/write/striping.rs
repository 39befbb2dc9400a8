//! Selects the disk for the next chunk.
//!
//! The disk that would finish it first, by its measured speed and its queue. Among those of about equal speed, the one
//! that has used the smallest fraction of its space: equal disks fill equally, and a larger one takes more. So a slow
//! disk gets what its speed allows; a disk that is full or has failed gets nothing. A hanging disk gets nothing either,
//! unless all hang: chunks then stay in memory until one responds.

/// State of a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::recording) struct Candidate {
    /// It may be given chunks.
    pub(in crate::recording) usable: bool,
    /// It hangs: used only if every other one does too.
    pub(in crate::recording) stalled: bool,
    /// Bytes waiting or being written there.
    pub(in crate::recording) backlog: u64,
    /// Its measured speed.
    pub(in crate::recording) seconds_per_byte: f64,
    /// For how long its oldest write is under way, in seconds.
    pub(in crate::recording) oldest: f64,
    /// Bytes free beyond its reserve.
    pub(in crate::recording) free: u64,
    /// Bytes it was given in this session.
    pub(in crate::recording) given: u64,
}

/// Disks within this factor of the fastest, plus [`SLACK`] seconds, count as equally fast.
const EQUAL: f64 = 1.5;
const SLACK: f64 = 0.005;

impl Candidate {
    /// Seconds until a chunk of `bytes` given now would be done. A write that is under way for long says that
    /// the disk is slower than was measured.
    pub(in crate::recording) fn finish(&self, bytes: u64) -> f64 {
        let estimate = (self.backlog + bytes) as f64 * self.seconds_per_byte;
        estimate.max(2.0 * self.oldest)
    }

    fn used(&self) -> f64 {
        self.given as f64 / (self.given + self.free).max(1) as f64
    }
}

/// The disk for a chunk of `bytes`, or `None` if none can take it.
pub(in crate::recording) fn choose(disks: &[Candidate], bytes: u64) -> Option<usize> {
    let room = || disks.iter().enumerate().filter(|(_, disk)| disk.usable && disk.free >= bytes);
    let all_hang = room().all(|(_, disk)| disk.stalled);
    let able = || room().filter(|(_, disk)| all_hang || !disk.stalled);
    let first = able().map(|(_, disk)| disk.finish(bytes)).min_by(f64::total_cmp)?;
    able()
        .filter(|(_, disk)| disk.finish(bytes) <= first * EQUAL + SLACK)
        .min_by(|(_, a), (_, b)| a.used().total_cmp(&b.used()))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn disk() -> Candidate {
        Candidate {
            usable: true,
            stalled: false,
            backlog: 0,
            seconds_per_byte: 1e-9,
            oldest: 0.0,
            free: 1000 * GB,
            given: 0,
        }
    }

    /// Give 1000 chunks of 16 MB at `rate` bytes a second to disks of `speeds`; how many each got.
    fn simulate(mut disks: Vec<Candidate>, rate: f64) -> Vec<u64> {
        let bytes = 16_000_000;
        let mut got = vec![0; disks.len()];
        for _ in 0..1000 {
            for disk in &mut disks {
                let done = (bytes as f64 / rate / disk.seconds_per_byte) as u64;
                disk.backlog = disk.backlog.saturating_sub(done);
            }
            let Some(index) = choose(&disks, bytes) else { continue };
            got[index] += 1;
            disks[index].backlog += bytes;
            disks[index].given += bytes;
            disks[index].free -= bytes;
        }
        got
    }

    #[test]
    fn equal_disks_share_equally_idle_or_busy() {
        for rate in [0.1e9, 3.5e9] {
            let got = simulate(vec![disk(); 4], rate);
            assert!(got.iter().all(|&n| (240..=260).contains(&n)), "{got:?}");
        }
    }

    #[test]
    fn a_slow_disk_gets_less_and_nothing_waits_for_it() {
        let slow = Candidate { seconds_per_byte: 200e-9, ..disk() };
        let got = simulate(vec![disk(), slow, disk()], 1.5e9);
        assert!(got[1] <= 10, "{got:?}");
        assert_eq!(got.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn a_larger_disk_takes_more() {
        let got = simulate(vec![disk(), Candidate { free: 3000 * GB, ..disk() }], 0.2e9);
        assert!((700..=800).contains(&got[1]), "{got:?}");
    }

    #[test]
    fn full_and_broken_disks_get_nothing() {
        let full = Candidate { free: 100, ..disk() };
        let broken = Candidate { usable: false, ..disk() };
        assert_eq!(choose(&[full, broken, disk()], 1000), Some(2));
        assert_eq!(choose(&[full, broken], 1000), None);
        assert_eq!(choose(&[], 0), None);
    }

    #[test]
    fn a_disk_that_hangs_is_better_than_none_and_worse_than_any_other() {
        let hangs = Candidate { stalled: true, oldest: 60.0, ..disk() };
        let slow = Candidate { seconds_per_byte: 1.0, ..disk() };
        let full = Candidate { free: 100, ..disk() };
        assert_eq!(choose(&[hangs, slow], 1000), Some(1));
        assert_eq!(choose(&[hangs, full], 1000), Some(0));
        assert_eq!(choose(&[Candidate { usable: false, ..hangs }], 1000), None);
    }

    #[test]
    fn a_disk_that_hangs_is_left_before_it_says_so() {
        let hangs = Candidate { oldest: 1.0, ..disk() };
        let busy = Candidate { backlog: GB / 2, given: GB, ..disk() };
        assert_eq!(choose(&[hangs, busy], 1000), Some(1));
    }
}
