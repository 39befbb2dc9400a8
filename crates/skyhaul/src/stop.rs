//! A request to end work, shared by the threads that do it.

use skyhaul_io::lock::lock;
use skyhaul_io::wake::Wake;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Ends a measurement or a copy. Clones share one flag, which every thread of a run checks: what is finished is reported,
/// and the current run is discarded.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    flag: Arc<AtomicBool>,
    /// Of threads that sleep until something happens.
    wakes: Arc<Mutex<Vec<Weak<Wake>>>>,
}

impl StopFlag {
    /// Request the end.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Relaxed);
        // A wake that fails is of a thread that looks at the flag in its own time.
        lock(&self.wakes).iter().filter_map(Weak::upgrade).for_each(|wake| drop(wake.set()));
    }

    /// Have [`stop`](Self::stop) set this, too, for a thread that sleeps for long. A signal handler that sets the flag itself wakes nobody
    /// but the thread that it interrupts.
    pub fn wakes(&self, wake: &Arc<Wake>) {
        let mut wakes = lock(&self.wakes);
        wakes.retain(|one| one.strong_count() > 0);
        wakes.push(Arc::downgrade(wake));
    }

    /// Whether the end was requested.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The result of a run, or `None` if it was stopped, because its figures then reflect the stop.
    ///
    /// # Errors
    ///
    /// The error of the run, unless it was stopped.
    pub fn unless_set<T>(&self, run: io::Result<T>) -> io::Result<Option<T>> {
        if self.is_set() { Ok(None) } else { run.map(Some) }
    }
}

impl From<Arc<AtomicBool>> for StopFlag {
    /// A flag set elsewhere, for example by a signal handler.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self { flag, wakes: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::wake::wait_for;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn sleepers_are_woken_by_any_clone() {
        let (stop, wakes) = (StopFlag::default(), [(); 2].map(|()| Arc::new(Wake::new().unwrap())));
        wakes.iter().for_each(|wake| stop.wakes(wake));
        stop.wakes(&Arc::new(Wake::new().unwrap()));
        let is_set = |wake: &Arc<Wake>| wait_for(&[wake.as_fd()], Duration::ZERO).unwrap();
        assert_eq!((wakes.each_ref().map(is_set), stop.is_set()), ([false; 2], false));
        stop.clone().stop();
        assert_eq!((wakes.each_ref().map(is_set), stop.is_set()), ([true; 2], true));
    }
}
