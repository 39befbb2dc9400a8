//! SPEAD as a member of the registry.

use super::{Flavour, Packet, Spead, SpeadWire, fuzzing, inspect, stored::Stored};
use crate::{
    placement::Reject,
    wire::{
        family::{Family, FamilyRef, Known, Particulars, Seen, Shape, StreamFormat},
        frame::{Objects, Packets},
        fuzzing::parser::Parser,
        inspect::reader::Reader,
        keyed::KnownKeyed,
        layout::Place,
    },
};

/// SPEAD-64-XX.
#[derive(Debug)]
pub struct SpeadFamily;

impl Family for SpeadFamily {
    fn name(&self) -> &'static str {
        "spead"
    }

    fn title(&self) -> &'static str {
        "SPEAD"
    }

    fn objects(&self) -> Objects {
        Objects::Heaps
    }

    fn has_magic(&self) -> bool {
        true
    }

    /// The variant is the number of address bits.
    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        let variant = Packet::read(packet).ok()?.flavour.address_bits();
        let shape = Shape { family: SpeadStream::FAMILY, network: 0, length: 0, variant };
        (packet.len() > Spead::LEN).then_some(shape)
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        let flavour = Flavour::new(seen.shape.variant).ok_or(Reject::Unrecognised)?;
        Ok(StreamFormat { place: Place::Sequence, ..seen.blank(SpeadStream { flavour }) })
    }

    fn packets(&self) -> Option<&'static dyn Packets> {
        Some(&Stored)
    }

    fn inspect(&self, reader: &mut Reader<'_>, _: Option<Shape>) {
        inspect::packet(reader);
    }

    fn fuzz(&self, _: u8, packet: &[u8]) {
        fuzzing::run(packet);
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        fuzzing::seeds()
    }

    fn parsers(&self) -> &'static [Parser] {
        fuzzing::PARSERS
    }
}

/// Particulars of a SPEAD stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeadStream {
    /// How its item pointers divide.
    pub flavour: Flavour,
}

impl Known for SpeadStream {
    const FAMILY: FamilyRef = FamilyRef::new(&SpeadFamily);
}

impl KnownKeyed for SpeadStream {
    type Wire = SpeadWire;
}

impl Particulars for SpeadStream {
    fn details(&self, _: &StreamFormat) -> Vec<String> {
        vec![format!("SPEAD-64-{}", self.flavour.address_bits())]
    }
}
