//! LOFAR as a member of the registry: how its packets are recognised, described, predicted and framed.

use super::{CYCLES, LANES, LofarGenerator, LofarLayout, Rsp, SLICES, UNSET, time};
use crate::pattern;
use crate::placement::Reject;
use crate::placement::rule::{BadRule, RuleWake};
use crate::wire::family::{
    Family, FamilyRef, Framed, Known, Particulars, Recalled, Seen, Shape, StreamFormat,
};
use crate::wire::frame::{Ahead, Expected, FrameSeen, FrameTime, Frames, Framing, Quirk, Thread};
use crate::wire::fuzzing::parser::place;
use crate::wire::header::Field;
use crate::wire::inspect::Reader;
use crate::wire::layout::{Blocks, LayoutRule, Place};
use crate::wire::stamps::{Counted, Move, Numbered, Stamps};
use crate::wire::trial::{Draw, SECOND, Trial};
use crate::wire::written::{Generator, Made, SynthPayload};
use std::sync::Arc;

/// RSP packets of LOFAR stations.
#[derive(Debug)]
pub struct LofarFamily;

/// The header of a packet, if it is valid and states the packet's length.
pub(super) fn header(packet: &[u8]) -> Option<Rsp> {
    let (header, payload) = Rsp::read(packet)?;
    (header.payload_bytes() == Some(payload.len()) && header.time().is_ok()).then_some(header)
}

/// Packets of its lane since 1970.
fn packets(header: &Rsp) -> Option<i64> {
    i64::try_from(header.time().ok()? / u64::from(SLICES)).ok()
}

/// Encoding of the properties that packets of one shape share.
fn variant(header: &Rsp) -> u8 {
    header.version << 3 | header.clock << 2 | header.sample
}

impl Family for LofarFamily {
    fn name(&self) -> &'static str {
        "lofar"
    }

    fn title(&self) -> &'static str {
        "LOFAR RSP"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["rsp"]
    }

    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        let header = header(packet)?;
        Some(Shape {
            family: LofarStream::FAMILY,
            network: 0,
            length: packet.len(),
            variant: variant(&header),
        })
    }

    fn settled(&self, seen: &Seen<'_>) -> bool {
        // Lanes from one port alternate.
        let lanes =
            |samples: &[&crate::wire::family::Sample]| lanes(samples.iter().map(|sample| sample.head()));
        let (first, second) = seen.samples.split_at(seen.samples.len() / 2);
        lanes(first) == lanes(second)
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        let first =
            seen.frames().next().and_then(|head| Some(Rsp::read(head)?.0)).ok_or(Reject::Unrecognised)?;
        let own = LofarStream {
            version: first.version,
            clock: first.clock,
            sample: first.sample,
            beamlets: first.beamlets,
        };
        let template = |lane: u16| {
            let found = seen.frames().find(|head| Rsp::read(head).is_some_and(|(h, _)| h.lane == lane));
            found.and_then(|head| head.get(..Rsp::LEN)).unwrap_or_default().to_vec()
        };
        let lanes = seen.options.threads.clone().unwrap_or_else(|| lanes(seen.frames()));
        let errors =
            seen.frames().filter(|head| Rsp::read(head).is_some_and(|(h, _)| h.payload_error == 1)).count();
        let quirk = (errors > 0)
            .then(|| Quirk::new(&format_args!("{errors} of its first packets have the payload's error bit")));
        Ok(StreamFormat {
            place: Place::Time,
            packet_bytes: seen.shape.length,
            frame_bytes: seen.shape.length,
            header_bytes: Rsp::LEN,
            threads: lanes.into_iter().map(|id| Thread { id, shift: 0, header: template(id) }).collect(),
            frames_per_second: None,
            station: Some(first.station.to_string()),
            quirks: quirk.into_iter().collect(),
            ..seen.blank(own)
        })
    }

    fn recall(&self, number: &dyn Fn(&str) -> Option<u64>) -> Option<Recalled> {
        let number = |name| u8::try_from(number(name)?).ok();
        let own = LofarStream {
            version: number("version")?,
            clock: number("clock")?,
            sample: number("sample")?,
            beamlets: number("beamlets")?,
        };
        Some(Recalled { header_bytes: Rsp::LEN, parts: 1, own: Arc::new(own) })
    }

    fn frames(&self) -> Option<&'static dyn Frames> {
        Some(&LofarFamily)
    }

    /// The fields of a packet.
    fn inspect(&self, reader: &mut Reader<'_>, _: Option<Shape>) {
        let header = Rsp::read(reader.rest()).map(|(header, _)| header);
        if let Some(header) = &header {
            if let Some(Err(reason)) = header.payload_bytes().map(|_| header.time()) {
                reader.fail("LOFAR RSP", reason, 0);
            }
            if header.payload_bytes().is_none() {
                reader.fail("LOFAR RSP", Reject::BadField, 0);
            }
        }
        reader.table("LOFAR RSP", Rsp::FIELDS, Rsp::LEN, meaning);
        let needed = header.and_then(|header| header.payload_bytes()).map(|payload| Rsp::LEN + payload);
        if let Some(needed) = needed.filter(|&needed| reader.packet().len() < needed) {
            reader.fail_at(0, "LOFAR RSP", Reject::Truncated, needed);
            reader.go_to(Rsp::LEN);
        }
    }

    fn stamps(&self) -> Option<&'static dyn Stamps> {
        Some(&LofarFamily)
    }

    fn generator(&self) -> Option<&'static dyn Generator> {
        Some(&LofarGenerator)
    }

    /// A header that was read is written back unchanged, with the same time; short packets are extended, so that headers are
    /// reached.
    fn fuzz(&self, choice: u8, packet: &[u8]) {
        let Some((header, _)) = Rsp::read(packet) else { return };
        assert_eq!(header.write(), packet[..Rsp::LEN], "a header does not write back");
        if let Ok(slices) = header.time() {
            assert_eq!(header.at(slices), Some(header), "its time is another one");
        }
        let Some(payload) = header.payload_bytes() else { return };
        let mut packet = packet.to_vec();
        packet.resize(Rsp::LEN + payload, 0);
        let lanes: Vec<u16> = (0..=u16::from(choice % 32)).collect();
        let layout = Blocks::new(packet.len(), 0, lanes.len(), 1 << 20)
            .and_then(|blocks| LofarLayout::new(blocks, &header, &lanes));
        layout.iter().for_each(|layout| place(layout, &packet));
    }

    /// A packet of each mode.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let header = |clock, sample, beamlets| {
            let second = 1_795_402_800;
            let like = Rsp { version: 3, clock, sample, beamlets, slices: SLICES, second, ..Rsp::default() };
            Rsp { slice: 156_000, lane: 2, station: 214, ..like }.write().to_vec()
        };
        vec![header(0, 0, 61), header(1, 1, 122), header(1, 2, 244)]
    }

    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        TRIALS
    }
}

