//! One-way delays: times of two clocks made comparable by what was exchanged beside the data.

use super::client::UdpClient;
use super::receiving::Exchange;
use super::report::{ClockReport, Delay, PointReport, Received};
use skyhaul_core::measure::clock::{self, ClockFit};
use skyhaul_core::placement::Nanos;

pub(super) fn fit(exchanges: &[Exchange]) -> Option<ClockFit> {
    let of = |e: &Exchange| clock::Exchange {
        sent: Nanos(e.sent),
        received: Nanos(e.came),
        replied: Nanos(e.back),
        returned: Nanos(e.here),
    };
    ClockFit::new(&exchanges.iter().map(of).collect::<Vec<_>>())
}

/// Delays of the sampled packets, in order of size. `forward`: the other clock is the receiver's.
fn delays(fit: &ClockFit, received: &Received, forward: bool) -> Option<Delay> {
    let mut error = 0;
    let mut all: Vec<i64> = Vec::with_capacity(received.samples.len());
    for &(_, sent, under_way) in &received.samples {
        let sent = received.base_ns.wrapping_add_signed(sent);
        // The client's clock is the one that the offset is counted by.
        let here = if forward { sent } else { sent.wrapping_add_signed(under_way) };
        let offset = fit.offset(Nanos(here));
        error = error.max(offset.error);
        all.push(if forward {
            under_way.saturating_sub(offset.nanos)
        } else {
            under_way.saturating_add(offset.nanos)
        });
    }
    all.sort_unstable();
    let at = |q: f64| all.get(((all.len().checked_sub(1)?) as f64 * q).round() as usize).map(|&ns| ns as f64);
    Some(Delay { least: at(0.0)?, median: at(0.5)?, p99: at(0.99)?, most: at(1.0)?, error: error as f64 })
}

impl UdpClient {
    /// Complete points that were measured with their one-way delays, by all exchanges of times so far: call it behind the last.
    pub fn compare_clocks(&self, points: &mut [PointReport]) -> Option<ClockReport> {
        let exchanges = self.exchanges();
        let fit = fit(exchanges)?;
        for report in points {
            let first =
                |received: &[Received], forward| received.first().and_then(|one| delays(&fit, one, forward));
            if let Some(way) = &mut report.forward {
                way.delay_ns = first(&report.server.received, true);
            }
            if let Some(way) = &mut report.reverse {
                way.delay_ns = first(&report.client.received, false);
            }
        }
        let last = exchanges.last().map_or(0, |e| e.here);
        let offset = fit.offset(Nanos(last));
        Some(ClockReport {
            exchanges: exchanges.len() as u64,
            offset_ns: offset.nanos,
            error_ns: offset.error,
            drift_ppm: fit.drift_ppm(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_both_ways_are_true_within_their_error() {
        // The other clock is 7 s ahead and gains 30 ppm; 2 ms there, 3 ms back, sometimes more.
        let other = |t: u64| t + 7_000_000_000 + t * 3 / 100_000;
        let here = |t: u64| ((t - 7_000_000_000) as f64 / 1.00003).round() as u64;
        let base = 1_000_000_000_000u64;
        let exchanges: Vec<Exchange> = (0..400u64)
            .map(|n| {
                let (sent, queue) = (base + n * 10_000_000, n % 7 * 100_000);
                let came = sent + 2_000_000 + queue;
                Exchange { sent, came: other(came), back: other(came + 1000), here: came + 3_001_000 }
            })
            .collect();
        let fit = fit(&exchanges).unwrap();
        let mut received = Received { base_ns: base, ..Received::default() };
        received.samples = (0..100).map(|n| (n, n as i64 * 1_000_000, 0)).collect();
        for sample in &mut received.samples {
            let sent = base + sample.1 as u64;
            sample.2 = other(sent + 2_400_000) as i64 - sent as i64;
        }
        let delay = delays(&fit, &received, true).unwrap();
        assert!((delay.median - 2.4e6).abs() <= delay.error, "{delay:?}");
        assert!(delay.error < 2_600_000.0 && delay.most - delay.least < 1000.0, "{delay:?}");
        received.base_ns = other(base);
        for sample in &mut received.samples {
            let sent = other(base) + sample.1 as u64;
            sample.2 = here(sent) as i64 + 3_300_000 - sent as i64;
        }
        let delay = delays(&fit, &received, false).unwrap();
        assert!((delay.median - 3.3e6).abs() <= delay.error, "{delay:?}");
        assert_eq!(delays(&fit, &Received::default(), true), None);
    }
}
