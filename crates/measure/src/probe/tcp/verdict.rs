//! What bounded a sender, from the kernel's own accounts of its time first, and from patterns only within the rest.
//!
//! ```text
//!   time ─┬─ nothing to send ─────────── the application (or its CPU)
//!         ├─ the peer's window full ──── its buffer, or its application if the window shrinks
//!         ├─ send buffer too small ───── this end's buffer
//!         └─ the rest ─┬─ losses ── their pattern (`skyhaul_core::diagnose::tcp`): a full or a shallow queue, a policer, bursts,
//!                      │            single losses, or none that tells
//!                      └─ no loss ─ slow start, pacing, the CPU, or a path that is full
//! ```
//!
//! Limits: one end's view, until the receiver has reported what its thread did ([`ask_receiver`]). Before, a slow or pausing application
//! shows only in its window.
//!
//! A flow round trip by round trip, as its trace tells, for what judges its losses.
//!
//! ```text
//!   samples  ··|·····|·····|··r··|··r··|·····     each 10 ms; r: more was sent again
//!   rounds     └─ 1 ─┴─ 2 ─┴─ 3 ─┴─ 4 ─┴─ 5
//! ```

use super::report::{FlowReport, FlowVerdict, SenderWaits, TcpBottleneck, TcpCounts, TcpSample};
use skyhaul_core::diagnose::tcp::{Flow, Pattern, ReaderTimes, Round, WindowLimit};
use skyhaul_core::predict::cubic_rate;
use skyhaul_core::units::display_rate;
use skyhaul_io::quantity::Size;
use skyhaul_io::tcp::info::TcpInfo;
use skyhaul_io::tcp::tune::LARGEST_WINDOW;

/// A part of a CPU that counts as all of it: the rest is taken by interrupts and other programs.
const BUSY_CPU: f64 = 0.85;
/// A part of the time that a thread waited for a CPU that is worth a word: other programs use it.
const WAITED: f64 = 0.1;
/// A part of the time that the send buffer held back its writer that is no chance.
const HELD: f64 = 0.15;

/// Means over the samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// Part of the samples in which the application had less to send than the window allowed.
    pub(super) idle: f64,
    /// The application writes whenever it can: no rate was set.
    pub(super) always: bool,
}

/// Part of the time that a flow's thread was on a CPU, or ready to run and waited for one.
pub(super) fn sender_busy(flow: &FlowReport) -> f64 {
    let busy = flow.cpu_user_seconds + flow.cpu_system_seconds + flow.cpu_wait_seconds;
    (busy / (flow.end - flow.begin).max(1e-9)).min(1.0)
}

/// Judge a flow by where its time went.
pub(super) fn judge(flow: &FlowReport, waited: &SenderWaits, means: Means, last: &TcpInfo) -> FlowVerdict {
    let cpu = sender_busy(flow);
    let parts = [waited.application, waited.receive_window, waited.send_buffer, waited.path];
    let most = parts.into_iter().fold(0.0, f64::max);
    if most <= 0.0 || flow.bytes == 0 {
        return verdict(TcpBottleneck::Unknown, 0.0, "nothing was sent".into(), None);
    }
    if most == waited.path {
        return of_path(flow, waited, cpu, means, last);
    }
    if most == waited.receive_window {
        return of_peer(flow, waited, None);
    }
    if most == waited.send_buffer {
        return of_buffer(flow, most);
    }
    if cpu > BUSY_CPU {
        return of_cpu(flow, cpu);
    }
    let text = format!("{} with nothing to send: the application is slow", percent(most));
    verdict(TcpBottleneck::Application, most, text, None)
}

fn of_buffer(flow: &FlowReport, share: f64) -> FlowVerdict {
    let (has, wants) = wanted(flow.send_buffer);
    let text = format!("{} send buffer: {has} is less than the path holds", percent(share));
    let hint =
        format!("--windows {wants}, or `sysctl -w net.ipv4.tcp_wmem=\"4096 16384 {}\"` here", wants.bytes());
    verdict(TcpBottleneck::SendBuffer, share, text, Some(hint))
}

