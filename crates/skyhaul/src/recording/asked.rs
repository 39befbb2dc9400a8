//! Asks each disk on a thread of its own, because any may hang: a call on it does not return.
//!
//! ```text
//!   ask ─┬─ thread of disk 0: the question, "still alive" after each file and record ─▶ an answer
//!        ├─ thread of disk 1 ─▶ an answer
//!        └─ thread of disk 2: silent for the timeout ─▶ left behind; no answer
//! ```
//!
//! A disk is given up when it has made no progress for the timeout and another has answered, or for twice as long if none has.
//! One that has been silent for so long already is not asked until a thread that was left behind on it returns.
//!
//! Limits: [`MAX_LEFT_BEHIND`] threads are left behind on a path, and one more for each caller that asks at that moment.

use skyhaul_io::lock::lock;
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a disk may make no progress when another one has answered.
pub const DISK_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Threads left behind on a path, from which on it is not asked, however short it has been silent.
const MAX_LEFT_BEHIND: u32 = 4;
/// Interval of looks for progress, at most.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A path on which threads were left behind.
#[derive(Clone, Copy, Debug)]
struct Hanging {
    threads: u32,
    since: Instant,
}

/// Those that have not answered since.
static HANGING: Mutex<BTreeMap<PathBuf, Hanging>> = Mutex::new(BTreeMap::new());

/// Whether a disk has been silent for `timeout` or longer, and is still: a call on it by any thread of this process has not
/// returned. A disk that nobody asked is not known to hang.
#[must_use]
pub fn is_hanging(path: &Path, timeout: Duration) -> bool {
    let is_long = |one: &Hanging| one.since.elapsed() >= timeout || one.threads >= MAX_LEFT_BEHIND;
    lock(&HANGING).get(path).is_some_and(is_long)
}

/// Notes that a thread was left behind on a path that has been silent for `silent`.
pub(super) fn note_hanging(path: &Path, silent: Duration) {
    let now = Instant::now();
    let since = now.checked_sub(silent).unwrap_or(now);
    let mut hanging = lock(&HANGING);
    let one = hanging.entry(path.to_owned()).or_insert(Hanging { threads: 0, since });
    one.threads += 1;
    one.since = one.since.min(since);
}

/// Notes that one of them has returned.
pub(super) fn note_answer(path: &Path) {
    let mut hanging = lock(&HANGING);
    if let Some(one) = hanging.get_mut(path) {
        one.threads -= 1;
        // Others may wait for something else, such as a part of the disk that cannot be read.
        one.since = Instant::now();
        if one.threads == 0 {
            hanging.remove(path);
        }
    }
}

/// The error of a disk that is given up.
pub(super) fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, SILENT)
}

/// What is said of it.
pub(super) const SILENT: &str = "the disk does not respond";

/// How far a thread is.
#[derive(Debug, PartialEq)]
enum Stage {
    Asks,
    Done,
    LeftBehind,
}

/// A thread that calls a disk, and may be left behind there. The lock is taken for the two moments that must not overlap: its
/// end, and that it is left behind.
#[derive(Debug)]
pub(super) struct DiskCall {
    path: PathBuf,
    stage: Mutex<Stage>,
}

impl DiskCall {
    pub(super) fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), stage: Mutex::new(Stage::Asks) })
    }

    /// Leaves it behind, after it has been silent for so long; `false` if it has ended.
    pub(super) fn leave(&self, silent: Duration) -> bool {
        let mut stage = lock(&self.stage);
        let asks = *stage == Stage::Asks;
        if asks {
            *stage = Stage::LeftBehind;
            note_hanging(&self.path, silent);
        }
        asks
    }

    /// It ends.
    pub(super) fn end(&self) {
        let mut stage = lock(&self.stage);
        if std::mem::replace(&mut *stage, Stage::Done) == Stage::LeftBehind {
            note_answer(&self.path);
        }
    }
}

