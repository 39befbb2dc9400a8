//! Power spectra of blocks, and the autocorrelation that belongs to them.

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Transforms blocks of one length.
pub(super) struct Transform {
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
pub(super) struct Scratch {
    real: Vec<f32>,
    points: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

/// Hann's window, periodic.
fn window(block: usize) -> impl Iterator<Item = f64> {
    (0..block).map(move |n| 0.5 - 0.5 * (TAU * n as f64 / block as f64).cos())
}

impl Transform {
    pub(super) fn new(block: usize, complex: bool, rate: u64) -> Self {
        let plan = if complex {
            Plan::Complex(FftPlanner::new().plan_fft_forward(2 * block))
        } else {
            Plan::Real(RealFftPlanner::new().plan_fft_forward(2 * block))
        };
        Self { block, rate, window: window(block).map(|w| w as f32).collect(), plan }
    }

    pub(super) fn block(&self) -> usize {
        self.block
    }

    fn is_complex(&self) -> bool {
        matches!(self.plan, Plan::Complex(_))
    }

    /// Components of a sample.
    pub(super) fn components(&self) -> u32 {
        1 + u32::from(self.is_complex())
    }

    /// Points of a spectrum.
    pub(super) fn points(&self) -> usize {
        if self.is_complex() { 2 * self.block } else { self.block + 1 }
    }

    /// Hz of each point.
    pub(super) fn frequencies(&self) -> Vec<f64> {
        let step = self.rate as f64 / (2 * self.block) as f64;
        let below = if self.is_complex() { self.block } else { 0 };
        (0..self.points()).map(|n| (n as f64 - below as f64) * step).collect()
    }

    pub(super) fn scratch(&self) -> Scratch {
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
    pub(super) fn add(&self, block: &[f32], scratch: &mut Scratch, power: &mut [f64]) {
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
    pub(super) fn density(&self, power: &[f64], blocks: u64) -> Vec<f64> {
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
    pub(super) fn autocorrelation(&self, power: &[f64]) -> Vec<f64> {
        let lags = self.block / 2;
        let mut correlation = if self.is_complex() {
            let mut points: Vec<Complex<f64>> = power.iter().map(|&sum| Complex::new(sum, 0.0)).collect();
            FftPlanner::new().plan_fft_inverse(points.len()).process(&mut points);
            points.iter().take(lags).map(|point| point.norm()).collect()
        } else {
            inverse(power, lags)
        };
        // The window's own, which the samples' is multiplied by.
        let mut spectrum: Vec<Complex<f64>> = window(self.block).map(|w| Complex::new(w, 0.0)).collect();
        spectrum.resize(2 * self.block, Complex::default());
        FftPlanner::new().plan_fft_forward(2 * self.block).process(&mut spectrum);
        let squares: Vec<f64> = spectrum[..=self.block].iter().map(Complex::norm_sqr).collect();
        let of_window = inverse(&squares, lags);
        let first = correlation.first().zip(of_window.first()).map(|(c, w)| c / w).filter(|&c| c > 0.0);
        for (value, w) in correlation.iter_mut().zip(&of_window) {
            *value = first.map_or(0.0, |first| *value / w / first);
        }
        correlation
    }
}

/// The first values of the real inverse of a spectrum of powers.
fn inverse(power: &[f64], lags: usize) -> Vec<f64> {
    let plan: Arc<dyn ComplexToReal<f64>> =
        RealFftPlanner::new().plan_fft_inverse(2 * (power.len() - 1).max(1));
    let mut points: Vec<Complex<f64>> = power.iter().map(|&sum| Complex::new(sum, 0.0)).collect();
    let mut values = plan.make_output_vec();
    if plan.process(&mut points, &mut values).is_err() {
        values.fill(0.0);
    }
    values.truncate(lags);
    values
}
