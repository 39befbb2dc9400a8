//! Watches senders until they are done: shows progress, and enforces a requested end.
//!
//! ```text
//! --duration or Ctrl-C ── 2 s ──▶ cancel what is still in progress
//!          └─ with --duration: only if nothing moves, or it has taken as long again
//! ```
//!
//! Limit: a cancelled heap is incomplete for the receiver, and an error here.

use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use skyhaul::send::Stop;
use std::time::{Duration, Instant};

/// Time for what is in progress to finish after an end was requested.
const GRACE: Duration = Duration::from_secs(2);

/// Show progress until everything is sent; pass on a requested end.
///
/// The current heap and the stop heap get a moment; a peer that accepts nothing, or a heap that would take for ever at its
/// rate, does not delay the end.
pub(super) fn watch(
    stop: &Stop,
    done: &dyn Fn() -> bool,
    turn: &mut dyn FnMut(&mut Progress),
    interrupt: &Interrupt,
    duration: Option<Duration>,
    progress: &mut Progress,
) {
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
}
