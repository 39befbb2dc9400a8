//! Streams of equal packets divided into objects.
//!
//! A frame stream has no objects of its own, so it is divided into blocks of consecutive frames: with room for `capacity`
//! bytes and `unit` bytes kept of each packet, an object is the K units that fit, K a multiple of the threads.
//!
//! ```text
//!   position   0     1     2     3     4     5     6     7          (a sequence number, or time × frames)
//!            ├─────┼─────┼─────┼─────┤─────┼─────┼─────┼─────┤
//!   object          0                       1                      object = position / K
//!   offset     0     u    2u    3u     0     u    2u    3u          offset = position % K × unit
//! ```

mod rules;

pub use rules::LayoutRule;
pub(crate) use rules::{ranked, sized};

use crate::placement::{Geometry, Grain, Key, Placement, Reject};

/// Which bytes of a datagram are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// All of them, including the transport's sequence number.
    All,
    /// The frame with its own header, without the network header before it.
    #[default]
    StripNetwork,
    /// All but this many at the front.
    StripLeading(u32),
}

impl Keep {
    /// Number of bytes stripped, if `network` of them are the network header.
    #[must_use]
    pub fn stripped(self, network: usize) -> usize {
        match self {
            Keep::All => 0,
            Keep::StripNetwork => network,
            Keep::StripLeading(octets) => octets as usize,
        }
    }
}

/// What gives the position of a packet in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// The sequence number if there is one, else the time.
    #[default]
    Auto,
    /// The transport's sequence number: no wrong header field can misplace a packet.
    Sequence,
    /// Second, frame in the second, thread.
    Time,
}

/// Division by a number known at the start of the stream: two multiplications instead of a division.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u64,
    inverse: u64,
}

impl Divisor {
    fn new(by: u64) -> Divisor {
        Divisor { by, inverse: u64::MAX / by.max(1) }
    }

    /// Quotient and remainder. The estimate is never too large and at most one too small: `inverse` is less than
    /// one below 2^64 / `by`, so that n × inverse / 2^64 is less than one below n / `by`.
    #[inline(always)]
    fn split(self, n: u64) -> (u64, u64) {
        let estimate = ((u128::from(n) * u128::from(self.inverse)) >> 64) as u64;
        let rest = n - estimate * self.by;
        if rest >= self.by { (estimate + 1, rest - self.by) } else { (estimate, rest) }
    }
}

/// How a stream of equal packets is divided into objects.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Bytes of each datagram.
    pub packet_bytes: u32,
    /// Bytes stripped at its front.
    pub start: u32,
    /// Units in an object.
    pub units: u64,
    divisor: Divisor,
}

impl Blocks {
    /// Objects of at most `capacity` bytes, of packets of `packet_bytes` less `start`, in groups (one frame of
    /// each thread, two halves of a frame) that are never divided.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] if no byte of a packet is kept; [`Reject::Outside`] if no group fits.
    pub fn new(packet_bytes: usize, start: usize, group: usize, capacity: u64) -> Result<Blocks, Reject> {
        let packet = u32::try_from(packet_bytes).map_err(|_| Reject::WrongSize)?;
        let unit = packet_bytes.checked_sub(start).filter(|&unit| unit > 0).ok_or(Reject::WrongSize)? as u64;
        let group = group.max(1) as u64;
        let units = (capacity / unit).min(u64::from(u32::MAX)) / group * group;
        if units == 0 {
            return Err(Reject::Outside);
        }
        Ok(Blocks { packet_bytes: packet, start: start as u32, units, divisor: Divisor::new(units) })
    }

    /// Bytes kept of each packet.
    #[inline(always)]
    #[must_use]
    pub fn unit(&self) -> u32 {
        self.packet_bytes - self.start
    }

    /// The place of the packet at `position`, in objects numbered from `first` on.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, first: u64, position: u64) -> Placement {
        let (object, index) = self.divisor.split(position);
        let unit = u64::from(self.unit());
        Placement {
            key: Key::of(first.wrapping_add(object)),
            offset: index * unit,
            start: self.start,
            length: unit,
            size: Some(self.units * unit),
            number_bits: 0,
        }
    }

    /// How the stream divides.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry { object_bytes: self.units * u64::from(self.unit()), grain: Grain::Units(self.unit()) }
    }

    /// Units between the starts of two objects of a stream without gaps in its positions.
    #[must_use]
    pub fn between(&self, from: u64, to: u64) -> Option<u64> {
        to.checked_sub(from)?.checked_mul(self.units)
    }
}

