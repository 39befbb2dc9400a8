//! What an opened scan has and lacks: its chunks, files and datastreams, its gaps, and findings about them.
//!
//! ```text
//!   DatastreamEntry   chunk 0 · chunk 1 ·  Gap 2..4 (missing)  · chunk 4        by number, each with its file and its record
//!   Finding           "it has the number of chunk 4, but other contents"        with a path and a verdict
//! ```
//!
//! Only data: opening (`open`), planning (`plan`), readers and checks fill and follow it.
//!
//! Names on disk are as FlexBuff has them: `<disk>/<name>/<name>.%08u`, found again by `[^/.]+\.[0-9]{8}$`.

use super::index::record::{ChunkRecord, Datastream, LostChunk};
use super::report::DatastreamReport;
use crate::frames;
use crate::irregular::IrregularSummary;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// State of a scan's recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is recording now.
    Live,
    /// It ended normally.
    Ended,
    /// It was killed, or the machine crashed.
    Interrupted,
    /// Without an index: recorded by other software.
    Unindexed,
}

impl State {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Ended => "ended",
            State::Interrupted => "interrupted",
            State::Unindexed => "unindexed",
        }
    }
}

/// One chunk of a datastream.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkEntry {
    /// Its number.
    pub number: u32,
    /// The disk it is on, as an index into the recording's disks.
    pub disk: usize,
    /// Its file.
    pub path: PathBuf,
    /// Where in the file it begins: 0, except for a block of a [Mark 6](super::mark6).
    pub offset: u64,
    /// Length of the file, or of the block in it; `None` if it is missing.
    pub bytes: Option<u64>,
    /// Its index record: it is acknowledged if it has one.
    pub record: Option<ChunkRecord>,
    /// The record is in the index of another disk than the file is on.
    pub moved: bool,
}

impl ChunkEntry {
    /// Its file, and where in it the chunk begins.
    pub(super) fn place(&self) -> (PathBuf, u64) {
        (self.path.clone(), self.offset)
    }

    /// Whether it is in the index and the file has the recorded length.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.record.as_ref().is_some_and(|record| self.bytes == Some(record.bytes))
    }
}

/// A regular file in one of the scan's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The disk it is on, as an index into the recording's disks.
    pub disk: usize,
    /// Where.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// One datastream of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatastreamEntry {
    /// Its name on disk.
    pub name: String,
    /// Its description by the recorder; `None` without an index.
    pub datastream: Option<Datastream>,
    /// Its chunks by number.
    pub chunks: BTreeMap<u32, ChunkEntry>,
    /// Further files or records of numbers that are in `chunks` already.
    pub copies: Vec<ChunkEntry>,
    /// Chunks that the recorder could not write.
    pub lost: BTreeMap<u32, LostChunk>,
    /// Files that were being written when the recorder died.
    pub partial: Vec<PathBuf>,
    /// The recorder's report of it at the end.
    pub account: Option<DatastreamReport>,
    /// Claims of its index that cannot be, in order of their chunks; they are not in the records any more.
    pub contradicted: Vec<Gap>,
}

impl DatastreamEntry {
    /// Ranges of numbers without file and record, from the first number on.
    #[must_use]
    pub fn gaps(&self) -> Vec<Range<u32>> {
        let (mut next, mut gaps) = (0, Vec::new());
        for &number in self.chunks.keys() {
            if number > next {
                gaps.push(next..number);
            }
            next = number.saturating_add(1);
        }
        gaps
    }

    /// Numbers of files that are in no index (or with another length).
    pub fn unacknowledged(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.values().filter(|chunk| !chunk.is_acknowledged()).map(|chunk| chunk.number)
    }

    /// Whether anything is known of it.
    pub(super) fn is_something(&self) -> bool {
        let known = self.datastream.is_some() || self.account.is_some();
        known || !self.chunks.is_empty() || !self.lost.is_empty()
    }

