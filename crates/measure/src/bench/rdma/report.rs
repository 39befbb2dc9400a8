//! What was measured, and whether its counts agree.

use super::super::Spread;
use serde::{Deserialize, Serialize};
use skyhaul_io::host::machine::clock_ticks;
use skyhaul_io::host::thread::{Usage, own_usage};
use std::io;

/// Times from a Write until a polling reader saw it, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WriteLatency {
    /// Messages that were seen.
    pub samples: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile; the longest, if there are fewer than 1000 samples.
    pub p999: f64,
}

impl WriteLatency {
    /// Of these nanoseconds.
    pub(super) fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let at = |share: f64| {
            let rank = (nanos.len() as f64 * share).ceil().max(1.0) as usize;
            nanos.get(rank - 1).map_or(0.0, |nanos| *nanos as f64 / 1e3)
        };
        Self { samples: nanos.len() as u64, p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

/// One run of a candidate. Datagrams are segments of RDMA or datagrams of a UDP socket; a TCP socket has none that could be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RdmaBenchRun {
    /// Datagrams handed out, those withheld on purpose included: placed, lost or refused.
    pub sent: u64,
    /// Of these: placed in memory; immediate data, which have no bytes for it, included.
    pub placed: u64,
    /// Of these: did not arrive.
    pub lost: u64,
    /// Of these: arrived and were refused, as answers to a Read that had ended.
    pub refused: u64,
    /// Of those lost: withheld on purpose.
    pub lost_on_purpose: u64,
    /// Of those placed: by the program in the kernel.
    pub placed_by_kernel: u64,
    /// Bytes of payload handed out; of Reads, asked for.
    pub sent_bytes: u64,
    /// Bytes of payload in memory.
    pub placed_bytes: u64,
    /// Messages written, or pieces read.
    pub messages: u64,
    /// Of these: whole; of Reads, by their deadline. Absent if datagrams without numbers were lost.
    pub whole: Option<u64>,
    /// Of Reads: the longest in seconds.
    pub longest_seconds: Option<f64>,
    /// Wall seconds.
    pub seconds: f64,
    /// Goodput: bits in memory per second.
    pub bits_per_second: f64,
    /// CPU seconds of the sending thread, user and system, for 10⁹ bytes in memory; of Reads, of the server's.
    pub send_cpu: f64,
    /// The same of the receiving thread; of Reads, of the reader's.
    pub receive_cpu: f64,
    /// Times that the sending thread went to sleep.
    pub send_switches: u64,
    /// Times that the receiving thread went to sleep.
    pub receive_switches: u64,
    /// Softirq seconds of the whole machine; absent if the kernel does not report them.
    pub softirq_seconds: Option<f64>,
    /// Joules of the whole machine, if there is a meter.
    pub joules: Option<f64>,
    /// In the experiment with latencies.
    pub latency: Option<WriteLatency>,
    /// Lanes of LOFAR that ran in real time without loss.
    pub lanes: Option<u64>,
    /// By how much the clock was slowed for all lanes to run without loss, if they did: 1 in real time.
    pub slowdown: Option<f64>,
    /// Its round, from 1.
    pub round: usize,
    /// Something was lost that was not withheld on purpose: the run is not in the medians.
    pub is_lossy: bool,
}

impl RdmaBenchRun {
    /// Fill in what follows from counts, bytes and time.
    ///
    /// # Errors
    /// The sums do not agree, or nothing was placed.
    pub(super) fn settle(mut self, seconds: f64, send: &Usage, receive: &Usage) -> io::Result<Self> {
        let accounted = self.placed + self.lost + self.refused;
        if self.sent != accounted {
            return Err(io::Error::other(format!(
                "the counts do not agree: {} datagrams sent, but {} placed + {} lost + {} refused = {accounted}",
                self.sent, self.placed, self.lost, self.refused
            )));
        }
        if self.placed_bytes > self.sent_bytes {
            let (placed, sent) = (self.placed_bytes, self.sent_bytes);
            return Err(io::Error::other(format!(
                "the counts do not agree: {placed} bytes placed of {sent} sent"
            )));
        }
        if self.placed_bytes == 0 || seconds <= 0.0 {
            return Err(io::Error::other("nothing arrived"));
        }
        let per_gb = |of: &Usage| (of.user + of.system).as_secs_f64() * 1e9 / self.placed_bytes as f64;
        (self.send_cpu, self.receive_cpu) = (per_gb(send), per_gb(receive));
        (self.send_switches, self.receive_switches) = (send.voluntary_switches, receive.voluntary_switches);
        (self.seconds, self.bits_per_second) = (seconds, self.placed_bytes as f64 * 8.0 / seconds);
        Ok(self)
    }

