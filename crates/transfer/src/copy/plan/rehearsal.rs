//! The cost of files, from trial copies of some of them with everything that a copy does (names, messages, journals, syncs), into
//! directories that are removed afterwards.
//!
//! ```text
//!   1 file ─▶ …, more each time, until they take long enough to be measured, or all files are copied
//!   few and many ─▶ fixed cost, and cost of a file ([`FilesCost`](skyhaul_core::predict::FilesCost))
//! ```
//!
//! Files so long that fewer than eight of them are copied in a second say little about the cost of a file. Of those, only the
//! beginnings are copied, and a [trial](super::trial) measures the rate of their bytes.
//!
//! Limits: some seconds, and more where a disk is much slower than the path, because the path alone decides how much is
//! copied. The plan does not know what the destination has already.

use super::super::message::{Bounds, Cause, Sample, Sizes, What, whole_power};
use super::super::options::CopyOptions;
use super::super::session::{LocalEnd, Purpose, Ran, run};
use skyhaul::peer::Token;
use skyhaul_core::predict::FilesCopied;
use std::io;
use std::time::{Duration, Instant};

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
pub(in crate::copy) struct Rehearsed {
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
pub(super) fn rehearse(
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
                seen.octets += entry.size() as f64;
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
        let after = |files: f64, seconds: f64| choice.next(&FilesCopied { files, octets: 0.0, seconds });
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
