//! What a copy will reach, predicted from measurements before it begins.
//!
//! ```text
//!   network            bytes from memory, on the flows, for a second
//!   files              trial copies of some of them: the cost of a file, and of a copy by itself
//!   source disk        its own files, read for a second
//!   destination disk   a file without a name, written for a second
//!   bytes              of long files, all parts together for some seconds ([`trial`])
//! ```
//!
//! The parts say what could be reached without the others; the slowest is named. The prediction is a time: the fixed cost of a
//! copy, the cost of its files, and its bytes. Files are copied before much is written, because a disk with a backlog is slower.
//!
//! The cost of files is found by trial copies of some of them, with everything that a copy does (names, messages, journals,
//! syncs), into directories that are removed afterwards:
//!
//! ```text
//!   1 file ─▶ …, more each time, until they take long enough to be measured, or all files are copied
//!   few and many ─▶ fixed cost, and cost of a file ([`FilesCost`](skyhaul_core::predict::FilesCost))
//! ```
//!
//! Files so long that fewer than eight of them are copied in a second say little about the cost of a file. Of those, only the
//! beginnings are copied, and a [trial] measures the rate of their bytes.
//!
//! Limits: some seconds, and more where a disk is much slower than the path, because the path alone decides how much is
//! copied. What the destination has already is not known. A path and a disk that others use change.

pub(super) mod trial;

use super::control::of_peer;
use super::manifest::shown;
use super::message::{
    Bounds, Cause, DestinationSpace, MeasuredRate, Message, Sample, Sizes, Trial, TrialResult, Tried, What,
    whole_power,
};
use super::options::{Account, CopyOptions, Tuning};
use super::session::{LocalEnd, Purpose, Ran, Session, run};
use serde::{Deserialize, Serialize};
use skyhaul::peer::Token;
use skyhaul_core::predict::{FilesCopied, FilesCost};
use std::io;
use std::time::{Duration, Instant};

/// Time for the other end to answer.
const PLAN_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// One end of a trial.
pub(super) struct End {
    pub(super) rate: MeasuredRate,
    tried: Tried,
}

/// Both ends of a trial.
pub(super) struct Ends {
    sender: End,
    pub(super) receiver: End,
    /// What the sender has, if it is the server.
    sizes: Sizes,
    /// Where the server would write.
    pub(super) spaces: Vec<DestinationSpace>,
    pub(super) rtt: Duration,
}

/// Runs a trial at both ends.
pub(super) fn measure(
    options: &CopyOptions,
    token: &Token,
    here: &LocalEnd<'_>,
    trial: Trial,
) -> io::Result<Ends> {
    let run = |flows| trial::run(trial, !options.pull, here, flows, &options.tuning, Account::alone());
    // Both disks may be one, so they are measured one after the other.
    let alone = if let Trial::Disk(_) = trial { Some(run(Vec::new())?) } else { None };
    let Session { mut connection, flows, rtt } = Session::begin(options, token, Purpose::Trial(trial))?;
    let mine = match alone {
        Some(tried) => tried,
        None => run(flows)?,
    };
    let mine = End { rate: MeasuredRate::of(&mine.side), tried: mine };
    let mut spaces = Vec::new();
    let (theirs, sizes) = match connection.receive(PLAN_ANSWER_TIMEOUT).map_err(of_peer)? {
        Message::Measured(measured) => {
            spaces = measured.spaces;
            (End { rate: measured.part, tried: Tried::default() }, measured.sizes)
        }
        Message::Tried(tried) => {
            (End { rate: MeasuredRate::of(&tried.side), tried: *tried }, Sizes::default())
        }
        Message::Stop { why } => return Err(io::Error::other(shown(&why))),
        _ => return Err(of_peer(connection.unexpected("another message"))),
    };
    let (sender, receiver) = if options.pull { (theirs, mine) } else { (mine, theirs) };
    Ok(Ends { sender, receiver, sizes, spaces, rtt })
}

