//! What bounded a sender, from the kernel's own accounts of its time first, and from patterns only within the rest.
//!
//! ```text
//!   time ─┬─ nothing to send ─────────── the application (or its CPU)
//!         ├─ the peer's window full ──── its buffer, or its application if the window shrinks
//!         ├─ send buffer too small ───── this end's buffer
//!         └─ the rest ─┬─ losses, all at one window or of many segments ─── a shallow buffer, or a policer
//!                      ├─ losses at any window, of one or two ───────────── loss
//!                      └─ no loss ───────────────────────────────────────── slow start, pacing, the CPU, or a path that is full
//! ```
//!
//! Limits: one end's view. That the receiving application is slow shows only in its window.

use super::bound::{Bound, Verdict};
use super::losses::{losses, median, together};
use super::report::{Counts, FlowReport, Waited};
use skyhaul_core::diagnose::tcp::{FEWEST, TIMES, TOGETHER};
use skyhaul_core::predict::cubic_rate;
use skyhaul_io::quantity::Size;
use skyhaul_io::tcp::{info::TcpInfo, tune::LARGEST_WINDOW};

/// A part of a CPU that counts as all of it: the rest is taken by interrupts and other programs.
const BUSY_CPU: f64 = 0.85;
/// A round trip so many times the least, just before losses, has waited in a queue: the bottleneck was full.
const QUEUED: f64 = 1.2;
/// Windows that mostly differ from their median by less than this part of it are the same. A shallow buffer gives 0.00, random losses of
/// 1e-3 at 10 ms give 0.18.
const SAME: f64 = 0.1;

/// A part of the time that the send buffer held back its writer that is no chance.
const HELD: f64 = 0.15;

/// Means over the samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// The peer's window in bytes.
    pub(super) peer_window: f64,
    /// Part of the samples in which the application had less to send than the window allowed.
    pub(super) idle: f64,
}

/// Judge a flow by where its time went.
pub(super) fn judge(flow: &FlowReport, waited: &Waited, means: Means, last: &TcpInfo) -> Verdict {
    let seconds = flow.end - flow.begin;
    let cpu = (flow.cpu_user_seconds + flow.cpu_system_seconds) / seconds.max(1e-9);
    let parts = [waited.application, waited.receive_window, waited.send_buffer, waited.path];
    let most = parts.into_iter().fold(0.0, f64::max);
    if most <= 0.0 || flow.bytes == 0 {
        return verdict(Bound::Unknown, 0.0, "nothing was sent".into(), None);
    }
    if most == waited.path {
        return of_path(flow, waited, cpu, means.idle, last);
    }
    if most == waited.receive_window {
        return of_peer(flow, most, means.peer_window);
    }
    if most == waited.send_buffer {
        return of_buffer(flow, most);
    }
    if cpu > BUSY_CPU {
        return of_cpu(cpu);
    }
    let text = format!("{} nothing to send: the application is slow", percent(most));
    verdict(Bound::Application, most, text, None)
}

fn of_buffer(flow: &FlowReport, share: f64) -> Verdict {
    let (has, wants) = wanted(flow.send_buffer);
    let text = format!("{} send buffer: {has} hold less than the path", percent(share));
    let hint =
        format!("--window {wants}, or `sysctl -w net.ipv4.tcp_wmem=\"4096 16384 {}\"` here", wants.bytes());
    verdict(Bound::SendBuffer, share, text, Some(hint))
}

fn of_peer(flow: &FlowReport, share: f64, mean_peer_window: f64) -> Verdict {
    let most = flow.counts.peer_window_most;
    // A window that only fills is announced as it is; one whose reader is slow shrinks.
    if mean_peer_window < 0.6 * most as f64 {
        let text =
            format!("{} receiver's window, which shrinks: the receiving application is slow", percent(share));
        let hint = "look at the receiver's CPU and disks, or receive without copying".to_owned();
        return verdict(Bound::SlowReceiver, share, text, Some(hint));
    }
    let (has, wants) = wanted(most);
    let text = format!("{} receiver's window: {has} are all it announces", percent(share));
    let hint = if most >= LARGEST_WINDOW / 2 {
        "TCP allows no larger window: use more flows".to_owned()
    } else {
        format!(
            "on the receiver `sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {}\"`, or --window {wants}",
            wants.bytes() * 2
        )
    };
    verdict(Bound::ReceiveWindow, share, text, Some(hint))
}

