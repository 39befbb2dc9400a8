//! The highest rate without loss, and the reason why it is not higher.

use skyhaul_core::control::{Search, SearchConfig, Step};
use std::io;

/// Verdict of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything was sent and received.
    Whole,
    /// Something was lost.
    Lost,
    /// Nothing was lost, but the sender did not reach the rate.
    Slow,
}

/// Attempts of a sender that does not reach a rate, because other programs may have delayed it.
const TURNS: usize = 3;

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Bits per second; 0: even the minimum rate has loss.
    pub(super) bits: u64,
    /// The sender did not reach higher rates, so the receiver might handle more.
    pub(super) sender_ended: bool,
}

/// Call `one` for verdicts until the highest rate is confirmed three times; `None`: it was stopped.
pub(super) fn highest(
    start: u64,
    mut one: impl FnMut(u64) -> io::Result<Option<Verdict>>,
) -> io::Result<Option<Found>> {
    // No margin: the comparison is of each receiver's limit.
    let mut search = Search::new(SearchConfig { start, margin: 0.0, ..SearchConfig::default() });
    let mut least_bad = (u64::MAX, false);
    loop {
        match search.step() {
            Step::Try(rate) => {
                let mut verdict = Verdict::Slow;
                for _ in 0..TURNS {
                    let Some(now) = one(rate)? else { return Ok(None) };
                    verdict = now;
                    if now != Verdict::Slow {
                        break;
                    }
                }
                if verdict != Verdict::Whole && rate <= least_bad.0 {
                    least_bad = (rate, verdict == Verdict::Slow);
                }
                search.verdict(verdict == Verdict::Whole);
            }
            Step::Done(bits) => return Ok(Some(Found { bits, sender_ended: least_bad.1 })),
            Step::Nothing => return Ok(Some(Found { bits: 0, sender_ended: false })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that takes up to `takes`, a sender that reaches `reaches`.
    fn found(takes: u64, reaches: u64) -> Found {
        let one = |rate: u64| {
            Ok(Some(match rate {
                _ if rate > takes && reaches > takes => Verdict::Lost,
                _ if rate > reaches => Verdict::Slow,
                _ => Verdict::Whole,
            }))
        };
        highest(1_000_000_000, one).unwrap().unwrap()
    }

    #[test]
    fn the_receivers_end_is_found_or_the_senders() {
        for takes in [30_000_000, 1_000_000_000, 7_300_000_000, 61_000_000_000] {
            let found = found(takes, 90_000_000_000);
            assert!(found.bits <= takes && found.bits as f64 > takes as f64 * 0.97, "{takes}: {found:?}");
            assert!(!found.sender_ended, "{takes}");
        }
        let by_sender = found(60_000_000_000, 20_000_000_000);
        assert!(by_sender.sender_ended && by_sender.bits <= 20_000_000_000, "{by_sender:?}");
        assert_eq!(found(0, 1_000_000_000), Found { bits: 0, sender_ended: false });
    }

    #[test]
    fn a_sender_that_was_held_up_has_another_turn() {
        let mut turn = 0;
        let held_up = |rate: u64| {
            turn += 1;
            let slow = turn % 3 != 0;
            Ok(Some(match rate {
                _ if slow => Verdict::Slow,
                10_000_000_000.. => Verdict::Lost,
                _ => Verdict::Whole,
            }))
        };
        let found = highest(1_000_000_000, held_up).unwrap().unwrap();
        assert!(found.bits > 9_700_000_000 && !found.sender_ended, "{found:?}");
    }

    #[test]
    fn a_rate_holds_three_times_and_a_stop_ends_it() {
        // Above 8 Gb/s a rate holds once and not again.
        let mut tried = Vec::new();
        let sometimes = |rate: u64| {
            let lost = rate > 9_000_000_000 || (rate > 8_000_000_000 && tried.contains(&rate));
            tried.push(rate);
            Ok(Some(if lost { Verdict::Lost } else { Verdict::Whole }))
        };
        let found = highest(1_000_000_000, sometimes).unwrap().unwrap();
        assert!((7_000_000_000..=8_000_000_000).contains(&found.bits), "{found:?}");
        let mut trials = 0;
        let stopped = highest(1_000_000_000, |_| {
            trials += 1;
            Ok((trials < 4).then_some(Verdict::Whole))
        });
        assert_eq!(stopped.unwrap(), None);
        assert!(highest(1, |_| Err(io::ErrorKind::NotFound.into())).is_err());
    }
}
