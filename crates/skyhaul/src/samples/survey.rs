//! A survey of samples: spectrum, autocorrelation, histogram of codes, and loss over time.
//!
//! ```text
//!   looks, spread over the range ─▶ rows ─▶ columns (thread, channel) ─▶ codes, mean, power
//!                                    │                       └─▶ spectrum, autocorrelation (skyhaul_spectra)
//!                                    └─▶ frames that are missing, by time
//! ```

use super::{Samples, SamplesError};
use serde::Serialize;
use skyhaul_core::hint::Hint;
use skyhaul_core::samples::append_column;
use skyhaul_spectra::{Blockwise, ColumnSums, Gathering};
use std::ops::Range;

/// Elementary samples that are decoded at once.
const BLOCK_SAMPLES: u64 = 1 << 22;
/// Elementary samples decoded unless told otherwise.
const MOST: u64 = 1 << 26;
/// Points of all spectra together: 64 MiB.
const MOST_POINTS: usize = 1 << 23;
/// The longest block.
const MAX_SPECTRUM_POINTS: usize = 1 << 20;

/// What to look at, and how closely.
#[derive(Clone, Debug)]
pub struct SurveyOptions {
    /// Rows to look at; beyond the end there are none.
    pub rows: Range<u64>,
    /// Complete samples of a block; a spectrum of real samples has one point more, of complex ones twice as many. 0: up to
    /// 1024, fewer if there are very many channels.
    pub block: usize,
    /// Elementary samples to decode at most, in looks spread evenly over the range.
    pub most: u64,
    /// Parts of the range for which losses are counted; no more than frames.
    pub times: usize,
}

impl Default for SurveyOptions {
    fn default() -> Self {
        Self { rows: 0..u64::MAX, block: 0, most: MOST, times: 120 }
    }
}

/// What samples look like.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// First row of the range, and one past the last.
    pub rows: (u64, u64),
    /// Rows that were decoded.
    pub looked: u64,
    /// Complete samples per second.
    pub sample_rate: u64,
    /// Bits of an elementary sample.
    pub bits: u32,
    /// Samples have a real and an imaginary part.
    pub complex: bool,
    /// Complete samples of a block.
    pub block: usize,
    /// Frequency of each point of a spectrum in Hz, from the lower edge of the band; of complex samples from its middle.
    pub frequencies: Vec<f64>,
    /// Threads, in the order of their columns.
    pub threads: Vec<u16>,
    /// Channels of a thread.
    pub channels: u32,
    /// What was found, for each thread, for each channel.
    pub columns: Vec<Column>,
    /// For each thread, for each part of the range: the part of its frames that are missing; `None` where none was looked at.
    pub loss: Vec<Vec<Option<f64>>>,
    /// Frames of threads that were looked at.
    pub frames: u64,
    /// How many of them are missing.
    pub missing: u64,
    /// Recorded frames that have no place on the axis of time, if all of the range was looked at: their times are outside it, or
    /// another frame of the thread has the same.
    pub not_shown: Option<u64>,
    /// Frames that were used with a repaired time, because the clock of their thread is wrong.
    pub repaired: u64,
    /// What a user of the samples has to know.
    pub notes: Vec<String>,
    /// Ended before everything was looked at.
    pub interrupted: bool,
}

