//! What a copy will reach, predicted from measurements before it begins.
//!
//! ```text
//!   network            bytes from memory, on the flows, for a second
//!   files              trial copies of some of them: the cost of a file, and of a copy by itself ([`rehearsal`])
//!   source disk        its own files, read for a second
//!   destination disk   a file without a name, written for a second
//!   bytes              of long files, all parts together for some seconds ([`trial`])
//! ```
//!
//! The parts say what could be reached without the others; the slowest is named. The prediction is a time: the fixed cost of a
//! copy, the cost of its files, and its bytes. Files are copied before much is written, because a disk with a backlog is slower.
//!
//! Limits: what the destination has already is not known. A path and a disk that others use change.

pub(super) mod rehearsal;
pub(super) mod trial;

use self::rehearsal::{Rehearsed, rehearse};
use super::control::of_peer;
use super::manifest::shown;
use super::message::{Bounds, MeasuredRate, Message, Sizes, Trial, TrialResult, Tried};
use super::options::{Account, CopyOptions, Tuning};
use super::session::{LocalEnd, Purpose, Session};
use serde::{Deserialize, Serialize};
use skyhaul::peer::Token;
use skyhaul_core::predict::FilesCost;
use std::io;
use std::time::Duration;

/// Time for the other end to answer.
const PLAN_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// One end of a trial.
struct End {
    rate: MeasuredRate,
    tried: Tried,
}

/// Both ends of a trial.
struct Ends {
    sender: End,
    receiver: End,
    /// What the sender has, if it is the server.
    sizes: Sizes,
    rtt: Duration,
}

/// Runs a trial at both ends.
fn measure(options: &CopyOptions, token: &Token, here: &LocalEnd<'_>, trial: Trial) -> io::Result<Ends> {
    let run = |flows| trial::run(trial, !options.pull, here, flows, &options.tuning, Account::alone());
    // Both disks may be one, so they are measured one after the other.
    let alone = if let Trial::Disk(_) = trial { Some(run(Vec::new())?) } else { None };
    let Session { mut connection, flows, rtt } = Session::begin(options, token, Purpose::Trial(trial))?;
    let mine = match alone {
        Some(tried) => tried,
        None => run(flows)?,
    };
    let mine = End { rate: MeasuredRate::of(&mine.side), tried: mine };
    let (theirs, sizes) = match connection.receive(PLAN_ANSWER_TIMEOUT).map_err(of_peer)? {
        Message::Measured(measured) => (End { rate: measured.part, tried: Tried::default() }, measured.sizes),
        Message::Tried(tried) => {
            (End { rate: MeasuredRate::of(&tried.side), tried: *tried }, Sizes::default())
        }
        Message::Stop { why } => return Err(io::Error::other(shown(&why))),
        _ => return Err(of_peer(connection.unexpected("another message"))),
    };
    let (sender, receiver) = if options.pull { (theirs, mine) } else { (mine, theirs) };
    Ok(Ends { sender, receiver, sizes, rtt })
}

/// Predicts a copy: the path first, then trial copies, and only then the disks, which need time to recover.
pub(super) fn ask(options: &CopyOptions, token: &Token, here: &LocalEnd<'_>) -> io::Result<Plan> {
    let tuning = &options.tuning;
    let Ends { sender, receiver, sizes, rtt } = measure(options, token, here, Trial::Network)?;
    // The rate at the receiver counts, at the cost of both ends.
    let cpu = sender.rate.cpu_seconds_per_gb + receiver.rate.cpu_seconds_per_gb;
    let network = MeasuredRate { cpu_seconds_per_gb: cpu, ..receiver.rate };
    let mut plan = Plan { network, rtt_seconds: rtt.as_secs_f64(), ..Plan::default() };
    let sizes = if options.pull { sizes } else { here.manifest.sizes() };
    let rate = plan.slowest(tuning).map_or(0.0, |(rate, _)| rate);
    let rehearsed = rehearse(options, token, here, &sizes, rate)?;
    let disks = measure(options, token, here, Trial::Disk(sizes.bytes()))?;
    (plan.read, plan.write) = (disks.sender.rate, disks.receiver.rate);
    if let Some(longer) = rehearsed.longer {
        let span = trial::span_of(plan.rtt_seconds);
        let Ends { sender, receiver, .. } = measure(options, token, here, Trial::All { longer, span })?;
        plan.trial = receiver.tried.trial;
        plan.trial.cpu_seconds_per_gb += sender.rate.cpu_seconds_per_gb;
        if plan.trial.bytes > 0 {
            plan.bound = Some(Bounds::of(&sender.tried.side, &receiver.tried.side));
        }
    }
    plan.conclude(tuning, &rehearsed);
    Ok(plan)
}