/// Correct the verdict of a sender by what its receiver reports: by what the receiver's thread did, if its window held the sender
/// back, and if nothing arrived.
pub(super) fn ask_receiver(sender: &mut FlowReport, receiver: &FlowReport) {
    use TcpBottleneck::{ReceiveWindow, SlowReceiver};
    let of_peer_window =
        sender.verdict.as_ref().is_some_and(|said| matches!(said.bound, ReceiveWindow | SlowReceiver));
    if let (true, Some(waited)) = (of_peer_window, sender.waited) {
        sender.verdict = Some(of_peer(sender, &waited, Some(receiver)));
    } else if let Some(waited) = sender.waited
        && with_receiver(sender, &waited, Some(receiver)).has_vanished()
    {
        sender.verdict = Some(of_nothing(sender));
    }
}

fn of_nothing(flow: &FlowReport) -> FlowVerdict {
    let text =
        format!("nothing arrived of {} segments, though the connection was made", flow.counts.segments);
    let hint = "--tcp --diagnose finds whether long packets vanish on the path".to_owned();
    verdict(TcpBottleneck::Unknown, 1.0, text, Some(hint))
}

/// What a sender's kernel counted, and what its receiver reports.
pub(super) fn with_receiver(
    sender: &FlowReport,
    waited: &SenderWaits,
    receiver: Option<&FlowReport>,
) -> Flow {
    let known = lossy(sender);
    let seconds = known.seconds;
    Flow {
        rwnd_limited: waited.receive_window * seconds,
        reader_away: waited.reader_away,
        rwnd_outgrown: waited.window_outgrown * seconds,
        window: sender.counts.peer_window_most as f64,
        received: receiver.map(|receiver| receiver.bytes + receiver.omitted_bytes),
        reader: receiver.and_then(reader_times),
        ..known
    }
}

/// What the thread of a receiver did, as parts of its time; `None` if it does not report that, or did nothing.
fn reader_times(receiver: &FlowReport) -> Option<ReaderTimes> {
    let reader = receiver.reader.filter(|reader| reader.seconds > 0.0)?;
    let part = |seconds: f64| (seconds / reader.seconds).clamp(0.0, 1.0);
    Some(ReaderTimes {
        waited: part(reader.waited_seconds),
        short: part(reader.short_seconds),
        paused: part(reader.paused_seconds),
        pauses: reader.pauses,
        longest: reader.longest_pause,
        room: reader.buffer_limit as f64 / receiver.receive_buffer.max(1) as f64,
    })
}

fn of_peer(flow: &FlowReport, waited: &SenderWaits, receiver: Option<&FlowReport>) -> FlowVerdict {
    let (most, share) = (flow.counts.peer_window_most, waited.receive_window);
    let known = with_receiver(flow, waited, receiver);
    let limit = known.window_limit();
    match limit {
        WindowLimit::PausingReader | WindowLimit::PausesAndBuffer(_) => {
            let reader = known.reader.unwrap_or_default();
            let text = format!(
                "{} receiver's window: the receiving application pauses {} of the time, for up to {:.0} ms",
                percent(share),
                percent(reader.paused),
                reader.longest * 1e3
            );
            let held = flow.bits_per_second / 8.0 * reader.longest;
            let hint = format!(
                "find what the receiving program waits for; a receive buffer of {} holds what comes in such a pause",
                wanted(held as u64).1
            );
            return verdict(TcpBottleneck::PausingReceiver, share, text, Some(hint));
        }
        WindowLimit::SlowReader => {
            let text = format!(
                "{} receiver's window, which shrinks: the receiving application is slow",
                percent(share)
            );
            let hint = "check the receiver's CPU and disks, or receive without copying".to_owned();
            return verdict(TcpBottleneck::SlowReceiver, share, text, Some(hint));
        }
        WindowLimit::SmallBuffer | WindowLimit::Growing | WindowLimit::Unclear(_) => {}
    }
    if waited.window_outgrown > share / 2.0 {
        let text = format!("{} receiver's window, which was growing", percent(share));
        return verdict(TcpBottleneck::SlowStart, share, text, Some("send more, or for longer".into()));
    }
    let (has, wants) = wanted(most);
    let text = format!("{} receiver's window: it advertises at most {has}", percent(share));
    if matches!(limit, WindowLimit::Unclear(_)) {
        return verdict(TcpBottleneck::ReceiveWindow, share, text, None);
    }
    let hint = if most >= LARGEST_WINDOW / 2 {
        "TCP allows no larger window: use more flows".to_owned()
    } else {
        format!(
            "on the receiver `sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {}\"`, or --windows {wants} here",
            wants.bytes() * 2
        )
    };
    verdict(TcpBottleneck::ReceiveWindow, share, text, Some(hint))
}

