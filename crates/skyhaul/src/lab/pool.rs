//! Memory for frames that wait: three sizes, used again, under one limit.

use super::frame::Train;
use std::rc::Rc;

/// Octets of each size: an ordinary frame, a jumbo frame, a train.
const SIZES: [usize; 3] = [2048, 10_240, 65_536 + 256];

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

    /// A copy of this frame; `None` if the limit is reached.
    pub(super) fn copy(&mut self, frame: &[u8], fill: impl FnOnce(&mut Train)) -> Option<Rc<Train>> {
        let size = SIZES.iter().position(|size| frame.len() <= *size)?;
        let mut train = match self.free[size].pop() {
            Some(train) => train,
            None if self.held + SIZES[size] > self.limit => return None,
            None => {
                self.held += SIZES[size];
                Rc::new(Train { octets: Vec::with_capacity(SIZES[size]), ..Train::default() })
            }
        };
        // Nobody else has it: only such ones are free.
        let inside = Rc::get_mut(&mut train)?;
        inside.octets.clear();
        inside.octets.extend_from_slice(frame);
        fill(inside);
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
        let one = pool.copy(&[1; 60], |_| {}).unwrap();
        let two = pool.copy(&[2; 1514], |_| {}).unwrap();
        assert!(pool.copy(&[3; 60_000], |_| {}).is_none() && pool.copy(&[3; 70_000], |_| {}).is_none());
        let jumbo = pool.copy(&[4; 9014], |_| {}).unwrap();
        assert!(pool.copy(&[5; 60], |_| {}).is_none());
        pool.done(one.clone());
        assert!(pool.copy(&[5; 60], |_| {}).is_none(), "somebody still has it");
        pool.done(one);
        let again = pool.copy(&[5; 61], |_| {}).unwrap();
        assert_eq!((again.octets.len(), two.octets.len(), jumbo.octets.len()), (61, 1514, 9014));
        assert_eq!(pool.held(), 2 * 2048 + 10_240);
    }
}
