//! Why the peer's window held a sender back: it was small, or the receiving application did not read.
//!
//! ```text
//!   small buffer    ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔   the same window all the time, always full
//!   tuned buffer    ▁▁▂▂▃▃▄▄▅▅▆▆▇▇▇▇▇▇▇   each window is the largest so far; what it held back at first, it outgrew
//!   reader pauses   ▇▅▁______▇▅▁______▇   what is not read takes its place in the buffer: the window closes
//!   reader is slow  ▂▆▇▅▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁   the buffer stays full, and the window is what was read last
//! ```
//!
//! So only the moments count at which the window is full, and each is compared with the largest window that was announced before it.
//! A mean over the whole flow does not tell: on a host that tunes its buffers up to a large limit, most of the time passes after
//! the window has grown, and without a wait.
//!
//! Limits: a reader that was slow from its first byte on, and for which the window never was larger, looks like a small window. So does
//! one whose pauses keep the kernel from tuning its buffer: where a round trip is longer than a pause, each brings only what the window let
//! through, which is no reason to let it grow.

use skyhaul_io::tcp::info::TcpInfo;
use std::time::Duration;

/// A window below this fraction of the largest before it has shrunk: the receiver's buffer is more than half full.
const SHRUNK: f64 = 0.5;

/// Time that a sender waited for the peer's window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Largest window announced so far, in bytes.
    largest: u32,
    /// What the kernel had counted at the reading before.
    counted: Duration,
    /// Waited with a window of full size, by the binary logarithm of that size.
    full: [Duration; 32],
    /// Waited with a window that had shrunk.
    shrunk: Duration,
}

impl Held {
    /// For a flow that begins with this window of the peer, which a fast flow has filled when it is first looked at.
    pub(super) fn new(window: u32) -> Self {
        Self { largest: window, ..Self::default() }
    }

    /// Take in a reading.
    pub(super) fn look(&mut self, info: &TcpInfo) {
        let counted = info.limited.receive_window;
        let since = counted.saturating_sub(std::mem::replace(&mut self.counted, counted));
        let Some(window) = info.snd_wnd else { return };
        if is_full(info, window) {
            let shrunk = f64::from(window) < SHRUNK * f64::from(self.largest);
            let size = window.max(1).ilog2() as usize;
            *(if shrunk { &mut self.shrunk } else { &mut self.full[size] }) += since;
        }
        self.largest = self.largest.max(window);
    }

    /// From here on it counts; windows that were announced before stay known.
    pub(super) fn restart(&mut self) {
        (self.full, self.shrunk) = <_>::default();
    }

    /// Fraction of the wait in which the window had shrunk, 0 to 1.
    pub(super) fn away(&self) -> f64 {
        self.part(self.shrunk)
    }

    /// Fraction of the wait in which the window was as large as ever before, and less than half as large as it became, 0 to 1.
    pub(super) fn outgrown(&self) -> f64 {
        let sizes = self.largest.max(1).ilog2().saturating_sub(1) as usize;
        self.part(self.full[..sizes].iter().sum())
    }

    fn part(&self, time: Duration) -> f64 {
        let all = self.full.iter().sum::<Duration>() + self.shrunk;
        if all.is_zero() { 0.0 } else { time.as_secs_f64() / all.as_secs_f64() }
    }
}

