//! Two-bit samples of the sky, as stations of an interferometer record them: noise of their own, and a common signal
//! with the delay and the fringe phase of each station.
//!
//! ```text
//!   sky:      white noise in the band [f, f + B], the same for all stations with its seed; B = sample rate / 2
//!   station:  x(t) = √ρ · Re{ a(t − τ(t)) · exp(−2πi f τ(t)) } + √(1 − ρ) · own noise,     τ(t) = τ₀ + τ̇ · (t − epoch)
//! ```
//!
//! a is the analytic signal of the band relative to f, its lower edge: what a receiver with a local oscillator at f delivers
//! (upper sideband). **A positive delay is that of a station that receives the sky later.** So the spectrum X at ν Hz
//! above f has the phase −2π (f + ν) τ, and the cross spectrum of two stations, ⟨X₁ X₂*⟩, the phase −2π (f + ν) (τ₁ − τ₂).
//! ρ is the common part of the power; two stations correlate by √(ρ₁ ρ₂), times 0.8825 for both quantised to two bits.
//!
//! Channel k is the adjacent band [f + k B, f + (k + 1) B], with noise of its own.
//!
//! Every sample is a function of the settings and its number since 1970, so any frame can be made alone, and senders
//! that start apart correlate. Random numbers are counter-based; the delay is applied by a filter of 16 taps on complex
//! noise sampled at B. Like a receiver's, the filter takes the outer 4 % of the band away at each edge (half power); 0.3 % of the
//! common power is folded at the edges and lost for correlation.
//!
//! Limits: |τ₀| ≤ 1 s, |τ̇| ≤ 1e-4, 1 THz, 4 Gsamples/s. The delay is constant within 32 samples, the phase is not.

use crate::pattern::mix;
use crate::synth::THRESHOLD;
use std::f64::consts::TAU;
use std::sync::LazyLock;

/// What a station receives of the sky.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sky {
    /// Starts the noise of the sky: the same for all stations.
    pub seed: u64,
    /// Starts the noise of the station: another for each.
    pub noise: u64,
    /// Common part of the power, 0 to 1.
    pub correlation: f64,
    /// Delay at the epoch in seconds; positive if the sky arrives later here.
    pub delay: f64,
    /// Change of the delay, seconds per second.
    pub rate: f64,
    /// Lower edge of the band of channel 0 in Hz.
    pub frequency: f64,
    /// Unix second at which the delay is `delay`.
    pub epoch: i64,
}

/// Longest delay, in seconds.
pub const MAX_DELAY: f64 = 1.0;
/// Fastest change of the delay, in seconds per second.
pub const MAX_DELAY_RATE: f64 = 1e-4;
/// Highest frequency, in Hz.
pub const MAX_FREQUENCY: f64 = 1e12;
/// Highest sample rate, in Hz.
pub const MAX_SAMPLE_RATE: u64 = 4_000_000_000;
/// Samples can be made alone from any number on that is a multiple of this.
pub const SKY_BLOCK: usize = 32;

impl Sky {
    /// Check the settings.
    ///
    /// # Errors
    /// The value that is out of range.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.correlation) {
            return Err(format!("correlation {} is not between 0 and 1", self.correlation));
        }
        let limited = |name: &str, value: f64, most: f64, unit: &str| match value.abs() <= most {
            true => Ok(()),
            false => Err(format!("{name} {value:e} {unit} is more than {most:e} {unit}")),
        };
        limited("delay", self.delay, MAX_DELAY, "s")?;
        limited("rate", self.rate, MAX_DELAY_RATE, "s/s")?;
        limited("frequency", self.frequency, MAX_FREQUENCY, "Hz")?;
        if self.frequency < 0.0 {
            return Err(format!("frequency {:e} Hz is negative", self.frequency));
        }
        Ok(())
    }

    /// Delay at this time in seconds.
    #[must_use]
    pub fn delay_at(&self, unix_seconds: f64) -> f64 {
        self.rate.mul_add(unix_seconds - self.epoch as f64, self.delay)
    }
}

