//! A survey of samples: spectrum, autocorrelation, histogram of codes, and loss over time.
//!
//! ```text
//!   looks, spread over the range ─▶ rows ─▶ columns (thread, channel) ─▶ codes, mean, power
//!                                    │                       └─▶ blocks of N, Hann window, N zeros ─▶ FFT ─▶ Σ|X|²
//!                                    └─▶ frames that are missing, by time                                     │
//!                                                      autocorrelation ◀─ inverse FFT, less the window's ◀────┘
//! ```
//!
//! A block with a missing sample is left out of the spectrum of its column. The zeros behind each block make the
//! autocorrelation that of the samples as they follow each other, not of a circle.

use super::{Samples, SamplesError};
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};
use serde::Serialize;
use skyhaul_core::hint::Hint;
use skyhaul_core::samples::Coding;
use std::f64::consts::TAU;
use std::ops::Range;
use std::sync::Arc;

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
        let transform = Transform::new(block, self.complex, self.sample_rate());
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
            gathering.finish(thread, channel, &transform)
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

    fn gather_columns(&self, samples: &[f32], transform: &Transform, gathered: &mut [Gathering]) {
        let workers = self.workers_for(samples.len(), gathered.len());
        let share = gathered.len().div_ceil(workers);
        let (width, each) = (self.row(), 1 + usize::from(self.complex));
        let work = |first: usize, gathered: &mut [Gathering]| {
            let mut scratch = transform.scratch();
            let mut column = Vec::new();
            for (n, gathering) in (first..).zip(gathered) {
                column.clear();
                samples
                    .chunks_exact(width)
                    .for_each(|row| column.extend_from_slice(&row[n * each..][..each]));
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

/// A column while it is gathered.
struct Gathering {
    /// How codes are counted.
    coding: Coding,
    counted: u64,
    sum: f64,
    squares: f64,
    components: u32,
    codes: Vec<u64>,
    blocks: u64,
    power: Vec<f64>,
}

/// Elementary samples that are written as codes at once: whole bytes of any width.
const CODES: usize = 4096;

impl Gathering {
    fn new(coding: Coding, transform: &Transform) -> Self {
        let bits = coding.bits().min(8);
        Self {
            coding: Coding::Offset(bits),
            counted: 0,
            sum: 0.0,
            squares: 0.0,
            components: 1,
            codes: vec![0; 1 << bits],
            blocks: 0,
            power: vec![0.0; transform.points()],
        }
    }

    /// Add consecutive samples, with NaN for missing ones.
    fn add(&mut self, samples: &[f32], transform: &Transform, scratch: &mut Scratch) {
        self.components = transform.components();
        let mut valid: Vec<f32> = Vec::with_capacity(CODES);
        for part in samples.chunks(CODES) {
            valid.clear();
            valid.extend(part.iter().filter(|sample| !sample.is_nan()));
            self.count(&mut valid);
        }
        for block in samples.chunks_exact(transform.block() * self.components as usize) {
            if block.iter().all(|sample| !sample.is_nan()) {
                transform.add(block, scratch, &mut self.power);
                self.blocks += 1;
            }
        }
    }

    fn count(&mut self, valid: &mut Vec<f32>) {
        let count = valid.len();
        self.counted += count as u64;
        self.sum += valid.iter().map(|&sample| f64::from(sample)).sum::<f64>();
        self.squares += valid.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>();
        valid.resize(count.next_multiple_of(8), 0.0);
        let bits = self.coding.bits();
        let mut octets = [0; CODES];
        let octets = &mut octets[..self.coding.octets_of(valid.len())];
        self.coding.encode(valid, octets);
        let each = (8 / bits) as usize;
        let mask = (1u32 << bits) - 1;
        for n in 0..count {
            let code = u32::from(octets[n / each]) >> ((n % each) as u32 * bits) & mask;
            self.codes[code as usize] += 1;
        }
    }

    fn finish(self, thread: u16, channel: u32, transform: &Transform) -> Column {
        let counted = self.counted.max(1) as f64;
        let levels = (0..self.codes.len() as u32).map(|code| self.coding.level(code)).collect();
        let any = self.blocks > 0;
        Column {
            thread,
            channel,
            samples: self.counted,
            mean: self.sum / counted,
            rms: (self.squares / counted * f64::from(self.components)).sqrt(),
            codes: self.codes,
            levels,
            blocks: self.blocks,
            spectrum: if any { transform.density(&self.power, self.blocks) } else { Vec::new() },
            autocorrelation: if any { transform.autocorrelation(&self.power) } else { Vec::new() },
        }
    }
}

/// Transforms blocks of one length.
struct Transform {
    block: usize,
    rate: u64,
    window: Vec<f32>,
    plan: Plan,
}

enum Plan {
    Real(Arc<dyn RealToComplex<f32>>),
    Complex(Arc<dyn Fft<f32>>),
}

/// Memory for one block.
struct Scratch {
    real: Vec<f32>,
    points: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

/// Hann's window, periodic.
fn window(block: usize) -> impl Iterator<Item = f64> {
    (0..block).map(move |n| 0.5 - 0.5 * (TAU * n as f64 / block as f64).cos())
}

impl Transform {
    fn new(block: usize, complex: bool, rate: u64) -> Self {
        let plan = if complex {
            Plan::Complex(FftPlanner::new().plan_fft_forward(2 * block))
        } else {
            Plan::Real(RealFftPlanner::new().plan_fft_forward(2 * block))
        };
        Self { block, rate, window: window(block).map(|w| w as f32).collect(), plan }
    }

    fn block(&self) -> usize {
        self.block
    }

    fn is_complex(&self) -> bool {
        matches!(self.plan, Plan::Complex(_))
    }

    /// Components of a sample.
    fn components(&self) -> u32 {
        1 + u32::from(self.is_complex())
    }

    /// Points of a spectrum.
    fn points(&self) -> usize {
        if self.is_complex() { 2 * self.block } else { self.block + 1 }
    }

    /// Hz of each point.
    fn frequencies(&self) -> Vec<f64> {
        let step = self.rate as f64 / (2 * self.block) as f64;
        let below = if self.is_complex() { self.block } else { 0 };
        (0..self.points()).map(|n| (n as f64 - below as f64) * step).collect()
    }

    fn scratch(&self) -> Scratch {
        let scratch = match &self.plan {
            Plan::Real(plan) => plan.get_scratch_len(),
            Plan::Complex(plan) => plan.get_inplace_scratch_len(),
        };
        Scratch {
            real: vec![0.0; if self.is_complex() { 0 } else { 2 * self.block }],
            points: vec![Complex::default(); self.points()],
            scratch: vec![Complex::default(); scratch],
        }
    }

    /// Add the power of a block of complete samples, point by point.
    fn add(&self, block: &[f32], scratch: &mut Scratch, power: &mut [f64]) {
        let Scratch { real, points, scratch } = scratch;
        match &self.plan {
            Plan::Real(plan) => {
                real.fill(0.0);
                for ((to, &sample), &w) in real.iter_mut().zip(block).zip(&self.window) {
                    *to = sample * w;
                }
                // Its only error is a wrong length.
                if plan.process_with_scratch(real, points, scratch).is_err() {
                    return;
                }
            }
            Plan::Complex(plan) => {
                points.fill(Complex::default());
                for ((to, sample), &w) in points.iter_mut().zip(block.as_chunks::<2>().0).zip(&self.window) {
                    *to = Complex::new(sample[0] * w, sample[1] * w);
                }
                plan.process_with_scratch(points, scratch);
            }
        }
        power.iter_mut().zip(points.iter()).for_each(|(sum, point)| *sum += f64::from(point.norm_sqr()));
    }

    /// Power per Hz from the sum over `blocks`, the lowest frequency first. Its integral, by trapezoids, is the mean square of
    /// the samples.
    fn density(&self, power: &[f64], blocks: u64) -> Vec<f64> {
        let squares: f64 = window(self.block).map(|w| w * w).sum();
        let scale = 1.0 / (self.rate as f64 * squares * blocks as f64);
        if self.is_complex() {
            // Behind the highest frequency there are the negative ones.
            return power[self.block..].iter().chain(&power[..self.block]).map(|sum| sum * scale).collect();
        }
        // Of real samples, what lies at negative frequencies is the same again.
        power.iter().map(|sum| 2.0 * sum * scale).collect()
    }

    /// The autocorrelation to half a block, 1 at lag 0; of complex samples its magnitude.
    fn autocorrelation(&self, power: &[f64]) -> Vec<f64> {
        let lags = self.block / 2;
        let mut correlation = if self.is_complex() {
            let mut points: Vec<_> = scaled(power).map(|power| Complex::new(power, 0.0)).collect();
            FftPlanner::new().plan_fft_inverse(points.len()).process(&mut points);
            points.iter().take(lags).map(|point| f64::from(point.norm())).collect()
        } else {
            inverse(power, lags)
        };
        // The window's own, which the samples' is multiplied by.
        let mut spectrum: Vec<_> = self.window.iter().map(|&w| Complex::new(w, 0.0)).collect();
        spectrum.resize(2 * self.block, Complex::default());
        FftPlanner::new().plan_fft_forward(2 * self.block).process(&mut spectrum);
        let squares: Vec<f64> =
            spectrum[..=self.block].iter().map(|point| f64::from(point.norm_sqr())).collect();
        let of_window = inverse(&squares, lags);
        let first = correlation.first().zip(of_window.first()).map(|(c, w)| c / w).filter(|&c| c > 0.0);
        for (value, w) in correlation.iter_mut().zip(&of_window) {
            *value = first.map_or(0.0, |first| *value / w / first);
        }
        correlation
    }
}

/// Values as parts of the largest, as far as a transform in single precision needs them: their common factor drops out. With double
/// precision too, all of the library's transforms would be compiled twice, and the powers are of single precision themselves.
fn scaled(power: &[f64]) -> impl Iterator<Item = f32> {
    let largest = power.iter().copied().fold(0.0, f64::max);
    power.iter().map(move |&power| if largest > 0.0 { (power / largest) as f32 } else { 0.0 })
}

/// The first values of the real inverse of a spectrum of powers, but for a factor.
fn inverse(power: &[f64], lags: usize) -> Vec<f64> {
    let plan: Arc<dyn ComplexToReal<f32>> =
        RealFftPlanner::new().plan_fft_inverse(2 * (power.len() - 1).max(1));
    let mut points: Vec<_> = scaled(power).map(|power| Complex::new(power, 0.0)).collect();
    let mut values = plan.make_output_vec();
    if plan.process(&mut points, &mut values).is_err() {
        values.fill(0.0);
    }
    values.truncate(lags);
    values.into_iter().map(f64::from).collect()
}

#[cfg(test)]
mod tests;