/// A disk, as the one who asks sees it.
struct Asked {
    call: Arc<DiskCall>,
    progress: Arc<AtomicU64>,
    seen: u64,
    since: Instant,
    is_awaited: bool,
}

impl Asked {
    /// When it will have been silent for `timeout`.
    fn deadline(&mut self, timeout: Duration) -> Instant {
        let progress = self.progress.load(Ordering::Relaxed);
        if progress != self.seen {
            (self.seen, self.since) = (progress, Instant::now());
        }
        self.since + timeout
    }

    /// Waits for it no more. An answer that was given in this moment is still taken.
    fn leave(&mut self) {
        if self.call.leave(self.since.elapsed()) {
            self.is_awaited = false;
        }
    }
}

/// An answer, or the panic of its thread, with the number of the disk.
type Answer<T> = (usize, Result<T, Box<dyn Any + Send>>);

/// Asks each disk on a thread of its own; `None` for one that makes no progress for `timeout` when another has answered, or for
/// twice as long if none has. The question is called with the disk's number, its path, and what to call after each step.
///
/// # Panics
/// The question panics.
pub fn ask<T: Send + 'static>(
    paths: &[PathBuf],
    timeout: Duration,
    question: impl Fn(usize, &Path, &dyn Fn()) -> T + Send + Sync + 'static,
) -> Vec<Option<T>> {
    let (tell, told) = channel();
    let question = Arc::new(question);
    let mut asked: Vec<Asked> =
        paths.iter().enumerate().map(|(at, path)| begin(at, path, timeout, &question, &tell)).collect();
    drop(tell);
    let mut answers: Vec<Option<T>> = paths.iter().map(|_| None).collect();
    while asked.iter().any(|one| one.is_awaited) {
        let has_answer = answers.iter().any(Option::is_some);
        let limit = if has_answer { timeout } else { timeout * 2 };
        let now = Instant::now();
        let mut wait = POLL_INTERVAL;
        for one in asked.iter_mut().filter(|one| one.is_awaited) {
            let left = one.deadline(limit).saturating_duration_since(now);
            if left.is_zero() {
                one.leave();
            }
            wait = wait.min(left);
        }
        match told.recv_timeout(wait) {
            Ok((at, Ok(answer))) => {
                asked[at].is_awaited = false;
                answers[at] = Some(answer);
            }
            Ok((_, Err(panic))) => resume_unwind(panic),
            Err(RecvTimeoutError::Timeout) => {}
            // The last ones are left behind, or could not be started.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    answers
}

/// Calls a disk on a thread of its own, and waits for at most `timeout`.
///
/// # Errors
/// Those of the call; or the disk does not respond: the call may still be done later.
///
/// # Panics
/// The call panics.
pub(super) fn call_within<T: Send + 'static>(
    disk: &Path,
    timeout: Duration,
    call: impl Fn() -> io::Result<T> + Send + Sync + 'static,
) -> io::Result<T> {
    // Twice as long, if no disk answers.
    let answer = ask(&[disk.to_owned()], timeout / 2, move |_, _, _| call()).pop();
    answer.flatten().unwrap_or_else(|| Err(silent()))
}

fn begin<T: Send + 'static>(
    at: usize,
    path: &Path,
    timeout: Duration,
    question: &Arc<impl Fn(usize, &Path, &dyn Fn()) -> T + Send + Sync + 'static>,
    tell: &Sender<Answer<T>>,
) -> Asked {
    let call = DiskCall::new(path);
    let progress = Arc::<AtomicU64>::default();
    let mut asked = Asked {
        call: Arc::clone(&call),
        progress: Arc::clone(&progress),
        seen: 0,
        since: Instant::now(),
        is_awaited: !is_hanging(path, timeout),
    };
    if asked.is_awaited {
        let (question, tell, path) = (Arc::clone(question), tell.clone(), path.to_owned());
        let run = move || {
            let alive = || {
                progress.fetch_add(1, Ordering::Relaxed);
            };
            let answer = catch_unwind(AssertUnwindSafe(|| question(at, &path, &alive)));
            call.end();
            // Who has gone needs no answer.
            let _ = tell.send((at, answer));
        };
        // Without a thread nothing is known of the disk; the next caller asks again.
        asked.is_awaited = std::thread::Builder::new().name(format!("ask-{at}")).spawn(run).is_ok();
    }
    asked
}