fn of_path(flow: &FlowReport, waited: &Waited, cpu: f64, idle: f64, last: &TcpInfo) -> Verdict {
    let share = waited.path;
    let Counts { retransmits, segments, .. } = flow.counts;
    if retransmits > 0 && matters(flow) {
        return of_losses(flow, share);
    }
    if cpu > BUSY_CPU {
        return of_cpu(cpu);
    }
    if last.max_pacing_rate != u64::MAX
        && last.max_pacing_rate > 0
        && !at_most(flow, last.max_pacing_rate * 8)
    {
        let text = format!("the rate was set to {}", rate(last.max_pacing_rate as f64 * 8.0));
        return verdict(Bound::Pacing, share, text, None);
    }
    // Data were under way, but only because acknowledgements take their time. A writer that was held again and again had more.
    if idle > 0.5 && waited.send_buffer > HELD {
        return of_buffer(flow, idle);
    }
    if idle > 0.5 {
        let text = format!(
            "{} of the time less to send than the window allows: the application is slow",
            percent(idle)
        );
        return verdict(Bound::Application, idle, text, None);
    }
    // A threshold that was never set: slow start was not left.
    let growing = last.snd_ssthresh > 1 << 30 && flow.end - flow.begin < 20.0 * flow.counts.rtt_mean;
    if growing {
        let text = format!("slow start: {segments} segments were too few to open the window");
        return verdict(Bound::SlowStart, share, text, Some("send more, or for longer".into()));
    }
    let Counts { rtt_least, rtt_mean, .. } = flow.counts;
    let queue = if rtt_mean > 1.5 * rtt_least { "with a queue" } else { "without a queue" };
    let text = format!(
        "the path: {} {queue}, round trip {:.3} ms, at least {:.3} ms",
        rate(flow.bits_per_second),
        rtt_mean * 1e3,
        rtt_least * 1e3
    );
    verdict(Bound::Path, share, text, None)
}

/// Whether losses as rare as these can bound such a rate: the models are right within a factor of 4.
fn matters(flow: &FlowReport) -> bool {
    let Counts { retransmits, segments, rtt_mean, .. } = flow.counts;
    let loss = f64::from(retransmits) / f64::from(segments.max(1));
    rtt_mean <= 0.0 || cubic_rate(f64::from(flow.segment_bytes), rtt_mean, loss) < 4.0 * flow.bits_per_second
}

/// Whether the rate stayed well below a limit.
fn at_most(flow: &FlowReport, limit: u64) -> bool {
    flow.bits_per_second < 0.8 * limit as f64
}

fn of_losses(flow: &FlowReport, share: f64) -> Verdict {
    let Counts { retransmits, segments, doubled, rtt_least, .. } = flow.counts;
    let lost = f64::from(retransmits.saturating_sub(doubled)) / f64::from(segments.max(1));
    let losses = losses(flow);
    let windows = || losses.iter().map(|loss| loss.before.congestion_window as f64);
    // Medians: the end of slow start loses at a window of its own.
    let window = median(windows());
    let spread = median(windows().map(|one| (one - window).abs()));
    let queue = median(losses.iter().map(|loss| loss.before.rtt)) > QUEUED * rtt_least;
    let later = losses.get(1..).unwrap_or_default();
    let each = together(later);
    let is_burst = each >= TOGETHER;
    let same = spread < SAME * window && (queue || later.len() as u64 >= TIMES);
    // Behind a full queue one loss is enough to know; without, a pattern is needed.
    let few = (losses.len() as u64) < FEWEST;
    if (queue || !few) && (few || is_burst || same) {
        let size = Size::from_bytes(window as u64 / 1024 * 1024);
        let what = match is_burst {
            true => format!("{each:.0} segments lost each time, with about {size} under way"),
            false => format!("losses whenever about {size} are under way"),
        };
        let text = format!("{} path: {what} ({retransmits} of {segments} segments)", percent(share));
        let (bound, hint) = if queue {
            (Bound::Path, "the bottleneck is full: more is not to be had".to_owned())
        } else {
            let hint = "a shallow buffer or a policer: set a rate below it, or --cc bbr";
            (Bound::ShallowBuffer, hint.to_owned())
        };
        return verdict(bound, share, text, Some(hint));
    }
    let text =
        format!("{} path: {retransmits} of {segments} segments sent again, {lost:.1e} lost", percent(share));
    verdict(Bound::Loss, share, text, Some("find the lossy link, use larger segments, or --cc bbr".into()))
}

fn of_cpu(cpu: f64) -> Verdict {
    let text = format!("the CPU: the sending thread used {} of one", percent(cpu.min(1.0)));
    let hint =
        "send without copying (--zerocopy), use larger segments (MTU 9000), or more flows on more CPUs";
    verdict(Bound::Cpu, cpu.min(1.0), text, Some(hint.into()))
}

fn verdict(bound: Bound, share: f64, text: String, hint: Option<String>) -> Verdict {
    Verdict { bound, share, text, hint }
}

