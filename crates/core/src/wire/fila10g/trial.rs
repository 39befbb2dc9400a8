//! Half frames for simulated senders.

use super::{DATAGRAM, Fila10g, Phase};
use crate::{
    pattern,
    wire::{
        mark5b::{Mark5b, Time},
        trial::{Draw, Trial},
    },
};

pub(super) const KINDS: &[fn(Draw<'_>) -> Trial] =
    &[|_| counted("fila10g, even", Phase::Even), |_| counted("fila10g, odd", Phase::Odd)];

fn counted(name: &'static str, phase: Phase) -> Trial {
    Trial::new(name, 2..1 << 31, move |position| {
        let counter = position.wrapping_sub(u64::from(phase == Phase::Odd)) as u32;
        let mut packet = Fila10g { filler: 7, counter }.write().to_vec();
        packet.resize(DATAGRAM, 0);
        pattern::fill(position, 0, &mut packet[Fila10g::LEN..]);
        if position.is_multiple_of(2) {
            let header = Mark5b::new(Time { day: 821, second: 19_801, frame: 0 }, 0);
            packet[Fila10g::LEN..][..Mark5b::LEN].copy_from_slice(&header.write());
        }
        packet
    })
}