/// A prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes of all files.
    pub bytes: Option<u64>,
    /// Files.
    #[serde(default)]
    pub files: Option<u64>,
    /// Reading the source.
    pub read: MeasuredRate,
    /// The network with these flows.
    pub network: MeasuredRate,
    /// Writing the destination.
    pub write: MeasuredRate,
    /// Round trip in seconds.
    pub rtt_seconds: f64,
    /// Windows of all flows a round trip, in bits a second.
    pub window_bits_per_second: Option<f64>,
    /// Bytes of long files, with all parts together, for some seconds.
    pub trial: TrialResult,
    /// Files of the largest trial copy.
    #[serde(default)]
    pub tried_files: u64,
    /// Seconds that any copy takes: to connect, to agree, for the last sync.
    #[serde(default)]
    pub fixed_seconds: f64,
    /// Seconds for each file, besides its bytes.
    #[serde(default)]
    pub file_seconds: f64,
    /// Predicted: bytes by [`seconds`](Self::seconds).
    pub bits_per_second: f64,
    /// What bounds it.
    pub bound: Option<Bounds>,
    /// Predicted for all files.
    pub seconds: Option<f64>,
    /// Afterwards: what it took.
    #[serde(default)]
    pub measured_seconds: Option<f64>,
    /// Afterwards: what it was.
    pub measured_bits_per_second: Option<f64>,
    /// Afterwards: measured to predicted rate.
    pub ratio: Option<f64>,
}

impl Plan {
    /// Enter what the copy reached.
    pub(super) fn compare(&mut self, bits_per_second: f64, seconds: f64) {
        self.measured_seconds = Some(seconds);
        self.measured_bits_per_second = Some(bits_per_second);
        self.ratio = (self.bits_per_second > 0.0).then(|| bits_per_second / self.bits_per_second);
    }