/// What there is, and the next power of two that is at least twice as much.
fn wanted(bytes: u64) -> (Size, Size) {
    let wants = bytes.saturating_mul(2).max(1 << 16).next_power_of_two().min(LARGEST_WINDOW);
    (Size::from_bytes(bytes), Size::from_bytes(wants))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn rate(bits: f64) -> String {
    let (unit, by) = match bits {
        b if b >= 1e9 => ("Gb/s", 1e9),
        b if b >= 1e6 => ("Mb/s", 1e6),
        _ => ("kb/s", 1e3),
    };
    format!("{:.3} {unit}", bits / by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tcp::{Direction, Sample};

    /// A flow with losses at these windows (in segments) and round trips (in ms), on a path of 50 ms; two segments each time.
    fn lossy(losses: &[(u64, f64)]) -> FlowReport {
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let mut trace = Vec::new();
        for (n, &(window, trip)) in losses.iter().enumerate() {
            let before = Sample {
                at: n as f64,
                congestion_window: window * 1448,
                rtt: trip / 1e3,
                retransmits: n as u32 * 2,
                ..Sample::default()
            };
            let lost = Sample { at: before.at + 0.01, retransmits: n as u32 * 2 + 1, ..before };
            // More of the same burst, while the window is halved.
            let again = Sample {
                at: lost.at + 0.02,
                retransmits: n as u32 * 2 + 2,
                congestion_window: before.congestion_window / 2,
                ..before
            };
            trace.extend([before, lost, again]);
        }
        FlowReport {
            direction: Direction::Send,
            local: at,
            remote: at,
            congestion: "cubic".into(),
            segment_bytes: 1448,
            send_buffer: 1 << 24,
            receive_buffer: 1 << 24,
            begin: 0.0,
            end: 10.0,
            omitted_bytes: 0,
            bytes: 1 << 27,
            bits_per_second: 1e8,
            cpu_user_seconds: 0.0,
            cpu_system_seconds: 0.1,
            cpu_seconds_per_gb: 0.1,
            calls: 1,
            intervals: Vec::new(),
            counts: Counts {
                retransmits: losses.len() as u32,
                segments: 90_000,
                rtt_least: 0.05,
                ..Counts::default()
            },
            trace,
            waited: None,
            verdict: None,
            error: None,
        }
    }

    /// What the lab made: a buffer of 64 KiB on a path that holds 500 KB.
    #[test]
    fn less_than_the_window_allows_is_a_send_buffer_that_held_its_writer_or_an_application() {
        let flow = FlowReport { send_buffer: 1 << 15, ..lossy(&[]) };
        let bound = |send_buffer: f64| {
            let waited = Waited { send_buffer, path: 1.0 - send_buffer, ..Waited::default() };
            judge(&flow, &waited, Means { peer_window: 1e6, idle: 0.94 }, &TcpInfo::default()).bound
        };
        assert_eq!((bound(0.3), bound(0.02)), (Bound::SendBuffer, Bound::Application));
    }

    /// What the lab made: a full bottleneck, a buffer of a twentieth of it, and random loss.
    #[test]
    fn losses_are_told_apart_by_the_window_and_the_queue_before_them() {
        let bound = |losses: &[(u64, f64)]| of_losses(&lossy(losses), 1.0).bound;
        assert_eq!(bound(&[(1700, 98.0), (1720, 99.0), (1690, 97.5), (1710, 99.0)]), Bound::Path);
        assert_eq!(
            bound(&[(3200, 99.0), (1720, 99.0), (1690, 97.5), (1710, 99.0)]),
            Bound::Path,
            "slow start"
        );
        let shallow =
            [(900, 52.0), (910, 52.5), (880, 51.0), (905, 52.0), (900, 52.0), (910, 52.5), (905, 52.0)];
        assert_eq!(bound(&shallow), Bound::ShallowBuffer);
        assert_eq!(bound(&shallow[..4]), Bound::Loss, "a few may be alike by chance");
        assert_eq!(bound(&[(200, 50.0), (950, 50.5), (410, 50.0), (1500, 51.0)]), Bound::Loss);
        // Two make no pattern, but a full queue shows at once.
        assert_eq!(bound(&[(900, 52.0), (910, 52.5)]), Bound::Loss);
        assert_eq!(bound(&[(1700, 98.0)]), Bound::Path);
        // At any window, but many together: bursts overrun a short buffer.
        let mut bursts = lossy(&[(400, 50.0), (200, 50.0), (410, 50.0), (300, 51.0)]);
        bursts.trace.iter_mut().for_each(|sample| sample.retransmits *= 10);
        let verdict = of_losses(&bursts, 1.0);
        assert_eq!(verdict.bound, Bound::ShallowBuffer);
        assert!(verdict.text.contains("20 segments lost each time"), "{}", verdict.text);
        // Losses at any window, some of them behind a queue.
        assert_eq!(bound(&[(1700, 98.0), (400, 50.0), (1200, 70.0), (300, 50.0), (800, 55.0)]), Bound::Loss);
    }
}