/// Objects per second. If the frame rate is unknown, each second starts a new object, and a fixed stride keeps object
/// numbers ascending.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rate {
    /// Frames of one thread in a second.
    Known(u32),
    /// Object numbers from the start of one second to the start of the next; most of them are unused.
    Stride(u64),
}

impl Rate {
    /// `frames` is the lowest impossible frame number, `threads` the number of frames that share a number.
    ///
    /// # Errors
    /// [`Reject::BadField`] for a rate of 0, or so high that positions might not fit 64 bits: more than 2^30 frames
    /// in a second, with less than 2^33 seconds.
    pub(crate) fn new(
        fps: Option<u32>,
        frames: u32,
        threads: usize,
        blocks: &Blocks,
    ) -> Result<Rate, Reject> {
        let units = u64::from(frames) * threads as u64;
        match fps {
            Some(fps) if fps == 0 || u64::from(fps) * threads as u64 > 1 << 30 => Err(Reject::BadField),
            Some(fps) => Ok(Rate::Known(fps)),
            None => Ok(Rate::Stride(units.div_ceil(blocks.units))),
        }
    }

    /// The place of `frame` (and `rank` among the threads) of `second`.
    #[inline(always)]
    pub(crate) fn place(
        self,
        blocks: &Blocks,
        second: u64,
        frame: u32,
        threads: u64,
        rank: u64,
    ) -> Result<Placement, Reject> {
        match self {
            Rate::Known(fps) if frame >= fps => Err(Reject::BadField),
            Rate::Known(fps) => {
                Ok(blocks.place(0, (second * u64::from(fps) + u64::from(frame)) * threads + rank))
            }
            Rate::Stride(objects) => Ok(blocks.place(second * objects, u64::from(frame) * threads + rank)),
        }
    }

    /// Units between two objects; unknown across seconds if the rate is unknown.
    pub(crate) fn between(self, blocks: &Blocks, from: u64, to: u64) -> Option<u64> {
        match self {
            Rate::Stride(objects) if from / objects != to / objects => None,
            _ => blocks.between(from, to),
        }
    }
}

/// The reason for which a datagram of the wrong size is rejected.
#[cold]
pub(crate) fn wrong_size(headers: usize, claimed: impl Fn() -> Option<usize>, packet: &[u8]) -> Reject {
    let short = packet.len() < headers || claimed().is_some_and(|length| length > packet.len());
    if short { Reject::Truncated } else { Reject::WrongSize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_divisor_divides(n: u64, by in 1u64..) {
            prop_assert_eq!(Divisor::new(by).split(n), (n / by, n % by));
        }

        #[test]
        fn and_by_small_numbers(n: u64, by in 1u64..5000, back in 0u64..3) {
            let near = (n / by * by).saturating_sub(back);
            prop_assert_eq!(Divisor::new(by).split(near), (near / by, near % by));
            prop_assert_eq!(Divisor::new(by).split(u64::MAX - back), ((u64::MAX - back) / by, (u64::MAX - back) % by));
        }

        #[test]
        fn places_lie_in_their_object(packet in 1usize..70_000, start in 0usize..100, group in 1usize..1100,
                                      capacity in 0u64..1 << 26, position: u64) {
            let Ok(blocks) = Blocks::new(packet, start, group, capacity) else { return Ok(()) };
            let (place, size) = (blocks.place(0, position), blocks.geometry().object_bytes);
            prop_assert!(size <= capacity && blocks.units.is_multiple_of(group as u64));
            prop_assert!(place.offset + place.length <= size);
            prop_assert_eq!(u64::from(place.start) + place.length, packet as u64);
            let unit = u64::from(blocks.unit());
            prop_assert_eq!(u128::from(place.key.number) * u128::from(blocks.units) + u128::from(place.offset / unit), u128::from(position));
        }
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        assert_eq!(Blocks::new(100, 100, 1, 1000).unwrap_err(), Reject::WrongSize);
        assert_eq!(Blocks::new(100, 0, 11, 1000).unwrap_err(), Reject::Outside);
        assert_eq!(Blocks::new(100, 0, 4, 1000).unwrap().units, 8);
    }
}
