//! Parsers that are attacked alone.

/// One parser, which is given arbitrary bytes.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name among the fuzz targets.
    pub name: &'static str,
    /// How many times slower than others it is: it gets that many fewer of a run's executions.
    pub weight: u64,
    /// Parses the bytes; panics if a guarantee is broken.
    pub run: fn(&[u8]),
    /// Initial inputs that reach deep into the parser.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

use crate::placement::{Grain, Layout};

/// A payload that is placed lies within the packet and within its object.
pub fn place(layout: &dyn Layout, packet: &[u8]) {
    let Ok(place) = layout.place(packet) else { return };
    let geometry = layout.geometry();
    let (start, length) = (place.start as usize, place.length as usize);
    assert!(length > 0 && start + length <= packet.len());
    assert!(place.size.unwrap_or(geometry.object_bytes) <= geometry.object_bytes);
    assert!(place.offset + place.length <= place.size.unwrap_or(geometry.object_bytes));
    if let Grain::Units(unit) = geometry.grain {
        assert!(place.length == u64::from(unit) && place.offset.is_multiple_of(u64::from(unit)));
    }
    assert_eq!(layout.units_between(place.key.number, place.key.number).unwrap_or_default(), 0);
}
