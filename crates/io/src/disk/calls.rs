//! The system calls of a disk: the ring, or plain ones if it is not permitted. Both are tried at start.

use std::io;
use std::time::Duration;

use super::plain::Plain;
use super::uring::Ring;
use super::work::{Finished, Work};
use super::{DiskOptions, Engine, Means, Waker};
use crate::memory::Pool;

/// One of the two.
#[derive(Debug)]
pub(super) enum Calls {
    Ring(Box<Ring>),
    Plain(Plain),
}

impl Calls {
    /// Opens the engine requested by `options`, with `pool` registered if the kernel permits that; returns it and its
    /// description.
    ///
    /// # Errors
    /// If the engine requested by name is not available.
    pub(super) fn open(options: &DiskOptions, pool: Option<&Pool>) -> io::Result<(Calls, Means)> {
        let mut notes = Vec::new();
        let entries = (options.depth * 2).next_power_of_two().max(64) as u32;
        let calls = match options.engine {
            Engine::Plain => Calls::Plain(Plain::default()),
            engine => match Ring::new(entries, pool) {
                Ok(ring) => {
                    if pool.is_some() && !ring.is_registered() {
                        notes.push("buffers not registered: raise the memlock limit (ulimit -l)".to_owned());
                    }
                    Calls::Ring(Box::new(ring))
                }
                Err(error) if engine == Engine::Uring => return Err(error),
                Err(error) => {
                    notes.push(format!(
                        "io_uring not permitted ({error}): see /proc/sys/kernel/io_uring_disabled"
                    ));
                    Calls::Plain(Plain::default())
                }
            },
        };
        let (engine, registered) = match &calls {
            Calls::Ring(ring) => ("io_uring", ring.is_registered()),
            Calls::Plain(_) => ("pwrite", false),
        };
        Ok((calls, Means { engine, direct: options.direct, registered, notes }))
    }

    /// Take a request; it is returned by a later [`wait`](Self::wait).
    pub(super) fn push(&mut self, id: u64, work: Work) -> io::Result<()> {
        match self {
            Calls::Ring(ring) => ring.push(id, work),
            Calls::Plain(plain) => {
                plain.push(id, work);
                Ok(())
            }
        }
    }

    /// Wait at most `time` for a result or the waker, and collect the finished requests.
    pub(super) fn wait(
        &mut self,
        time: Duration,
        waker: &Waker,
        finished: &mut Vec<Finished>,
    ) -> io::Result<()> {
        match self {
            Calls::Ring(ring) => ring.wait(time, Some(waker), finished),
            Calls::Plain(plain) => {
                plain.wait(time, waker, finished);
                Ok(())
            }
        }
    }
}