/// The lanes in these heads, ascending.
fn lanes<'a>(heads: impl Iterator<Item = &'a [u8]>) -> Vec<u16> {
    let mut seen = [false; LANES];
    for (header, _) in heads.filter_map(Rsp::read) {
        seen[usize::from(header.lane) % LANES] = true;
    }
    (0..LANES as u16).filter(|&lane| seen[usize::from(lane)]).collect()
}

impl Frames for LofarFamily {
    fn framing(&self, bytes: &[u8]) -> Framing {
        match Rsp::read(bytes).map(|(header, _)| header.payload_bytes()) {
            None => Framing::Incomplete,
            Some(Some(payload)) => Framing::Length(Rsp::LEN + payload),
            Some(None) => Framing::Unknown,
        }
    }

    fn see(&self, frame: &[u8], expected: &Expected) -> FrameSeen {
        let Some(header) = header(frame).filter(|_| frame.len() == expected.frame_bytes) else {
            return FrameSeen::illegal("no valid RSP header");
        };
        let filled = header.payload_error == 1;
        let time = time(&header, 0);
        let object = pattern::frame_object(time.unix_seconds, time.frame, time.thread);
        let seen = FrameSeen {
            illegal: None,
            filled,
            time: Some((time.unix_seconds, time.frame)),
            before: packets(&header).map(|packets| packets - i64::from(time.frame)),
            thread: time.thread,
            station: Some(header.station.into()),
        };
        if expected.pattern && !filled && pattern::first_error(object, 0, &frame[Rsp::LEN..]).is_some() {
            return FrameSeen { illegal: Some("the payload is not the pattern"), ..seen };
        }
        seen
    }

    fn station(&self, frame: &[u8]) -> Option<u32> {
        Some(Rsp::read(frame)?.0.station.into())
    }
}

