//! What a measurement of RDMA compares, and how.

use super::super::options::wrong;
use super::lanes;
use super::report::RdmaBenchRow;
use super::writer::Datagrams;
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

/// The candidates of an experiment, in turns, and those that all are compared with by round.
pub(super) fn candidates(experiment: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match experiment {
        "messages" => (
            &["udp", "tcp", "write-stage", "write-bpf", "write-tcp", "write-tcp-no-crc", "read", "read-tcp"],
            &["udp", "tcp"],
        ),
        "receivers" => (
            &["scatter", "bare", "ring", "place", "drop", "write-stage", "write-bpf"],
            &["scatter", "bare", "place", "write-stage"],
        ),
        "wakes" => (&["write-stage", "write-stage-solicited", "write-bpf", "write-bpf-solicited"], &[]),
        "loss" => (&["write-stage", "read"], &[]),
        "latency" => (&["udp", "write-stage", "write-bpf"], &["udp"]),
        _ => (&["stage", "bpf"], &["stage"]),
    }
}

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

    /// The rows of the report that is to come; candidates that take turns follow each other.
    ///
    /// # Errors
    /// An experiment is unknown, or a size, loss or address cannot be measured.
    pub fn rows(&self) -> io::Result<Vec<RdmaBenchRow>> {
        let unknown = self.only.iter().find(|name| !RDMA_EXPERIMENTS.contains(&name.as_str()));
        if let Some(name) = unknown {
            let hint = Hint(format_args!("choose from {}", RDMA_EXPERIMENTS.join(" ")));
            return Err(wrong(format_args!("`bench rdma` has no experiment '{name}'{hint}")));
        }
        let all = || RDMA_EXPERIMENTS.iter().flat_map(|experiment| candidates(experiment).0);
        if let Some(name) = self.candidates.iter().find(|name| !all().any(|own| own == name)) {
            let mut known: Vec<&str> = all().copied().collect();
            known.sort_unstable();
            known.dedup();
            let hint = Hint(format_args!("choose from {}", known.join(" ")));
            return Err(wrong(format_args!("`bench rdma` has no candidate '{name}'{hint}")));
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
        let wanted = |name: &str| match self.only.is_empty() {
            true => name != "lanes",
            false => self.only.iter().any(|own| own == name),
        };
        let mut sizes = self.messages.iter().filter(|_| wanted("messages")).copied().collect::<Vec<_>>();
        sizes.extend((wanted("loss") || wanted("wakes")).then_some(LOSS_MESSAGE_BYTES));
        if let Some(size) = sizes.iter().find(|size| !(64..=self.memory).contains(*size)) {
            return Err(wrong(format_args!(
                "a message of {size} bytes: 64 bytes to {}, the size of the region, can be measured",
                self.memory
            )));
        }
        let mut rows = Vec::new();
        let mut add = |experiment: &str, message_bytes, loss| {
            let chosen =
                |name: &&&str| self.candidates.is_empty() || self.candidates.iter().any(|own| own == **name);
            rows.extend(candidates(experiment).0.iter().filter(chosen).map(|candidate| RdmaBenchRow {
                experiment: experiment.into(),
                candidate: (*candidate).into(),
                message_bytes,
                loss,
                ..RdmaBenchRow::default()
            }));
        };
        for experiment in RDMA_EXPERIMENTS.into_iter().filter(|name| wanted(name)) {
            match experiment {
                "messages" => self.messages.iter().for_each(|size| add(experiment, *size, 0.0)),
                "receivers" => add(experiment, Datagrams::of(self)?.message_bytes(), 0.0),
                "loss" => self.losses.iter().for_each(|loss| add(experiment, LOSS_MESSAGE_BYTES, *loss)),
                "latency" => add(experiment, LATENCY_MESSAGE_BYTES as u64, 0.0),
                "wakes" => add(experiment, LOSS_MESSAGE_BYTES, 0.0),
                _ => add(experiment, lanes::PAYLOAD_BYTES as u64, 0.0),
            }
        }
        if rows.is_empty() {
            let text = "none of these candidates takes part in these experiments";
            return Err(wrong(format_args!("{text}{}", Hint("omit --candidates or --only"))));
        }
        Ok(rows)
    }

    /// The time that all will take, roughly.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn estimate(&self) -> io::Result<Duration> {
        let trials =
            |row: &RdmaBenchRow| if row.experiment == "lanes" { lanes::trials(self.lanes) } else { 1 };
        let measured: usize = self.rows()?.iter().map(trials).sum();
        let runs = u32::try_from(measured.saturating_mul(self.rounds.max(1))).unwrap_or(u32::MAX);
        Ok((self.time + OVERHEAD).saturating_mul(runs))
    }
}
