//! Arguments of `lab`.

use super::limits::OutputArgs;
use super::limits::{DESTINATION, HOST, PATH, WHEN};
use super::limits::{from_to, some};
use clap::{Args, Subcommand, ValueHint};
use skyhaul::io::netlink::route::Queue;
use skyhaul::io::quantity::{Size, Span};
use skyhaul_measure::lab::{End, LabText};
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

In the ends, the names near, far and router are known. Without COMMAND, a shell is started in the near end. PATH is what the \
path does: rate, buffer, delay, jitter, loss, burst, gemodel, ber, reorder, duplicate, corrupt, truncate, police, pps, \
mtu-blackhole, idle-cut, paths, stall, comb, wake, duplex, hops, overhead and seed, as KEY=VALUE with commas between; after a \
semicolon, sections for one direction (fwd: rev:), one flow (flow=udp/5001:) or from a time on (at=10s:), and for what the kernels of the ends do (near: far:): queues, \
processors for what comes in, small sockets. docs/guide/lab.md explains each.";

#[derive(Args, Debug)]
#[command(long_about = LONG)]
pub(crate) struct LabRunArgs {
    /// What the path does, such as 'rate=1Gbps,delay=15ms,police=400Mbps/1MiB,seed=7'; '' is a clean path
    #[arg(value_name = "PATH", help_heading = PATH)]
    pub(crate) path: LabText,
    /// Command in the near end; the lab ends with it
    #[arg(last = true, value_name = "COMMAND", help_heading = PATH, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
    /// Command in the far end, for a shell; it begins first, and is ended at the end
    #[arg(long, value_name = "COMMAND", help_heading = PATH, value_hint = ValueHint::CommandString)]
    pub(crate) far: Option<String>,
    /// Octets of an IP packet, at most
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = from_to::<u32>(1280, 65_521, "1500, or 9000 for jumbo frames"), help_heading = PATH)]
    pub(crate) mtu: u32,
    /// Queue of the near end's interface, in the kernel: tbf=RATE/BURST/LIMIT or pfifo=PACKETS
    #[arg(long, value_name = "QUEUE", value_parser = queue, help_heading = PATH)]
    pub(crate) queue: Option<Queue>,
    /// How long to wait, at most, until the far command listens
    #[arg(long, value_name = "TIME", default_value = "5s", help_heading = WHEN)]
    pub(crate) wait: Span,
    /// Write the fate of every packet to this file, a line of JSON each
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) log: Option<PathBuf>,
    /// Memory for packets that wait
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = some::<Size>("what rate and delay hold: 1Gbps for 100ms are 12.5MB"), help_heading = HOST)]
    pub(crate) memory: Size,
    /// Do not sleep in the last TIME before a packet is due: more exact, and costs a processor
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = HOST)]
    pub(crate) spin: Span,
    /// On a busy path, packets that are due within TIME leave together, which costs much less of a processor; 0: each by itself
    #[arg(long, value_name = "TIME", default_value = "40us", help_heading = HOST)]
    pub(crate) grain: Span,
    /// A packet that leaves later than this after it was due missed its time; more than one in a hundred fail the run
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = some::<Span>("1ms is what a busy machine keeps"), help_heading = HOST)]
    pub(crate) tolerance: Span,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The form of a section, from an option of its own.
fn queue(text: &str) -> Result<Queue, String> {
    let end: Result<End, _> = text.parse();
    let wrong = || format!("'{text}' is no queue\nhint: write tbf=400Mbps/64KiB/250KiB or pfifo=100");
    match end {
        Ok(End { queue: Some(queue), steering: None, tcp_receive: None, tcp_send: None }) => Ok(queue),
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
