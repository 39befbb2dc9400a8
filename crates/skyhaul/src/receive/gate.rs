//! Start and stop on the data's own time.

use skyhaul_core::placement::Reject;

/// A second of data time, as a UNIX time.
pub type DataTime = i64;

/// Lets packets through from one second of data time (included) to another (excluded).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// First second that passes.
    pub start: Option<DataTime>,
    /// First second that does not pass any more.
    pub stop: Option<DataTime>,
}

impl Gate {
    /// Whether it passes everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.start.is_none() && self.stop.is_none()
    }

    /// Check that a packet of second `time` passes.
    ///
    /// # Errors
    /// [`Reject::BeforeStart`] or [`Reject::AfterStop`].
    pub fn admit(&self, time: DataTime) -> Result<(), Reject> {
        if self.start.is_some_and(|start| time < start) {
            return Err(Reject::BeforeStart);
        }
        if self.stop.is_some_and(|stop| time >= stop) {
            return Err(Reject::AfterStop);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_second_is_in_and_the_stop_second_is_out() {
        let gate = Gate { start: Some(10), stop: Some(12) };
        assert_eq!(gate.admit(9), Err(Reject::BeforeStart));
        assert_eq!(gate.admit(10), Ok(()));
        assert_eq!(gate.admit(11), Ok(()));
        assert_eq!(gate.admit(12), Err(Reject::AfterStop));
        assert!(Gate::default().is_open());
    }
}