impl Stamps for LofarFamily {
    fn frames(&self) -> &'static dyn Frames {
        &LofarFamily
    }

    fn numbered(&self) -> Numbered {
        Numbered::Never
    }

    fn time(&self, frame: &[u8], _: i64, _: Option<u32>) -> Option<FrameTime> {
        header(frame).map(|header| time(&header, 0))
    }

    fn pace(&self, frame: &[u8], _: Option<u32>) -> Option<(u64, u64)> {
        header(frame).map(|header| (header.clock_hz(), CYCLES * u64::from(SLICES)))
    }

    fn count(&self, frame: &[u8], _: i64, _: u32) -> Option<Counted> {
        let header = header(frame)?;
        Some(Counted { thread: header.lane, number: packets(&header)? })
    }

    fn max_rate(&self) -> u32 {
        1 << 16
    }

    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)> {
        let header = header(frame)?;
        // The whole number of packets that is nearest to this time.
        let packet = i128::from(CYCLES) * i128::from(SLICES);
        let seconds =
            (i128::from(by.seconds) * i128::from(header.clock_hz()) + packet / 2).div_euclid(packet);
        let packets = i64::try_from(seconds).ok()?.checked_add(by.frames)?;
        let slices = packets.checked_mul(i64::from(SLICES))?;
        let moved = header.at(header.time().ok()?.checked_add_signed(slices)?)?;
        let mut octets = [0; 32];
        octets[..Rsp::LEN].copy_from_slice(&moved.write());
        Some((octets, Rsp::LEN))
    }
}

/// Particulars of a stream of RSP packets, from their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LofarStream {
    /// 2: BDI 5.0; 3: BDI 6.0.
    pub version: u8,
    /// 0: 160 MHz, 1: 200 MHz.
    pub clock: u8,
    /// 0: 16 bits, 1: 8 bits, 2: 4 bits.
    pub sample: u8,
    /// Beamlets in a packet.
    pub beamlets: u8,
}

impl LofarStream {
    fn like(&self) -> Rsp {
        let LofarStream { version, clock, sample, beamlets } = *self;
        Rsp { version, clock, sample, beamlets, slices: SLICES, ..Rsp::default() }
    }
}

impl Known for LofarStream {
    const FAMILY: FamilyRef = FamilyRef::new(&LofarFamily);
}

impl Framed for LofarStream {
    type Layout = LofarLayout;

    fn layout(&self, stream: &StreamFormat) -> Result<LofarLayout, Reject> {
        let lanes: Vec<u16> = stream.threads.iter().map(|thread| thread.id).collect();
        LofarLayout::new(stream.blocks()?, &self.like(), &lanes)
    }

    /// Of any station, as the layout: packets of one sender arrive.
    fn rule(&self, stream: &StreamFormat, slots: u32, wake: RuleWake) -> Result<LayoutRule, BadRule> {
        let layout = self.layout(stream).map_err(|_| BadRule("its packets have no places"))?;
        layout.rule(None, slots, wake)
    }
}

/// The field with the lane.
const LANE: &Field = {
    let mut at = 0;
    while !matches!(Rsp::FIELDS[at].name.as_bytes(), b"lane") {
        at += 1;
    }
    &Rsp::FIELDS[at]
};

impl Particulars for LofarStream {
    fn details(&self, stream: &StreamFormat) -> Vec<String> {
        let like = self.like();
        let lanes: Vec<String> = stream.threads.iter().map(|thread| thread.id.to_string()).collect();
        vec![
            format!("{} bit × {} beamlets", like.bits().unwrap_or_default(), self.beamlets),
            format!("{} MHz", like.clock_hz() / 1_000_000),
            format!("lane {}", lanes.join(",")),
        ]
    }

    fn numbers(&self) -> Vec<(&'static str, Option<u64>)> {
        let LofarStream { version, clock, sample, beamlets } = *self;
        let all = [("version", version), ("clock", clock), ("sample", sample), ("beamlets", beamlets)];
        all.map(|(name, number)| (name, Some(u64::from(number)))).to_vec()
    }

    fn rate(&self) -> Option<(u64, u64)> {
        Some((self.like().clock_hz(), CYCLES * u64::from(SLICES)))
    }

    fn thread_field(&self) -> Option<&'static Field> {
        Some(LANE)
    }

    fn frame_time(&self, stream: &StreamFormat, frame: &[u8]) -> Option<FrameTime> {
        let (header, _) = Rsp::read(frame)?;
        header.time().ok()?;
        let shift =
            stream.threads.iter().find(|thread| thread.id == header.lane).map_or(0, |thread| thread.shift);
        Some(time(&header, shift))
    }

    fn has_header(&self, stream: &StreamFormat, frame: &[u8]) -> bool {
        header(frame)
            .is_some_and(|header| frame.len() == stream.frame_bytes && header.beamlets == self.beamlets)
    }

    fn predicted(&self, ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        let (like, _) = Rsp::read(ahead.like)?;
        let (clock, _) = Rsp::read(ahead.clock)?;
        let slices = clock.time().ok()?.checked_add_signed(ahead.frames.checked_mul(i64::from(SLICES))?)?;
        let mut out = [0; 32];
        let lane = ahead.thread.unwrap_or(like.lane);
        out[..Rsp::LEN].copy_from_slice(&Rsp { payload_error: 1, lane, ..like }.at(slices)?.write());
        Some((out, Rsp::LEN))
    }
}