    /// The slowest part: what bounds a copy, if they do not disturb each other.
    pub(super) fn slowest(&mut self, tuning: &Tuning) -> Option<(f64, Bounds)> {
        let mut parts = vec![
            (self.read.bits_per_second, Bounds::SourceDisk),
            (self.network.bits_per_second, Bounds::Network),
            (self.write.bits_per_second, Bounds::DestinationDisk),
        ];
        if let Some(limit) = tuning.limit {
            parts.push((limit as f64, Bounds::Limit));
        }
        if let Some(window) = tuning.window
            && self.rtt_seconds > 0.0
        {
            let rate = window as f64 * 8.0 * tuning.flows as f64 / self.rtt_seconds;
            self.window_bits_per_second = Some(rate);
            parts.push((rate, Bounds::Network));
        }
        parts.into_iter().filter(|(rate, _)| *rate > 0.0).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Predicts the time: the fixed cost and the cost of files, from trial copies, and the bytes of long files at the
    /// rate of the trial, or that of the slowest part if there was none.
    pub(super) fn conclude(&mut self, tuning: &Tuning, rehearsed: &Rehearsed) {
        let Rehearsed { few, many, short, long, .. } = rehearsed;
        let slowest = self.slowest(tuning);
        let tried = self.trial.bits_per_second;
        let rate = if tried > 0.0 { tried } else { slowest.map_or(0.0, |(rate, _)| rate) };
        let cost = FilesCost::of(few, many, rate);
        let mut seconds = cost.seconds((short.0 + long.0) as f64, short.1 as f64);
        if long.1 > 0 && rate > 0.0 {
            seconds += long.1 as f64 * 8.0 / rate + self.trial.delay_seconds;
        }
        // What takes longest says what bounds it.
        let is_long = long.1 > 0 && long.1 as f64 * 8.0 / rate > seconds / 2.0;
        let alone = slowest.map(|(_, bound)| bound);
        self.bound = match is_long {
            true => self.bound.or(rehearsed.bound).or(alone),
            false => rehearsed.bound.or(self.bound).or(alone),
        };
        let bytes = short.1 + long.1;
        (self.files, self.bytes) = (Some(short.0 + long.0), Some(bytes));
        (self.fixed_seconds, self.file_seconds) = (cost.fixed, cost.file);
        self.tried_files = many.files as u64;
        self.seconds = Some(seconds);
        // As the end will count it.
        self.bits_per_second = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::predict::FilesCopied;

    fn plan() -> Plan {
        let rate = |gbps: f64| MeasuredRate { bits_per_second: gbps * 1e9, cpu_seconds_per_gb: 0.1 };
        Plan { read: rate(40.0), network: rate(90.0), write: rate(20.0), ..Plan::default() }
    }

    fn copied(files: f64, octets: f64, seconds: f64) -> FilesCopied {
        FilesCopied { files, octets, seconds }
    }

    #[test]
    fn the_slowest_part_bounds() {
        let mut plan = plan();
        assert_eq!(plan.slowest(&Tuning::default()), Some((20e9, Bounds::DestinationDisk)));
        plan.rtt_seconds = 0.1;
        // 4 windows of 1 MiB in 100 ms.
        let tuning = Tuning { window: Some(1 << 20), ..Tuning::default() };
        let (rate, bound) = plan.slowest(&tuning).unwrap();
        assert_eq!((rate.round(), bound), (335_544_320.0, Bounds::Network));
        assert_eq!(plan.window_bits_per_second, Some(rate));
        let limited = plan.slowest(&Tuning { limit: Some(1_000_000), ..tuning });
        assert_eq!(limited, Some((1e6, Bounds::Limit)));
        assert_eq!(Plan::default().slowest(&Tuning::default()), None);
    }

    #[test]
    fn files_cost_and_long_ones_take_their_bytes_at_the_rate_of_the_trial() {
        let mut plan = plan();
        plan.bound = Some(Bounds::SourceDisk);
        plan.trial = TrialResult { bits_per_second: 10e9, delay_seconds: 1.0, ..TrialResult::default() };
        // 50 ms, and 1 ms a file.
        let rehearsed = Rehearsed {
            few: copied(1.0, 0.0, 0.051),
            many: copied(11.0, 0.0, 0.061),
            long: (2, 5_000_000_000),
            longer: Some(0),
            bound: Some(Bounds::Network),
            ..Rehearsed::default()
        };
        plan.conclude(&Tuning::default(), &rehearsed);
        let seconds = plan.seconds.unwrap();
        assert!((seconds - (0.05 + 0.002 + 4.0 + 1.0)).abs() < 1e-9, "{plan:?}");
        assert!((plan.bits_per_second - 40e9 / seconds).abs() < 1.0, "{plan:?}");
        assert_eq!(
            (plan.bound, plan.files, plan.bytes),
            (Some(Bounds::SourceDisk), Some(2), Some(5_000_000_000))
        );
        // Many short ones beside them take longer.
        plan.conclude(&Tuning::default(), &Rehearsed { short: (100_000, 0), ..rehearsed });
        assert!((plan.seconds.unwrap() - seconds - 100.0).abs() < 1e-6, "{plan:?}");
        assert_eq!(plan.bound, Some(Bounds::Network));
        plan.compare(plan.bits_per_second * 0.9, 2.0);
        assert!((plan.ratio.unwrap() - 0.9).abs() < 1e-9 && plan.measured_seconds == Some(2.0));
    }

    #[test]
    fn what_was_copied_whole_takes_as_long_again() {
        let mut plan = plan();
        let whole = copied(2000.0, 8e6, 0.4);
        let rehearsed = Rehearsed {
            few: copied(64.0, 3e5, 0.05),
            many: whole,
            short: (2000, 8_000_000),
            ..Rehearsed::default()
        };
        plan.conclude(&Tuning::default(), &rehearsed);
        assert!((plan.seconds.unwrap() - 0.4).abs() < 1e-9, "{plan:?}");
        assert_eq!((plan.bound, plan.tried_files), (Some(Bounds::DestinationDisk), 2000));
    }

    #[test]
    fn without_a_trial_the_slowest_part_is_the_rate() {
        let mut plan = plan();
        plan.conclude(&Tuning::default(), &Rehearsed { long: (1, 10_000_000_000), ..Rehearsed::default() });
        assert_eq!((plan.seconds, plan.bits_per_second), (Some(4.0), 20e9));
        let mut none = Plan::default();
        none.conclude(&Tuning::default(), &Rehearsed::default());
        assert_eq!((none.seconds, none.bits_per_second, none.bound), (Some(0.0), 0.0, None));
    }
}
