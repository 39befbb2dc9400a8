//! A copy that ends, whatever a disk does.
//!
//! ```text
//!   caller ─ looks every 0.1 s ─▶ steps?  ◀── the thread of the copy, and its threads
//!      └─ none for too long, at this end for a day, or told to stop and none for a moment: given up; the thread ends with its disk
//! ```

use super::client::{CopyReport, copy};
use super::control::Progress;
use super::options::CopyOptions;
use skyhaul::peer::Token;
use skyhaul::stop::StopFlag;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often it is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a copy may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallLimits {
    /// Without a step at either end: a disk or the other host does not respond.
    pub moving: Duration,
    /// Without a step at this end, whatever the other one says that it does: it reads for a comparison, or waits for a recording.
    pub claimed: Duration,
    /// The same after it was told to stop.
    pub stopping: Duration,
}

enum Told {
    Progress(Progress),
    End(Box<io::Result<CopyReport>>),
}

/// Copies as [`copy`] does, on a thread of its own, and gives up when nothing moves. That thread is then left behind, and keeps
/// `held` until it has ended.
///
/// # Errors
/// As [`copy`]; [`io::ErrorKind::Interrupted`]: it was given up.
pub fn copy_watched<H: Send + 'static>(
    options: &CopyOptions,
    token: &Token,
    limits: StallLimits,
    held: H,
    progress: &mut dyn FnMut(&Progress),
) -> io::Result<CopyReport> {
    let (to, told) = channel();
    let activity = options.tuning.activity.clone();
    // Its own flag: a copy that is given up was not told to stop by its caller.
    let (stop, token) = (StopFlag::default(), token.clone());
    let inner = CopyOptions { stop: stop.clone(), ..options.clone() };
    let work = move || {
        let report = copy(&inner, &token, &mut |progress| drop(to.send(Told::Progress(*progress))));
        // The caller may start another copy as soon as it hears of the end.
        drop(held);
        drop(to.send(Told::End(Box::new(report))));
    };
    std::thread::Builder::new().name("copy".into()).spawn(work)?;
    let (mut steps, mut moved, mut stopped) = (activity.steps(), Instant::now(), None);
    let (mut own, mut own_moved) = (activity.own(), Instant::now());
    loop {
        match told.recv_timeout(LOOK_INTERVAL) {
            Ok(Told::Progress(now)) => progress(&now),
            Ok(Told::End(report)) => return *report,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("a bug in this program ended its thread"));
            }
        }
        if activity.steps() != steps {
            (steps, moved) = (activity.steps(), Instant::now());
        }
        if activity.own() != own {
            (own, own_moved) = (activity.own(), Instant::now());
        }
        if options.stop.is_set() {
            stop.stop();
            let since: Instant = *stopped.get_or_insert_with(Instant::now);
            if since.max(own_moved).elapsed() >= limits.stopping {
                let text = if activity.is_at_disk() { "stopped; a disk did not respond" } else { "stopped" };
                return Err(io::Error::new(io::ErrorKind::Interrupted, text));
            }
        } else if moved.elapsed() >= limits.moving {
            let who = match (activity.is_at_disk(), options.server.first()) {
                (true, _) => "a disk of this host".to_owned(),
                (false, Some(server)) => format!("{server}, its disk or the path"),
                (false, None) => "the other host".to_owned(),
            };
            stop.stop();
            let text = format!("nothing moved for {} s: {who} does not respond", limits.moving.as_secs());
            return Err(io::Error::new(io::ErrorKind::Interrupted, text));
        } else if own_moved.elapsed() >= limits.claimed {
            stop.stop();
            let text = format!(
                "nothing arrived for {} s, although the other host says that it works",
                limits.claimed.as_secs()
            );
            return Err(io::Error::new(io::ErrorKind::Interrupted, text));
        }
    }
}
