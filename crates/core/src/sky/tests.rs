use super::*;
use proptest::prelude::*;

const RATE: u64 = 1_000_000;
/// The optimal levels of two-bit samples.
const LEVELS: [f64; 4] = [-3.3359, -1.0, 1.0, 3.3359];
/// Two-bit correlation of weakly correlated noise, over its correlation.
const EFFICIENCY: f64 = 0.8825;

fn sky() -> Sky {
    Sky { seed: 1, noise: 1, correlation: 0.5, delay: 0.0, rate: 0.0, frequency: 0.0, epoch: 0 }
}

fn station(noise: u64, delay: f64) -> Sky {
    Sky { noise, delay, ..sky() }
}

/// `count` samples from `first` on, as numbers.
fn samples(sky: &Sky, channel: u16, first: u64, count: usize) -> Vec<f64> {
    let mut out = vec![0; count / 4];
    SkySamples::new(sky, RATE, channel).unwrap().fill(first, &mut out);
    out.iter().flat_map(|byte| (0..4).map(move |k| LEVELS[usize::from(byte >> (2 * k) & 3)])).collect()
}

/// Correlation coefficients ⟨a(n) b(n + lag)⟩ for the lags -32 to 32.
fn correlate(a: &[f64], b: &[f64]) -> Vec<f64> {
    let power = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = (power(a) * power(b)).sqrt() * (a.len() - 64) as f64;
    let product = |lag: usize| a[32..a.len() - 32].iter().zip(&b[lag..]).map(|(a, b)| a * b).sum::<f64>();
    (0..=64).map(|lag| product(lag) / scale).collect()
}

/// The cross spectrum ⟨B A*⟩ at `cycles` per sample: real and imaginary part.
fn spectrum(lags: &[f64], cycles: f64) -> (f64, f64) {
    lags.iter().enumerate().fold((0.0, 0.0), |(re, im), (at, value)| {
        let phase = -TAU * cycles * (at as f64 - 32.0);
        (re + value * phase.cos(), im + value * phase.sin())
    })
}

/// Phase of the cross spectrum in cycles, and its amplitude, averaged over the band behind a model (delay in samples, phase).
fn residual(lags: &[f64], delay: f64, phase: f64) -> (f64, f64) {
    let (re, im) = (4..46).fold((0.0, 0.0), |(re, im), step| {
        let cycles = f64::from(step) / 100.0;
        let (a, b) = spectrum(lags, cycles);
        let turn = TAU * (cycles * delay + phase);
        (re + (a * turn.cos() - b * turn.sin()) / 42.0, im + (a * turn.sin() + b * turn.cos()) / 42.0)
    });
    (im.atan2(re) / TAU, re.hypot(im))
}

#[test]
fn levels_are_those_of_noise_at_the_usual_thresholds() {
    for correlation in [0.0, 0.1, 0.9, 1.0] {
        let sky = Sky { correlation, delay: 1.3e-6, rate: 1e-6, frequency: 1e9, ..sky() };
        let all = samples(&sky, 0, 64, 200_000);
        for (level, share) in LEVELS.iter().zip([0.163, 0.337, 0.337, 0.163]) {
            let found = all.iter().filter(|x| *x == level).count() as f64 / all.len() as f64;
            assert!((found - share).abs() < 0.005, "correlation {correlation}: {level} is {found}");
        }
        // White, but for the edges of the band of the sky.
        let auto = correlate(&all, &all);
        let most =
            auto.iter().enumerate().filter(|(at, _)| *at != 32).map(|(_, r)| r.abs()).fold(0.0, f64::max);
        assert!(most < 0.01 + 0.1 * correlation, "correlation {correlation}: {most}");
    }
}

#[test]
fn stations_have_their_own_noise_and_channels_their_own_sky() {
    let alone = Sky { correlation: 0.0, ..sky() };
    let all = Sky { correlation: 1.0, ..sky() };
    let first = |sky: &Sky, channel| samples(sky, channel, 0, 40_000);
    let strongest = |a: &[f64], b: &[f64]| correlate(a, b).into_iter().map(f64::abs).fold(0.0, f64::max);
    assert!(strongest(&first(&alone, 0), &first(&Sky { noise: 2, ..alone }, 0)) < 0.03);
    assert!(strongest(&first(&alone, 0), &first(&alone, 1)) < 0.03);
    assert!(strongest(&first(&all, 0), &first(&Sky { noise: 2, ..all }, 0)) > 0.999);
    assert!(strongest(&first(&all, 0), &first(&all, 1)) < 0.03);
    assert!(strongest(&first(&all, 0), &first(&Sky { seed: 2, ..all }, 0)) < 0.03);
}

