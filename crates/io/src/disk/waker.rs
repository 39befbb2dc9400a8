//! Ends a disk's wait, from any thread.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// Wakes a disk's thread from [`Disk::poll`](super::Disk::poll), from any thread.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) Arc<File>);

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(File::from(event))))
    }

    /// End the current or the next wait.
    pub fn wake(&self) {
        use io::Write;
        // The write can only fail if the counter is full: then it is awake.
        let _ = (&*self.0).write(&1u64.to_ne_bytes());
    }

    pub(super) fn clear(&self) {
        use io::Read;
        let _ = (&*self.0).read(&mut [0; 8]);
    }

    /// Sleep until woken, at most `time`.
    pub(super) fn sleep(&self, time: Duration) {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let _ = poll(&mut fds, rustix::time::Timespec::try_from(time).ok().as_ref());
        self.clear();
    }
}
