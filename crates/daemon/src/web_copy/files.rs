//! The files of a copy, some at a time, and what became of each.

use super::begin_error;
use skyhaul::io::lock::lock;
use skyhaul_transfer::copy::{Copied, CopyReport, Failed, FetchError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Interval between reports of progress.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

/// How the copy of a file ended.
pub(crate) enum Ended {
    /// `resumed`: so many of its bytes were there already. `is_checked`: a digest of both sides is equal.
    Copied { bytes: u64, resumed: u64, crc32c: Option<u32>, is_checked: bool },
    /// It was there.
    Kept { bytes: u64 },
    /// Both sides are equal; nothing was to be copied.
    Compared { bytes: u64, crc32c: Option<u32> },
}

/// What is done for a file, by the thread of a number, until it is over.
pub(crate) type Work<'a, T> = &'a (dyn Fn(&T, usize, &dyn Fn() -> bool) -> Result<Ended, FetchError> + Sync);

/// Does `work` for each of `files`, with the number of the thread that does it, until all are done or it is over. A server that is gone
/// is gone for all files. `tick` gets the number of files that are done.
pub(crate) fn each<T: Sync>(
    (files, threads): (&[T], usize),
    is_over: &(dyn Fn() -> bool + Sync),
    work: Work<'_, T>,
    tick: &mut dyn FnMut(usize),
) -> Vec<(usize, Result<Ended, FetchError>)> {
    let (next, done, is_gone) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicBool::new(false));
    let is_over = || is_over() || is_gone.load(Ordering::Relaxed);
    let run = |thread: usize| {
        while !is_over()
            && let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(file) = files.get(at)
        {
            let ended = work(file, thread, &is_over);
            if matches!(ended, Err(FetchError::Broken(_))) {
                is_gone.store(true, Ordering::Relaxed);
            }
            lock(&done).push((at, ended));
        }
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            (0..threads.min(files.len())).map(|thread| scope.spawn(move || run(thread))).collect();
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            tick(lock(&done).len());
            std::thread::sleep(TICK_INTERVAL);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to a report what became of these files, by their paths at the destination. If fewer are done than `all`, it ended early.
pub(crate) fn account(report: &mut CopyReport, done: Vec<(PathBuf, Result<Ended, FetchError>)>, all: usize) {
    let is_early = done.len() < all;
    for (path, ended) in done {
        match ended {
            Ok(Ended::Copied { bytes, resumed, crc32c, is_checked }) => {
                report.files += 1;
                report.bytes += bytes;
                report.moved_bytes += bytes.saturating_sub(resumed);
                report.resumed_bytes += resumed;
                if !is_checked {
                    report.unchecked.push(path.clone());
                }
                report.copied.push(Copied { path, bytes, crc32c });
            }
            Ok(Ended::Kept { bytes }) => {
                report.files += 1;
                report.kept_files += 1;
                report.bytes += bytes;
                report.kept_bytes += bytes;
            }
            Ok(Ended::Compared { bytes, crc32c }) => {
                report.files += 1;
                report.kept_files += 1;
                report.bytes += bytes;
                report.kept_bytes += bytes;
                report.compared.push(Copied { path, bytes, crc32c });
            }
            Err(FetchError::Broken(text)) => report.stopped = Some(text),
            Err(FetchError::Over) => drop(report.stopped.get_or_insert_with(|| "interrupted".to_owned())),
            Err(error) => report.failed.push(Failed { path, error: begin_error(error).to_string() }),
        }
    }
    if is_early {
        report.stopped.get_or_insert_with(|| "interrupted".to_owned());
    }
    let bits = report.moved_bytes as f64 * 8.0;
    report.bits_per_second = if report.seconds > 0.0 { bits / report.seconds } else { 0.0 };
}
