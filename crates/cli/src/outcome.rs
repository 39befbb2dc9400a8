//! How a verb ends.

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success.
    Done,
    /// A check failed, or data were lost where none may be.
    Failed,
}
