//! The alternative to the ring: the same work by plain system calls, one at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::Waker;
use super::work::{Finished, Work};
use crate::memory::View;

/// Executes each request when its result is collected.
#[derive(Debug, Default)]
pub(super) struct Plain {
    waiting: VecDeque<(u64, Work)>,
}

impl Plain {
    pub(super) fn push(&mut self, id: u64, work: Work) {
        self.waiting.push_back((id, work));
    }

    pub(super) fn wait(&mut self, time: Duration, waker: &Waker, finished: &mut Vec<Finished>) {
        let Some((id, mut work)) = self.waiting.pop_front() else {
            if !time.is_zero() {
                waker.sleep(time);
            }
            return;
        };
        let begun = Instant::now();
        let result = match &mut work {
            Work::Write { file, view, bytes, offset } => write(file, view, *bytes, *offset),
            Work::Read { file, block, bytes, offset } => file.read_at(block.part_mut(0..*bytes), *offset),
            Work::Sync { file } => file.sync_data().map(|()| 0),
        };
        finished.push(Finished { id, result, time: begun.elapsed(), work });
    }
}

/// Write `bytes` from the start of `view`: the view, and with `O_DIRECT` the rest of its last page.
fn write(file: &File, view: &View, bytes: usize, offset: u64) -> io::Result<usize> {
    let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the kernel only reads, from memory that is mapped as long as `view` lives: `Work::Write` is made of a view
    // and at most the rest of its last page, and blocks are whole pages.
    let written = unsafe { libc::pwrite(file.as_raw_fd(), view.start().cast(), bytes, at) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}
