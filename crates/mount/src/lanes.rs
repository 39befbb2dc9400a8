//! Threads that read disks: some for each disk, so that one that hangs holds up its own reads only.
//!
//! ```text
//!   disk 0   urgent │ ahead ─▶ thread, thread        a read that waits goes before read-ahead
//!   disk 1   urgent │ ahead ─▶ thread, thread        hung: every thread in one job for longer than the limit
//!   search   urgent │       ─▶ thread                seeks chunks under other names, on any disk
//! ```
//!
//! A thread that hangs in the kernel cannot be ended; it goes on when its disk answers. None is joined.

use crate::segments::UnitKey;
use skyhaul_io::lock::{lock, wait};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Threads for each disk: one reads while the other one verifies.
const THREADS: usize = 2;

/// Work on a disk.
pub(crate) struct Task {
    /// The unit that it loads, if it loads one.
    pub(crate) key: Option<UnitKey>,
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Queue {
    urgent: VecDeque<Task>,
    ahead: VecDeque<Task>,
    /// What each thread does, and since when.
    running: Vec<Option<(Option<UnitKey>, Instant)>>,
    last_done: Option<Instant>,
    is_closed: bool,
}

#[derive(Default)]
struct Lane {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Lane {
    fn work(&self, thread: usize) {
        loop {
            let mut queue = lock(&self.queue);
            let task = loop {
                if queue.is_closed {
                    return;
                }
                if let Some(task) = queue.urgent.pop_front() {
                    break task;
                }
                if let Some(task) = queue.ahead.pop_front() {
                    break task;
                }
                queue = wait(&self.changed, queue);
            };
            queue.running[thread] = Some((task.key, Instant::now()));
            drop(queue);
            (task.run)();
            let mut queue = lock(&self.queue);
            queue.running[thread] = None;
            queue.last_done = Some(Instant::now());
        }
    }
}

/// The lanes of all disks, and the one that searches.
pub(crate) struct Lanes {
    lanes: Vec<Arc<Lane>>,
}

impl Lanes {
    /// Lanes for this many disks.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new(disks: usize) -> std::io::Result<Self> {
        let mut lanes = Vec::new();
        for number in 0..=disks {
            let lane = Arc::new(Lane::default());
            let threads = if number == disks { 1 } else { THREADS };
            lock(&lane.queue).running = vec![None; threads];
            for thread in 0..threads {
                let lane = Arc::clone(&lane);
                std::thread::Builder::new()
                    .name(format!("disk-{number}"))
                    .spawn(move || lane.work(thread))?;
            }
            lanes.push(lane);
        }
        Ok(Self { lanes })
    }

    /// The lane that searches.
    pub(crate) fn search(&self) -> usize {
        self.lanes.len() - 1
    }

    pub(crate) fn push(&self, lane: usize, is_urgent: bool, task: Task) {
        let Some(lane) = self.lanes.get(lane) else { return };
        let mut queue = lock(&lane.queue);
        if is_urgent {
            queue.urgent.push_back(task);
        } else {
            queue.ahead.push_back(task);
        }
        drop(queue);
        lane.changed.notify_one();
    }

    /// A read waits for this unit now.
    pub(crate) fn hurry(&self, lane: usize, key: UnitKey) {
        let Some(lane) = self.lanes.get(lane) else { return };
        let mut queue = lock(&lane.queue);
        if let Some(at) = queue.ahead.iter().position(|task| task.key == Some(key))
            && let Some(task) = queue.ahead.remove(at)
        {
            queue.urgent.push_back(task);
        }
    }

    /// When a unit last made progress: its own work began, or, while it waits for a thread, other work of its disk ended.
    pub(crate) fn progress(&self, lane: usize, key: UnitKey) -> Option<Instant> {
        let queue = lock(&self.lanes.get(lane)?.queue);
        let own = queue.running.iter().flatten().find(|(of, _)| *of == Some(key));
        own.map(|(_, since)| *since).or(queue.last_done)
    }

    /// Whether every thread of a lane has been in one task for longer than this.
    pub(crate) fn is_hung(&self, lane: usize, limit: Duration) -> bool {
        let Some(lane) = self.lanes.get(lane) else { return false };
        let queue = lock(&lane.queue);
        queue.running.iter().all(|task| task.as_ref().is_some_and(|(_, since)| since.elapsed() >= limit))
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in &self.lanes {
            let mut queue = lock(&lane.queue);
            queue.is_closed = true;
            queue.urgent.clear();
            queue.ahead.clear();
            drop(queue);
            lane.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_lane_that_hangs_is_noticed_and_holds_up_no_other() {
        let lanes = Lanes::new(2).unwrap();
        let (release, hold) = channel::<()>();
        let hold = Arc::new(Mutex::new(hold));
        for _ in 0..THREADS {
            let hold = Arc::clone(&hold);
            let run = Box::new(move || {
                let _ = lock(&hold).recv();
            });
            lanes.push(0, true, Task { key: None, run });
        }
        let (done, told) = channel();
        lanes.push(1, false, Task { key: None, run: Box::new(move || done.send(()).unwrap()) });
        told.recv_timeout(Duration::from_secs(60)).unwrap();
        let limit = Duration::from_millis(20);
        while !lanes.is_hung(0, limit) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!lanes.is_hung(1, limit) && !lanes.is_hung(lanes.search(), limit));
        drop(release);
        while lanes.is_hung(0, limit) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
