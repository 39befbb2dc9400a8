//! What datagrams at the rate of a flow show of its losses, put beside what the flow itself shows: each of them has a number and a time,
//! so that a policer with a small bucket is told from chance, and bursts from a buffer.

use super::client::PointReport;
use super::diagnose::TcpDiagnosed;
use super::flow::Direction;
use crate::probe::udp::{Diagnosed, Named};

/// Causes of a flow's losses.
const OF_LOSS: [&str; 4] = ["loss", "burst-loss", "policer", "shallow-buffer"];
/// Causes of lost datagrams, and what they are to a flow.
const SAME: [(&str, &str); 4] = [
    ("policer", "policer"),
    ("packet-rate", "policer"),
    ("burst-loss", "burst-loss"),
    ("bit-errors", "loss"),
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
pub fn is_lossy(found: &TcpDiagnosed) -> bool {
    let of_loss = |named: &Named| OF_LOSS.contains(&named.cause.as_str());
    found.causes.iter().any(of_loss) || found.unknown.as_ref().is_some_and(|why| why.contains("segments"))
}

/// The rate of datagrams that exceeds what the flows of a point reached, in bits per second.
#[must_use]
pub fn load(report: &PointReport) -> f64 {
    let flows = report.here.flows.iter().zip(&report.there.flows);
    let senders = flows.map(|(here, there)| if here.direction == Direction::Send { here } else { there });
    let best = senders.map(|flow| {
        let mut rates: Vec<f64> = flow.trace.iter().map(|sample| sample.delivery_bits_per_second).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() * 95 / 100).copied().unwrap_or(0.0)
    });
    let best = best.sum::<f64>();
    (LOAD.0 * best).clamp(LOADS.0, LOADS.1).max(LOAD.1 * best)
}

/// Put what datagrams show beside what was found of a flow.
pub fn agree(found: &mut TcpDiagnosed, datagrams: &Diagnosed) {
    let named = datagrams.causes.iter().filter(|named| named.confidence > NAMED);
    let same = |cause: &str| SAME.iter().find(|(of, _)| *of == cause).map(|(_, to)| *to);
    let shown: Vec<(&str, &Named)> = named.filter_map(|named| Some((same(&named.cause)?, named))).collect();
    // A full queue is the line itself; where a flow shows no queue, it says that there is one, which is short.
    let queue = datagrams.causes.iter().find(|named| named.cause == "full-queue" && named.confidence > NAMED);
    let has = |cause: &str| found.causes.iter().any(|named| named.cause == cause);
    let queue = queue.filter(|_| has("shallow-buffer") && has("policer"));
    if shown.is_empty() && queue.is_none() {
        return;
    }
    let text = |named: &Named| format!("datagrams: {}", named.evidence.join("; "));
    for cause in found.causes.iter_mut().filter(|named| OF_LOSS.contains(&named.cause.as_str())) {
        let of_queue = queue.filter(|_| cause.cause == "shallow-buffer");
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
            let (cause, evidence) = (to.to_owned(), vec![text(named)]);
            found.causes.push(Named { cause, confidence: DATAGRAMS, evidence, ..named.clone() });
        }
    }
    found.causes.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    found.unknown = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(cause: &str, confidence: f64) -> Named {
        Named { cause: cause.to_owned(), confidence, evidence: vec!["seen".to_owned()], ..Named::default() }
    }

    fn after(causes: &[(&str, f64)], unknown: bool, datagrams: &[(&str, f64)]) -> Vec<(String, bool)> {
        let all = |causes: &[(&str, f64)]| causes.iter().map(|&(cause, sure)| named(cause, sure)).collect();
        let unknown = unknown.then(|| "segments are lost in no pattern".to_owned());
        let mut found = TcpDiagnosed { causes: all(causes), unknown, ..TcpDiagnosed::default() };
        let datagrams = Diagnosed { causes: all(datagrams), ..Diagnosed::default() };
        agree(&mut found, &datagrams);
        assert!(found.causes.is_empty() || found.unknown.is_none());
        found.causes.into_iter().map(|named| (named.cause, named.confidence > NAMED)).collect()
    }

    #[test]
    fn datagrams_confirm_correct_and_complete_and_say_nothing_where_they_see_nothing() {
        let of = |cause: &str, sure| (cause.to_owned(), sure);
        assert_eq!(after(&[("loss", 0.9)], false, &[("bit-errors", 0.88)]), [of("loss", true)]);
        // A bucket that is smaller than what TCP sends at once looks like chance.
        assert_eq!(
            after(&[("loss", 0.9)], false, &[("policer", 0.97)]),
            [of("policer", true), of("loss", false)]
        );
        assert_eq!(after(&[], true, &[("burst-loss", 0.9)]), [of("burst-loss", true)]);
        assert_eq!(
            after(&[("loss", 0.9)], false, &[("full-queue", 0.97)]),
            [of("loss", true)],
            "it is the line"
        );
        assert_eq!(after(&[("loss", 0.9)], false, &[("policer", 0.45)]), [of("loss", true)], "not sure");
        let either = [("shallow-buffer", 0.5), ("policer", 0.5)];
        let found = [of("shallow-buffer", true), of("policer", false)];
        assert_eq!(after(&either, false, &[("full-queue", 0.97)]), found);
        assert_eq!(
            after(&either, false, &[("policer", 0.97)]),
            [of("policer", true), of("shallow-buffer", false)]
        );
        let window = after(&[("receiver-window", 0.9)], false, &[("policer", 0.97)]);
        assert_eq!(window, [of("receiver-window", true), of("policer", true)]);
    }

    #[test]
    fn only_losses_are_asked_about() {
        let found = |cause: &str| TcpDiagnosed { causes: vec![named(cause, 0.9)], ..TcpDiagnosed::default() };
        assert!(is_lossy(&found("policer")) && !is_lossy(&found("receiver-window")));
        assert!(!is_lossy(&TcpDiagnosed::default()));
    }
}