/// Whether a file could not be opened for want of descriptors or memory, whatever is in it.
pub(in crate::recording) fn is_of_this_process(error: &io::Error) -> bool {
    // ENFILE and EMFILE.
    error.kind() == io::ErrorKind::OutOfMemory || matches!(error.raw_os_error(), Some(23 | 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_descriptors_or_memory_is_no_fault_of_a_file() {
        let is_ours = |number| is_of_this_process(&io::Error::from_raw_os_error(number));
        // EMFILE, ENFILE and ENOMEM; EIO and ENOENT.
        assert_eq!([24, 23, 12, 5, 2].map(is_ours), [true, true, true, false, false]);
    }
    use std::sync::{Condvar, PoisonError};

    /// What keeps a question waiting.
    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<bool>, Condvar)>);

    impl Gate {
        fn open(&self) {
            *lock(&self.0.0) = true;
            self.0.1.notify_all();
        }

        fn pass(&self) {
            let mut is_open = lock(&self.0.0);
            while !*is_open {
                is_open = self.0.1.wait(is_open).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    const SHORT: Duration = Duration::from_millis(30);

    #[test]
    fn a_disk_that_hangs_is_given_up_and_not_asked_until_it_answers() {
        let disks = paths(&["asked-a", "asked-b"]);
        let gate = Gate::default();
        let asked = Arc::new(AtomicU64::new(0));
        let question = {
            let (gate, asked) = (gate.clone(), Arc::clone(&asked));
            move |at: usize, _: &Path, _: &dyn Fn()| {
                if at == 1 {
                    asked.fetch_add(1, Ordering::Relaxed);
                    gate.pass();
                }
                at
            }
        };
        for _ in 0..10 {
            assert_eq!(ask(&disks, SHORT, question.clone()), [Some(0), None]);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1, "threads are left behind without limit");
        // One that waits longer than it has been silent does ask.
        assert!(!is_hanging(&disks[1], Duration::from_secs(3600)));
        gate.open();
        while is_hanging(&disks[1], SHORT) {
            std::thread::yield_now();
        }
        assert_eq!(ask(&disks, Duration::from_secs(60), question), [Some(0), Some(1)]);
    }

    #[test]
    fn a_disk_that_makes_progress_is_waited_for() {
        let disks = paths(&["asked-c", "asked-d"]);
        let answers = ask(&disks, Duration::from_millis(300), |at, _, alive| {
            for _ in 0..30 * at {
                std::thread::sleep(Duration::from_millis(20));
                alive();
            }
            at
        });
        assert_eq!(answers, [Some(0), Some(1)]);
    }

    #[test]
    fn all_that_hang_are_given_up_and_their_number_is_bounded() {
        let disk = paths(&["asked-e"]);
        let gate = Gate::default();
        for timeout in [1, 2, 4, 8, 16, 32].map(|n| SHORT * n) {
            let gate = gate.clone();
            assert_eq!(ask(&disk, timeout, move |_, _, _| gate.pass()), [None]);
        }
        assert!(lock(&HANGING)[&disk[0]].threads <= MAX_LEFT_BEHIND);
        gate.open();
    }

    #[test]
    #[should_panic(expected = "as asked")]
    fn a_panic_is_that_of_the_caller() {
        ask(&paths(&["asked-f"]), Duration::from_secs(60), |_, _, _| panic!("as asked"));
    }
}