/// Complex samples of a block: its even and odd samples.
const PAIRS: usize = SKY_BLOCK / 2;
const BLOCK_BYTES: usize = SKY_BLOCK / 4;
/// Blocks that are made together, from one stretch of the sky.
const STRETCH: usize = 64;
const TAPS: usize = 16;
/// Half the length of the filter in complex samples: with 16 taps, all of it for every fraction of 1.5 complex samples.
const HALF: f64 = 7.75;
/// Cutoff in cycles per complex sample, and the shape of the Kaiser window.
const CUTOFF: f64 = 0.48;
const KAISER: f64 = 4.0;
/// Filters per complex sample; between them, taps are interpolated linearly.
const STEPS: usize = 128;
/// Complex samples of a stretch: those of its blocks, the taps, and by how much the delay changes in it.
const SPAN: usize = STRETCH * PAIRS + TAPS + 8;

/// Standard normal variables of equal probability.
static NORMALS: LazyLock<Vec<f32>> = LazyLock::new(|| {
    const STEP: f64 = 1e-4;
    let mut normals = Vec::with_capacity(NORMAL_COUNT);
    let (mut x, mut below) = (-6.0f64, 0.0);
    while normals.len() < NORMAL_COUNT {
        // The probability between x and the next step, by the value in its middle.
        below += (-(x + STEP / 2.0).powi(2) / 2.0).exp() * STEP / TAU.sqrt();
        x += STEP;
        while normals.len() < NORMAL_COUNT && below * NORMAL_COUNT as f64 >= normals.len() as f64 + 0.5 {
            normals.push(x);
        }
    }
    let variance = normals.iter().map(|x| x * x).sum::<f64>() / NORMAL_COUNT as f64;
    normals.iter().map(|x| (x / variance.sqrt()) as f32).collect()
});
const NORMAL_COUNT: usize = 4096;

/// Filters for the delays -1.25 to 0.25 complex samples, each for unit variance.
static FILTERS: LazyLock<Vec<[f32; TAPS]>> = LazyLock::new(|| {
    // The modified Bessel function of order 0, by its series.
    let bessel = |x: f64| {
        let mut term = 1.0;
        (1..30).fold(1.0, |sum, k| {
            term *= (x / 2.0 / f64::from(k)).powi(2);
            sum + term
        })
    };
    let tap = |x: f64| {
        let inside = 1.0 - (x / HALF).powi(2);
        let phase = TAU * CUTOFF * x;
        let sinc = if phase.abs() < 1e-9 { 1.0 } else { phase.sin() / phase };
        if inside <= 0.0 { 0.0 } else { sinc * bessel(KAISER * inside.sqrt()) }
    };
    (0..=STEPS * 3 / 2 + 1)
        .map(|row| {
            let shift = row as f64 / STEPS as f64 - 1.25;
            let taps: [f64; TAPS] = std::array::from_fn(|k| tap(k as f64 - 7.0 + shift));
            let power = taps.iter().map(|w| w * w).sum::<f64>().sqrt();
            taps.map(|w| (w / power) as f32)
        })
        .collect()
});

/// Makes the samples of one channel of a station.
#[derive(Clone, Debug)]
pub struct SkySamples {
    sky: Sky,
    sample_rate: u64,
    /// Middle of the band, in Hz.
    middle: f64,
    /// Keys of the random numbers.
    common: u64,
    own: u64,
    /// Amplitudes of the common signal and of the noise.
    signal: f32,
    noise: f32,
    /// Phase of each sample of a block relative to the first: even ones, odd ones; real parts, imaginary ones.
    turn: [[[f32; PAIRS]; 2]; 2],
    normals: &'static [f32; NORMAL_COUNT],
    filters: &'static [[f32; TAPS]],
}