    /// CPU seconds of both ends for 10⁹ bytes in memory.
    fn both_cpu(&self) -> f64 {
        self.send_cpu + self.receive_cpu
    }

    /// Sleeps of the receiving thread for 10⁶ datagrams placed.
    fn switches(&self) -> Option<f64> {
        (self.placed > 0).then(|| self.receive_switches as f64 * 1e6 / self.placed as f64)
    }
}

/// A run, with a description of its method.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) run: RdmaBenchRun,
    pub(super) how: String,
}

/// A candidate beside another, in the rounds in which both had a run that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RdmaRatio {
    /// The other.
    pub to: String,
    /// Rounds.
    pub rounds: usize,
    /// Ratio of goodputs.
    pub rate: Spread,
    /// Ratio of the CPU times of both ends.
    pub cpu: Spread,
    /// Ratio of the CPU times of the receiving threads; absent if the other used none in a round.
    pub receive_cpu: Option<Spread>,
    /// Ratio of the median latencies, in that experiment.
    pub latency: Option<Spread>,
    /// Ratio of lanes, in that experiment.
    pub lanes: Option<Spread>,
}

/// Fill in the ratios of candidates that took turns, to each of `references`, and what they cost beyond `drop`.
pub(super) fn compare(group: &mut [RdmaBenchRow], references: &[&str]) {
    let clean = |row: &RdmaBenchRow| -> Vec<RdmaBenchRun> {
        row.runs.iter().filter(|run| !run.is_lossy).cloned().collect()
    };
    let of = |group: &[RdmaBenchRow], name: &str| {
        group.iter().find(|row| row.candidate == name).map(clean).unwrap_or_default()
    };
    let dropped = of(group, "drop");
    let others: Vec<(&str, Vec<RdmaBenchRun>)> =
        references.iter().map(|name| (*name, of(group, name))).collect();
    for row in group {
        let own = clean(row);
        let beyond: Vec<f64> =
            pairs(&own, &dropped).map(|(own, other)| own.both_cpu() - other.both_cpu()).collect();
        row.beyond_drop = (row.candidate != "drop" && !beyond.is_empty()).then(|| Spread::of(beyond));
        // One that does nothing with what arrives is no receiver to be compared.
        let beside = others.iter().filter(|(name, _)| *name != row.candidate && row.candidate != "drop");
        row.ratios = beside.filter_map(|(name, other)| ratio(name, &own, other)).collect();
    }
}

/// Runs of the same rounds.
fn pairs<'a>(
    own: &'a [RdmaBenchRun],
    other: &'a [RdmaBenchRun],
) -> impl Iterator<Item = (&'a RdmaBenchRun, &'a RdmaBenchRun)> {
    own.iter().filter_map(|run| Some((run, other.iter().find(|other| other.round == run.round)?)))
}

fn ratio(name: &str, own: &[RdmaBenchRun], other: &[RdmaBenchRun]) -> Option<RdmaRatio> {
    let rounds = pairs(own, other).count();
    // Of all rounds, or of none: one that has no such figure would be left out without a word.
    let by = |of: &dyn Fn(&RdmaBenchRun) -> Option<f64>| {
        let each = |(own, other)| {
            let (own, other) = (of(own)?, of(other)?);
            (other > 0.0).then(|| own / other)
        };
        pairs(own, other)
            .map(each)
            .collect::<Option<Vec<f64>>>()
            .filter(|all| !all.is_empty())
            .map(Spread::of)
    };
    Some(RdmaRatio {
        to: name.to_owned(),
        rounds,
        rate: by(&|run| Some(run.bits_per_second))?,
        cpu: by(&|run| Some(run.both_cpu()))?,
        receive_cpu: by(&|run| Some(run.receive_cpu)),
        latency: by(&|run| run.latency.as_ref().map(|latency| latency.p50)),
        lanes: by(&|run| run.lanes.map(|lanes| lanes as f64)),
    })
}