impl Samples {
    /// Look at samples. `go_on` is told the rows that were decoded, and of how many; with `false` from it the survey ends
    /// with what there is.
    ///
    /// # Errors
    /// [`SamplesError::Options`]: an empty range, or blocks that are too long or too many.
    pub fn survey(
        &self,
        options: &SurveyOptions,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<Survey, SamplesError> {
        let rows = options.rows.start..options.rows.end.min(self.rows());
        if rows.is_empty() || options.times == 0 {
            let text = format!("nothing to look at: the data have {} samples", self.rows());
            return Err(SamplesError::Options(text));
        }
        let columns = self.threads.len() * self.channels as usize;
        let block = self.block_of(options.block, columns)?;
        let looks = self.looks(&rows, block as u64, options.most);
        let transform = Blockwise::new(block, self.complex, self.sample_rate());
        let mut gathered: Vec<Gathering> =
            (0..columns).map(|_| Gathering::new(self.coding, &transform)).collect();
        // Each part has a frame at least.
        let parts = (rows.end - rows.start).div_ceil(self.frame_rows).min(options.times as u64);
        let mut frames = vec![vec![(0u64, 0u64); parts as usize]; self.threads.len()];
        let total: u64 = looks.iter().map(|look| look.end - look.start).sum();
        let (mut looked, mut placed, mut interrupted) = (0, 0, false);
        let repaired = self.repaired();
        let mut samples = Vec::new();
        for look in looks {
            if !go_on(looked, total) {
                interrupted = true;
                break;
            }
            samples.resize((look.end - look.start) as usize * self.row(), 0f32);
            let read = self.read(look.start, &mut samples)?;
            self.count_frames(&read, &look, &rows, &mut frames);
            self.gather_columns(&samples, &transform, &mut gathered);
            looked += look.end - look.start;
            placed += read.placed - self.shared(&read, &look, &rows);
        }
        go_on(looked, total);
        let part = |&(missing, all): &(u64, u64)| (all > 0).then(|| missing as f64 / all as f64);
        let channels = self.channels as usize;
        let column = |(n, gathering): (usize, Gathering)| {
            let (thread, channel) = (self.threads[n / channels], (n % channels) as u32);
            Column::new(thread, channel, gathering.finish(&transform))
        };
        Ok(Survey {
            rows: (rows.start, rows.end),
            looked,
            sample_rate: self.sample_rate(),
            bits: self.coding.bits(),
            complex: self.complex,
            block,
            frequencies: transform.frequencies(),
            threads: self.threads.clone(),
            channels: self.channels,
            columns: gathered.into_iter().enumerate().map(column).collect(),
            loss: frames.iter().map(|times| times.iter().map(part).collect()).collect(),
            frames: frames.iter().flatten().map(|part| part.1).sum(),
            missing: frames.iter().flatten().map(|part| part.0).sum(),
            not_shown: self.not_shown_of(&rows, looked, placed),
            repaired: self.repaired() - repaired,
            notes: self.notes.clone(),
            interrupted,
        })
    }

    fn block_of(&self, asked: usize, columns: usize) -> Result<usize, SamplesError> {
        let each = 1 + usize::from(self.complex);
        let fits = MOST_POINTS / columns / each;
        let block = if asked == 0 { 1024.min(1 << fits.max(1).ilog2()) } else { asked };
        if block < 2 || block > MAX_SPECTRUM_POINTS.min(fits) {
            let text = format!(
                "blocks of {block} samples for {columns} channels of all threads{}",
                Hint(format_args!("choose threads, or a block from 2 to {}", MAX_SPECTRUM_POINTS.min(fits)))
            );
            return Err(SamplesError::Options(text));
        }
        Ok(block)
    }

    /// Parts of the range, whole blocks if possible, that are spread evenly and hold `most` elementary samples together.
    fn looks(&self, rows: &Range<u64>, block: u64, most: u64) -> Vec<Range<u64>> {
        let (width, length) = (self.row() as u64, rows.end - rows.start);
        let each = (BLOCK_SAMPLES / width).next_multiple_of(block).max(block).min(length);
        let all = length.div_ceil(each);
        let wanted = (most / width).div_ceil(each).clamp(1, all);
        let start = |n: u64| {
            if wanted == all {
                return rows.start + n * each;
            }
            // The first begins with the range, the last ends with it.
            let room = u128::from(length - each) * u128::from(n) / u128::from(wanted.max(2) - 1);
            rows.start + room as u64
        };
        (0..wanted).map(|n| start(n)..(start(n) + each).min(rows.end)).collect()
    }

    /// Count the frames of a look, by their time in the range.
    fn count_frames(
        &self,
        read: &super::Read,
        look: &Range<u64>,
        rows: &Range<u64>,
        counted: &mut [Vec<(u64, u64)>],
    ) {
        let length = rows.end - rows.start;
        for (frame, valid) in read.frames.clone().zip(read.valid.chunks_exact(self.threads.len())) {
            // A frame that two looks share counts in the one with its beginning.
            if !look.contains(&(frame * self.frame_rows).max(rows.start)) {
                continue;
            }
            // Its middle tells in which part it is.
            let middle = frame * self.frame_rows + self.frame_rows / 2;
            let into = middle.saturating_sub(rows.start).min(length - 1);
            for (times, &valid) in counted.iter_mut().zip(valid) {
                let at = (u128::from(into) * times.len() as u128 / u128::from(length)) as usize;
                times[at].0 += u64::from(!valid);
                times[at].1 += 1;
            }
        }
    }

    /// Frames of a look that the look before it has too.
    fn shared(&self, read: &super::Read, look: &Range<u64>, rows: &Range<u64>) -> u64 {
        let shares = look.start > rows.start && !look.start.is_multiple_of(self.frame_rows);
        let first = read.valid.iter().take(if shares { self.threads.len() } else { 0 });
        first.filter(|&&valid| valid).count() as u64
    }

    fn gather_columns(&self, samples: &[f32], transform: &Blockwise, gathered: &mut [Gathering]) {
        let workers = self.workers_for(samples.len(), gathered.len());
        let share = gathered.len().div_ceil(workers);
        let (width, each) = (self.row(), 1 + usize::from(self.complex));
        let work = |first: usize, gathered: &mut [Gathering]| {
            let mut scratch = transform.scratch();
            let mut column = Vec::new();
            for (n, gathering) in (first..).zip(gathered) {
                column.clear();
                append_column(samples, width, n * each..(n + 1) * each, &mut column);
                gathering.add(&column, transform, &mut scratch);
            }
        };
        std::thread::scope(|scope| {
            let mut shares = gathered.chunks_mut(share).enumerate();
            let mine = shares.next();
            for (n, gathered) in shares {
                scope.spawn(move || work(n * share, gathered));
            }
            mine.into_iter().for_each(|(_, gathered)| work(0, gathered));
        });
    }
}

/// The survey of one channel of one thread.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Its thread.
    pub thread: u16,
    /// Its channel.
    pub channel: u32,
    /// Elementary samples that were there.
    pub samples: u64,
    /// Their mean, of complex samples over both components.
    pub mean: f64,
    /// Root of the mean square of a complete sample.
    pub rms: f64,
    /// How often each code occurs, the lowest level first; of more than 8 bits, by the upper 8.
    pub codes: Vec<u64>,
    /// The level of each of these.
    pub levels: Vec<f32>,
    /// Blocks in the spectrum.
    pub blocks: u64,
    /// Power per Hz; empty without a block.
    pub spectrum: Vec<f64>,
    /// Autocorrelation by lag in complete samples, 1 at lag 0; of complex samples its magnitude. Empty without a block.
    pub autocorrelation: Vec<f64>,
}

impl Column {
    fn new(thread: u16, channel: u32, found: ColumnSums) -> Self {
        let ColumnSums { samples, mean, rms, codes, levels, blocks, spectrum, autocorrelation } = found;
        Self { thread, channel, samples, mean, rms, codes, levels, blocks, spectrum, autocorrelation }
    }
}

#[cfg(test)]
mod tests;