impl SkySamples {
    /// Prepare channel `channel` of a station at this sample rate (real samples per second).
    ///
    /// # Errors
    /// The value that is out of range.
    ///
    /// # Panics
    /// Never: the table of normal variables has the length of its type.
    pub fn new(sky: &Sky, sample_rate: u64, channel: u16) -> Result<Self, String> {
        sky.check()?;
        if sample_rate == 0 || sample_rate > MAX_SAMPLE_RATE || !sample_rate.is_multiple_of(SKY_BLOCK as u64)
        {
            return Err(format!(
                "{sample_rate} samples/s: a multiple of {SKY_BLOCK} up to {MAX_SAMPLE_RATE} is needed"
            ));
        }
        let rate = sample_rate as f64;
        let middle = (f64::from(channel) / 2.0 + 0.25).mul_add(rate, sky.frequency);
        // A sample further, the middle of the band turns by a quarter, and the fringe by what the delay changes.
        let step = 0.25 - middle * sky.rate / rate;
        let turn = [0, 1].map(|odd| {
            let phase = |pair: usize| TAU * (step * (2 * pair + odd) as f64).fract();
            [
                std::array::from_fn(|pair| phase(pair).cos() as f32),
                std::array::from_fn(|pair| phase(pair).sin() as f32),
            ]
        });
        let key = |seed: u64, of: u64| mix(mix(seed ^ of).wrapping_add(u64::from(channel)));
        Ok(Self {
            sky: *sky,
            sample_rate,
            middle,
            common: key(sky.seed, 0x736B_7900),
            own: key(sky.noise, 0x6E6F_6973_6500),
            signal: sky.correlation.sqrt() as f32,
            noise: (1.0 - sky.correlation).sqrt() as f32,
            turn,
            normals: NORMALS.first_chunk().expect("as many as there are"),
            filters: &FILTERS,
        })
    }

    /// Number since 1970 of sample `sample` in a second.
    #[must_use]
    pub fn number(&self, unix_seconds: i64, sample: u64) -> u64 {
        (unix_seconds as u64).wrapping_mul(self.sample_rate).wrapping_add(sample)
    }

    /// Fill `out` with two-bit samples in VDIF's order and coding, beginning with sample `first` since 1970.
    ///
    /// # Panics
    /// `first` and the number of samples are not multiples of [`SKY_BLOCK`].
    pub fn fill(&self, first: u64, out: &mut [u8]) {
        assert!(first.is_multiple_of(SKY_BLOCK as u64) && out.len().is_multiple_of(BLOCK_BYTES));
        let mut at = first;
        for stretch in out.chunks_mut(STRETCH * BLOCK_BYTES) {
            self.fill_stretch(at, stretch);
            at = at.wrapping_add(stretch.len() as u64 * 4);
        }
    }

    /// Delay in the middle of the block that begins at `first`, in complex samples.
    fn delay(&self, first: u64) -> f64 {
        self.seconds(first, (SKY_BLOCK - 1) as f64 / 2.0) * self.sample_rate as f64 / 2.0
    }

    /// Delay `further` samples behind `first`, in seconds.
    fn seconds(&self, first: u64, further: f64) -> f64 {
        let epoch = i128::from(self.sky.epoch) * i128::from(self.sample_rate);
        let since = (i128::from(first) - epoch) as f64 + further;
        self.sky.rate.mul_add(since / self.sample_rate as f64, self.sky.delay)
    }

    fn fill_stretch(&self, first: u64, out: &mut [u8]) {
        // The complex samples for the longest delay of the stretch, and all behind them.
        let last = first.wrapping_add((out.len() - BLOCK_BYTES) as u64 * 4);
        let longest = whole(self.delay(first)).max(whole(self.delay(last)));
        let begin = (first / 2).wrapping_add_signed(-longest - 8);
        let lead = (begin % 2) as usize;
        let mut sky = [[0f32; SPAN]; 2];
        self.draw(begin - lead as u64, &mut sky);
        for (number, block) in out.as_chunks_mut::<BLOCK_BYTES>().0.iter_mut().enumerate() {
            let at = first.wrapping_add((number * SKY_BLOCK) as u64);
            let delay = self.delay(at);
            let offset = lead + number * PAIRS + usize::try_from(longest - whole(delay)).unwrap_or(0);
            let shift = whole(delay) as f64 - delay;
            let cycles = -(self.middle * self.seconds(at, 0.0)).fract();
            let (sin, cos) = (TAU * cycles).sin_cos();
            let phase = [cos, sin].map(|part| part as f32 * self.signal);
            let filters = [self.filter(shift), self.filter(shift + 0.5)];
            let [real, imaginary] = sky.each_ref().map(|part| convolve(&filters, &part[offset..]));
            let levels = [0, 1].map(|odd| turned(&real[odd], &imaginary[odd], &self.turn[odd], phase));
            self.quantise(at, &levels, block);
        }
    }

    /// The complex noise of the sky from sample `begin` on, which is even.
    fn draw(&self, begin: u64, sky: &mut [[f32; SPAN]; 2]) {
        let [real, imaginary] = sky.each_mut().map(|part| part.as_chunks_mut::<2>().0);
        for (counter, (real, imaginary)) in (begin / 2..=u64::MAX).zip(real.iter_mut().zip(imaginary)) {
            [real[0], imaginary[0], real[1], imaginary[1]] = self.four(self.common, counter);
        }
    }

