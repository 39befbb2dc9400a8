//! Arguments of `lab`.

use super::limits::OutputArgs;
use super::limits::{DESTINATION, HOST, PATH, WHEN};
use super::limits::{from_to, some};
use clap::{Args, Subcommand, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::netlink::route::Queue;
use skyhaul::io::quantity::{Size, Span};
use skyhaul_measure::lab::{EndSettings, LabText};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) what: LabWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabWhat {
    /// Run commands at the ends of an emulated path
    Run(LabRunArgs),
}

const LONG: &str = "Run commands at the ends of an emulated path: two network namespaces and a router between them.

In the ends, the host names near, far and router resolve. Without COMMAND, a shell starts in the near end. PATH sets the \
impairments: rate, buffer, delay, jitter, loss, burst, gemodel, ber, reorder, duplicate, corrupt, truncate, police, pps, \
mtu-blackhole, idle-cut, paths, stall, comb, wake, duplex, hops, overhead and seed, as comma-separated KEY=VALUE; after a \
semicolon, sections for one direction (fwd: rev:), one flow (flow=udp/5001:) or from a time on (at=10s:), and settings of the ends' kernels (near: far:): queues, \
CPUs for received packets, small sockets. docs/guide/lab.md explains each.";

#[derive(Args, Debug)]
#[command(long_about = LONG)]
pub(crate) struct LabRunArgs {
    /// Impairments of the path, such as 'rate=1Gbps,delay=15ms,police=400Mbps/1MiB,seed=7'; '' for a clean path
    #[arg(value_name = "PATH", help_heading = PATH)]
    pub(crate) path: LabText,
    /// Command to run in the near end; the lab stops when it exits
    #[arg(last = true, value_name = "COMMAND", help_heading = PATH, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
    /// Shell command to run in the far end; it starts first and is stopped with the lab
    #[arg(long, value_name = "COMMAND", help_heading = PATH, value_hint = ValueHint::CommandString)]
    pub(crate) far: Option<String>,
    /// Maximum size of an IP packet, in bytes
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = from_to::<u32>(1280, 65_521, "1500, or 9000 for jumbo frames"), help_heading = PATH)]
    pub(crate) mtu: u32,
    /// Kernel queue of the near end's interface: tbf=RATE/BURST/LIMIT or pfifo=PACKETS
    #[arg(long, value_name = "QUEUE", value_parser = queue, help_heading = PATH)]
    pub(crate) queue: Option<Queue>,
    /// Longest time to wait until the far command listens
    #[arg(long, value_name = "TIME", default_value = "5s", help_heading = WHEN)]
    pub(crate) wait: Span,
    /// Write what happened to each packet to this file, as JSON lines
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) log: Option<PathBuf>,
    /// Memory for queued packets
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = some::<Size>("what rate and delay hold: 1Gbps for 100ms are 12.5MB"), help_heading = HOST)]
    pub(crate) memory: Size,
    /// Busy-wait for the last TIME before a packet is due: more precise, at the cost of a CPU
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = HOST)]
    pub(crate) spin: Span,
    /// On a busy path, send packets that are due within TIME together, which takes much less CPU time; 0: one at a time
    #[arg(long, value_name = "TIME", default_value = "40us", help_heading = HOST)]
    pub(crate) grain: Span,
    /// Maximum lateness of a packet; the run fails if more than 1 % of packets are later
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = some::<Span>("1ms is what a busy machine keeps"), help_heading = HOST)]
    pub(crate) tolerance: Span,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The form of a section, from an option of its own.
fn queue(text: &str) -> Result<Queue, String> {
    let end: Result<EndSettings, _> = text.parse();
    let wrong = || format!("unknown queue '{text}'{}", Hint("write tbf=400Mbps/64KiB/250KiB or pfifo=100"));
    match end {
        Ok(EndSettings { queue: Some(queue), steering: None, tcp_receive: None, tcp_send: None }) => {
            Ok(queue)
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_the_kernel_are_read() {
        assert_eq!(queue("pfifo=10"), Ok(Queue::Packets(10)));
        for wrong in ["", "tbf", "tbf=1Gbps", "tbf=1Gbps/1/2/3", "red=1", "pfifo=x", "rps=1", "pfifo=1,rps=1"]
        {
            assert!(queue(wrong).unwrap_err().contains("hint: write tbf="), "{wrong}");
        }
    }
}
