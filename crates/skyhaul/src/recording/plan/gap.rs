//! Gaps of a reader: chunks, times, reason, and replacement.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Unix second and frame number.
pub(in crate::recording) type Time = (i64, u32);

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
    /// It has no index record. Its frame headers prove its place; its samples are unproven. It is given.
    HeadersOnly,
    /// The end of the recording is unknown: more may follow.
    OpenEnd,
    /// Two recordings have this name: the data may belong to the other one.
    Ambiguous,
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
    /// What is on the disk.
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
    /// First chunk, and one past the last: equal where the gap is none of known chunks.
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
    /// What is given in its place.
    pub instead: Instead,
    /// As text.
    pub why: String,
}

impl Gap {
    pub(in crate::recording) fn new(
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
            write!(f, " ({frames} frames)")?;
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

#[cfg(test)]
mod tests {
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
