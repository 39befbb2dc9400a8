//! How a verb ends.

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done.
    Done,
    /// It did not hold, or data were lost where none may be.
    Failed,
}
