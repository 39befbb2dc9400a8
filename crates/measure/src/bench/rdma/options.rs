//! What a measurement of RDMA compares, and how.

use super::super::options::wrong;
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_io::host::thread;
use skyhaul_io::namespace::Network;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The experiments, as for `--only`.
pub const RDMA_EXPERIMENTS: [&str; 6] = ["messages", "receivers", "wakes", "loss", "latency", "lanes"];
/// Longest datagram unless another is asked for, without the headers of IP and UDP: all of a jumbo frame.
pub const DATAGRAM_BYTES: u16 = 8972;
/// Datagrams of the longest train that a program in the kernel takes.
pub(super) const MAX_TRAIN: u16 = 46;
/// Lanes of LOFAR that are tried, at most: those of the paper.
pub const LANES: u16 = 50;
/// Bytes of a message in the experiment with losses.
pub const LOSS_MESSAGE_BYTES: u64 = 64 << 10;
/// Deadline of each Read.
pub const READ_DEADLINE: Duration = Duration::from_millis(200);
/// Bytes of the memory that is written and read, larger than any cache.
pub const REGION_BYTES: u64 = 64 << 20;
/// Bytes of a message in the experiment with latencies.
pub(super) const LATENCY_MESSAGE_BYTES: usize = 64;
/// Start and end of a run, roughly.
pub(super) const OVERHEAD: Duration = Duration::from_millis(300);

/// An end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It sends; of Reads, it reads.
    Sender,
    /// It receives.
    Receiver,
}

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct RdmaBenchOptions {
    /// Bytes of messages.
    pub messages: Vec<u64>,
    /// Shares of datagrams that are withheld, 0 to 1.
    pub losses: Vec<f64>,
    /// Experiments by name; empty: all but `lanes`, which takes long.
    pub only: Vec<String>,
    /// Candidates by name; empty: all of each experiment.
    pub candidates: Vec<String>,
    /// The longest datagram, bytes of UDP payload.
    pub datagram_bytes: u16,
    /// Datagrams that the sender of `receivers` and of `lanes` hands to the kernel in one train.
    pub train: u16,
    /// Bytes of the memory that is written and read; of `receivers`, a power of two.
    pub memory: u64,
    /// Lanes of LOFAR that are tried, at most.
    pub lanes: u16,
    /// Length of each run.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Bits of datagrams per second; 0 is as fast as possible. Reads go at the rate of the answers.
    pub rate: u64,
    /// Address to receive on.
    pub address: IpAddr,
    /// Network namespaces of the sender and the receiver.
    pub networks: Option<(Network, Network)>,
    /// Make two of them, with a pair of interfaces of an MTU of 9000 between, in place of `networks` and `address`.
    pub veth: bool,
    /// CPUs of the sending and the receiving thread.
    pub cpus: (usize, usize),
    /// Ends it early; the report then has the results until then.
    pub stop: StopFlag,
}

impl RdmaBenchOptions {
    fn network(&self, end: End) -> Option<&Network> {
        let (sender, receiver) = self.networks.as_ref()?;
        Some(if end == End::Sender { sender } else { receiver })
    }

    /// Move this thread to the CPU and the network of an end.
    pub(super) fn enter(&self, end: End) -> io::Result<()> {
        thread::pin(if end == End::Sender { self.cpus.0 } else { self.cpus.1 })?;
        self.network(end).map_or(Ok(()), Network::enter)
    }

    /// Do this in the network of an end, without its CPU.
    pub(super) fn inside<T: Send>(
        &self,
        end: End,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        match self.network(end) {
            Some(network) => network.inside(work)?,
            None => work(),
        }
    }

    /// Whether an experiment is to be measured.
    pub(super) fn wants(&self, experiment: &str) -> bool {
        match self.only.is_empty() {
            true => experiment != "lanes",
            false => self.only.iter().any(|own| own == experiment),
        }
    }

    /// An error if a number, an experiment or the address cannot be measured.
    pub(super) fn check(&self) -> io::Result<()> {
        let unknown = self.only.iter().find(|name| !RDMA_EXPERIMENTS.contains(&name.as_str()));
        if let Some(name) = unknown {
            let hint = Hint(format_args!("choose from {}", RDMA_EXPERIMENTS.join(" ")));
            return Err(wrong(format_args!("`bench rdma` has no experiment '{name}'{hint}")));
        }
        if !(128..=65_507).contains(&self.datagram_bytes) {
            let text = "bytes: 128 to 65507 can be measured";
            return Err(wrong(format_args!("a datagram of {} {text}", self.datagram_bytes)));
        }
        if !(1..=MAX_TRAIN).contains(&self.train) || !(1..=LANES).contains(&self.lanes) {
            return Err(wrong(format_args!(
                "trains of {} datagrams, {} lanes: 1 to {MAX_TRAIN} and 1 to {LANES} can be measured",
                self.train, self.lanes
            )));
        }
        if self.address.is_multicast() {
            let hint = Hint("give an --address of this host");
            return Err(wrong(format_args!("a benchmark needs a unicast address{hint}")));
        }
        if let Some(loss) = self.losses.iter().find(|loss| !(**loss > 0.0 && **loss < 1.0)) {
            return Err(wrong(format_args!("a loss of {loss}: must be between 0 and 1, like 0.01 for 1 %")));
        }
        let mut sizes = self.messages.iter().filter(|_| self.wants("messages")).copied().collect::<Vec<_>>();
        sizes.extend((self.wants("loss") || self.wants("wakes")).then_some(LOSS_MESSAGE_BYTES));
        if let Some(size) = sizes.iter().find(|size| !(64..=self.memory).contains(*size)) {
            return Err(wrong(format_args!(
                "a message of {size} bytes: 64 bytes to {}, the size of the region, can be measured",
                self.memory
            )));
        }
        Ok(())
    }
}
