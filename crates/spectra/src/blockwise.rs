//! The transforms of blocks.

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Transforms blocks of one length.
pub struct Blockwise {
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
#[derive(Debug)]
pub struct BlockScratch {
    real: Vec<f32>,
    points: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

/// Hann's window, periodic.
fn window(block: usize) -> impl Iterator<Item = f64> {
    (0..block).map(move |n| 0.5 - 0.5 * (TAU * n as f64 / block as f64).cos())
}

impl std::fmt::Debug for Blockwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Blockwise");
        shown
            .field("block", &self.block)
            .field("complex", &self.is_complex())
            .field("rate", &self.rate)
            .finish()
    }
}

impl Blockwise {
    /// Of blocks of so many complete samples, of so many in a second.
    #[must_use]
    pub fn new(block: usize, complex: bool, rate: u64) -> Self {
        let plan = if complex {
            Plan::Complex(FftPlanner::new().plan_fft_forward(2 * block))
        } else {
            Plan::Real(RealFftPlanner::new().plan_fft_forward(2 * block))
        };
        Self { block, rate, window: window(block).map(|w| w as f32).collect(), plan }
    }

    /// Complete samples of a block.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Samples have a real and an imaginary part.
    #[must_use]
    pub fn is_complex(&self) -> bool {
        matches!(self.plan, Plan::Complex(_))
    }

    /// Components of a complete sample.
    #[must_use]
    pub fn components(&self) -> u32 {
        1 + u32::from(self.is_complex())
    }

    /// Points of a spectrum.
    #[must_use]
    pub fn points(&self) -> usize {
        if self.is_complex() { 2 * self.block } else { self.block + 1 }
    }

    /// Hz of each point, from the lower edge of the band; of complex samples from its middle.
    #[must_use]
    pub fn frequencies(&self) -> Vec<f64> {
        let step = self.rate as f64 / (2 * self.block) as f64;
        let below = if self.is_complex() { self.block } else { 0 };
        (0..self.points()).map(|n| (n as f64 - below as f64) * step).collect()
    }

    /// Memory for its blocks.
    #[must_use]
    pub fn scratch(&self) -> BlockScratch {
        let scratch = match &self.plan {
            Plan::Real(plan) => plan.get_scratch_len(),
            Plan::Complex(plan) => plan.get_inplace_scratch_len(),
        };
        BlockScratch {
            real: vec![0.0; if self.is_complex() { 0 } else { 2 * self.block }],
            points: vec![Complex::default(); self.points()],
            scratch: vec![Complex::default(); scratch],
        }
    }

    /// Add the power of a block of complete samples, point by point.
    pub(crate) fn add(&self, block: &[f32], scratch: &mut BlockScratch, power: &mut [f64]) {
        let BlockScratch { real, points, scratch } = scratch;
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
    pub(crate) fn density(&self, power: &[f64], blocks: u64) -> Vec<f64> {
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
    pub(crate) fn autocorrelation(&self, power: &[f64]) -> Vec<f64> {
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
