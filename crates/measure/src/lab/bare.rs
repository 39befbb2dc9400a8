//! The networks of a lab with a bare loop between, for benchmarks.

use super::{Lab, PRIORITY};
use skyhaul_io::host::thread::{cpu_time, real_time};
use skyhaul_io::packet::{bare, wake_on_time};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames of a system call: as many as the forwarder takes.
const BATCH: usize = super::forward::BATCH;

/// A loop that copies.
#[derive(Debug)]
pub struct BareForwarder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(u64, Duration)>>,
}

impl Lab {
    /// Copy every frame from each end to the other, unread: the same sockets, and no path.
    ///
    /// # Errors
    /// A system error.
    pub fn copy(&self) -> io::Result<BareForwarder> {
        let (ports, _) = self.ports()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, wanted) = (stop.clone(), self.options.real_time);
        let work = move || {
            wake_on_time()?;
            let _ = wanted && real_time(PRIORITY).is_ok();
            let refused = bare::copy(&ports, BATCH, &stopped)?;
            Ok((refused, cpu_time()))
        };
        Ok(BareForwarder { stop, thread: std::thread::Builder::new().name("lab-copy".into()).spawn(work)? })
    }
}

impl BareForwarder {
    /// End it; returns the frames that the kernel refused, and the CPU time of the loop.
    ///
    /// # Errors
    /// What ended it before.
    pub fn finish(self) -> io::Result<(u64, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the thread that copies failed"))?
    }
}
