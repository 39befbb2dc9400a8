//! Messages of panics.

use std::any::Any;

/// The message of a panic that was caught.
#[must_use]
pub fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