    /// Bytes of all chunk files, of a chunk with several copies one of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.values().filter_map(|chunk| chunk.bytes).sum()
    }

    /// Bytes of all chunk files on the disks, copies included.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.bytes().saturating_add(self.copies.iter().filter_map(|copy| copy.bytes).sum())
    }
}

/// Unix second and frame number.
pub(super) type Time = (i64, u32);

/// Why bytes of a recording are missing, or not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// No file and no index record of it are on these disks.
    Missing,
    /// No disk could take it when it was recorded.
    Lost,
    /// It was still pending when the recorder ended.
    Unfinished,
    /// No file has the bytes that its index record promises.
    Damaged,
    /// It has no index record, and its frames do not prove it.
    Unproven,
    /// It has no index record. Its frame headers prove its place; its samples are unproven. It is delivered.
    HeadersOnly,
    /// The end of the recording is unknown: more may follow.
    OpenEnd,
    /// Two recordings have this name: the data may belong to the other one.
    Ambiguous,
    /// The index claims that more is missing here than there can be, by its own sums, lengths and times. The claim is not used.
    Contradicted,
}

impl Lack {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Lack::Missing => "missing",
            Lack::Lost => "lost",
            Lack::Unfinished => "unfinished",
            Lack::Damaged => "damaged",
            Lack::Unproven => "unproven",
            Lack::HeadersOnly => "headers_only",
            Lack::OpenEnd => "open_end",
            Lack::Ambiguous => "ambiguous",
            Lack::Contradicted => "contradicted",
        }
    }
}

/// The replacement of a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instead {
    /// Nothing: the following data are next.
    #[default]
    LeftOut,
    /// Frames marked invalid.
    Filled,
    /// The bytes on the disk, unverified.
    AsItIs,
}

impl Instead {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Instead::LeftOut => "left_out",
            Instead::Filled => "filled",
            Instead::AsItIs => "as_it_is",
        }
    }
}

/// A part of a datastream that is missing, damaged or unproven.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The datastream's name on disk.
    pub datastream: String,
    /// First chunk, and one past the last; equal if the gap is not of known chunks.
    pub chunks: (u32, u32),
    /// Why.
    pub lack: Lack,
    /// Unix second and frame number: of its first frame where that is known, else of the last frame before it.
    pub from: Option<(i64, u32)>,
    /// Unix second and frame number: of its last frame where that is known, else of the first frame behind it.
    pub to: Option<(i64, u32)>,
    /// Its length, as far as it is known.
    pub bytes: Option<u64>,
    /// Its frames, as far as they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// What is delivered in its place.
    pub instead: Instead,
    /// As text.
    pub why: String,
}

impl Gap {
    pub(super) fn new(
        datastream: &str,
        chunks: std::ops::Range<u32>,
        lack: Lack,
        why: impl Into<String>,
    ) -> Gap {
        Gap {
            datastream: datastream.to_owned(),
            chunks: (chunks.start, chunks.end),
            lack,
            from: None,
            to: None,
            bytes: None,
            frames: None,
            instead: Instead::LeftOut,
            why: why.into(),
        }
    }

    /// A chunk, or a plain file, that cannot be read.
    #[must_use]
    pub fn unreadable(path: &Path, chunk: Option<u32>, error: &io::Error) -> Gap {
        let chunks = chunk.map_or(0..0, |number| number..number.saturating_add(1));
        Gap::new(&path.display().to_string(), chunks, Lack::Damaged, format!("it cannot be read: {error}"))
    }

