//! A share of one processor: a program's performance on half a processor shows what it would do at twice the rate.
//!
//! ```text
//!   control group   ██░░██░░██░░██░░   runs for its share of each period, then waits for the next
//!   competing load  █░█░██░░█░█░       a busy thread of the same priority has the other half
//! ```
//!
//! A control group needs a privilege (root, or a session to which the controller was delegated). Periods are as short as
//! the kernel allows, 4 ms for shares from 25 % on: packets that arrive while the program waits must fit its socket's
//! buffer. The kernel enforces the share only at its ticks, so a wait may be one or two ticks longer; excess time is
//! subtracted from the next periods.
//!
//! Without that privilege, half a processor is still possible: one busy thread competes with the program on the same
//! processor with the same priority. A program with two busy threads then gets two thirds.
//!
//! Limits: the program must stay on that CPU ([`super::program`] ensures it).

mod cgroup;

use super::thread;
use crate::quantity::Share;
use cgroup::Cgroup;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A limit for a program. It ends when this is dropped.
#[derive(Debug)]
pub struct Limit {
    share: Share,
    cpu: usize,
    by: By,
}

#[derive(Debug)]
enum By {
    /// All of the processor.
    Nothing,
    Group(Cgroup),
    Load(Option<Load>),
}

impl Limit {
    /// A share of processor `cpu`, by the best means available. It applies from [`begin`](Self::begin) on.
    ///
    /// # Errors
    /// If no control group can be made, and the share is not a half.
    pub fn new(share: Share, cpu: usize) -> io::Result<Self> {
        Self::by(share, cpu, Cgroup::new)
    }

    /// No limit.
    #[must_use]
    pub fn none() -> Self {
        Self { share: Share::WHOLE, cpu: 0, by: By::Nothing }
    }

    fn by(share: Share, cpu: usize, group: impl Fn() -> io::Result<Cgroup>) -> io::Result<Self> {
        let by = if share.percent() == 100 {
            By::Nothing
        } else {
            match group() {
                Ok(group) => By::Group(group),
                Err(_) if share.percent() == 50 => By::Load(None),
                Err(why) => {
                    let text = format!(
                        "limit a program to {share} of a processor: {why}\nhint: run as root; for 50% no privilege is needed"
                    );
                    return Err(io::Error::new(why.kind(), text));
                }
            }
        };
        Ok(Self { share, cpu, by })
    }

    /// Apply the limit from here on.
    ///
    /// # Errors
    /// If the kernel rejects the share or the CPU.
    pub fn begin(&mut self) -> io::Result<()> {
        match &mut self.by {
            By::Nothing => Ok(()),
            By::Group(group) => group.allow(self.share),
            By::Load(load) => {
                *load = Some(Load::start(self.cpu)?);
                Ok(())
            }
        }
    }

    /// The file to which a process writes `0` to enter the control group, if there is one.
    pub(super) fn entrance(&self) -> io::Result<Option<File>> {
        match &self.by {
            By::Group(group) => group.entrance().map(Some),
            By::Nothing | By::Load(_) => Ok(None),
        }
    }

    /// Whether the kernel enforces the share, regardless of the number of threads.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !matches!(self.by, By::Load(_))
    }

    /// A description of the means.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.by {
            By::Nothing => "no limit".into(),
            By::Group(group) => group.describe(self.share),
            By::Load(_) => "a competing load: one busy thread of the same priority on the same CPU".into(),
        }
    }
}

/// A busy thread.
#[derive(Debug)]
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(cpu: usize) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let ends = stop.clone();
        let thread = std::thread::Builder::new().name("competing-load".into()).spawn(move || {
            let pinned = thread::pin(cpu);
            let runs = pinned.is_ok();
            let _ = tell.send(pinned);
            while runs && !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })?;
        let load = Self { stop, thread: Some(thread) };
        told.recv().map_err(|_| io::Error::other("the competing load ended early"))??;
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn nowhere() -> io::Result<Cgroup> {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "make a control group: Permission denied"))
    }

    #[test]
    fn without_control_groups_there_is_half_a_processor_or_a_hint() {
        let limit = Limit::by("50%".parse().unwrap(), 0, nowhere).unwrap();
        assert!(!limit.is_exact() && limit.describe().contains("competing load"), "{limit:?}");
        let said = Limit::by("30%".parse().unwrap(), 0, nowhere).unwrap_err().to_string();
        assert!(said.contains("30% of a processor") && said.contains("\nhint: run as root"), "{said}");
        assert!(Limit::by("100%".parse().unwrap(), 0, nowhere).unwrap().is_exact());
    }

    #[test]
    fn a_load_competes_from_its_beginning_to_its_end() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
        let mut limit = Limit::by("50%".parse().unwrap(), cpu, nowhere).unwrap();
        let before = thread::process_cpu_time();
        limit.begin().unwrap();
        let begun = Instant::now();
        while thread::process_cpu_time() - before < Duration::from_millis(5) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is busy");
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(limit);
        let said = Load::start(usize::MAX).unwrap_err().to_string();
        assert!(said.contains("hint: "), "{said}");
    }
}
