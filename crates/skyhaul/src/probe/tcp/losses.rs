//! Times at which a flow lost segments, as its trace tells.
//!
//! ```text
//!   window   ╱╲      ╱╲      ╱╲
//!          ╱    ╲  ╱    ╲  ╱    ╲
//!               ▼       ▼       ▼     what is sent again within three round trips belongs to one time
//! ```

use super::report::{FlowReport, Sample};

/// A time at which segments were lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// The sample just before.
    pub(super) before: Sample,
    /// Segments sent again for it.
    pub(super) segments: u32,
}

/// All of them, in order.
pub(super) fn losses(flow: &FlowReport) -> Vec<Loss> {
    let mut found: Vec<Loss> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for pair in flow.trace.windows(2).filter(|pair| pair[1].retransmits > pair[0].retransmits) {
        let again = pair[1].retransmits - pair[0].retransmits;
        match found.last_mut() {
            Some(loss) if pair[1].at - last <= (3.0 * pair[0].rtt).max(0.03) => loss.segments += again,
            _ => found.push(Loss { before: pair[0], segments: again }),
        }
        last = pair[1].at;
    }
    found
}

/// Segments lost each of these times, in the mean.
pub(super) fn together(losses: &[Loss]) -> f64 {
    losses.iter().map(|loss| f64::from(loss.segments)).sum::<f64>() / losses.len().max(1) as f64
}

/// The median; 0 of nothing.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
