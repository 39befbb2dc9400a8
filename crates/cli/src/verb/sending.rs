//! What all senders of a command share: threads, their end, and which sender gets what of the command line.
//!
//! Watches senders until they are done: shows progress, and enforces a requested end.
//!
//! ```text
//! --duration or Ctrl-C ── 2 s ──▶ cancel what is still in progress
//!          └─ with --duration: only if nothing moves, or it has taken as long again
//! Ctrl-C ── 2 s ──▶ cancelled ── 5 s ──▶ left behind: its disk hangs
//! ```
//!
//! Limit: a cancelled heap is incomplete for the receiver, and an error here.

use crate::args::{RateArg, SendArgs, SendMode as ModeArg};
use crate::outcome::Interrupt;
use crate::print::{self, Progress};
use anyhow::{Result, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::quantity::Rate;
use skyhaul::io::udp::send::SendMode;
use skyhaul::send::{SendReport, Stop};
use std::time::{Duration, Instant};

/// Sends everything, or until it is stopped.
pub(crate) type Sender = Box<dyn FnOnce(&Stop) -> SendReport + Send>;

/// Run all senders, each in a thread of its own, until they are done or interrupted. `turn` is called meanwhile, a hundred times
/// a second.
pub(crate) fn run_all(
    senders: Vec<Sender>,
    args: &SendArgs,
    interrupt: &Interrupt,
    progress: &mut Progress,
    turn: &mut dyn FnMut(&mut Progress),
) -> Result<Vec<SendReport>> {
    let stop = Stop::default();
    let start = |sender: Sender| {
        let stop = stop.clone();
        std::thread::Builder::new().name("send".into()).spawn(move || sender(&stop))
    };
    let threads = senders.into_iter().map(start).collect::<std::io::Result<Vec<_>>>()?;
    // The duration of events begins after the balancer was told of their ticks.
    let warm_up = args.targets.first().map(|_| args.of_events.warm_up.duration()).unwrap_or_default();
    let duration = args.duration.map(|duration| duration.duration() + warm_up);
    if !watch(&stop, &|| threads.iter().all(|t| t.is_finished()), turn, interrupt, duration, progress) {
        bail!("stopped; the disk of what is sent did not respond");
    }
    let join = |thread: std::thread::JoinHandle<SendReport>| {
        thread.join().map_err(|_| anyhow::anyhow!("a sending thread panicked"))
    };
    threads.into_iter().map(join).collect()
}

/// How to hand packets to the kernel.
pub(crate) fn mode(args: &SendArgs) -> SendMode {
    match args.mode {
        ModeArg::Auto => SendMode::Auto,
        ModeArg::Gso => SendMode::Gso,
        ModeArg::Mmsg => SendMode::Mmsg,
        ModeArg::Plain => SendMode::Plain,
    }
}

/// Destination of sender `number`: the first senders share the first address.
pub(crate) fn destination(args: &SendArgs, number: usize) -> &Endpoint {
    &args.to[number / args.senders % args.to.len()]
}

/// The processor of sender `number`.
pub(crate) fn cpu(args: &SendArgs, number: usize) -> Option<usize> {
    args.cpu.get(number % args.cpu.len().max(1)).copied()
}

/// The rate of sender `number`: its part of all, or of its destination's; `None` is as fast as possible.
pub(crate) fn rate(args: &SendArgs, number: usize) -> Result<Option<RateArg>> {
    let senders = args.senders;
    let (rate, among) = match &args.rate[..] {
        [] => return Ok(None),
        [all] => (*all, senders * args.to.len()),
        each if each.len() == args.to.len() => (each[number / senders % each.len()], senders),
        each => bail!(
            "{} rates for {} destinations{}",
            each.len(),
            args.to.len(),
            Hint("give one rate for all destinations, or one for each --to")
        ),
    };
    Ok(Some(match rate {
        RateArg::Fixed(rate) => {
            // A tiny share must not become 0, which would mean no limit.
            RateArg::Fixed(Rate::from_bits_per_second((rate.bits_per_second() / among as u64).max(1)))
        }
        other => other,
    }))
}

/// Check that a receiver can give feedback, if the rate depends on it.
pub(crate) fn check_feedback(rate: Option<RateArg>, to: &[Endpoint]) -> Result<()> {
    if matches!(rate, None | Some(RateArg::Fixed(_) | RateArg::Max)) {
        return Ok(());
    }
    ensure!(
        matches!(to, [one] if one.transport == Transport::Udp),
        "--rate auto and search need a udp:// address{}",
        Hint("omit --rate; TCP controls its own rate")
    );
    ensure!(
        !to[0].is_multicast(),
        "--rate auto and search need a single receiver, not a multicast group{}",
        Hint("give a rate, such as --rate 1Gbps, or send to one receiver")
    );
    Ok(())
}

/// Time for what is in progress to finish after an end was requested.
const GRACE: Duration = Duration::from_secs(2);

/// Time for a sender to end after it was cancelled, if someone asked for it: only a call on a disk that hangs takes longer.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// Show progress until everything is sent; pass on a requested end. Returns whether all have ended.
///
/// The current heap and the stop heap get a moment; a peer that accepts nothing, or a heap that would take for ever at its
/// rate, does not delay the end.
fn watch(
    stop: &Stop,
    done: &dyn Fn() -> bool,
    turn: &mut dyn FnMut(&mut Progress),
    interrupt: &Interrupt,
    duration: Option<Duration>,
    progress: &mut Progress,
) -> bool {
    let begun = Instant::now();
    let (mut before, mut shown) = (0, begun);
    let mut asked: Option<Instant> = None;
    let (mut last, mut moved, mut cancelled) = (0, begun, None::<Instant>);
    while !done() {
        std::thread::sleep(Duration::from_millis(10));
        turn(progress);
        let mut cancel = false;
        if interrupt.is_set() {
            stop.stop();
            cancel = asked.get_or_insert_with(Instant::now).elapsed() > GRACE;
        }
        if let Some(late) = duration.and_then(|duration| begun.elapsed().checked_sub(duration)) {
            let sent = stop.bytes();
            if sent != last {
                (last, moved) = (sent, Instant::now());
            }
            let most = GRACE + duration.unwrap_or_default();
            cancel |= late > most || late > GRACE && moved.elapsed() > GRACE;
        }
        // Not at every turn: a stop heap after what was cancelled may still get out.
        if cancel && cancelled.is_none_or(|at| at.elapsed() > GRACE / 4) {
            cancelled = Some(Instant::now());
            stop.cancel();
        }
        if asked.is_some_and(|asked| asked.elapsed() > GRACE + LEFT_BEHIND) {
            progress.clear();
            return false;
        }
        if progress.is_live() && shown.elapsed() >= Duration::from_millis(200) {
            let sent = stop.bytes();
            let bits = (sent - before) as f64 * 8.0 / shown.elapsed().as_secs_f64();
            let gap = stop.gap_left().filter(|left| *left >= Duration::from_secs(1));
            let gap = gap.map_or(String::new(), |left| {
                format!("  gap in the data: {:.0} s left (shorten it with --max-wait)", left.as_secs_f64())
            });
            progress.show(&format!("sent {}  {}{gap}", print::bytes(sent), print::rate(bits)));
            (before, shown) = (sent, Instant::now());
        }
    }
    progress.clear();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call on a disk that hangs does not return; who presses Ctrl-C gets an answer nevertheless.
    #[test]
    fn a_sender_that_does_not_end_is_left_behind_after_an_interrupt() {
        let (stop, interrupt) = (Stop::default(), Interrupt::raised());
        let mut progress = Progress::new(true);
        assert!(watch(&stop, &|| true, &mut |_| {}, &interrupt, None, &mut progress), "all have ended");
        assert!(!watch(&stop, &|| false, &mut |_| {}, &interrupt, None, &mut progress));
    }
}