/// All runs of one candidate at one size and loss.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RdmaBenchRow {
    /// The experiment: one of [`RDMA_EXPERIMENTS`](super::RDMA_EXPERIMENTS).
    pub experiment: String,
    /// The candidate, such as `udp` or `write-bpf`.
    pub candidate: String,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Share of datagrams withheld on purpose.
    pub loss: f64,
    /// A description of its method.
    pub how: String,
    /// Goodput in bits per second. All medians leave out lossy runs ([`RdmaBenchRun::is_lossy`]).
    pub bits_per_second: Spread,
    /// CPU seconds of the sending thread for 10⁹ bytes.
    pub send_cpu: Spread,
    /// CPU seconds of the receiving thread for 10⁹ bytes.
    pub receive_cpu: Spread,
    /// Sleeps of the receiving thread for 10⁶ datagrams; absent without datagrams.
    pub switches_per_million: Option<Spread>,
    /// Softirq seconds of the machine for 10⁹ bytes; absent if the kernel does not report them.
    pub softirq: Option<Spread>,
    /// Joules of the machine for 10⁹ bytes; absent without a meter.
    pub joules: Option<Spread>,
    /// Bytes placed of those handed out or asked for.
    pub kept: Spread,
    /// Share of messages that were whole, of Reads those by their deadline; absent if it is not known.
    pub whole: Option<Spread>,
    /// Median, 99th and 99.9th percentile of the latency in microseconds.
    pub latency: Option<[Spread; 3]>,
    /// CPU seconds of both ends for 10⁹ bytes.
    pub both_cpu: Spread,
    /// The same, less those of `drop` in the same round: what receiving costs, whichever thread pays for it. Absent without `drop`.
    pub beyond_drop: Option<Spread>,
    /// Sleeps of the receiving thread for each message; absent without datagrams.
    pub switches_per_message: Option<Spread>,
    /// Lanes of LOFAR that ran in real time without loss.
    pub lanes: Option<Spread>,
    /// By how much the clock was slowed for all lanes.
    pub slowdown: Option<Spread>,
    /// This candidate beside others of the same rounds.
    pub ratios: Vec<RdmaRatio>,
    /// Every run, in the order of the rounds.
    pub runs: Vec<RdmaBenchRun>,
    /// Runs that are not in the medians, as they lost what was not withheld on purpose.
    pub lossy_runs: usize,
    /// Runs that failed, and why.
    pub failed: Vec<String>,
    /// Why it was skipped, if it was.
    pub skipped: Option<String>,
    /// Fewer runs than rounds.
    pub incomplete: bool,
}

impl RdmaBenchRow {
    /// Whether both are runs of one comparison.
    pub(super) fn takes_turns_with(&self, other: &Self) -> bool {
        let group = |row: &Self| (row.experiment.clone(), row.message_bytes, row.loss.to_bits());
        group(self) == group(other)
    }

    /// Its name in words.
    #[must_use]
    pub fn title(&self) -> String {
        let loss =
            if self.loss > 0.0 { format!(", {} % withheld", self.loss * 100.0) } else { String::new() };
        format!("{}, {} B{loss}: {}", self.experiment, self.message_bytes, self.candidate)
    }

    /// Take the result of a run.
    pub(super) fn take(&mut self, ran: io::Result<Ran>, round: usize) {
        match ran {
            Ok(ran) => {
                self.how = ran.how;
                self.runs.push(RdmaBenchRun { round, ..ran.run });
            }
            // A privilege or a feature of the kernel is missing.
            Err(e) if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => {
                self.skipped = Some(e.to_string());
            }
            Err(e) => self.failed.push(e.to_string()),
        }
    }

