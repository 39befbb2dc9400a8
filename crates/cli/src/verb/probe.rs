//! `skyhaul probe`: what a path carries, loses and delays.

mod campaign;
mod datagrams;
mod diagnose;
mod further;
mod iperf3;
mod monitor;
mod oneway;
mod others;
mod page;
mod path;
mod serve;
mod table;
mod tcp;

use super::output;
use crate::args::{ProbeArgs, ProbeWhat};
use crate::outcome::Outcome;
use crate::print;
use anyhow::Result;
use serde::Serialize;
use skyhaul_measure::probe::tcp::{TcpDiagnosis, TcpPointReport};
use skyhaul_measure::probe::udp::{ClockReport, HostSummary, UdpDiagnosis, UdpPointReport};
use std::time::Duration;

pub(crate) fn run(args: &ProbeArgs) -> Result<Outcome> {
    match &args.what {
        Some(ProbeWhat::Serve(serve)) => serve::run(serve),
        Some(ProbeWhat::Send(send)) => oneway::send(send),
        Some(ProbeWhat::Receive(receive)) => oneway::receive(receive),
        Some(ProbeWhat::Monitor(monitor)) => monitor::run(monitor),
        Some(ProbeWhat::Campaign(campaign)) => campaign::run(campaign),
        None => {
            let path = &args.path;
            match (path.iperf3.iperf3, path.others.stamp, path.others.udpmon) {
                (Some(port), ..) => iperf3::run(path, port),
                (_, Some(port), _) => others::stamp(path, port),
                (.., Some(port)) => others::udpmon(path, port),
                _ if path.tcp.tcp => tcp::run(path),
                _ => path::run(path),
            }
        }
    }
}

/// Time from one line to the next.
const EACH: f64 = 1.0;

/// What was shown so far.
#[derive(Debug)]
struct Live {
    quiet: bool,
    /// Seconds and bytes of the last line.
    before: (f64, u64),
}

impl Live {
    fn new(quiet: bool) -> Self {
        Self { quiet, before: (0.0, 0) }
    }

    /// The next test begins.
    fn restart(&mut self) {
        self.before = (0.0, 0);
    }

    /// So many bytes moved so far: a line, if it is time for one. Tests that end within two seconds show none.
    fn show(&mut self, elapsed: Duration, bytes: u64, what: &str) {
        let now = elapsed.as_secs_f64();
        if self.quiet || now - self.before.0 < EACH {
            return;
        }
        let rate = bytes.saturating_sub(self.before.1) as f64 * 8.0 / (now - self.before.0);
        say!("{now:>6.0} s  {what} {} at {}", print::bytes(bytes), print::rate(rate));
        self.before = (now, bytes);
    }
}

/// All that was measured with TCP.
#[derive(Debug, Serialize)]
struct TcpCommandReport {
    /// [`skyhaul::report::VERSION`].
    version: u32,
    command: String,
    server: String,
    interrupted: bool,
    points: Vec<TcpPointReport>,
    /// With `--diagnose`: what bounds each flow of each point.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Vec<Vec<TcpDiagnosis>>>,
}

impl TcpCommandReport {
    fn of(server: String) -> Self {
        let (version, command) = (skyhaul::report::VERSION, output::command_line());
        Self { version, command, server, interrupted: false, points: Vec::new(), diagnosis: None }
    }
}

/// All that was measured with datagrams.
#[derive(Debug, Serialize)]
struct CommandReport {
    /// [`skyhaul::report::VERSION`].
    version: u32,
    command: String,
    server: String,
    here: HostSummary,
    there: HostSummary,
    /// Shortest round trip in seconds, of the small datagrams beside the data.
    round_trip_seconds: Option<f64>,
    /// The server's clock, by which delays were told.
    clock: Option<ClockReport>,
    interrupted: bool,
    points: Vec<UdpPointReport>,
    /// With `--diagnose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<UdpDiagnosis>,
}

/// Picoseconds from one datagram to the next at a rate of payload.
fn spacing(size: u32, bits_per_second: u64) -> u64 {
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
