//! What datagrams at the rate of a flow show of its losses, put beside what the flow itself shows: each of them has a number and a time,
//! so that a policer with a small bucket is told from chance, and bursts from a buffer.

use super::client::TcpPointReport;
use super::diagnose::{TcpDiagnosis, UnknownCause};
use super::flow::FlowDirection;
use crate::probe::udp::{CauseReport, UdpDiagnosis};
use skyhaul_core::diagnose::Cause;

/// Causes of a flow's losses.
const OF_LOSS: [Cause; 4] = [Cause::Loss, Cause::BurstLoss, Cause::Policer, Cause::ShallowBuffer];
/// Causes of lost datagrams, and what they are to a flow.
const SAME: [(Cause, Cause); 4] = [
    (Cause::Policer, Cause::Policer),
    (Cause::PacketRate, Cause::Policer),
    (Cause::BurstLoss, Cause::BurstLoss),
    (Cause::BitErrors, Cause::Loss),
];
/// Confidence of what both show, of what only datagrams show, and of what they contradict.
const BOTH: f64 = 0.96;
const DATAGRAMS: f64 = 0.85;
const CONTRADICTED: f64 = 0.4;
/// Confidence above which datagrams name a cause.
const NAMED: f64 = 0.5;
/// Load of the datagrams by the best rate of the flow: losses may keep it far below what limits the path. A fast flow is exceeded by less.
const LOAD: (f64, f64) = (4.0, 1.5);
/// Loads between which the first applies, in bits per second.
const LOADS: (f64, f64) = (50e6, 200e6);

/// Whether datagrams may tell more of the losses of a flow.
#[must_use]
pub fn is_lossy(found: &TcpDiagnosis) -> bool {
    let of_loss = |named: &CauseReport| OF_LOSS.contains(&named.cause);
    found.causes.iter().any(of_loss) || found.unknown.is_some_and(UnknownCause::is_loss)
}

/// The rate of datagrams that exceeds what the flows of a point reached, in bits per second.
#[must_use]
pub fn load(report: &TcpPointReport) -> f64 {
    let flows = report.here.flows.iter().zip(&report.there.flows);
    let senders = flows.map(|(here, there)| if here.direction == FlowDirection::Send { here } else { there });
    let best = senders.map(|flow| {
        let mut rates: Vec<f64> = flow.trace.iter().map(|sample| sample.delivery_bits_per_second).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() * 95 / 100).copied().unwrap_or(0.0)
    });
    let best = best.sum::<f64>();
    (LOAD.0 * best).clamp(LOADS.0, LOADS.1).max(LOAD.1 * best)
}