    /// Whether it stands for chunks that are not given as they were recorded.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        self.chunks.0 < self.chunks.1
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.datastream)?;
        match self.chunks {
            (first, end) if first >= end => {}
            (first, end) if end - first == 1 => write!(f, "chunk {first} ")?,
            (first, end) => write!(f, "chunks {first} to {} ", end - 1)?,
        }
        if self.has_chunks() {
            match (self.from, self.to) {
                (Some(from), Some(to)) => write!(f, "({} to {}) ", Moment(from), Moment(to))?,
                (Some(from), None) => write!(f, "(from {} on) ", Moment(from))?,
                (None, Some(to)) => write!(f, "(up to {}) ", Moment(to))?,
                (None, None) => write!(f, "(time unknown) ")?,
            }
        }
        f.write_str(&self.why)?;
        if let Some(frames) = self.frames {
            write!(f, " ({frames} frame{})", if frames == 1 { "" } else { "s" })?;
        }
        let instead = match (self.has_chunks() && self.lack != Lack::HeadersOnly, self.instead) {
            (false, _) => "",
            (true, Instead::LeftOut) => ": skipped",
            (true, Instead::Filled) => ": filled with invalid frames",
            (true, Instead::AsItIs) => ": delivered as it is",
        };
        f.write_str(instead)
    }
}

/// The finding about a file, or a block of one, without an index record.
pub(super) const CUT: &str = "it ends within a frame";

/// Bytes behind the last whole frame in a file of so many, without an index record. `unit`: bytes of a frame, 0 if they differ.
pub(super) fn cut_bytes(bytes: u64, unit: u64) -> u64 {
    bytes.checked_rem(unit).unwrap_or(0)
}

/// A second in UTC and a frame in it.
struct Moment(Time);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, frame) = self.0;
        match jiff::Timestamp::from_second(second) {
            Ok(time) => write!(f, "{time} frame {frame}"),
            Err(_) => write!(f, "second {second} frame {frame}"),
        }
    }
}

/// Findings that are kept; more are counted only.
pub(super) const MAX_FINDINGS: usize = 1000;

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every chunk verified, nothing missing.
    Whole,
    /// Every chunk verified; data that never arrived are marked as missing.
    Holes,
    /// Every chunk verified, but not every one has as many copies as were asked for: one more disk that fails may lose data.
    FewerCopies,
    /// Every chunk verified, but its frames are not those of a regular stream: their times do not follow their places, or
    /// threads, stations or frame rates change.
    Irregular,
    /// Something cannot be verified: no record, no known end, or an absent disk.
    Unproven,
    /// Recorded data are missing or have changed, or were lost during the recording.
    Damaged,
}

impl Verdict {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Whole => "whole",
            Verdict::Holes => "holes",
            Verdict::FewerCopies => "fewer_copies",
            Verdict::Irregular => "irregular",
            Verdict::Unproven => "unproven",
            Verdict::Damaged => "damaged",
        }
    }
}

impl From<&IrregularSummary> for Verdict {
    /// The verdict on the times, threads, station and frame rate of a stream: of `check`, and of the recorder.
    fn from(summary: &IrregularSummary) -> Verdict {
        match (summary.is_fault(), summary.is_none()) {
            (true, _) => Verdict::Irregular,
            (false, false) => Verdict::Holes,
            (false, true) => Verdict::Whole,
        }
    }
}

/// A problem (or, with verdict `whole` or `holes`, a note).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its severity.
    pub verdict: Verdict,
    /// The file it is about, if it is about one.
    pub path: Option<PathBuf>,
    /// Its description.
    pub text: String,
}

/// Findings as they are made: the first 1000, and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) all: Vec<Finding>,
    pub(super) total: u64,
    pub(super) worst: Option<Verdict>,
}

impl Findings {
    pub(super) fn add(&mut self, verdict: Verdict, path: Option<&PathBuf>, text: impl Into<String>) {
        self.worst = self.worst.max(Some(verdict));
        self.total += 1;
        if self.all.len() < MAX_FINDINGS {
            self.all.push(Finding { verdict, path: path.cloned(), text: text.into() });
        }
    }
}

impl From<&[Finding]> for Findings {
    fn from(found: &[Finding]) -> Findings {
        let mut findings = Findings::default();
        found.iter().for_each(|one| findings.add(one.verdict, one.path.as_ref(), one.text.clone()));
        findings
    }
}

