//! Threads that read disks: some for each disk, so that one that hangs holds up its own reads only.
//!
//! ```text
//!   disk 0   urgent │ ahead ─▶ thread, thread        a read that waits goes before read-ahead
//!   disk 1   urgent │ ahead ─▶ thread, thread        hung: every thread in one job for longer than the limit
//!   search   urgent │       ─▶ thread                seeks chunks under other names, on any disk
//! ```
//!
//! A thread blocked in the kernel cannot be stopped; it continues once its disk answers. Threads are never joined. One that waits for a
//! recording which writes to the disk does not hang: its time begins anew as long as it waits.

use crate::segments::UnitKey;
use skyhaul_io::disk::while_waiting;
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
struct DiskQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl DiskQueue {
    fn work(self: &Arc<Self>, thread: usize) {
        let own = Arc::downgrade(self);
        while_waiting(move || {
            let Some(disk) = own.upgrade() else { return };
            let (mut queue, now) = (lock(&disk.queue), Instant::now());
            // What waits for this thread waits for the recording, too.
            queue.last_done = Some(now);
            if let Some((_, since)) = &mut queue.running[thread] {
                *since = now;
            }
        });
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

/// The threads of all disks, and the one that searches.
pub(crate) struct DiskThreads {
    queues: Vec<Arc<DiskQueue>>,
}

impl DiskThreads {
    /// Threads for this many disks.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new(disks: usize) -> std::io::Result<Self> {
        let mut queues = Vec::new();
        for number in 0..=disks {
            let disk = Arc::new(DiskQueue::default());
            let threads = if number == disks { 1 } else { THREADS };
            lock(&disk.queue).running = vec![None; threads];
            for thread in 0..threads {
                let disk = Arc::clone(&disk);
                std::thread::Builder::new()
                    .name(format!("disk-{number}"))
                    .spawn(move || disk.work(thread))?;
            }
            queues.push(disk);
        }
        Ok(Self { queues })
    }

    /// The number, among those of disks, of the thread that searches.
    pub(crate) fn search(&self) -> usize {
        self.queues.len() - 1
    }

    pub(crate) fn push(&self, disk: usize, is_urgent: bool, task: Task) {
        let Some(disk) = self.queues.get(disk) else { return };
        let mut queue = lock(&disk.queue);
        if is_urgent {
            queue.urgent.push_back(task);
        } else {
            queue.ahead.push_back(task);
        }
        drop(queue);
        disk.changed.notify_one();
    }

    /// A read waits for this unit now.
    pub(crate) fn hurry(&self, disk: usize, key: UnitKey) {
        let Some(disk) = self.queues.get(disk) else { return };
        let mut queue = lock(&disk.queue);
        if let Some(at) = queue.ahead.iter().position(|task| task.key == Some(key))
            && let Some(task) = queue.ahead.remove(at)
        {
            queue.urgent.push_back(task);
        }
    }

    /// When a unit last made progress: its own work began, or, while it waits for a thread, other work of its disk ended.
    pub(crate) fn progress(&self, disk: usize, key: UnitKey) -> Option<Instant> {
        let queue = lock(&self.queues.get(disk)?.queue);
        let own = queue.running.iter().flatten().find(|(of, _)| *of == Some(key));
        own.map(|(_, since)| *since).or(queue.last_done)
    }

    /// Whether every thread of a disk has been in one task for longer than this.
    pub(crate) fn is_hung(&self, disk: usize, limit: Duration) -> bool {
        let Some(disk) = self.queues.get(disk) else { return false };
        let queue = lock(&disk.queue);
        queue.running.iter().all(|task| task.as_ref().is_some_and(|(_, since)| since.elapsed() >= limit))
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        for disk in &self.queues {
            let mut queue = lock(&disk.queue);
            queue.is_closed = true;
            queue.urgent.clear();
            queue.ahead.clear();
            drop(queue);
            disk.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_disk_that_hangs_is_noticed_and_holds_up_no_other() {
        let threads = DiskThreads::new(2).unwrap();
        let (release, hold) = channel::<()>();
        let hold = Arc::new(Mutex::new(hold));
        for _ in 0..THREADS {
            let hold = Arc::clone(&hold);
            let run = Box::new(move || {
                let _ = lock(&hold).recv();
            });
            threads.push(0, true, Task { key: None, run });
        }
        let (done, told) = channel();
        threads.push(1, false, Task { key: None, run: Box::new(move || done.send(()).unwrap()) });
        told.recv_timeout(Duration::from_secs(60)).unwrap();
        let limit = Duration::from_millis(20);
        while !threads.is_hung(0, limit) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!threads.is_hung(1, limit) && !threads.is_hung(threads.search(), limit));
        drop(release);
        while threads.is_hung(0, limit) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
