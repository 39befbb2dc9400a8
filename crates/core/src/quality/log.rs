//! When a finding begins and when it is over.

use super::finding::QualityFinding;

/// Judgements without a finding after which it is over. One alone may have had too few frames to see it.
const CLEAN_JUDGEMENTS: u32 = 2;
/// Findings of a thread that are followed: a thread of 1024 dead channels has no need of more lines.
const MAX_FINDINGS: usize = 32;

/// A change of what holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FindingChange {
    /// It was not there before.
    Begun(QualityFinding),
    /// It is not there any more; as it was last measured.
    Ended(QualityFinding),
}

/// The findings of one thread that hold.
#[derive(Clone, Debug, Default)]
pub struct FindingLog {
    /// Each with the number of judgements since it was last seen.
    held: Vec<(QualityFinding, u32)>,
}

impl FindingLog {
    /// Takes the findings of the next judgement; returns what changed.
    pub fn update(&mut self, found: &[QualityFinding]) -> Vec<FindingChange> {
        let mut changes = Vec::new();
        for (held, since) in &mut self.held {
            *since += 1;
            if let Some(now) = found.iter().find(|now| now.is_same(held)) {
                (*held, *since) = (*now, 0);
            }
        }
        self.held.retain(|&(held, since)| {
            let is_over = since >= CLEAN_JUDGEMENTS;
            if is_over {
                changes.push(FindingChange::Ended(held));
            }
            !is_over
        });
        for new in found {
            if self.held.len() < MAX_FINDINGS && !self.held.iter().any(|(held, _)| held.is_same(new)) {
                self.held.push((*new, 0));
                changes.push(FindingChange::Begun(*new));
            }
        }
        changes
    }

    /// The findings that hold.
    pub fn findings(&self) -> impl Iterator<Item = &QualityFinding> {
        self.held.iter().map(|(held, _)| held)
    }
}