    /// Medians of the runs that count.
    pub(super) fn summarise(&mut self, rounds: usize) {
        let clean: Vec<&RdmaBenchRun> = self.runs.iter().filter(|run| !run.is_lossy).collect();
        let spread = |of: &dyn Fn(&RdmaBenchRun) -> f64| Spread::of(clean.iter().map(|run| of(run)));
        // One that some runs lack is no figure.
        let if_all = |of: &dyn Fn(&RdmaBenchRun) -> Option<f64>| {
            let values: Option<Vec<f64>> = clean.iter().map(|run| of(run)).collect();
            values.filter(|values| !values.is_empty()).map(Spread::of)
        };
        let per_gb =
            |value: Option<f64>, run: &RdmaBenchRun| value.map(|v| v * 1e9 / run.placed_bytes as f64);
        let of_latency = |of: fn(&WriteLatency) -> f64| if_all(&|run| run.latency.as_ref().map(of));
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let latency = [of_latency(|l| l.p50), of_latency(|l| l.p99), of_latency(|l| l.p999)];
        let (softirq, joules) = (if_all(&|r| per_gb(r.softirq_seconds, r)), if_all(&|r| per_gb(r.joules, r)));
        let (rate, send) = (spread(&|run| run.bits_per_second), spread(&|run| run.send_cpu));
        let (receive, switches) = (spread(&|run| run.receive_cpu), if_all(&RdmaBenchRun::switches));
        let kept = spread(&|run| share(run.placed_bytes, run.sent_bytes));
        let whole = if_all(&|run| run.whole.map(|whole| share(whole, run.messages)));
        let both = spread(&RdmaBenchRun::both_cpu);
        let per_message = if_all(&|run| {
            (run.placed > 0 && run.messages > 0).then(|| run.receive_switches as f64 / run.messages as f64)
        });
        let (lanes, slowdown) = (if_all(&|run| run.lanes.map(|n| n as f64)), if_all(&|run| run.slowdown));
        self.lossy_runs = self.runs.len() - clean.len();
        self.incomplete = self.skipped.is_none() && self.runs.len() < rounds;
        (self.bits_per_second, self.send_cpu, self.receive_cpu) = (rate, send, receive);
        (self.switches_per_million, self.softirq, self.joules) = (switches, softirq, joules);
        (self.kept, self.whole) = (kept, whole);
        (self.both_cpu, self.switches_per_message) = (both, per_message);
        (self.lanes, self.slowdown) = (lanes, slowdown);
        self.latency = match latency {
            [Some(p50), Some(p99), Some(p999)] => Some([p50, p99, p999]),
            _ => None,
        };
    }
}

/// The results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RdmaBenchReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// Version of Skyhaul.
    pub skyhaul: String,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Seconds of each run.
    pub seconds: f64,
    /// Rounds.
    pub rounds: usize,
    /// Bits of datagrams per second; 0: as fast as possible.
    pub rate: u64,
    /// CPUs of the sending and the receiving thread.
    pub cpus: (usize, usize),
    /// The longest datagram, bytes of UDP payload.
    pub datagram_bytes: u16,
    /// Datagrams in a train of the sender of `receivers` and `lanes`; 1: each by itself.
    pub train: u16,
    /// Bytes of the memory that is written and read.
    pub memory: u64,
    /// What is between the ends.
    pub path: String,
    /// Deadline of each Read.
    pub read_deadline_seconds: f64,
    /// Load average of the last minute, before and after: above 0, other programs were running.
    pub others: (f64, f64),
    /// What energy is measured by, or why not.
    pub energy: String,
    /// What the softirq time is.
    pub softirq: String,
    /// Experiments by sizes and losses by candidates.
    pub rows: Vec<RdmaBenchRow>,
    /// Whether it was stopped before all was measured.
    pub interrupted: bool,
}

/// What this thread used for `work`.
pub(super) fn metered<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Usage)> {
    let before = own_usage();
    let done = work()?;
    let after = own_usage();
    let used = Usage {
        user: after.user.saturating_sub(before.user),
        system: after.system.saturating_sub(before.system),
        peak_memory: after.peak_memory,
        voluntary_switches: after.voluntary_switches - before.voluntary_switches,
        involuntary_switches: after.involuntary_switches - before.involuntary_switches,
    };
    Ok((done, used))
}

/// Softirq seconds of the machine so far.
pub(super) fn softirq() -> Option<f64> {
    softirq_in(&std::fs::read_to_string("/proc/stat").ok()?, clock_ticks() as f64)
}

/// The seventh number of the first line, in clock ticks.
pub(super) fn softirq_in(stat: &str, ticks: f64) -> Option<f64> {
    let mut words = stat.lines().next()?.split_whitespace();
    (words.next()? == "cpu").then_some(())?;
    words.nth(6)?.parse::<f64>().ok().map(|count| count / ticks.max(1.0))
}
