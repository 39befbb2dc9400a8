//! When the kernel received what is in the objects of a stream that are not finished.
//!
//! Packets may be placed long after they arrived: they were held while their format was learned, or read from a capture. And
//! objects finish long after their last packet. So data times are compared with what the kernel noted of the packets
//! themselves, which goes with the object.

use skyhaul_core::placement::Nanos;

/// Objects that are remembered; of a stream, fewer are open.
const MOST: usize = 64;

/// When the last packet of each object arrived, if that is known.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Of the packets that are placed now, if the kernel noted it.
    now: Option<Nanos>,
    current: Option<(u64, Option<Nanos>)>,
    others: Vec<(u64, Option<Nanos>)>,
}

impl Arrivals {
    /// The packets that are placed from now on arrived then.
    #[inline]
    pub(super) fn at(&mut self, time: Option<Nanos>) {
        self.now = time;
    }

    /// When they arrived.
    pub(super) fn now(&self) -> Option<Nanos> {
        self.now
    }

    /// One of them belongs to this object.
    #[inline]
    pub(super) fn placed(&mut self, object: u64) {
        match &mut self.current {
            Some((current, last)) if *current == object => *last = self.now,
            _ => self.turn(object),
        }
    }

    #[cold]
    fn turn(&mut self, object: u64) {
        self.others.retain(|(other, _)| *other != object);
        if let Some(before) = self.current.replace((object, self.now)) {
            if self.others.len() >= MOST {
                self.others.remove(0);
            }
            self.others.push(before);
        }
    }

    /// The object is finished: when the last packet of it arrived.
    pub(super) fn take(&mut self, object: u64) -> Option<Nanos> {
        if let Some((_, last)) = self.current.take_if(|(current, _)| *current == object) {
            return last;
        }
        let at = self.others.iter().position(|(other, _)| *other == object)?;
        self.others.remove(at).1
    }

    /// Objects have other numbers from here on.
    pub(super) fn forget(&mut self) {
        (self.current, self.others) = (None, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_its_own_last_arrival() {
        let mut arrivals = Arrivals::default();
        arrivals.placed(1);
        assert_eq!(arrivals.take(1), None, "the kernel noted nothing");
        arrivals.at(Some(Nanos(9)));
        arrivals.placed(1);
        arrivals.at(None);
        arrivals.placed(1);
        assert_eq!(arrivals.take(1), None, "nothing of the last packet");
        for (time, object) in [(10, 1), (11, 1), (12, 2), (13, 1), (14, 2), (15, 3)] {
            arrivals.at(Some(Nanos(time)));
            arrivals.placed(object);
        }
        assert_eq!(
            [1, 2, 3, 1].map(|object| arrivals.take(object).map(|time| time.0)),
            [Some(13), Some(14), Some(15), None]
        );
        for object in 0..1000 {
            arrivals.placed(object);
        }
        assert_eq!(
            (arrivals.take(0), arrivals.take(998), arrivals.others.len()),
            (None, Some(Nanos(15)), MOST - 1)
        );
        arrivals.forget();
        assert_eq!(arrivals.take(999), None);
    }
}
