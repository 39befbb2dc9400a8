//! VDIF as a member of the registry: how it is recognised, described, predicted and framed.

use super::{
    Extended, Header, Vdif, VdifLayout, fuzzing, generate, inspect, learn,
    stream::{EDV, LEGACY, VdifStream},
    trial, written,
};
use crate::{
    pattern,
    placement::Reject,
    samples::{Coded, Coding},
    wire::{
        family::{Family, FamilyRef, Framed, Known, Recalled, Seen, Shape, StreamFormat},
        frame::{Expected, FrameSeen, Frames, Framing},
        generate::Generator,
        header::Field,
        inspect::reader::Reader,
        stamps::Stamps,
        trial::{Draw, Trial},
        vtp::Vtp,
        written::{Headers, Written},
    },
};
use std::sync::Arc;

/// VDIF, bare or over VTP.
#[derive(Debug)]
pub struct VdifFamily;

impl Family for VdifFamily {
    fn name(&self) -> &'static str {
        "vdif"
    }

    fn title(&self) -> &'static str {
        "VDIF"
    }

    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        [Vtp::LEN, 0].into_iter().find_map(|network| {
            let (vdif, _) = Vdif::read(packet.get(network..)?)?;
            let length = vdif.frame_bytes();
            let fits = length + network == packet.len() && length > vdif.header_bytes();
            let variant = if vdif.legacy == 1 { LEGACY } else { 0 };
            fits.then_some(Shape { family: VdifStream::FAMILY, network, length, variant })
        })
    }

    fn settled(&self, seen: &Seen<'_>) -> bool {
        learn::settled(seen.samples, seen.shape.network)
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        learn::format(seen)
    }

    fn recall(&self, number: &dyn Fn(&str) -> Option<u64>) -> Option<Recalled> {
        let edv = number(EDV).and_then(|edv| u8::try_from(edv).ok());
        let header_bytes = if edv.is_some() { 32 } else { 16 };
        let own = VdifStream { edv, bits: 0, channels: 0, complex: false };
        Some(Recalled { header_bytes, parts: 1, own: Arc::new(own) })
    }

    fn frames(&self) -> Option<&'static dyn Frames> {
        Some(&VdifFamily)
    }

    fn inspect(&self, reader: &mut Reader<'_>, shape: Option<Shape>) {
        inspect::packet(reader, shape.map_or(0, |shape| shape.network));
    }

    fn stamps(&self) -> Option<&'static dyn Stamps> {
        Some(&VdifFamily)
    }

    fn generator(&self) -> Option<&'static dyn Generator> {
        Some(&generate::VdifGenerator)
    }

    fn fuzz(&self, choice: u8, packet: &[u8]) {
        fuzzing::run(choice, packet);
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        fuzzing::seeds()
    }

    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        trial::KINDS
    }
}

impl Frames for VdifFamily {
    fn framing(&self, bytes: &[u8]) -> Framing {
        match Vdif::read(bytes) {
            None => Framing::Incomplete,
            Some((vdif, _)) if vdif.frame_bytes() > vdif.header_bytes() => {
                Framing::Length(vdif.frame_bytes())
            }
            Some(_) => Framing::Unknown,
        }
    }

    fn see(&self, frame: &[u8], expected: &Expected) -> FrameSeen {
        let Ok(header) = Header::read(frame) else { return FrameSeen::illegal("no valid VDIF header") };
        let vdif = header.vdif;
        if vdif.frame_bytes() != expected.frame_bytes {
            return FrameSeen::illegal("the frame length is not the stream's");
        }
        let filled = vdif.invalid == 1;
        let time = Some((vdif.unix_seconds(), vdif.frame));
        let (thread, station) = (vdif.thread as u16, Some(vdif.station));
        let seen = FrameSeen { illegal: None, filled, time, thread, station };
        if expected.pattern && !filled {
            let object = pattern::frame_object(vdif.unix_seconds(), vdif.frame, vdif.thread as u16);
            if pattern::first_error(object, 0, &frame[vdif.header_bytes()..]).is_some() {
                return FrameSeen { illegal: Some("the payload is not the pattern"), ..seen };
            }
        }
        seen
    }

    fn station(&self, frame: &[u8]) -> Option<u32> {
        Some(Vdif::read(frame)?.0.station)
    }

    fn station_text(&self, station: u32) -> String {
        Vdif { station, ..Vdif::default() }.station_text()
    }

    fn written(&self, stream: &Written) -> Result<Box<dyn Headers>, String> {
        written::begin(stream)
    }

    fn coded(&self, frame: &[u8]) -> Option<Coded> {
        let Header { vdif, extended } = Header::read(frame).ok()?;
        // A frame of Mark 5B in another header.
        let is_mark5b = extended.edv() == Some(0xAB);
        let coding = if is_mark5b { Coding::SignMagnitude(vdif.bits()) } else { Coding::Offset(vdif.bits()) };
        let channels = u32::try_from(vdif.channels()).ok()?;
        Some(Coded {
            coding: Some(coding),
            channels: Some(channels),
            complex: vdif.complex == 1,
            header: vdif.header_bytes(),
            by_channel: matches!(extended, Extended::Multiplexed(_)),
        })
    }

    fn tables(&self, frame: &[u8]) -> Vec<(usize, &'static [Field])> {
        match Header::read(frame) {
            Err(_) => Vec::new(),
            Ok(Header { extended: Extended::Legacy, .. }) => vec![(0, Vdif::FIELDS)],
            Ok(Header { extended, .. }) => vec![(0, Vdif::FIELDS), (Vdif::LEN, extended.table().1)],
        }
    }

    fn channel_is_valid(&self, frame: &[u8], channel: u32) -> bool {
        match Header::read(frame) {
            Ok(Header { vdif, extended: Extended::Multiplexed(masked) }) => {
                masked.is_valid(u64::from(channel), vdif.channels())
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

impl Known for VdifStream {
    const FAMILY: FamilyRef = FamilyRef::new(&VdifFamily);
}

impl Framed for VdifStream {
    type Layout = VdifLayout;

    fn layout(&self, stream: &StreamFormat) -> Result<VdifLayout, Reject> {
        let blocks = stream.blocks()?;
        let length8 = u32::try_from(stream.frame_bytes / 8).map_err(|_| Reject::WrongSize)?;
        let frame = Vdif { length8, legacy: u32::from(stream.header_bytes == 16), ..Vdif::default() };
        if let Some(order) = stream.placed_by() {
            return VdifLayout::by_sequence(blocks, &frame, order);
        }
        let threads: Vec<(u16, i64)> =
            stream.threads.iter().map(|thread| (thread.id, thread.shift)).collect();
        VdifLayout::by_time(blocks, &frame, &threads, stream.frames_per_second)
    }
}