fn of_path(flow: &FlowReport, waited: &SenderWaits, cpu: f64, means: Means, last: &TcpInfo) -> FlowVerdict {
    let (share, idle) = (waited.path, means.idle);
    let TcpCounts { retransmits, segments, .. } = flow.counts;
    if retransmits > 0 && matters(flow) {
        return of_losses(flow, share);
    }
    if cpu > BUSY_CPU {
        return of_cpu(flow, cpu);
    }
    if last.max_pacing_rate != u64::MAX
        && last.max_pacing_rate > 0
        && !at_most(flow, last.max_pacing_rate * 8)
    {
        let text = format!("the rate was set to {}", display_rate(last.max_pacing_rate as f64 * 8.0));
        return verdict(TcpBottleneck::Pacing, share, text, None);
    }
    // Data were under way, but only because acknowledgements take their time. A writer that was held again and again had more; so
    // had one that writes whenever it can, and neither used a CPU nor waited for one.
    if idle > 0.5 && (waited.send_buffer > HELD || means.always) {
        return of_buffer(flow, idle);
    }
    if idle > 0.5 {
        let text = format!(
            "{} of the time with less to send than the window allows: the application is slow",
            percent(idle)
        );
        return verdict(TcpBottleneck::Application, idle, text, None);
    }
    // A threshold that was never set: slow start was not left.
    let growing = last.snd_ssthresh > 1 << 30 && flow.end - flow.begin < 20.0 * flow.counts.rtt_mean;
    if growing {
        let text = format!("slow start: {segments} segments were too few to open the window");
        return verdict(TcpBottleneck::SlowStart, share, text, Some("send more, or for longer".into()));
    }
    let TcpCounts { rtt_least, rtt_mean, .. } = flow.counts;
    let queue = if rtt_mean > 1.5 * rtt_least { "with a queue" } else { "without a queue" };
    let text = format!(
        "the path: {} {queue}, round trip {:.3} ms, at least {:.3} ms",
        display_rate(flow.bits_per_second),
        rtt_mean * 1e3,
        rtt_least * 1e3
    );
    verdict(TcpBottleneck::Path, share, text, None)
}

/// Whether losses as rare as these can bound such a rate: the models are right within a factor of 4.
fn matters(flow: &FlowReport) -> bool {
    let TcpCounts { retransmits, segments, rtt_mean, .. } = flow.counts;
    let loss = f64::from(retransmits) / f64::from(segments.max(1));
    rtt_mean <= 0.0 || cubic_rate(f64::from(flow.segment_bytes), rtt_mean, loss) < 4.0 * flow.bits_per_second
}

/// Whether the rate stayed well below a limit.
fn at_most(flow: &FlowReport, limit: u64) -> bool {
    flow.bits_per_second < 0.8 * limit as f64
}