/// Packets of a lane before the first one sent: a restart goes back to these.
const BEFORE: u64 = 1 << 20;

const TRIALS: &[fn(Draw<'_>) -> Trial] =
    &[|_| laned("lofar, one lane", 1), |draw| laned("lofar, several lanes", 2 + draw(3))];

/// The place of a packet is its number since 1970, of each lane in turn.
fn laned(name: &'static str, lanes: u64) -> Trial {
    let (threads, station) = (lanes as u16, "LX".to_owned());
    let made = Made {
        payload: 128,
        threads,
        frames_per_second: 0,
        start: SECOND,
        station,
        payloads: SynthPayload::Pattern,
    };
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

/// The meaning of a header field.
fn meaning(_: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    let (rsp, _) = Rsp::read(header)?;
    Some(match name {
        "version" => match value {
            2 => "BDI 5.0".to_owned(),
            3 => "BDI 6.0".to_owned(),
            _ => "not known".to_owned(),
        },
        "clock" => format!("{} MHz", rsp.clock_hz() / 1_000_000),
        "sample" => rsp.bits().map_or("not known".to_owned(), |bits| format!("{bits} bits")),
        "payload_error" if value == 1 => "the payload must not be used".to_owned(),
        "second" if value == u64::from(UNSET) => "the board's clock is not set".to_owned(),
        "slice" => rsp.time().map_or("invalid slice".to_owned(), |slices| format!("{slices} since 1970")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Filler, LearnOptions, Learner};

    fn packet(n: u64, lanes: u16) -> Vec<u8> {
        let (packet, lane) = (n / u64::from(lanes), (n % u64::from(lanes)) as u16);
        let own = LofarStream { version: 3, clock: 1, sample: 0, beamlets: 61 };
        let begin = (1_795_402_800 * 200_000_000 + 512) / 1024 + 5;
        let header = Rsp { station: 214, lane, ..own.like() }.at(begin + 16 * packet).unwrap();
        [&header.write()[..], &[n as u8; 7808]].concat()
    }

    fn learned(lanes: u16) -> StreamFormat {
        let mut learner = Learner::new(LearnOptions::default());
        (0..64).for_each(|n| learner.observe(&packet(n, lanes)));
        learner.conclude(false).unwrap().unwrap()
    }

    #[test]
    fn a_stream_is_learned_and_described() {
        let format = learned(1);
        assert_eq!(
            format.describe(),
            "lofar, 7824-byte frames, 16 bit × 61 beamlets, 200 MHz, lane 0, frame rate unknown, station 214"
        );
        assert_eq!(learned(4).threads.iter().map(|thread| thread.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let numbers = format.own.numbers();
        let recalled = LofarFamily.recall(&|name| numbers.iter().find(|(n, _)| *n == name)?.1).unwrap();
        assert!(recalled.own.same(format.own::<LofarStream>().unwrap()));
    }

    #[test]
    fn lost_packets_are_predicted_and_marked() {
        for lanes in [1, 4] {
            let format = learned(lanes);
            let count = 24_500u64 / u64::from(lanes) * u64::from(lanes);
            // Over the ends of two seconds; some in the middle are lost.
            let mut block: Vec<u8> = (0..count).flat_map(|n| packet(n, lanes)).collect();
            let whole = block.clone();
            let lost = [100..105u32, 12_205..12_230];
            for hole in &lost {
                block[hole.start as usize * 7824..hole.end as usize * 7824].fill(0xEE);
            }
            Filler::new(StreamFormat { keep: crate::wire::Keep::All, ..format }).fill(&mut block[..], &lost);
            for n in lost.iter().flat_map(Clone::clone) {
                let at = n as usize * 7824;
                let (filled, _) = Rsp::read(&block[at..]).unwrap();
                let (right, _) = Rsp::read(&whole[at..]).unwrap();
                assert_eq!(filled, Rsp { payload_error: 1, ..right }, "packet {n} of {lanes} lanes");
                let seen = LofarFamily.see(
                    &block[at..at + 7824],
                    &Expected { frame_bytes: 7824, near: 0, fps: None, pattern: true },
                );
                assert!(seen.filled && seen.illegal.is_none());
            }
        }
    }
}
