//! CPU time of threads, and requests to the scheduler.
//!
//! CPU seconds per gigabyte are reported with every throughput, so each data thread reads its own CPU clock.
//!
//! ```
//! use skyhaul_io::host::thread;
//! let before = thread::cpu_time();
//! let used = thread::cpu_time() - before;
//! if let Err(refused) = thread::pin(0) {
//!     eprintln!("{refused}");
//! }
//! ```

use crate::address::system_text;
use rustix::{
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use skyhaul_core::hint::Hint;
use std::{io, mem, time::Duration};

/// CPU time of this thread, user and system.
#[must_use]
pub fn cpu_time() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of this process, user and system.
#[must_use]
pub fn process_cpu_time() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

fn duration(time: rustix::time::Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resources used by this process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in its own code.
    pub user: Duration,
    /// CPU time in the kernel on its behalf.
    pub system: Duration,
    /// Peak memory in bytes.
    pub peak_memory: u64,
    /// Times it yielded the CPU to wait.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
}

/// Resources used by this process so far.
#[must_use]
pub fn usage() -> Usage {
    usage_of(libc::RUSAGE_SELF)
}

/// Resources used by this thread so far; the peak of memory is the process's.
#[must_use]
pub fn own_usage() -> Usage {
    usage_of(libc::RUSAGE_THREAD)
}

/// Time that this thread was ready to run and waited for a CPU; zero if the kernel does not count it (`CONFIG_SCHED_INFO`).
#[must_use]
pub fn own_wait() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn usage_of(who: libc::c_int) -> Usage {
    // SAFETY: rusage is integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is a valid place for the answer.
    if unsafe { libc::getrusage(who, &raw mut usage) } != 0 {
        return Usage::default();
    }
    let time = |t: libc::timeval| {
        Duration::from_secs(u64::try_from(t.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(t.tv_usec).unwrap_or(0))
    };
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        peak_memory: count(usage.ru_maxrss) * 1024,
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}

/// Keep this thread on one CPU.
///
/// # Errors
/// If the CPU does not exist, or is not allowed for this process.
pub fn pin(cpu: usize) -> io::Result<()> {
    let refused = |error: io::Error| {
        let allowed = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = allowed.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap_or("").trim();
        let text = format!(
            "run on CPU {cpu}: {}{}",
            system_text(&error),
            Hint(format_args!("use one of the CPUs allowed for this process: {allowed}"))
        );
        io::Error::new(error.kind(), text)
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| refused(e.into()))
}

/// Give this thread real-time priority (`SCHED_FIFO`, 1 to 99): it then runs before all ordinary threads.
///
/// # Errors
/// If the privilege is missing; the error has the remedy.
pub fn real_time(priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `parameter` is readable during the call; 0 means this thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    let text = format!(
        "real-time priority {priority}: {}; other work can delay the thread by some milliseconds{}",
        system_text(&error),
        Hint(format_args!(
            "setcap cap_sys_nice+ep on the binary, or `ulimit -r {priority}` (LimitRTPRIO={priority} in the unit file)"
        ))
    );
    Err(io::Error::new(error.kind(), text))
}

/// Have this thread yield to all ordinary threads (nice 19). Linux gives each thread its own priority.
///
/// # Errors
/// If the kernel refuses it.
pub fn low_priority() -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, 19)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_of_this_thread_only() {
        let before = cpu_time();
        let mut n = 1u64;
        while cpu_time() - before < Duration::from_millis(2) {
            n = std::hint::black_box(n.wrapping_mul(3));
        }
        let used = cpu_time() - before;
        std::thread::spawn(move || assert!(cpu_time() < used)).join().unwrap();
        assert!(process_cpu_time() >= used);
        assert!(usage().peak_memory > 100_000);
    }

    #[test]
    fn a_thread_is_pinned_or_told_why_not() {
        std::thread::spawn(|| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let cpu = (0..CpuSet::MAX_CPU).find(|&c| allowed.is_set(c)).unwrap();
            pin(cpu).unwrap();
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
            let said = pin(CpuSet::MAX_CPU - 1).unwrap_err().to_string();
            assert!(said.contains("hint: use one of the CPUs allowed for this process: "), "{said}");
            assert!(pin(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn priority_is_given_or_the_remedy_named() {
        std::thread::spawn(|| match real_time(1) {
            Ok(()) => {}
            Err(error) => assert!(error.to_string().contains("cap_sys_nice"), "{error}"),
        })
        .join()
        .unwrap();
        let said = real_time(200).unwrap_err().to_string();
        assert!(said.contains("Invalid argument"), "{said}");
    }
}
