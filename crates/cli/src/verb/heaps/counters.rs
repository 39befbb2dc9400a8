//! Heap counters of the command's senders.
//!
//! ```text
//!   0 ─ first ─▶ first + step ─▶ …        ▏ up to a multiple of the step, then from the front │ control heaps │
//! ```
//!
//! Counters have as few as 8 bits, and wrap. The highest, one for each destination, are reserved for the control heaps
//! (descriptors, stop), so that these are never taken for data. A lap is a multiple of the step: senders that stride
//! their counters stay distinct in every lap.

use anyhow::{Result, ensure};
use skyhaul::wire::spead::Flavour;

/// The counters of one sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    first: u64,
    step: u64,
    /// Counters of data heaps are smaller.
    lap: u64,
    highest: u64,
}

impl Counters {
    /// From `first` on in steps of `step`, without the `control` highest.
    pub(super) fn new(flavour: Flavour, first: u64, step: u64, control: usize) -> Result<Self> {
        let highest = flavour.max_value();
        let for_data = (highest + 1).saturating_sub(control as u64);
        let lap = for_data / step.max(1) * step.max(1);
        let bits = flavour.address_bits();
        ensure!(
            first < lap,
            "heap counter {first} in steps of {step} is too large: SPEAD-64-{bits} has {for_data} counters for data heaps\nhint: use a smaller --first-heap or --heap-step, or a --flavour with more bits"
        );
        Ok(Self { first, step, lap, highest })
    }

    /// Of data heap `number`.
    pub(super) fn data(&self, number: u64) -> u64 {
        let counter = u128::from(self.first) + u128::from(number) * u128::from(self.step);
        (counter % u128::from(self.lap)) as u64
    }

    /// Of the control heaps to this destination.
    pub(super) fn control(&self, substream: usize) -> u64 {
        self.highest - substream as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn flavour(bits: u8) -> Flavour {
        Flavour::new(bits).unwrap()
    }

    #[test]
    fn data_never_has_a_control_heaps_counter_and_strides_stay_apart() {
        for (first, step, control) in [(1, 1, 1), (0, 1, 4), (3, 4, 1), (1, 3, 2), (7, 16, 1), (254, 1, 1)] {
            let counters = Counters::new(flavour(8), first, step, control).unwrap();
            let seen: BTreeSet<u64> = (0..1000).map(|n| counters.data(n)).collect();
            assert!((0..control).all(|n| !seen.contains(&counters.control(n))), "{seen:?}");
            assert!(seen.iter().all(|counter| counter % step == first % step), "{seen:?}");
            assert_eq!(counters.data(0), first);
            // A counter comes again as late as it can.
            assert_eq!(seen.len() as u64, (256 - control as u64) / step);
        }
    }

    #[test]
    fn wide_counters_are_those_that_are_asked_for() {
        let counters = Counters::new(flavour(48), 1000, 16, 1).unwrap();
        assert_eq!([0, 1, 1 << 30].map(|n| counters.data(n)), [1000, 1016, 1000 + (16 << 30)]);
        assert_eq!(counters.control(0), (1 << 48) - 1);
        assert!(counters.data(u64::MAX) < 1 << 48);
    }

    #[test]
    fn what_has_no_room_is_refused() {
        for (first, step, control) in [(255, 1, 1), (0, 257, 0), (300, 1, 0), (0, 1, 256)] {
            let error = Counters::new(flavour(8), first, step, control).unwrap_err().to_string();
            assert!(error.contains("hint: "), "{error}");
        }
        assert_eq!(Counters::new(flavour(8), 255, 1, 0).unwrap().data(0), 255);
    }
}
