//! Ranges of time as rows.

use super::{Samples, SamplesError};
use crate::time::format_exact;
use std::ops::Range;
use std::time::Duration;

/// Where a range begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a time: nanoseconds since 1970.
    At(i128),
    /// So long after the first sample.
    After(Duration),
}

const BILLION: i128 = 1_000_000_000;

impl Samples {
    /// The time of a row, to the nanosecond before.
    #[must_use]
    pub fn time_of(&self, row: u64) -> String {
        format_exact((self.row_since_1970() + i128::from(row)) * BILLION / self.rate())
    }

    /// The rows of a range of time; what is not given is that of all data.
    ///
    /// # Errors
    /// [`SamplesError::Options`]: a part of it is not within the data.
    pub fn range(
        &self,
        start: Option<Start>,
        duration: Option<Duration>,
    ) -> Result<Range<u64>, SamplesError> {
        let rows_in = |nanoseconds: i128| (nanoseconds * self.rate() + BILLION / 2).div_euclid(BILLION);
        let length =
            |duration: Duration| rows_in(i128::try_from(duration.as_nanos()).unwrap_or(i64::MAX.into()));
        let first = match start {
            None => 0,
            Some(Start::After(duration)) => length(duration),
            Some(Start::At(nanoseconds)) => rows_in(nanoseconds) - self.row_since_1970(),
        };
        let past = duration.map_or(i128::from(self.rows()), |duration| first + length(duration));
        let rows = u64::try_from(first).ok().zip(u64::try_from(past).ok());
        let rows = rows.map(|(first, past)| first..past).filter(|rows| rows.end <= self.rows());
        rows.filter(|rows| !rows.is_empty()).ok_or_else(|| {
            let (from, to) = (self.time_of(0), self.time_of(self.rows()));
            SamplesError::Options(format!("this range is not in the data: they are from {from} to {to}"))
        })
    }

    fn rate(&self) -> i128 {
        i128::from(self.sample_rate())
    }

    fn row_since_1970(&self) -> i128 {
        i128::from(self.first_frame()) * i128::from(self.frame_rows())
    }
}