fn of_losses(flow: &FlowReport, share: f64) -> FlowVerdict {
    let TcpCounts { retransmits, segments, doubled, rtt_least, .. } = flow.counts;
    let lost = f64::from(retransmits.saturating_sub(doubled)) / f64::from(segments.max(1));
    let of = format!("{retransmits} of {segments} segments retransmitted");
    if lossy(flow).is_sprayed() {
        let text = format!("{} path: segments arrive out of order ({of})", percent(share));
        let hint = "find the device that sends packets of one flow over several paths".to_owned();
        return verdict(TcpBottleneck::Spraying, share, text, Some(hint));
    }
    let (bound, what, hint) = match pattern(flow) {
        Pattern::Full { .. } => (
            TcpBottleneck::Path,
            format!("the queue of the bottleneck is full when segments are lost ({of})"),
            Some("the bottleneck is full: no higher rate is possible"),
        ),
        Pattern::Shallow { queue, each } => (
            TcpBottleneck::ShallowBuffer,
            format!(
                "{each:.0} segments are lost each time the queue reaches {:.1} ms ({of})",
                queue * rtt_least * 1e3
            ),
            Some("a shallow buffer: set a rate below the line with --pacing, or --cc bbr"),
        ),
        Pattern::Policer { each, bucket, .. } => (
            TcpBottleneck::Policer,
            format!("{each:.0} segments are lost at the same rate each time, without a queue ({of})"),
            Some(match bucket {
                true => "a policer: set a rate below it with --pacing",
                false => "a policer, or a buffer too short to be seen: set a rate below it with --pacing",
            }),
        ),
        Pattern::Bursts { each, .. } => (
            TcpBottleneck::BurstLoss,
            format!("some {each:.0} segments are lost together, whatever the rate ({of})"),
            Some("look for outages, and for a link that fails briefly"),
        ),
        Pattern::Random { .. } => (
            TcpBottleneck::Loss,
            format!("{of}, {lost:.1e} lost"),
            Some("find the lossy link, use larger segments, or --cc bbr"),
        ),
        Pattern::None => (TcpBottleneck::Path, format!("{of} at the end of slow start"), None),
        Pattern::Few(times) => (
            TcpBottleneck::Path,
            format!("{of}, {times} times after slow start: too few to find the cause"),
            None,
        ),
        Pattern::Stalled { seconds } => (
            TcpBottleneck::Path,
            format!("{of}, and nothing was acknowledged for the last {seconds:.1} s"),
            Some("check whether the path was down, or a firewall dropped the connection"),
        ),
        Pattern::Unknown => (TcpBottleneck::Path, format!("{of}, in no pattern that shows a cause"), None),
    };
    verdict(bound, share, format!("{} path: {what}", percent(share)), hint.map(str::to_owned))
}

fn of_cpu(flow: &FlowReport, cpu: f64) -> FlowVerdict {
    let waited = flow.cpu_wait_seconds / (flow.end - flow.begin).max(1e-9);
    let used = percent((cpu - waited).max(0.0));
    let text = match waited {
        waited if waited > WAITED => {
            format!("the CPU: the sending thread used {used} of one, and waited for one {}", percent(waited))
        }
        _ => format!("the CPU: the sending thread used {used} of one"),
    };
    let hint =
        "send without copying (--zerocopy), use larger segments (MTU 9000), or more flows on more CPUs";
    verdict(TcpBottleneck::Cpu, cpu, text, Some(hint.into()))
}

fn verdict(bound: TcpBottleneck, share: f64, text: String, hint: Option<String>) -> FlowVerdict {
    FlowVerdict { bound, share, text, hint }
}

