//! Clocks in nanoseconds, and a wait that ends on time.

use super::port::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::{io, num::NonZeroU64};

/// The monotonic clock, in nanoseconds.
#[must_use]
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The real-time clock, which the time stamps of frames use, in nanoseconds.
#[must_use]
pub fn realtime() -> u64 {
    nanoseconds(ClockId::Realtime)
}

fn nanoseconds(of: ClockId) -> u64 {
    let time = clock_gettime(of);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets sleeps of this thread end on time: by default, the kernel adds up to 50 us.
///
/// # Errors
/// A system error.
pub fn wake_on_time() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Sleeps for this many nanoseconds, or until a frame arrives at one of these ports.
///
/// # Errors
/// A system error.
pub fn wait(ports: &[Port; 2], nanoseconds: u64) -> io::Result<()> {
    let sleep = Timespec { tv_sec: 0, tv_nsec: nanoseconds.min(999_999_999) as _ };
    let [one, other] = ports;
    let mut ports = [PollFd::new(one, PollFlags::IN), PollFd::new(other, PollFlags::IN)];
    match poll(&mut ports, Some(&sleep)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
