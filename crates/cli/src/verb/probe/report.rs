//! What is written as JSON, and drawn on a page.

use super::super::output;
use serde::Serialize;
use skyhaul_measure::probe::tcp::{TcpDiagnosis, TcpPointReport};
use skyhaul_measure::probe::udp::{ClockReport, HostSummary, UdpDiagnosis, UdpPointReport};

/// All that was measured with TCP.
#[derive(Debug, Serialize)]
pub(super) struct TcpCommandReport {
    /// [`skyhaul::report::VERSION`].
    pub(super) version: u32,
    pub(super) command: String,
    pub(super) server: String,
    pub(super) interrupted: bool,
    pub(super) points: Vec<TcpPointReport>,
    /// With `--diagnose`: what bounds each flow of each point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diagnosis: Option<Vec<Vec<TcpDiagnosis>>>,
}

impl TcpCommandReport {
    pub(super) fn of(server: String) -> Self {
        let (version, command) = (skyhaul::report::VERSION, output::command_line());
        Self { version, command, server, interrupted: false, points: Vec::new(), diagnosis: None }
    }
}

/// All that was measured with datagrams.
#[derive(Debug, Serialize)]
pub(super) struct CommandReport {
    /// [`skyhaul::report::VERSION`].
    pub(super) version: u32,
    pub(super) command: String,
    pub(super) server: String,
    pub(super) here: HostSummary,
    pub(super) there: HostSummary,
    /// Shortest round trip in seconds, of the small datagrams beside the data.
    pub(super) round_trip_seconds: Option<f64>,
    /// The server's clock, by which delays were told.
    pub(super) clock: Option<ClockReport>,
    pub(super) interrupted: bool,
    pub(super) points: Vec<UdpPointReport>,
    /// With `--diagnose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diagnosis: Option<UdpDiagnosis>,
}