    /// Four normal variables from a key and a counter.
    #[inline]
    fn four(&self, key: u64, counter: u64) -> [f32; 4] {
        let bits = mix(key.wrapping_add(counter));
        std::array::from_fn(|k| self.normals[(bits >> (16 * k)) as usize % NORMAL_COUNT])
    }

    /// The filter that shifts by this many complex samples, -1.25 to 0.25.
    #[inline]
    fn filter(&self, shift: f64) -> [f32; TAPS] {
        let at = ((shift + 1.25) * STEPS as f64).max(0.0);
        let row = (at as usize).min(self.filters.len() - 2);
        let part = (at - row as f64) as f32;
        let (low, high) = (&self.filters[row], &self.filters[row + 1]);
        std::array::from_fn(|k| low[k] + part * (high[k] - low[k]))
    }

    /// Add noise, and write the two bits of each sample.
    #[inline]
    fn quantise(&self, first: u64, levels: &[[f32; PAIRS]; 2], out: &mut [u8; BLOCK_BYTES]) {
        let mut own = [[0f32; PAIRS]; 2];
        for quad in 0..BLOCK_BYTES {
            let [a, b, c, d] = self.four(self.own, (first / 4).wrapping_add(quad as u64));
            (own[0][2 * quad], own[1][2 * quad]) = (a, b);
            (own[0][2 * quad + 1], own[1][2 * quad + 1]) = (c, d);
        }
        let [even, odd] = [0, 1].map(|odd| codes(&levels[odd], &own[odd], self.noise));
        let nibbles: [u8; PAIRS] = std::array::from_fn(|pair| even[pair] | odd[pair] << 2);
        for (byte, pair) in out.iter_mut().zip(nibbles.as_chunks::<2>().0) {
            *byte = pair[0] | pair[1] << 4;
        }
    }
}

/// Two bits of each sum of a level and noise.
#[inline]
fn codes(levels: &[f32; PAIRS], own: &[f32; PAIRS], noise: f32) -> [u8; PAIRS] {
    const OUTER: f32 = THRESHOLD as f32;
    let counts: [i32; PAIRS] = std::array::from_fn(|pair| {
        let v = levels[pair] + noise * own[pair];
        i32::from(v >= -OUTER) + i32::from(v >= 0.0) + i32::from(v >= OUTER)
    });
    counts.map(|count| count as u8)
}

/// The whole complex samples of a delay, so that 0.25 to 1.25 remain.
fn whole(delay: f64) -> i64 {
    (delay - 0.25).floor() as i64
}

/// The even and the odd filtered samples of a block: each is the sum over its taps, the latest sample first.
#[inline]
fn convolve(filters: &[[f32; TAPS]; 2], sky: &[f32]) -> [[f32; PAIRS]; 2] {
    let mut sums = [[0f32; PAIRS]; 2];
    let Some(sky) = sky.first_chunk::<{ PAIRS + TAPS - 1 }>() else { return sums };
    for half in 0..2 {
        let at = half * PAIRS / 2;
        let (mut even, mut odd) = ([0f32; PAIRS / 2], [0f32; PAIRS / 2]);
        for k in 0..TAPS {
            for lane in 0..PAIRS / 2 {
                let sample = sky[at + TAPS - 1 - k + lane];
                even[lane] += filters[0][k] * sample;
                odd[lane] += filters[1][k] * sample;
            }
        }
        sums[0][at..at + PAIRS / 2].copy_from_slice(&even);
        sums[1][at..at + PAIRS / 2].copy_from_slice(&odd);
    }
    sums
}

/// Real part of complex samples with this phase at the first and these turns from there on.
#[inline]
fn turned(
    real: &[f32; PAIRS],
    imaginary: &[f32; PAIRS],
    turn: &[[f32; PAIRS]; 2],
    phase: [f32; 2],
) -> [f32; PAIRS] {
    std::array::from_fn(|k| {
        let cos = phase[0] * turn[0][k] - phase[1] * turn[1][k];
        let sin = phase[0] * turn[1][k] + phase[1] * turn[0][k];
        cos * real[k] - sin * imaginary[k]
    })
}

#[cfg(test)]
mod tests;
