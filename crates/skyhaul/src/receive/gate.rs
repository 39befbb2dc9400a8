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

/// Where a gate cut a stream, by the numbers of its packets: for packets that do not state a time, such as second halves of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Behind all packets of the last frame before the start.
    start: u64,
    /// The first packet of the first frame that was admitted.
    begun: Option<u64>,
    /// The first packet of the first frame after the stop.
    stop: Option<u64>,
}

impl Cut {
    /// The sender's counter restarted.
    pub(super) fn restart(&mut self) {
        *self = Cut { begun: self.begun.map(|_| 0), ..Cut::default() };
    }

    /// Packet `number`, the first of the `parts` of a frame, was admitted, or was not.
    pub(super) fn note(&mut self, admitted: Result<(), Reject>, number: u64, parts: u64) {
        match admitted {
            Ok(()) => self.begun = Some(self.begun.map_or(number, |begun| begun.min(number))),
            Err(Reject::BeforeStart) => self.start = self.start.max(number.saturating_add(parts)),
            Err(Reject::AfterStop) => self.stop = Some(self.stop.map_or(number, |stop| stop.min(number))),
            Err(_) => {}
        }
    }

    /// Check that a packet without a time belongs to a frame that passes. Before the first frame that was admitted, its own may
    /// be one from before the start that arrives late.
    pub(super) fn admit(&self, gate: &Gate, number: u64) -> Result<(), Reject> {
        let is_early = gate.start.is_some() && self.begun.is_none_or(|begun| number < begun);
        if is_early || number < self.start {
            return Err(Reject::BeforeStart);
        }
        if self.stop.is_some_and(|stop| number >= stop) {
            return Err(Reject::AfterStop);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_a_time_follow_their_frame() {
        let (before, after) = (Err(Reject::BeforeStart), Err(Reject::AfterStop));
        let open = Gate { start: None, stop: Some(12) };
        let gate = Gate { start: Some(10), stop: Some(12) };
        let mut cut = Cut::default();
        assert_eq!([0, u64::MAX].map(|number| cut.admit(&open, number)), [Ok(()); 2], "nothing was refused");
        assert_eq!([0, u64::MAX].map(|number| cut.admit(&gate, number)), [before; 2], "nothing was admitted");
        cut.note(before, 10, 2);
        cut.note(before, 8, 2);
        assert_eq!(cut.admit(&gate, 13), before, "its frame may be one that was refused");
        cut.note(Ok(()), 14, 2);
        cut.note(Ok(()), 12, 2);
        cut.note(after, 32, 2);
        cut.note(after, 30, 2);
        let all = [9, 11, 13, 29, 31, 33].map(|number| cut.admit(&gate, number));
        assert_eq!(all, [before, before, Ok(()), Ok(()), after, after]);
        cut.restart();
        assert_eq!(cut.admit(&gate, 1), Ok(()), "it began long ago");
    }

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