/// Put what datagrams show beside what was found of a flow.
pub fn agree(found: &mut TcpDiagnosis, datagrams: &UdpDiagnosis) {
    let named = datagrams.causes.iter().filter(|named| named.confidence > NAMED);
    let same = |cause: Cause| SAME.iter().find(|(of, _)| *of == cause).map(|(_, to)| *to);
    let shown: Vec<(Cause, &CauseReport)> =
        named.filter_map(|named| Some((same(named.cause)?, named))).collect();
    // A full queue is the line itself; where a flow shows no queue, it says that there is one, which is short.
    let queue =
        datagrams.causes.iter().find(|named| named.cause == Cause::FullQueue && named.confidence > NAMED);
    let has = |cause: Cause| found.causes.iter().any(|named| named.cause == cause);
    let queue = queue.filter(|_| has(Cause::ShallowBuffer) && has(Cause::Policer));
    if shown.is_empty() && queue.is_none() {
        return;
    }
    let text = |named: &CauseReport| format!("datagrams: {}", named.evidence.join("; "));
    for cause in found.causes.iter_mut().filter(|named| OF_LOSS.contains(&named.cause)) {
        let of_queue = queue.filter(|_| cause.cause == Cause::ShallowBuffer);
        match shown.iter().find(|(to, _)| *to == cause.cause).map(|(_, named)| *named).or(of_queue) {
            Some(named) => {
                cause.confidence = cause.confidence.max(BOTH);
                cause.evidence.push(text(named));
            }
            None => {
                cause.confidence = cause.confidence.min(CONTRADICTED);
                cause.evidence.push("datagrams at this rate are lost for another cause".to_owned());
            }
        }
    }
    for (to, named) in shown {
        if found.causes.iter().all(|cause| cause.cause != to) {
            let evidence = vec![text(named)];
            found.causes.push(CauseReport { cause: to, confidence: DATAGRAMS, evidence, ..named.clone() });
        }
    }
    found.causes.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    found.unknown = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::diagnose::Finding;

    fn named(cause: Cause, confidence: f64) -> CauseReport {
        CauseReport::of(Finding { cause, confidence, evidence: vec!["seen".to_owned()] })
    }

    fn after(causes: &[(Cause, f64)], unknown: bool, datagrams: &[(Cause, f64)]) -> Vec<(Cause, bool)> {
        let all = |causes: &[(Cause, f64)]| causes.iter().map(|&(cause, sure)| named(cause, sure)).collect();
        let unknown = unknown.then_some(UnknownCause::NoPattern);
        let mut found = TcpDiagnosis { causes: all(causes), unknown, ..TcpDiagnosis::default() };
        let datagrams = UdpDiagnosis { causes: all(datagrams), ..UdpDiagnosis::default() };
        agree(&mut found, &datagrams);
        assert!(found.causes.is_empty() || found.unknown.is_none());
        found.causes.into_iter().map(|named| (named.cause, named.confidence > NAMED)).collect()
    }

    #[test]
    fn datagrams_confirm_correct_and_complete_and_say_nothing_where_they_see_nothing() {
        let of = |cause: Cause, sure: bool| (cause, sure);
        assert_eq!(after(&[(Cause::Loss, 0.9)], false, &[(Cause::BitErrors, 0.88)]), [of(Cause::Loss, true)]);
        // A bucket that is smaller than what TCP sends at once looks like chance.
        assert_eq!(
            after(&[(Cause::Loss, 0.9)], false, &[(Cause::Policer, 0.97)]),
            [of(Cause::Policer, true), of(Cause::Loss, false)]
        );
        assert_eq!(after(&[], true, &[(Cause::BurstLoss, 0.9)]), [of(Cause::BurstLoss, true)]);
        assert_eq!(
            after(&[(Cause::Loss, 0.9)], false, &[(Cause::FullQueue, 0.97)]),
            [of(Cause::Loss, true)],
            "it is the line"
        );
        assert_eq!(
            after(&[(Cause::Loss, 0.9)], false, &[(Cause::Policer, 0.45)]),
            [of(Cause::Loss, true)],
            "not sure"
        );
        let either = [(Cause::ShallowBuffer, 0.5), (Cause::Policer, 0.5)];
        let found = [of(Cause::ShallowBuffer, true), of(Cause::Policer, false)];
        assert_eq!(after(&either, false, &[(Cause::FullQueue, 0.97)]), found);
        assert_eq!(
            after(&either, false, &[(Cause::Policer, 0.97)]),
            [of(Cause::Policer, true), of(Cause::ShallowBuffer, false)]
        );
        let window = after(&[(Cause::ReceiverWindow, 0.9)], false, &[(Cause::Policer, 0.97)]);
        assert_eq!(window, [of(Cause::ReceiverWindow, true), of(Cause::Policer, true)]);
    }

    #[test]
    fn only_losses_are_asked_about() {
        let found =
            |cause: Cause| TcpDiagnosis { causes: vec![named(cause, 0.9)], ..TcpDiagnosis::default() };
        assert!(is_lossy(&found(Cause::Policer)) && !is_lossy(&found(Cause::ReceiverWindow)));
        assert!(!is_lossy(&TcpDiagnosis::default()));
    }
}
