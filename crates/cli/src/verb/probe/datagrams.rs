//! What datagrams show of the losses of flows of TCP: a diagnosis at their rate, in the same direction.

use super::path::DIAGNOSIS;
use crate::outcome::Interrupt;
use crate::print::{self, Progress};
use skyhaul::peer::{PeerError, Token};
use skyhaul_measure::probe::tcp::{TcpDiagnosis, TcpPointReport, TestDirection, agree, is_lossy, load};
use skyhaul_measure::probe::udp::{
    DIAGNOSIS_PORTS, DiagnosisOptions, MAX_SAMPLES, UdpClient, UdpClientOptions,
};
use std::net::SocketAddr;
use std::time::Duration;

/// Length of the first point of the diagnosis.
const FIRST: Duration = Duration::from_secs(1);
/// Bytes of a datagram, if they are not cut.
const DEFAULT_BYTES: u64 = 1472;

/// Complete what was found of points in which something was lost.
pub(super) fn ask(
    server: SocketAddr,
    token: &Token,
    points: &[TcpPointReport],
    found: &mut [Vec<TcpDiagnosis>],
    interrupt: &Interrupt,
    progress: &mut Progress,
) {
    let lossy = points.iter().zip(found).find(|(_, flows)| flows.iter().any(is_lossy));
    let Some((report, flows)) = lossy.filter(|_| !interrupt.is_set()) else { return };
    progress.show("datagrams at the same rate");
    // Results are reported even if this fails: a firewall may block UDP.
    if let Err(error) = measure_udp(server, token, report, flows, interrupt) {
        say!("note: datagrams were not measured, which would locate losses: {error}");
    }
    progress.clear();
}

fn measure_udp(
    server: SocketAddr,
    token: &Token,
    report: &TcpPointReport,
    flows: &mut [TcpDiagnosis],
    interrupt: &Interrupt,
) -> Result<(), PeerError> {
    let rate = load(report);
    let settle = UdpClientOptions::default().settle;
    let options = UdpClientOptions {
        flows: DIAGNOSIS_PORTS,
        seconds: DIAGNOSIS,
        rate: Some(rate * 2.0),
        join: false,
        samples: MAX_SAMPLES,
        settle,
    };
    let mut client = UdpClient::open(&[server], token, options, &mut |_| !interrupt.is_set())?;
    let longest = client.here.largest_datagram.min(client.there.largest_datagram).min(DEFAULT_BYTES);
    let size = u32::try_from(longest).unwrap_or(1472).max(64);
    let direction = if report.point.way == TestDirection::Reverse {
        TestDirection::Reverse
    } else {
        TestDirection::Forward
    };
    let spacing_ps = (f64::from(size) * 8.0 / rate * 1e12) as u64;
    let asked = DiagnosisOptions { size, spacing_ps, direction, time: FIRST };
    let (datagrams, _) = client.diagnose(&asked, &interrupt.flag(), &mut |_| {});
    let _ = client.end();
    say!(
        "note: datagrams measured at {}: {} of {} lost",
        print::rate(rate),
        datagrams.identity.lost,
        datagrams.identity.sent
    );
    flows.iter_mut().filter(|flow| is_lossy(flow)).for_each(|flow| agree(flow, &datagrams));
    Ok(())
}
