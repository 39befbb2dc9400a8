//! Why bytes of a fleet's store are not a value.

use std::fmt::{self, Display, Formatter};

/// The version of the layout that is written and read.
pub(super) const VERSION: u64 = 1;

/// Why bytes of the store are not a value of their key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAFleetValue {
    /// It is longer than a value may be.
    Long {
        /// Its length, bytes.
        bytes: usize,
        /// The maximum, bytes.
        most: usize,
    },
    /// It is not a JSON object.
    Json(String),
    /// It is of another version of the layout.
    Version(String),
    /// A field is missing or has another type.
    Field {
        /// The field.
        name: &'static str,
        /// What is expected there.
        expected: &'static str,
    },
}

impl Display for NotAFleetValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long { bytes, most } => {
                write!(f, "the value has {bytes} bytes, and at most {most} are allowed")
            }
            Self::Json(reason) => write!(f, "the value is not a JSON object: {reason}"),
            Self::Version(found) => write!(f, "the value has version {found}, expected {VERSION}"),
            Self::Field { name, expected } => write!(f, "field {name:?} of the value: expected {expected}"),
        }
    }
}

impl std::error::Error for NotAFleetValue {}
