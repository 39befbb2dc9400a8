//! The synchronisation state of this host's clock, which the kernel knows from NTP or PTP. Reading it needs no
//! privilege.

use std::io;

const UNSYNCHRONISED: libc::c_int = 0x40;

/// The state of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whether a program keeps it to another clock.
    pub synchronised: bool,
    /// The largest error that is possible, in microseconds.
    pub max_error_us: u64,
    /// The error that is likely, in microseconds.
    pub estimated_error_us: u64,
}

impl Kept {
    /// Ask the kernel.
    ///
    /// # Errors
    /// A system error.
    pub fn read() -> io::Result<Self> {
        // SAFETY: a timex is numbers only, for which zeros are valid; its `modes` of 0 asks and changes nothing.
        let mut now: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: `now` is a valid timex that outlives the call.
        if unsafe { libc::adjtimex(&raw mut now) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            synchronised: now.status & UNSYNCHRONISED == 0,
            max_error_us: u64::try_from(now.maxerror).unwrap_or(0),
            estimated_error_us: u64::try_from(now.esterror).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_how_its_clock_is_kept() {
        let kept = super::Kept::read().unwrap();
        assert!(kept.synchronised || kept.max_error_us > 0, "{kept:?}");
    }
}