#[test]
fn settings_out_of_range_are_refused() {
    let wrong: [(Sky, u64, &str); 7] = [
        (Sky { correlation: 1.1, ..sky() }, RATE, "correlation"),
        (Sky { correlation: f64::NAN, ..sky() }, RATE, "correlation"),
        (Sky { delay: -1.5, ..sky() }, RATE, "delay"),
        (Sky { rate: f64::INFINITY, ..sky() }, RATE, "rate"),
        (Sky { frequency: -1.0, ..sky() }, RATE, "negative"),
        (sky(), 100, "samples/s"),
        (sky(), 8_000_000_000, "samples/s"),
    ];
    for (sky, rate, name) in wrong {
        let said = SkySamples::new(&sky, rate, 0).unwrap_err();
        assert!(said.contains(name), "{said}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The second station receives the sky later by what its delay is longer, and with the phase of a receiver.
    #[test]
    fn two_stations_correlate_with_the_delay_and_phase_put_in(
        delays in (-30.0..30.0f64, -1.0..1.0f64),
        fringe in 0.0..1.0f64,
        channel in 0..3u16,
        seed: u64,
        day in 10_000..25_000i64,
    ) {
        let one = Sky { seed, ..station(1, delays.0 / RATE as f64) };
        // A later one by up to 28 samples.
        let later = delays.1 * 28.0;
        // A frequency at which the later part is about a thousand cycles and a fraction.
        let frequency = if later.abs() < 0.1 { 0.0 } else { (1000.0 + fringe) * RATE as f64 / later.abs() };
        let one = Sky { frequency, ..one };
        let two = Sky { noise: 2, delay: one.delay + later / RATE as f64, correlation: 0.32, ..one };
        let first = day as u64 * 86_400 * RATE + 320;
        let lags = correlate(&samples(&one, channel, first, 60_000), &samples(&two, channel, first, 60_000));
        let cycles = later * (frequency / RATE as f64 + f64::from(channel) / 2.0);
        let (phase, amplitude) = residual(&lags, later, cycles.fract());
        prop_assert!(phase.abs() < 0.01, "phase {} at {} samples", phase, later);
        // √(0.5 · 0.32) = 0.4, in the part of the band that the filter leaves.
        let expected = EFFICIENCY * 0.4 / 0.92;
        prop_assert!((amplitude / expected - 1.0).abs() < 0.05, "{} instead of {}", amplitude, expected);
        for wrong in [-0.25, 0.25] {
            prop_assert!(residual(&lags, later + wrong, cycles.fract()).1 < amplitude);
        }
        if later.abs() > 2.0 {
            prop_assert!(residual(&lags, -later, -cycles.fract()).1 < amplitude / 4.0, "the sign does not matter");
        }
    }

    /// The delay grows with its rate, and so does the phase at the sky frequency.
    #[test]
    fn the_delay_and_the_phase_change_with_the_rate(rate in -1e-7..1e-7f64, seconds in 1..40i64, seed: u64) {
        let epoch = 1_795_402_800;
        let one = Sky { seed, epoch, ..sky() };
        let two = Sky { noise: 2, rate, frequency: 2e6, ..one };
        let one = Sky { frequency: 2e6, ..one };
        let first = (epoch + seconds) as u64 * RATE;
        let lags = correlate(&samples(&one, 0, first, 60_000), &samples(&two, 0, first, 60_000));
        let later = rate * (seconds as f64 + 0.03) * RATE as f64;
        let (phase, amplitude) = residual(&lags, later, (later * 2.0).fract());
        prop_assert!(phase.abs() < 0.01 && amplitude > 0.4, "phase {}, amplitude {}", phase, amplitude);
        prop_assert!((two.delay_at((epoch + seconds) as f64 + 0.03) * RATE as f64 - later).abs() < 1e-3);
    }

    /// A frame made alone is that of the stream.
    #[test]
    fn samples_do_not_depend_on_where_they_begin(
        delay in -0.9..0.9f64, rate in -1e-4..1e-4f64, begin in 0..200usize, blocks in 1..150usize, seed: u64,
    ) {
        let sky = Sky { seed, delay, rate, frequency: 8.4e9, epoch: 1_795_402_800, ..sky() };
        let made = SkySamples::new(&sky, RATE, 0).unwrap();
        let first = made.number(1_795_402_801, 96);
        let (mut all, mut part) = (vec![0; 350 * BLOCK_BYTES], vec![0; blocks * BLOCK_BYTES]);
        made.fill(first, &mut all);
        made.fill(first + (begin * SKY_BLOCK) as u64, &mut part);
        prop_assert_eq!(&all[begin * BLOCK_BYTES..][..part.len()], &part[..]);
    }
}
