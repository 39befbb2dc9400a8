//! Space for data of which each piece has copies on different disks.
//!
//! ```text
//!   free    ██████ ██ ██       2 copies: one of each piece on the first disk, the other on one of the others
//!                              4 units of data fit: two thirds of the first disk stay empty, as no third disk has room
//! ```
//!
//! The sum of what is free divided by the copies is not what fits: no disk takes two copies of one piece.

/// Bytes of data that fit with `copies` copies of each, all on different disks that have so many bytes free; 0 if there are fewer
/// disks than copies, or no copies are asked for.
///
/// It is the largest amount `m` for which the sum of `min(free, m)` over the disks is at least `copies` times `m`.
///
/// ```
/// use skyhaul_core::redundancy::room;
/// assert_eq!(room(&[100, 50], 1), 150);
/// assert_eq!(room(&[100, 50], 2), 50);
/// assert_eq!(room(&[60, 20, 20], 2), 40);
/// assert_eq!(room(&[60], 2), 0);
/// ```
#[must_use]
pub fn room(free: &[u64], copies: u32) -> u64 {
    let mut largest_first: Vec<u64> = free.to_vec();
    largest_first.sort_unstable_by(|a, b| b.cmp(a));
    let mut rest: u128 = largest_first.iter().map(|&bytes| u128::from(bytes)).sum();
    let mut copies = u128::from(copies);
    for &largest in &largest_first {
        if copies == 0 {
            break;
        }
        let fits = rest / copies;
        if u128::from(largest) <= fits {
            return u64::try_from(fits).unwrap_or(u64::MAX);
        }
        // It has room for a copy of everything that the others leave room for.
        rest -= u128::from(largest);
        copies -= 1;
    }
    0
}

/// How many copies of each piece the disks with room can take: at most `copies`, and at least 1 where a disk has room.
#[must_use]
pub fn possible(free: &[u64], copies: u32) -> u32 {
    let with_room = free.iter().filter(|&&bytes| bytes > 0).count();
    copies.min(u32::try_from(with_room).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of one unit, each copy to the disk with most room: as many as can be placed.
    fn placed(free: &[u64], copies: u32) -> u64 {
        let mut free = free.to_vec();
        let mut pieces = 0;
        loop {
            free.sort_unstable_by(|a, b| b.cmp(a));
            let Some(taken) = free.get_mut(..copies as usize) else { return pieces };
            if taken.contains(&0) {
                return pieces;
            }
            taken.iter_mut().for_each(|bytes| *bytes -= 1);
            pieces += 1;
        }
    }

    #[test]
    fn as_much_fits_as_can_be_placed_piece_by_piece() {
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let disks = 1 + next(6) as usize;
            let free: Vec<u64> = (0..disks).map(|_| next(40)).collect();
            for copies in 1..=4 {
                assert_eq!(room(&free, copies), placed(&free, copies), "{free:?} {copies}");
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(room(&[u64::MAX; 3], 1), u64::MAX);
        assert_eq!(room(&[u64::MAX; 2], 2), u64::MAX);
        assert_eq!((room(&[], 1), room(&[5], 0), possible(&[5, 0, 7], 3), possible(&[0], 2)), (0, 0, 2, 0));
    }
}