/// Predicts a copy: the path first, then trial copies, and only then the disks, which need time to recover.
pub(super) fn ask(options: &CopyOptions, token: &Token, here: &LocalEnd<'_>) -> io::Result<Plan> {
    let tuning = &options.tuning;
    let Ends { sender, receiver, sizes, rtt, .. } = measure(options, token, here, Trial::Network)?;
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
    fn slowest(&mut self, tuning: &Tuning) -> Option<(f64, Bounds)> {
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
    fn conclude(&mut self, tuning: &Tuning, rehearsed: &Rehearsed) {
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

/// Time for the largest trial copy, where all files take longer.
const SAMPLE_SPAN: Duration = Duration::from_secs(1);
/// The same where nothing but such copies is measured.
const MAX_SAMPLE_SPAN: Duration = Duration::from_secs(3);
/// A short one is repeated as often, within a time, and the middle one counts.
const MAX_REPEATS: usize = 3;
const REPEAT_TIME: Duration = Duration::from_secs(1);
/// Fewer files than this say little of what a file costs.
const MIN_FILES: u64 = 8;
/// Bytes that are copied of each long file, and of how many files.
const CUT_BYTES: u64 = 4096;
const MAX_CUT_FILES: u64 = 64;
/// Files of the smallest one.
const FIRST_SAMPLE_FILES: u64 = 64;
/// Fewest and most bytes of the largest one.
const MIN_SAMPLE_BYTES: u64 = 1 << 20;
const MAX_SAMPLE_BYTES: u64 = 128 << 20;

/// Copies of some files, as they were measured, and what there is to copy.
#[derive(Clone, Copy, Debug, Default)]
struct Rehearsed {
    pub(in crate::copy) few: FilesCopied,
    pub(in crate::copy) many: FilesCopied,
    /// Files and bytes of what is like them,
    pub(in crate::copy) short: (u64, u64),
    /// and of what is not: of that, a trial says the rate.
    pub(in crate::copy) long: (u64, u64),
    /// The trial takes files longer than this.
    pub(in crate::copy) longer: Option<u64>,
    pub(in crate::copy) bound: Option<Bounds>,
}

/// The files of trial copies, and how many at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Choice {
    /// The largest sample.
    all: Sample,
    /// Samples grow until one takes this long.
    span: Duration,
    /// The rate of longer files is measured by a trial; `None`: there are none.
    longer: Option<u64>,
}

impl Choice {
    /// For files of these sizes, on a path with this rate in bits per second.
    fn of(sizes: &Sizes, rate: f64) -> Self {
        let in_a_span =
            ((rate / 8.0 * SAMPLE_SPAN.as_secs_f64()) as u64).clamp(MIN_SAMPLE_BYTES, MAX_SAMPLE_BYTES);
        let [every, _] = sizes.divided(u64::MAX);
        let whole = Sample { longest: u64::MAX, files: every.0 as usize, bytes: u64::MAX, cut: u64::MAX };
        if every.1 <= in_a_span {
            return Self { all: whole, span: MAX_SAMPLE_SPAN, longer: None };
        }
        let longest = whole_power(in_a_span / MIN_FILES);
        let [short, long] = sizes.divided(longest);
        if long.0 == 0 {
            let bytes = in_a_span * MAX_SAMPLE_SPAN.as_secs() / SAMPLE_SPAN.as_secs();
            return Self { all: Sample { bytes, ..whole }, span: MAX_SAMPLE_SPAN, longer: None };
        }
        if short.0 < MIN_FILES {
            let files = every.0.min(MAX_CUT_FILES) as usize;
            return Self {
                all: Sample { files, cut: CUT_BYTES, ..whole },
                span: SAMPLE_SPAN,
                longer: Some(0),
            };
        }
        let all = Sample { longest, files: short.0 as usize, bytes: in_a_span, cut: u64::MAX };
        Self { all, span: SAMPLE_SPAN, longer: Some(longest) }
    }

    /// The smallest sample.
    fn first(&self) -> Sample {
        let files = (self.all.files as u64 / 4).clamp(1, FIRST_SAMPLE_FILES) as usize;
        Sample { files, bytes: self.all.bytes / MIN_FILES, ..self.all }
    }

    /// The next, larger sample; `None`: the last one was large enough.
    fn next(&self, last: &FilesCopied) -> Option<Sample> {
        let (files, span) = (last.files as usize, self.span.as_secs_f64());
        if files >= self.all.files || last.seconds >= span / 2.0 {
            return None;
        }
        let more = (span / last.seconds.max(1e-3)).clamp(2.0, 16.0);
        let files = (last.files.max(1.0) * more) as usize;
        Some(Sample { files: files.min(self.all.files), ..self.all })
    }
}

/// Copy some of the files, few and then more.
///
/// # Errors
/// The server is gone, or the destination cannot be written, or has no room.
fn rehearse(
    options: &CopyOptions,
    token: &Token,
    here: &LocalEnd<'_>,
    sizes: &Sizes,
    rate: f64,
) -> io::Result<Rehearsed> {
    let choice = Choice::of(sizes, rate);
    let once = |sample: Sample| middle(|| copied(options, token, here, sample));
    let (few, mut bound) = once(choice.first())?;
    let mut many = few;
    while let Some(sample) = choice.next(&many) {
        let (next, by) = once(sample)?;
        // Its bytes are the most that it may have.
        let ended = next.files <= many.files;
        if next.files >= many.files {
            (many, bound) = (next, by.or(bound));
        }
        if ended {
            break;
        }
    }
    let [short, long] = match choice.longer {
        None => sizes.divided(u64::MAX),
        // Every file counts as a long one, an empty one too.
        Some(0) => {
            let [every, none] = sizes.divided(u64::MAX);
            [none, every]
        }
        Some(longest) => sizes.divided(longest),
    };
    Ok(Rehearsed { few, many, short, long, longer: choice.longer, bound })
}

type Once = (FilesCopied, Option<Bounds>);

/// The middle one of some.
fn middle(mut once: impl FnMut() -> io::Result<Once>) -> io::Result<Once> {
    let (begun, mut all) = (Instant::now(), Vec::new());
    while all.len() < MAX_REPEATS && (all.is_empty() || begun.elapsed() < REPEAT_TIME) {
        all.push(once()?);
    }
    all.sort_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
    Ok(all.swap_remove((all.len() - 1) / 2))
}

fn copied(options: &CopyOptions, token: &Token, here: &LocalEnd<'_>, sample: Sample) -> io::Result<Once> {
    let Ran { outcome, took, .. } = run(options, token, Purpose::Sample(sample), here, &mut |_| {})?;
    if let Some(why) = outcome.stopped {
        return Err(io::Error::other(why));
    }
    let mut seen = FilesCopied { seconds: took.as_secs_f64(), ..FilesCopied::default() };
    let mut failed = None;
    for done in &outcome.done {
        let Some(entry) = outcome.entries.get(done.file) else { continue };
        let is_full = done.cause == Cause::NoSpace;
        match &done.error {
            // The copy itself reports a file that cannot be read.
            Some(error) if is_full || failed.is_none() => failed = Some((entry, error, is_full)),
            Some(_) => {}
            None if matches!(entry.what, What::File { .. }) => {
                seen.files += 1.0;
                seen.bytes += entry.size() as f64;
            }
            None => {}
        }
    }
    if let Some((entry, error, _)) = failed.filter(|(.., is_full)| seen.files == 0.0 || *is_full) {
        let path = entry.path.path();
        return Err(io::Error::other(format!("trial copy of {}: {error}", path.display())));
    }
    let (sender, receiver) = match options.pull {
        true => (&outcome.theirs, &outcome.mine),
        false => (&outcome.mine, &outcome.theirs),
    };
    let bound = (sender.bytes > 0).then(|| Bounds::of(sender, receiver));
    Ok((seen, bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::predict::FilesCopied;

    fn plan() -> Plan {
        let rate = |gbps: f64| MeasuredRate { bits_per_second: gbps * 1e9, cpu_seconds_per_gb: 0.1 };
        Plan { read: rate(40.0), network: rate(90.0), write: rate(20.0), ..Plan::default() }
    }

    fn copied(files: f64, bytes: f64, seconds: f64) -> FilesCopied {
        FilesCopied { files, bytes, seconds }
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

    fn sizes(of: &[(usize, u64)]) -> Sizes {
        Sizes::of(of.iter().flat_map(|&(count, size)| std::iter::repeat_n(size, count)))
    }

    /// 100 MB in a second.
    const RATE: f64 = 800e6;

    #[test]
    fn what_takes_a_second_is_copied_whole_and_long_files_by_their_beginnings() {
        let small = Choice::of(&sizes(&[(2000, 4096)]), RATE);
        assert_eq!((small.longer, small.all.files, small.first().files), (None, 2000, 64));
        let one = Choice::of(&sizes(&[(1, 50_000_000)]), RATE);
        assert_eq!((one.longer, one.all.cut, one.first().files), (None, u64::MAX, 1));
        // More than a second holds: as many as three hold.
        let many = Choice::of(&sizes(&[(1_000_000, 4096)]), RATE);
        assert_eq!((many.longer, many.all.bytes, many.span), (None, 300_000_000, MAX_SAMPLE_SPAN));
        let long = Choice::of(&sizes(&[(3, 1 << 30), (2, 100)]), RATE);
        assert_eq!((long.longer, long.all.cut, long.all.files), (Some(0), CUT_BYTES, 5));
        let mixed = Choice::of(&sizes(&[(3, 1 << 30), (2000, 4096)]), RATE);
        assert_eq!((mixed.longer, mixed.all.files), (Some((8 << 20) - 1), 2000));
        // Nothing is known of the rate, and there is nothing to copy.
        assert_eq!(Choice::of(&Sizes::default(), 0.0).first().files, 1);
    }

    #[test]
    fn samples_grow_until_they_take_long_enough() {
        let choice = Choice::of(&sizes(&[(1_000_000, 4096)]), RATE);
        let after = |files: f64, seconds: f64| choice.next(&FilesCopied { files, bytes: 0.0, seconds });
        assert_eq!(after(64.0, 0.03).map(|sample| sample.files), Some(1024));
        assert_eq!(after(1024.0, 1.0).map(|sample| sample.files), Some(3072));
        assert_eq!(after(9000.0, 1.6), None);
        assert_eq!(after(1_000_000.0, 0.1), None);
    }

    #[test]
    fn the_middle_one_counts() {
        let mut times = [3.0, 1.0, 2.0].into_iter();
        let once = || Ok((FilesCopied { seconds: times.next().unwrap(), ..FilesCopied::default() }, None));
        assert_eq!(middle(once).unwrap().0.seconds, 2.0);
    }
}
