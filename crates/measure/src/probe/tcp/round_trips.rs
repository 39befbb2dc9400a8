//! How unsteady the mean round trip of a flow is.

use super::report::TcpSample;

/// Parts of a flow's time that each have a mean round trip.
const PARTS: usize = 5;
/// Samples of the least that have one.
const SAMPLES_OF_A_MEAN: usize = 4;

/// The smallest and the largest mean round trip of a part of the time from `begin`.
pub(super) fn rtt_mean_range(trace: &[TcpSample], begin: f64) -> Option<[f64; 2]> {
    let seconds = trace.last()?.at - begin;
    let part = |sample: &TcpSample| ((sample.at - begin) / seconds * PARTS as f64) as usize;
    let mut sums = [(0.0, 0usize); PARTS];
    for sample in trace.iter().filter(|sample| sample.at >= begin && sample.rtt > 0.0) {
        let (sum, samples) = &mut sums[part(sample).min(PARTS - 1)];
        (*sum, *samples) = (*sum + sample.rtt, *samples + 1);
    }
    if sums.iter().any(|(_, samples)| *samples < SAMPLES_OF_A_MEAN) {
        return None;
    }
    let means = sums.map(|(sum, samples)| sum / samples as f64);
    Some([means.iter().copied().fold(f64::INFINITY, f64::min), means.iter().copied().fold(0.0, f64::max)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_mean_is_of_fifths_of_the_time_that_counts() {
        let sample = |n: u32, rtt: f64| TcpSample { at: f64::from(n) * 0.1, rtt, ..TcpSample::default() };
        // A queue in the first second, after one that is omitted; then a steady path.
        let rtt = |n| {
            if n < 10 {
                0.9
            } else if n < 20 {
                0.02
            } else {
                0.01
            }
        };
        let trace: Vec<TcpSample> = (0..=60).map(|n| sample(n, rtt(n))).collect();
        let [low, high] = rtt_mean_range(&trace, 1.0).unwrap();
        assert!((low - 0.01).abs() < 1e-9 && (high - 0.02).abs() < 1e-9, "{low} {high}");
        let few: Vec<TcpSample> = (0..=20).map(|n| sample(n, if n > 15 { 0.0 } else { 0.01 })).collect();
        assert_eq!(rtt_mean_range(&few, 0.0), None);
        assert_eq!(rtt_mean_range(&[], 0.0), None);
        assert_eq!(rtt_mean_range(&trace[..1], 0.0), None);
    }
}
