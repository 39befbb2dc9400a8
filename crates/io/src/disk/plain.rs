//! The twin of the ring: the same work by plain calls, one at a time.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::Waker;
use super::writer::{Finished, Work};

/// Does each request when it is asked for the results.
#[derive(Debug, Default)]
pub(super) struct Plain {
    waiting: VecDeque<(u64, Work)>,
}

impl Plain {
    pub(super) fn push(&mut self, id: u64, work: Work) {
        self.waiting.push_back((id, work));
    }

    pub(super) fn wait(&mut self, time: Duration, waker: &Waker, finished: &mut Vec<Finished>) {
        let Some((id, work)) = self.waiting.pop_front() else {
            if !time.is_zero() {
                waker.sleep(time);
            }
            return;
        };
        let begun = Instant::now();
        let result = match &work {
            Work::Write { file, view, offset } => write(file, view, *offset),
            Work::Sync { file } => file.sync_data().map(|()| 0),
        };
        finished.push(Finished { id, result, time: begun.elapsed() });
    }
}

fn write(file: &std::fs::File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.write_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
