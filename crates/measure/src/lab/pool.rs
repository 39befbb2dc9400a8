//! Memory for frames that wait: three sizes, used again, under one limit.

use super::frame::Train;
use skyhaul_io::packet::{Incoming, LONGEST};
use std::rc::Rc;

/// Octets of each size: an ordinary frame, a jumbo frame, a train.
const SIZES: [usize; 3] = [2048, 10_240, LONGEST];
/// Longer frames are not copied: the place in which one came is exchanged for one that is free.
const EXCHANGED: usize = 24_576;

/// Frames that may be used again.
#[derive(Debug)]
pub(super) struct Pool {
    free: [Vec<Rc<Train>>; 3],
    held: usize,
    limit: usize,
}

impl Pool {
    pub(super) fn new(limit: usize) -> Self {
        Self { free: Default::default(), held: 0, limit }
    }

    /// A frame that came, to be kept; `None` if the limit is reached.
    pub(super) fn keep(
        &mut self,
        incoming: &mut Incoming,
        at: usize,
        fill: impl FnOnce(&mut Train),
    ) -> Option<Rc<Train>> {
        let length = incoming.frame(at)?.frame.len();
        self.take(length, |inside| {
            if length > EXCHANGED {
                incoming.exchange(at, &mut inside.octets);
                inside.octets.truncate(length);
            } else if let Some(came) = incoming.frame(at) {
                inside.octets.clear();
                inside.octets.extend_from_slice(came.frame);
            }
            fill(inside);
        })
    }

    /// A free one with room for so many octets, filled.
    fn take(&mut self, length: usize, fill: impl FnOnce(&mut Train)) -> Option<Rc<Train>> {
        let size = SIZES.iter().position(|size| length <= *size)?;
        let mut train = match self.free[size].pop() {
            Some(train) => train,
            None if self.held + SIZES[size] > self.limit => return None,
            None => {
                self.held += SIZES[size];
                Rc::new(Train { octets: Vec::with_capacity(SIZES[size]), ..Train::default() })
            }
        };
        // Nobody else has it: only such ones are free.
        fill(Rc::get_mut(&mut train)?);
        Some(train)
    }

    /// A holder has done with it; the last one gives it back.
    pub(super) fn done(&mut self, train: Rc<Train>) {
        if Rc::strong_count(&train) == 1
            && let Some(size) = SIZES.iter().position(|size| train.octets.capacity() == *size)
        {
            self.free[size].push(train);
        }
    }

    /// Octets that were taken from the system.
    pub(super) fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_one_gives_back_is_used_again_and_the_limit_holds() {
        let mut pool = Pool::new(2 * 2048 + 10_240);
        let copy = |pool: &mut Pool, length: usize| {
            pool.take(length, |train| {
                train.octets.clear();
                train.octets.resize(length, 1);
            })
        };
        let one = copy(&mut pool, 60).unwrap();
        let two = copy(&mut pool, 1514).unwrap();
        assert!(copy(&mut pool, 60_000).is_none() && copy(&mut pool, 70_000).is_none());
        let jumbo = copy(&mut pool, 9014).unwrap();
        assert!(copy(&mut pool, 60).is_none());
        pool.done(one.clone());
        assert!(copy(&mut pool, 60).is_none(), "somebody still has it");
        pool.done(one);
        let again = copy(&mut pool, 61).unwrap();
        assert_eq!((again.octets.len(), two.octets.len(), jumbo.octets.len()), (61, 1514, 9014));
        assert_eq!(pool.held(), 2 * 2048 + 10_240);
    }
}