/// What there is, and the next power of two that is at least twice as much.
fn wanted(bytes: u64) -> (Size, Size) {
    let wants = bytes.saturating_mul(2).max(1 << 16).next_power_of_two().min(LARGEST_WINDOW);
    (Size::from_bytes(bytes), Size::from_bytes(wants))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Shortest round, s: a few samples.
const SHORTEST: f64 = 0.02;
/// A round trip that varies by more than this part of itself stood still for a moment: it says nothing of a queue.
const DISTURBED: f64 = 0.15;

/// The rounds of a flow.
pub(super) fn rounds(flow: &FlowReport) -> Vec<Round> {
    let length = flow.counts.rtt_least.max(SHORTEST);
    let mut all: Vec<Round> = Vec::new();
    let mut number = None;
    for (n, sample) in flow.trace.iter().enumerate() {
        let here = (sample.at / length) as u64;
        if number != Some(here) {
            number = Some(here);
            all.push(Round { at: sample.at, ..Round::default() });
        }
        let before = n.checked_sub(1).map_or(sample, |before| &flow.trace[before]);
        if let Some(round) = all.last_mut() {
            add(round, before, sample);
        }
    }
    // In a round that begins with what is sent again, the queue is that of the one before.
    for n in 1..all.len() {
        if all[n].lost > 0 && all[n].rtt <= 0.0 {
            all[n].rtt = all[n - 1].rtt;
        }
    }
    all
}

fn add(round: &mut Round, before: &TcpSample, sample: &TcpSample) {
    let again = sample.retransmits.wrapping_sub(before.retransmits);
    if again == 0 && round.lost == 0 && sample.rttvar < DISTURBED * sample.rtt {
        round.rtt = sample.rtt;
    }
    round.lost += again;
    round.sent += sample.segments.wrapping_sub(before.segments);
    (round.window, round.rate) = (sample.congestion_window as f64, sample.delivery_bits_per_second);
}

/// What its losses are judged by.
pub(super) fn lossy(flow: &FlowReport) -> Flow {
    Flow {
        seconds: (flow.end - flow.begin).max(1e-9),
        segments: flow.counts.segments.into(),
        retransmitted: flow.counts.retransmits.into(),
        doubled: flow.counts.doubled.into(),
        reordered: flow.counts.reordered.into(),
        min_rtt: flow.counts.rtt_least,
        paced: flow.congestion.starts_with("bbr"),
        rounds: rounds(flow),
        ..Flow::default()
    }
}

/// Of which kind its losses are.
pub(super) fn pattern(flow: &FlowReport) -> Pattern {
    Pattern::of(&lossy(flow))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::probe::tcp::FlowDirection;
    use crate::probe::tcp::reader::ReaderReport;

    /// A trace with losses at these windows (in segments), round trips (in s) and so many segments each, on a path of `least` seconds.
    /// Between two of them, the window grows, for as long as it is large: about two seconds.
    pub(in crate::probe::tcp) fn trace(losses: &[(f64, f64, u32)], least: f64) -> Vec<TcpSample> {
        let mean = losses.iter().map(|loss| loss.0).sum::<f64>() / losses.len().max(1) as f64;
        let (mut all, mut retransmits, mut begun) = (Vec::<TcpSample>::new(), 0, 0.0);
        for &(window, trip, lost) in losses {
            // The first is the end of slow start.
            let steps = (200.0 * window / mean).clamp(20.0, 800.0) as u32;
            let steps = if all.is_empty() { 60 } else { steps };
            for step in 0..steps {
                let part = f64::from(step) / f64::from(steps - 1);
                let at = begun + f64::from(step) / 100.0;
                // The queue is empty until the window is what the path holds.
                let rtt = if part > 0.6 { trip } else { least };
                let congestion_window = (window * (0.7 + 0.3 * part) * 1448.0) as u64;
                let segments = (at * 10_000.0) as u32;
                all.push(TcpSample {
                    at,
                    congestion_window,
                    rtt,
                    retransmits,
                    segments,
                    delivery_bits_per_second: congestion_window as f64 * 8.0 / rtt,
                    ..TcpSample::default()
                });
            }
            begun += f64::from(steps) / 100.0;
            retransmits += lost;
        }
        let last = all.last().copied().unwrap_or_default();
        all.extend((0..100).map(|n| TcpSample {
            at: begun + f64::from(n) / 100.0,
            retransmits,
            rtt: least,
            ..last
        }));
        all
    }

    /// A flow with losses at these windows (in segments) and round trips (in ms), of so many segments each, on a path of 50 ms.
    fn flow(losses: &[(u64, f64)], each: u32) -> FlowReport {
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let losses: Vec<(f64, f64, u32)> =
            losses.iter().map(|&(window, trip)| (window as f64, trip / 1e3, each)).collect();
        FlowReport {
            direction: FlowDirection::Send,
            local: at,
            remote: at,
            congestion: "cubic".into(),
            segment_bytes: 1448,
            send_buffer: 1 << 24,
            receive_buffer: 1 << 24,
            begin: 0.0,
            end: 2.0 * losses.len() as f64 + 1.0,
            omitted_bytes: 0,
            bytes: 1 << 27,
            bits_per_second: 1e8,
            cpu_user_seconds: 0.0,
            cpu_system_seconds: 0.1,
            cpu_wait_seconds: 0.0,
            cpu_seconds_per_gb: 0.1,
            calls: 1,
            intervals: Vec::new(),
            counts: TcpCounts {
                retransmits: each * losses.len() as u32,
                segments: 90_000,
                rtt_least: 0.05,
                ..TcpCounts::default()
            },
            trace: if losses.is_empty() { Vec::new() } else { trace(&losses, 0.05) },
            waited: None,
            verdict: None,
            reader: None,
            error: None,
        }
    }

    /// A path on which long packets vanish: the sender's kernel counts time under way, and the path is not what it carries.
    #[test]
    fn nothing_that_arrived_is_no_rate_of_the_path() {
        let waited = SenderWaits { path: 1.0, ..SenderWaits::default() };
        let counts = TcpCounts { segments: 15, rtt_least: 0.01, rtt_mean: 0.01, ..TcpCounts::default() };
        let sender = FlowReport { waited: Some(waited), counts, bits_per_second: 2e5, ..flow(&[], 0) };
        let before = judge(&sender, &waited, Means { idle: 0.0, always: true }, &TcpInfo::default());
        let after = |bytes| {
            let mut sender = FlowReport { verdict: Some(before.clone()), ..sender.clone() };
            ask_receiver(
                &mut sender,
                &FlowReport { direction: FlowDirection::Receive, bytes, ..flow(&[], 0) },
            );
            sender.verdict.unwrap()
        };
        assert_eq!(after(1448), before, "something arrived");
        assert_eq!(after(0).bound, TcpBottleneck::Unknown);
        assert!(after(0).text.starts_with("nothing arrived of 15 segments"), "{}", after(0).text);
    }

    /// A live line: 200 Mb/s, 100 ms, and a process that is stopped for 50 of 55 ms. The window stays at 147 KiB.
    #[test]
    fn what_the_receiver_reports_corrects_the_verdict_of_its_sender() {
        let waited = SenderWaits { receive_window: 0.91, path: 0.09, ..SenderWaits::default() };
        let counts = TcpCounts { peer_window_most: 147 << 10, rtt_least: 0.1, ..flow(&[], 0).counts };
        let sender = FlowReport { waited: Some(waited), counts, ..flow(&[], 0) };
        let means = Means { idle: 0.0, always: true };
        let before = judge(&sender, &waited, means, &TcpInfo::default());
        assert_eq!(before.bound, TcpBottleneck::ReceiveWindow, "the sender sees no more");
        let reader = ReaderReport { seconds: 1.0, waited_seconds: 1.0, ..ReaderReport::default() };
        let bound = |reader| {
            let mut sender = FlowReport { verdict: Some(before.clone()), ..sender.clone() };
            let receiver = FlowReport {
                direction: FlowDirection::Receive,
                receive_buffer: 120 << 10,
                reader,
                ..flow(&[], 0)
            };
            ask_receiver(&mut sender, &receiver);
            let verdict = sender.verdict.unwrap();
            (verdict.bound, verdict.hint.unwrap_or_default())
        };
        let at_limit = ReaderReport { buffer_limit: 120 << 10, ..reader };
        let pauses = ReaderReport {
            waited_seconds: 0.8,
            paused_seconds: 0.2,
            pauses: 9,
            longest_pause: 0.05,
            buffer_limit: 16 << 20,
            ..reader
        };
        let slow = ReaderReport { waited_seconds: 0.1, short_seconds: 0.9, ..at_limit };
        assert_eq!(bound(Some(pauses)).0, TcpBottleneck::PausingReceiver);
        assert!(bound(Some(pauses)).1.contains("what the receiving program waits for"));
        assert_eq!(bound(Some(slow)).0, TcpBottleneck::SlowReceiver);
        assert!(bound(Some(at_limit)).1.contains("tcp_rmem"));
        assert_eq!(
            bound(Some(ReaderReport { buffer_limit: 16 << 20, ..reader })).1,
            "",
            "it is not the limit"
        );
        assert_eq!(bound(None), (TcpBottleneck::ReceiveWindow, bound(Some(at_limit)).1), "an older server");
    }

    /// What the lab made: a buffer of 64 KiB on a path that holds 500 KB.
    #[test]
    fn less_than_the_window_allows_is_a_send_buffer_that_held_its_writer_or_an_application() {
        let flow = FlowReport { send_buffer: 1 << 15, ..flow(&[], 2) };
        let bound = |send_buffer: f64, always| {
            let waited = SenderWaits { send_buffer, path: 1.0 - send_buffer, ..SenderWaits::default() };
            let means = Means { idle: 0.94, always };
            judge(&flow, &waited, means, &TcpInfo::default()).bound
        };
        let bounds = (bound(0.3, false), bound(0.02, false));
        assert_eq!(bounds, (TcpBottleneck::SendBuffer, TcpBottleneck::Application));
        assert_eq!(bound(0.02, true), TcpBottleneck::SendBuffer, "it writes whenever it can");
    }

    #[test]
    fn a_thread_that_needs_a_cpu_all_the_time_is_the_limit_and_no_application_is_slow() {
        let waited = SenderWaits { path: 1.0, ..SenderWaits::default() };
        let means = Means { idle: 0.94, always: true };
        let said = |used, cpu_wait_seconds| {
            let flow = flow(&[], 2);
            let seconds = flow.end - flow.begin;
            let scaled = FlowReport {
                cpu_system_seconds: used * seconds,
                cpu_wait_seconds: cpu_wait_seconds * seconds,
                ..flow
            };
            judge(&scaled, &waited, means, &TcpInfo::default())
        };
        assert_eq!(said(0.3, 0.0).bound, TcpBottleneck::SendBuffer);
        let waits = said(0.3, 0.6);
        assert_eq!(waits.bound, TcpBottleneck::Cpu);
        assert!(waits.text.ends_with("used 30 % of one, and waited for one 60 %"), "{}", waits.text);
    }

    /// What the lab made: a full bottleneck, a buffer of a tenth of it, a policer, bursts, and random loss.
    #[test]
    fn losses_are_told_apart_by_the_window_the_queue_and_how_many_there_are() {
        let bound = |losses: &[(u64, f64)], each| of_losses(&flow(losses, each), 1.0).bound;
        let full = [(1700, 98.0), (1720, 99.0), (1690, 97.5), (1710, 99.0)];
        assert_eq!(bound(&full, 2), TcpBottleneck::Path);
        let start = [(3200, 99.0), (1720, 99.0), (1690, 97.5), (1710, 99.0)];
        assert_eq!(bound(&start, 2), TcpBottleneck::Path, "slow start");
        let shallow = [(1400, 55.0), (910, 55.0), (880, 55.0), (905, 55.0), (900, 55.0), (910, 55.0)];
        assert_eq!(bound(&shallow, 2), TcpBottleneck::ShallowBuffer);
        assert_eq!(bound(&shallow, 30), TcpBottleneck::ShallowBuffer, "however many");
        // The same windows, and no queue.
        let policed = [(1400, 50.0), (910, 50.0), (905, 50.0), (905, 50.0), (900, 50.0), (910, 50.0)];
        assert_eq!(bound(&policed, 12), TcpBottleneck::Policer);
        assert_eq!(bound(&policed[..3], 12), TcpBottleneck::Path, "two times may be alike by chance");
        let any = [(1400, 50.0), (950, 50.0), (410, 50.0), (1500, 50.0), (250, 50.0)];
        assert_eq!(bound(&any, 1), TcpBottleneck::Loss);
        assert_eq!(bound(&any, 40), TcpBottleneck::BurstLoss);
        // Some of them while a queue was there, which was not full.
        let queued = [(1400, 90.0), (1700, 98.0), (400, 50.0), (1200, 60.0), (300, 50.0), (800, 52.0)];
        assert_eq!(bound(&queued, 40), TcpBottleneck::BurstLoss);
        assert_eq!(bound(&queued, 1), TcpBottleneck::Loss);
    }
}
