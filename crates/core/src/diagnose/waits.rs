//! What a TCP flow waited for at its ends: the receiver's window, the send buffer, data.

use super::case::{Cause, Finding};
use super::flow::{BOUNDS, Flow, ReaderTimes, WindowDoubt, WindowLimit};

/// A sending thread that needs a CPU for at least this fraction of the time is slower than the path.
const BUSY: f64 = 0.8;
/// A disk that is waited for for more than this fraction of the time is slow.
const DISK: f64 = 0.4;

/// Causes at the ends, from the fractions of the time spent waiting for the receiver's window, the send buffer and
/// data.
pub(super) fn waits(flow: &Flow, [rwnd, sndbuf, idle]: [f64; 3], findings: &mut Vec<Finding>) {
    if rwnd > BOUNDS {
        window(flow, rwnd, findings);
    }
    if sndbuf > BOUNDS {
        let text = format!("{:.0} % of the time is the send buffer", percent(sndbuf));
        findings.push(bound(Cause::SendBuffer, sndbuf, text));
    }
    if idle > BOUNDS {
        let (cause, what) = match flow {
            _ if flow.disk_wait > DISK => (Cause::SlowDisk, "disk"),
            // It has data all the time, and produces segments more slowly than the path takes them.
            _ if flow.sender_busy > BUSY => (Cause::Sender, "CPU"),
            _ => (Cause::SlowApplication, "application"),
        };
        let mut text =
            format!("there was nothing to send {:.0} % of the time: the sender's {what}", percent(idle));
        if cause == Cause::Sender {
            text += &format!("; its thread used one, or waited for it, {:.0} %", percent(flow.sender_busy));
        }
        findings.push(bound(cause, idle, text));
    }
}

/// A window closes because it is small, or because the application does not read.
fn window(flow: &Flow, rwnd: f64, findings: &mut Vec<Finding>) {
    let kept = rwnd - flow.rwnd_outgrown / flow.seconds.max(1e-9);
    let of_window = format!("{:.0} % of the time is the receiver's window", percent(kept));
    if flow.disk_wait > DISK {
        let text = format!("a disk is waited for {:.0} % of the time", percent(flow.disk_wait));
        findings.push(bound(Cause::SlowDisk, rwnd, text));
        return;
    }
    let reader = flow.reader.unwrap_or_default();
    match flow.window_limit() {
        WindowLimit::PausingReader => findings.push(bound(Cause::PausingReader, rwnd, pauses(&reader))),
        WindowLimit::PausesAndBuffer(part) => {
            findings.push(bound(Cause::PausingReader, rwnd * (1.0 - part), pauses(&reader)));
            let text = format!("{of_window}, and {:.0} % of what it allows was reached", percent(part));
            findings.push(bound(Cause::ReceiverWindow, kept * part, text));
        }
        WindowLimit::SlowReader => {
            let away = match flow.reader {
                Some(reader) => 1.0 - reader.waited,
                None => flow.reader_away,
            };
            let text = format!("the receiver has data and does not read {:.0} % of the time", percent(away));
            findings.push(bound(Cause::SlowApplication, rwnd, text));
        }
        WindowLimit::SmallBuffer => findings.push(bound(Cause::ReceiverWindow, kept, of_window)),
        WindowLimit::Growing => {}
        WindowLimit::Unclear(doubt) => {
            let doubt = match doubt {
                WindowDoubt::SomePauses => pauses(&reader),
                WindowDoubt::Shrunk => {
                    "the window has shrunk, though the receiver's thread reads what comes".to_owned()
                }
                WindowDoubt::Room => format!(
                    "the kernel may make the buffer {:.0} times as large, and has not done so",
                    reader.room
                ),
                WindowDoubt::Queue => {
                    "a queue stands on the path, which a larger window would lengthen".to_owned()
                }
            };
            findings.push(Finding::new(Cause::ReceiverWindow, UNCLEAR, format!("{of_window}, but {doubt}")));
        }
    }
}

/// Confidence in a small window that something speaks against: it is not named.
const UNCLEAR: f64 = 0.45;

fn pauses(reader: &ReaderTimes) -> String {
    format!(
        "while data waited, the receiver did not read {:.0} % of the time: {} pauses, the longest of {:.0} ms",
        percent(reader.paused),
        reader.pauses,
        reader.longest * 1e3
    )
}

