//! What `probe` tells.

use serde::Serialize;
use skyhaul_measure::probe::tcp::{self, TcpDiagnosed};
use skyhaul_measure::probe::udp::{ClockReport, Diagnosed, HostNote, PointReport};

/// All that was measured with TCP.
#[derive(Debug, Serialize)]
pub(super) struct TcpTold {
    /// [`skyhaul::report::VERSION`].
    pub(super) version: u32,
    pub(super) command: String,
    pub(super) server: String,
    pub(super) interrupted: bool,
    pub(super) points: Vec<tcp::PointReport>,
    /// With `--diagnose`: what bounds each flow of each point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diagnosis: Option<Vec<Vec<TcpDiagnosed>>>,
}

/// All that was measured with datagrams.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// [`skyhaul::report::VERSION`].
    pub(super) version: u32,
    pub(super) command: String,
    pub(super) server: String,
    pub(super) here: HostNote,
    pub(super) there: HostNote,
    /// Shortest round trip in seconds, of the small datagrams beside the data.
    pub(super) round_trip_seconds: Option<f64>,
    /// The server's clock, by which delays were told.
    pub(super) clock: Option<ClockReport>,
    pub(super) interrupted: bool,
    pub(super) points: Vec<PointReport>,
    /// With `--diagnose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diagnosis: Option<Diagnosed>,
}

/// Picoseconds from one datagram to the next at a rate of payload.
pub(super) fn spacing(size: u32, bits_per_second: u64) -> u64 {
    let picoseconds = u128::from(size) * 8 * 1_000_000_000_000 / u128::from(bits_per_second.max(1));
    u64::try_from(picoseconds).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_spacing_to_the_picosecond() {
        assert_eq!(spacing(8972, 100_000_000_000), 717_760);
        assert_eq!(spacing(64, u64::MAX), 1);
    }
}