/// Frames of one thread in so many seconds, if known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate(Option<(u64, u64)>);

impl Rate {
    /// By the index, or, where seconds have no whole number of frames, by the format.
    pub(super) fn of(about: Option<&Datastream>) -> Rate {
        let Some(about) = about else { return Rate(None) };
        let stated = about.info.frames_per_second.map(|frames| (u64::from(frames), 1));
        let fixed = || frames::stream_format(about)?.own.rate();
        Rate(stated.or_else(fixed).filter(|&(frames, seconds)| frames > 0 && seconds > 0))
    }

    /// Whole frames in a second.
    pub(super) fn whole(frames: u32) -> Rate {
        Rate(Some((u64::from(frames), 1)).filter(|rate| rate.0 > 0))
    }

    /// So many frames in so many seconds.
    #[cfg(test)]
    pub(super) fn fraction(frames: u64, seconds: u64) -> Rate {
        Rate(Some((frames, seconds)))
    }

    /// Frames and seconds.
    pub(super) fn get(self) -> Option<(u64, u64)> {
        self.0
    }

    /// Frame numbers from `from` to `to`; where seconds have no whole number of frames, one more or less.
    pub(super) fn steps(self, from: Time, to: Time) -> Option<i128> {
        let (frames, seconds) = self.0?;
        let begin = |second: i64| (i128::from(second) * i128::from(frames)).div_euclid(i128::from(seconds));
        Some(begin(to.0) - begin(from.0) + i128::from(to.1) - i128::from(from.1))
    }

    /// Whether no frame is missing between two frames this many steps apart. A chunk may begin within the frame number in
    /// which the previous one ended, if threads share it.
    pub(super) fn is_next(self, steps: i128) -> bool {
        let slack = i128::from(self.0.is_some_and(|(_, seconds)| seconds > 1));
        (-slack..=1 + slack).contains(&steps)
    }
}

/// Maximum chunk number: eight digits.
pub(crate) const MAX_CHUNK_NUMBER: u32 = 99_999_999;
/// First number of datastreams that no recorder numbered; recorders count from 0.
pub(super) const FIRST_ADOPTED_NUMBER: u32 = 1_000_000;
const MAX_LABEL_BYTES: usize = 200;

/// A scan's label that can be a directory and a file name: no `.` and `/` (FlexBuff readers stumble over them),
/// nothing unprintable, 1 to 200 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// Why a text is not a valid label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid scan name `{label}`: {reason}{}",
    Hint("use letters, digits, `_` and `-`, such as exp_st_no0001")
)]
pub struct LabelError {
    label: String,
    reason: &'static str,
}

impl Label {
    /// Check `text`.
    ///
    /// # Errors
    /// The name is empty, too long, or contains a character that names on disk cannot have.
    pub fn new(text: &str) -> Result<Label, LabelError> {
        let reason = match text {
            "" => "it is empty",
            _ if text.len() > MAX_LABEL_BYTES => "it is longer than 200 bytes",
            _ if text.contains(['.', '/']) => "it contains a `.` or a `/`",
            _ if text.chars().any(|c| c.is_control()) => "it contains an unprintable character",
            _ if text.starts_with('-') => "it begins with a `-`",
            _ => return Ok(Label(text.to_owned())),
        };
        Err(LabelError { label: text.escape_debug().to_string(), reason })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Labels to try when this one is taken: a letter behind it, a-z then A-Z, as FlexBuff does.
    pub(crate) fn variants(&self) -> impl Iterator<Item = Label> + '_ {
        let letters = ('a'..='z').chain('A'..='Z');
        std::iter::once(self.clone()).chain(letters.map(|letter| Label(format!("{}{letter}", self.0))))
    }

    /// `<disk>/<scan>/<scan>.index`
    pub(crate) fn index(&self, disk: &Path) -> PathBuf {
        disk.join(&self.0).join(format!("{}.index", self.0))
    }