fn bound(cause: Cause, share: f64, text: String) -> Finding {
    Finding::new(cause, 0.5 + share / 2.0, text)
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::tcp;

    /// A flow of 10 s on a path of 100 ms that its receiver's window bounds for this part of the time: 147 KiB.
    fn flow(rwnd: f64, reader: Option<ReaderTimes>) -> Flow {
        Flow {
            seconds: 10.0,
            busy: 10.0,
            rwnd_limited: rwnd * 10.0,
            window: 150e3,
            received: Some(13_000_000),
            min_rtt: 0.1,
            segments: 9000,
            reader,
            ..Flow::default()
        }
    }

    /// A thread that did this, with a buffer that may become so many times as large.
    fn thread(short: f64, paused: f64, room: f64) -> Option<ReaderTimes> {
        let pauses = (paused * 100.0) as u32;
        Some(ReaderTimes { waited: 0.99 - short - paused, short, paused, pauses, longest: 0.12, room })
    }

    fn named(flow: &Flow) -> Vec<(Cause, f64)> {
        let found = tcp::diagnose(flow).into_iter();
        found.map(|found| (found.cause, (found.confidence * 100.0).round() / 100.0)).collect()
    }

    #[test]
    fn a_small_buffer_a_slow_reader_and_one_that_pauses_are_three_causes() {
        use Cause::{PausingReader, ReceiverWindow, SlowApplication};
        assert_eq!(named(&flow(0.9, thread(0.02, 0.0, 1.0))), [(ReceiverWindow, 0.95)]);
        assert_eq!(named(&flow(0.9, thread(0.8, 0.01, 1.0))), [(SlowApplication, 0.95)]);
        // One that reads large pieces slowly hardly waits, either.
        assert_eq!(named(&flow(0.9, thread(0.0, 0.985, 1.0))), [(SlowApplication, 0.95)]);
        let few = |paused| Flow { received: Some(4_000_000), ..flow(0.9, thread(0.02, paused, 1.0)) };
        assert_eq!(named(&few(0.3)), [(PausingReader, 0.95)]);
        assert_eq!(named(&few(0.9)), [(PausingReader, 0.95)]);
        let text = tcp::diagnose(&few(0.3))[0].evidence[0].clone();
        assert!(text.ends_with("did not read 30 % of the time: 30 pauses, the longest of 120 ms"), "{text}");
    }

    /// Live, 200 Mb/s and 100 ms, stopped for 50 of 55 ms: the window stayed at 147 KiB, and might have become 16 MiB.
    #[test]
    fn a_window_that_pauses_keep_small_is_no_small_buffer() {
        let seen = |paused, room| named(&flow(0.91, thread(0.0, paused, room)))[0];
        assert_eq!(seen(0.2, 136.0), (Cause::PausingReader, 0.96));
        // A buffer that could be larger is not the limit, whatever else is.
        assert_eq!(seen(0.0, 136.0), (Cause::ReceiverWindow, 0.45));
        assert_eq!(seen(0.0, 1.0), (Cause::ReceiverWindow, 0.96));
        // Pauses of a busy host are not enough to name one of both.
        assert_eq!(seen(0.05, 1.0), (Cause::ReceiverWindow, 0.45));
    }

    #[test]
    fn a_small_buffer_beside_pauses_is_named_by_what_its_window_allows() {
        // 87 % of a window each round trip.
        let both = named(&flow(0.9, thread(0.0, 0.12, 1.0)));
        assert_eq!(
            both.iter().map(|found| found.0).collect::<Vec<_>>(),
            [Cause::ReceiverWindow, Cause::PausingReader]
        );
        assert!(both[0].1 > 0.85 && both[1].1 < 0.6, "{both:?}");
    }

    #[test]
    fn a_receiver_that_reports_no_times_is_judged_by_its_window() {
        let away = |reader_away| Flow { reader_away, ..flow(0.9, None) };
        assert_eq!(named(&away(0.8)), [(Cause::SlowApplication, 0.95)]);
        assert_eq!(named(&away(0.0)), [(Cause::ReceiverWindow, 0.95)]);
        // A window that shrinks before a thread that reads at once is neither.
        let prompt = Flow { reader_away: 0.8, ..flow(0.9, thread(0.0, 0.0, 1.0)) };
        assert_eq!(named(&prompt), [(Cause::ReceiverWindow, 0.45)]);
    }

    #[test]
    fn a_window_that_grew_or_only_holds_a_queue_is_no_cause() {
        let grew = Flow { rwnd_outgrown: 3.0, ..flow(0.4, thread(0.0, 0.3, 4.0)) };
        assert_eq!(named(&grew), []);
        let queued = |rtt| {
            let round = tcp::Round { rtt, sent: 100, ..tcp::Round::default() };
            Flow { rounds: vec![round; 100], ..flow(0.9, thread(0.0, 0.0, 1.0)) }
        };
        assert_eq!(named(&queued(0.104)), [(Cause::ReceiverWindow, 0.95)]);
        assert_eq!(named(&queued(0.15)), [(Cause::ReceiverWindow, 0.45)]);
    }

    #[test]
    fn pauses_that_the_buffer_takes_cost_nothing() {
        assert_eq!(named(&flow(0.1, thread(0.0, 0.9, 1.0))), []);
    }
}
