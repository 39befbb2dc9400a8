//! Segments that never arrive: whether it is their length, by flows of short ones, in either direction.

use super::client::{PointReport, TcpClient};
use super::diagnose::TcpDiagnosed;
use super::flow::Direction;
use super::point::{TcpPoint, Way};
use crate::probe::udp::Named;
use skyhaul::peer::PeerError;
use skyhaul_core::diagnose::{Cause, Finding};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Largest segment of a flow that passes where longer ones vanish, as that of the control connection.
const SHORT: u32 = 400;
/// Length of a flow that only has to arrive, s.
const LENGTH: f64 = 1.0;
/// Confidence if long segments vanish and short ones arrive, and if neither does.
const SURE: f64 = 0.98;
const DOUBT: f64 = 0.4;

impl TcpClient {
    /// Complete what was found of points: where none of the segments of a flow arrived, whether shorter ones do; and the other
    /// direction, which a measurement in one does not see.
    ///
    /// # Errors
    /// The server is gone, or refuses to measure more.
    pub fn look_for_holes(
        &mut self,
        points: &[PointReport],
        found: &mut [Vec<TcpDiagnosed>],
        stop: &AtomicBool,
    ) -> Result<(), PeerError> {
        let Some(way) = points.first().map(|report| report.point.way) else { return Ok(()) };
        let is_hole = |named: &Named| named.cause == Cause::Mtu.name();
        let suspect = found.iter().flatten().any(|flow| flow.causes.iter().any(is_hole));
        if suspect {
            let passes = self.passes(way, Some(SHORT), stop)?;
            if stop.load(Relaxed) {
                // What was ended early may have sent nothing.
                return Ok(());
            }
            let holes =
                found.iter_mut().flatten().flat_map(|flow| &mut flow.causes).filter(|named| is_hole(named));
            for named in holes {
                named.confidence = if passes { SURE } else { DOUBT };
                named.evidence.push(match passes {
                    true => format!("segments of {SHORT} bytes do arrive"),
                    false => format!("segments of {SHORT} bytes do not arrive, either"),
                });
            }
        }
        let back = match way {
            Way::Forward => Way::Reverse,
            Way::Reverse => Way::Forward,
            Way::Both => return Ok(()),
        };
        if !self.passes(back, None, stop)?
            && self.passes(back, Some(SHORT), stop)?
            && !self.passes(back, None, stop)?
            && !stop.load(Relaxed)
        {
            let towards =
                if back == Way::Reverse { "from the server to here" } else { "from here to the server" };
            let text = format!(
                "{towards}, no full segment of two flows arrived, and those of {SHORT} bytes of a flow between them did"
            );
            let Some(flow) = found.iter_mut().flatten().next() else { return Ok(()) };
            match flow.causes.iter_mut().find(|named| is_hole(named)) {
                Some(named) => named.evidence.push(text),
                None => {
                    let finding = Finding { cause: Cause::Mtu, confidence: SURE, evidence: vec![text] };
                    flow.causes.insert(0, Named::of(finding));
                }
            }
        }
        Ok(())
    }

    /// Whether anything of a flow arrives.
    fn passes(&mut self, way: Way, segment: Option<u32>, stop: &AtomicBool) -> Result<bool, PeerError> {
        let point = TcpPoint { way, segment, seconds: LENGTH, ..TcpPoint::default() };
        let report = self.point(&point, stop)?;
        let flows = report.here.flows.iter().chain(&report.there.flows);
        Ok(flows.filter(|flow| flow.direction == Direction::Receive).any(|flow| flow.bytes > 0))
    }
}
