//! What a verb adds to the progress of a receiver: warnings, an alarm, and the rest of the line.

use crate::print::{self, Progress};

/// What a verb adds to the progress of a receiver.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// What the operator must know now: printed at once, also without a progress line.
    pub(crate) warnings: Vec<String>,
    /// In the progress line, before anything that a narrow window cuts off.
    pub(crate) alarm: String,
    /// At the end of the progress line.
    pub(crate) rest: String,
}

impl Extra {
    /// Print the warnings.
    pub(crate) fn warn(&self, progress: &mut Progress) {
        if !self.warnings.is_empty() {
            progress.clear();
            self.warnings.iter().for_each(|warning| say!("warning: {}", print::indented(warning)));
        }
    }
}
