//! Synthetic two-bit samples: Gaussian noise plus a sine.
//!
//! The quantiser is the field's usual one: thresholds at 0 and ±0.98 σ, VDIF's offset binary (00 lowest … 11
//! highest), four samples to a byte, the earliest in the lowest bits (VDIF 1.1.1, clause 10).

/// Settings of the signal.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Cycles of the tone per sample, 0 to 0.5.
    pub tone: f64,
    /// Amplitude of the tone in σ of the noise.
    pub amplitude: f64,
    /// Starts the noise; the same seed gives the same samples.
    pub seed: u64,
}

impl Default for Signal {
    fn default() -> Self {
        Self { tone: 0.125, amplitude: 0.3, seed: 1 }
    }
}

/// Threshold between the inner and the outer levels, in σ.
pub(crate) const THRESHOLD: f64 = 0.981_599;

/// Fill `out` with two-bit samples of one real channel, beginning with sample number `first`.
pub fn two_bit(signal: &Signal, first: u64, out: &mut [u8]) {
    let mut x = signal.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ first | 1;
    let mut uniform = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as f64 / (1u64 << 53) as f64
    };
    // Twelve uniform variables have variance 1: Irwin-Hall, close to a Gaussian out to 3 σ.
    let mut sample = |n: u64| {
        let noise: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let phase = std::f64::consts::TAU * (signal.tone * n as f64).fract();
        noise + signal.amplitude * phase.sin()
    };
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = (0..4).fold(0, |octet, k| {
            let level = match sample(first + i as u64 * 4 + k) {
                v if v < -THRESHOLD => 0,
                v if v < 0.0 => 1,
                v if v < THRESHOLD => 2,
                _ => 3,
            };
            octet | level << (2 * k)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(amplitude: f64) -> ([f64; 4], f64) {
        let signal = Signal { amplitude, ..Signal::default() };
        let mut out = vec![0; 50_000];
        two_bit(&signal, 0, &mut out);
        let n = out.len() as f64 * 4.0;
        let mut counts = [0.0; 4];
        let (mut re, mut im) = (0.0, 0.0);
        for (i, level) in out.iter().flat_map(|b| (0..4).map(move |k| b >> (2 * k) & 3)).enumerate() {
            counts[level as usize] += 1.0 / n;
            let value = [-3.3359, -1.0, 1.0, 3.3359][level as usize];
            let phase = std::f64::consts::TAU * signal.tone * i as f64;
            re += value * phase.cos() / n;
            im += value * phase.sin() / n;
        }
        (counts, re.hypot(im))
    }

    #[test]
    fn the_levels_are_those_of_gaussian_noise_and_the_tone_is_there() {
        let (counts, tone) = levels(0.0);
        for (got, want) in counts.iter().zip([0.163, 0.337, 0.337, 0.163]) {
            assert!((got - want).abs() < 0.01, "{counts:?}");
        }
        assert!(tone < 0.03, "{tone}");
        assert!(levels(0.3).1 > 0.2);
    }
}
