//! RSP packets for simulated senders.

use super::{CYCLES, Rsp, SLICES, generate::LofarGenerator};
use crate::wire::{
    generate::{Generator, Made},
    trial::{Draw, SECOND, Trial},
};

/// Packets of a lane before the first one sent: a restart goes back to these.
const BEFORE: u64 = 1 << 20;

pub(super) const KINDS: &[fn(Draw<'_>) -> Trial] =
    &[|_| laned("lofar, one lane", 1), |draw| laned("lofar, several lanes", 2 + draw(3))];

/// The place of a packet is its number since 1970, of each lane in turn.
fn laned(name: &'static str, lanes: u64) -> Trial {
    let (threads, station) = (lanes as u16, "LX".to_owned());
    let made = Made { payload: 128, threads, frames_per_second: 0, start: SECOND, station, pattern: true };
    let stream = LofarGenerator.begin(made).expect("a stream of one beamlet");
    let slices = (SECOND as u64 * 200_000_000 + CYCLES / 2) / CYCLES;
    let begin = slices / u64::from(SLICES) * lanes;
    let first = begin + BEFORE * lanes;
    Trial::new(name, first..first + (1 << 20), move |position| {
        let mut head = [0; Rsp::LEN];
        let (length, payload) = stream.frame(position - begin, &mut head);
        [&head[..length], payload].concat()
    })
}