    /// Directories on `disk` that belong to this scan by name: the scan's own and `<scan>_ds…`.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn directories(&self, disk: &Path) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(disk)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with("_ds")) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The name of a datastream whose own record is missing: as a recorder would name it.
    pub(crate) fn datastream(&self, number: u32) -> String {
        if number == 0 { self.0.clone() } else { format!("{}_ds{number}", self.0) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `<disk>/<name>/<name>.%08u`
pub(crate) fn chunk_path(disk: &Path, name: &str, number: u32) -> PathBuf {
    disk.join(name).join(format!("{name}.{number:08}"))
}

/// The number of a chunk file called `file` in directory `name`.
pub(crate) fn chunk_number(name: &str, file: &str) -> Option<u32> {
    let digits = file.strip_prefix(name)?.strip_prefix('.')?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod gap_tests {
    use super::*;

    #[test]
    fn a_gap_is_one_line_with_its_chunks_and_times() {
        let gap = Gap::new("s", 3..4, Lack::Missing, "missing");
        let gap = Gap { from: Some((1_767_225_600, 3)), to: Some((1_767_225_601, 0)), ..gap };
        assert_eq!(
            gap.to_string(),
            "s: chunk 3 (2026-01-01T00:00:00Z frame 3 to 2026-01-01T00:00:01Z frame 0) missing: skipped"
        );
        let wide = Gap { chunks: (3, 9), instead: Instead::Filled, to: None, from: None, ..gap };
        assert_eq!(wide.to_string(), "s: chunks 3 to 8 (time unknown) missing: filled with invalid frames");
        let open = Gap::new("s", 9..9, Lack::OpenEnd, "what follows chunk 8 is unknown");
        assert_eq!(open.to_string(), "s: what follows chunk 8 is unknown");
    }
}

#[cfg(test)]
mod rate_tests {
    use super::*;

    #[test]
    fn times_are_compared_at_rates_that_are_not_whole() {
        let whole = Rate(Some((600, 1)));
        assert_eq!(whole.steps((10, 599), (12, 1)), Some(602));
        assert!(whole.is_next(0) && whole.is_next(1) && !whole.is_next(-1) && !whole.is_next(2));
        // 12207.03 packets in a second: one number more or less, over any time.
        let lofar = Rate(Some((200_000_000, 16_384)));
        let day = lofar.steps((1_772_600_707, 5), (1_772_687_107, 5)).unwrap();
        assert!((day - 1_054_687_500).abs() <= 1, "{day}");
        assert!(lofar.is_next(2) && lofar.is_next(-1) && !lofar.is_next(3) && !lofar.is_next(-2));
        assert_eq!(Rate::default().steps((1, 0), (2, 0)), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_flexbuff_can_read() {
        assert_eq!(Label::new("exp_st_no0001").unwrap().as_str(), "exp_st_no0001");
        for bad in ["", "a.b", "a/b", "..", "a\nb", "-rf", &"x".repeat(201)] {
            assert!(Label::new(bad).is_err(), "{bad:?}");
        }
        let label = Label::new("s").unwrap();
        let all: Vec<String> = label.variants().map(|l| l.to_string()).collect();
        assert_eq!((all.len(), &all[0][..], &all[1][..], &all[52][..]), (53, "s", "sa", "sZ"));
    }

    #[test]
    fn chunk_names_go_both_ways() {
        let path = chunk_path(Path::new("/d"), "s_ds1", 12);
        assert_eq!(path, Path::new("/d/s_ds1/s_ds1.00000012"));
        assert_eq!(chunk_number("s_ds1", "s_ds1.00000012"), Some(12));
        for other in
            ["s.00000012", "s_ds1.12", "s_ds1.0000001x", "s_ds1.000000123", "s_ds1.index", "s_ds1.+0000012"]
        {
            assert_eq!(chunk_number("s_ds1", other), None, "{other}");
        }
    }
}
