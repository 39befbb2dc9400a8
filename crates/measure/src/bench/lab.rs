//! One run of one router between the ends of a lab: the forwarder on a clean path, or a bare loop that copies frames.
//!
//! ```text
//!   sender, near end (its CPU) ─▶ router (any CPU) ─▶ far end (the receiver's CPU): counted, not copied
//!      ▲                                                    │
//!      └──────────────── closed loop ───────────────────────┘
//! ```
//!
//! The CPU time of the receiving thread is the router's: it does the kernel's work for the receiver, too.

use super::flow::Flow;
use super::options::BenchResult;
use super::options::search;
use super::options::{BenchLoad, BenchOptions, wrong};
use super::receive::{Received, account, give, join, start_receiver};
use crate::lab::{BareForwarder, FAR, Lab, LabOptions, RunningLab};
use skyhaul_core::hint::Hint;
use skyhaul_io::fault::path::Path;
use skyhaul_io::host::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Octets of a datagram's headers.
const HEADERS: usize = 28;

pub(super) fn run(options: &BenchOptions, candidate: &str, size: usize) -> io::Result<BenchResult> {
    if options.networks.is_some() {
        return Err(wrong(format_args!("a lab has networks of its own{}", Hint("omit --netns"))));
    }
    match options.load {
        BenchLoad::Search => {
            search(&options.stop, |rate| once(options, candidate, size, BenchLoad::Rate(rate)))
        }
        load => once(options, candidate, size, load),
    }
}

fn once(options: &BenchOptions, candidate: &str, size: usize, load: BenchLoad) -> io::Result<BenchResult> {
    let mtu = (size + HEADERS).clamp(1500, 65_521) as u32;
    let lab = Lab::new(&LabOptions { mtu, ..LabOptions::default() })?;
    let router = match candidate {
        "skyhaul" => Router::Ours(lab.forward(&Path::CLEAN, None)?),
        _ => Router::Bare(lab.copy()?),
    };
    let networks = Some((lab.near().clone(), lab.far().clone()));
    let options = BenchOptions { networks, address: FAR.into(), ..options.clone() };
    let flow = Arc::new(Flow::default());
    let process = thread::process_cpu_time();
    let (to, receiver) = start_receiver(&options, "drain", size, &flow)?;
    let given = give(&options, to, size, load, &flow);
    flow.done.store(true, Ordering::Release);
    let received = join(receiver)??;
    let (cpu, how) = router.end()?;
    let received = Received { cpu, how, ..received };
    Ok(account(given?, &received, thread::process_cpu_time() - process))
}

enum Router {
    Ours(RunningLab),
    Bare(BareForwarder),
}

impl Router {
    /// Its CPU time, and how it worked.
    fn end(self) -> io::Result<(Duration, String)> {
        match self {
            Router::Ours(running) => {
                let report = running.finish()?;
                let said = report.failures.join(", ");
                let how = format!(
                    "packets judged one by one, on a clean path{}{said}",
                    if said.is_empty() { "" } else { ": " }
                );
                Ok((Duration::from_secs_f64(report.cpu_seconds), how))
            }
            Router::Bare(copying) => {
                let (refused, cpu) = copying.finish()?;
                let refused = if refused > 0 { format!(", {refused} refused") } else { String::new() };
                Ok((cpu, format!("recvmmsg and sendmmsg of 32 frames, unread{refused}")))
            }
        }
    }
}