/// Whether the peer's window is what keeps the next segment back, as the kernel asks (`tcp_snd_wnd_test`).
fn is_full(info: &TcpInfo, window: u32) -> bool {
    let next = (u64::from(info.unacked) + 1) * u64::from(info.snd_mss);
    info.notsent > 0 && info.unacked < info.snd_cwnd && next > u64::from(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::tcp::info::Limited;

    const SEGMENT: u64 = 1448;

    /// How the receiver's application reads: all there is, except in pauses; or no more than so many bytes per millisecond.
    enum Reader {
        Quick,
        Pauses { every: usize, length: usize },
        Slow(u64),
    }

    /// The receiver's buffer in bytes.
    #[derive(Clone, Copy)]
    enum Room {
        Fixed(u64),
        /// Twice what was read in the last round trip, up to a limit.
        Tuned(u64),
    }

    /// What a sender sees of 4 s on a path of so many milliseconds and bytes per millisecond: the part of the time that it waited for
    /// the window, and the parts of that in which the window had shrunk, and which it outgrew.
    fn play(trip: usize, line: u64, room: Room, reader: &Reader) -> (f64, f64, f64) {
        const TIME: usize = 4000;
        let half = trip.div_ceil(2);
        // By the millisecond: sent, read, and the end of the window as announced.
        let mut sent = vec![0u64; TIME];
        let (mut read, mut edge) = (vec![0u64; TIME], vec![65_536u64; TIME]);
        let mut arrived = vec![0u64; TIME];
        let (mut buffer, mut limited, mut held) = (65_536, Duration::ZERO, Held::new(65_536));
        for now in 1..TIME {
            let past = now.saturating_sub(half);
            arrived[now] = sent[past];
            let wanted = match *reader {
                Reader::Quick => u64::MAX,
                Reader::Pauses { every, length } => {
                    if now % every < length {
                        0
                    } else {
                        u64::MAX
                    }
                }
                Reader::Slow(most) => most,
            };
            read[now] = arrived[now].min(read[now - 1].saturating_add(wanted));
            buffer = match room {
                Room::Fixed(bytes) => bytes,
                Room::Tuned(most) => {
                    (2 * (read[now] - read[now.saturating_sub(trip.max(1))])).clamp(buffer, most)
                }
            };
            edge[now] = edge[now - 1].max(read[now] + buffer);
            let (acked, end) = (arrived[past], edge[past]);
            sent[now] = (sent[now - 1] + line).min(end).max(sent[now - 1]);
            if end < sent[now] + SEGMENT {
                limited += Duration::from_millis(1);
            }
            if now % 10 == 0 {
                held.look(&TcpInfo {
                    snd_mss: SEGMENT as u32,
                    unacked: ((sent[now] - acked) / SEGMENT) as u32,
                    snd_cwnd: 1 << 20,
                    notsent: 1 << 20,
                    snd_wnd: Some((end - acked) as u32),
                    limited: Limited { receive_window: limited, ..Limited::default() },
                    ..TcpInfo::default()
                });
            }
        }
        (limited.as_secs_f64() / 4.0, held.away(), held.outgrown())
    }

    /// Bytes per millisecond of 100 Mb/s.
    const LINE: u64 = 12_500;

    #[test]
    fn a_small_window_is_always_announced_in_full() {
        for (trip, room) in [(20, 65_536), (20, 131_072), (100, 65_536), (100, 524_288)] {
            let (waited, away, outgrown) = play(trip, LINE, Room::Fixed(room), &Reader::Quick);
            assert!(waited > 0.3 && away + outgrown < 0.1, "{trip} ms, {room}: {waited} {away} {outgrown}");
        }
    }

    #[test]
    fn a_window_that_grows_is_never_far_below_what_it_was() {
        for trip in [20, 100, 300] {
            let (waited, away, outgrown) = play(trip, 10 * LINE, Room::Tuned(1 << 28), &Reader::Quick);
            assert!(waited > 0.0 && away < 0.1 && outgrown > 0.5, "{trip} ms: {waited} {away} {outgrown}");
        }
        // One that may grow no further holds back most of the time at its full size.
        let (waited, away, outgrown) = play(100, 10 * LINE, Room::Tuned(1 << 20), &Reader::Quick);
        assert!(waited > 0.5 && away < 0.1 && outgrown < 0.3, "{waited} {away} {outgrown}");
    }

    /// With a buffer that is tuned to a large limit, most of the time passes without a wait, and the mean window is large.
    #[test]
    fn a_reader_that_pauses_closes_the_window_however_large_the_buffer_may_become() {
        for trip in [2, 20, 100] {
            for room in [Room::Fixed(1 << 23), Room::Tuned(6 << 20), Room::Tuned(1 << 28)] {
                for length in [270, 450] {
                    let (waited, away, _) =
                        play(trip, LINE * 4, room, &Reader::Pauses { every: 500, length });
                    assert!(waited < 0.1 || away > 0.4, "{trip} ms, {length}: {waited} {away}");
                }
            }
        }
    }

    #[test]
    fn a_reader_that_is_slow_leaves_the_window_small_behind_a_larger_one() {
        for (trip, rate) in [(2, LINE / 10), (20, LINE / 10), (20, LINE / 50), (100, LINE / 40)] {
            let (waited, away, _) = play(trip, LINE, Room::Tuned(1 << 22), &Reader::Slow(rate));
            assert!(waited > 0.5 && away > 0.7, "{trip} ms, {rate}: {waited} {away}");
        }
    }

    #[test]
    fn a_kernel_that_does_not_tell_the_window_accuses_no_reader() {
        let mut held = Held::default();
        let limited = Limited { receive_window: Duration::from_secs(1), ..Limited::default() };
        held.look(&TcpInfo { notsent: 1, snd_cwnd: 10, limited, ..TcpInfo::default() });
        assert!(held.away().abs() < 1e-9);
    }
}
