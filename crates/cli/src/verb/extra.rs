//! What a verb adds to the progress of a receiver: warnings, an alarm, and the rest of the line.

use crate::print::{self, Progress};
use skyhaul::irregular::STREAM_EVENTS;
use skyhaul::recording::Event;

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
    /// Warn of what is new among the events of streams; `told` counts the events seen.
    pub(crate) fn streams(&mut self, events: &[Event], told: &mut usize) {
        let new = events.get(*told..).unwrap_or_default().iter();
        *told = events.len();
        let of_stream = new.filter(|event| STREAM_EVENTS.contains(&event.kind.as_str()));
        self.warnings.extend(of_stream.map(|event| format!("{}: {}", event.kind, event.text)));
    }

    /// Print the warnings.
    pub(crate) fn warn(&self, progress: &mut Progress) {
        if !self.warnings.is_empty() {
            progress.clear();
            self.warnings.iter().for_each(|warning| say!("warning: {}", print::indented(warning)));
        }
    }
}
