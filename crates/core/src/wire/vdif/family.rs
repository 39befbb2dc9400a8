//! VDIF as a member of the registry: how it is recognised, described, predicted and framed.

use super::extended::Words;
use super::layout::{EDV, LEGACY, VdifStream};
use super::{EPOCH_SECONDS, Extended, Header, UNIX_2000, Vdif, VdifLayout, generate, learn};
use crate::pattern;
use crate::placement::Reject;
use crate::placement::rule::{BadRule, RuleWake};
use crate::samples::{Coded, Coding};
use crate::wire::family::{Family, FamilyRef, Framed, Known, Recalled, Seen, Shape, StreamFormat};
use crate::wire::frame::{Expected, FrameSeen, FrameTime, Frames, Framing, step};
use crate::wire::fuzzing::parser::place;
use crate::wire::header::{Field, Order};
use crate::wire::inspect::Reader;
use crate::wire::layout::{Blocks, LayoutRule};
use crate::wire::mark5b::{Mark5b, Time};
use crate::wire::stamps::{Move, Stamps};
use crate::wire::trial::{Draw, SECOND, Trial};
use crate::wire::vtp::Vtp;
use crate::wire::written::{Generator, Headers, Written};
use crate::wire::{mark5b, vtp};
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

    /// The fields of a packet whose frame begins after `network` bytes.
    fn inspect(&self, reader: &mut Reader<'_>, shape: Option<Shape>) {
        let network = shape.map_or(0, |shape| shape.network);
        reader.sequence(network);
        let start = reader.at();
        let Some((vdif, _)) = Vdif::read(reader.rest()) else {
            reader.table("VDIF", Vdif::FIELDS, Vdif::LEN, meaning);
            return;
        };
        reader.table("VDIF", Vdif::FIELDS, Vdif::LEN, meaning);
        if vdif.legacy == 0 {
            let extended = Extended::read(reader.rest());
            let (section, fields) = extended.as_ref().unwrap_or(&Extended::Legacy).table();
            reader.table(section, fields, Words::LEN, extended_meaning);
        }
        let frame = reader.packet().get(start..).unwrap_or_default();
        if let Err(reason) = Header::read(frame) {
            reader.fail_at(
                start,
                "VDIF",
                reason,
                if reason == Reject::Truncated { vdif.frame_bytes() } else { 0 },
            );
        }
    }

    fn stamps(&self) -> Option<&'static dyn Stamps> {
        Some(&VdifFamily)
    }

    fn generator(&self) -> Option<&'static dyn Generator> {
        Some(&generate::VdifGenerator)
    }

    /// By time or by number, according to `choice`. A header that was read is written back unchanged.
    fn fuzz(&self, choice: u8, packet: &[u8]) {
        if let Ok(header) = Header::read(packet) {
            let (octets, length) = header.write();
            assert_eq!(&octets[..length], &packet[..length], "a header does not write back");
            let vdif = header.vdif;
            let _ = (
                vdif.samples(),
                vdif.channels(),
                vdif.station_text(),
                vdif.unix_seconds(),
                vdif.payload_bytes(),
            );
            let _ = (
                header.extended.edv(),
                header.extended.psn(),
                header.extended.sample_rate(vdif.complex == 1),
            );
        }
        let network = if choice & 1 == 1 { 8 } else { 0 };
        let (frame, head) = (packet.len().saturating_sub(network), if choice & 2 == 2 { 16 } else { 32 });
        let Some(shape) = frame.checked_sub(head).and_then(|p| Vdif::shape(p, 1, 2, false, head == 16))
        else {
            return;
        };
        let threads: Vec<(u16, i64)> =
            (0..u16::from(choice >> 4) + 1).map(|t| (t, i64::from(choice) - 9)).collect();
        let Ok(blocks) = Blocks::new(packet.len(), network, threads.len(), 1 << 20) else { return };
        let by_time = VdifLayout::by_time(blocks, &shape, &threads, (choice & 4 == 4).then_some(1600));
        let by_number = VdifLayout::by_sequence(blocks, &shape, Order::Big);
        let legal = Vdif::read(packet.get(network..).unwrap_or_default()).map(|(vdif, _)| {
            let mut legal = packet.to_vec();
            let vdif = Vdif { length8: shape.length8, legacy: shape.legacy, ..vdif };
            legal[network..network + 16].copy_from_slice(&vdif.write());
            legal
        });
        for layout in [by_time, by_number].into_iter().flatten() {
            place(&layout, packet);
            legal.iter().for_each(|packet| place(&layout, packet));
        }
    }

    /// One frame of each extended data version, each with and without a sequence number.
    fn seeds(&self) -> Vec<Vec<u8>> {
        const ORDERS: [Order; 2] = [Order::Little, Order::Big];
        let mut seeds = Vec::new();
        let extended = [
            Some(Extended::Legacy),
            Extended::nict(32_000_000, false, "backend"),
            Extended::vlba(32_000_000, true),
            Extended::read(&[0; 16]),
            Extended::read(&[0xEF, 0xA5, 0xA5, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            Extended::read(&[9, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 5, 6, 7, 8, 9, 10, 11, 12]),
            Extended::read(&[0, 0, 8, 4, 0xED, 0xFE, 0xAB, 0xAC, 0xFF, 0, 0, 0, 0, 0, 0, 0]),
            Extended::read(&Mark5b::new(Time { day: 821, second: 19_801, frame: 3 }, 1).write()),
            Extended::read(&[1, 2, 3, 200, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        ];
        for (n, extended) in extended.into_iter().flatten().enumerate() {
            let header = if matches!(extended, Extended::Legacy) { 16 } else { 32 };
            let shape = Vdif::shape(FRAME - header, 1, 2, false, header == 16);
            let Some(vdif) = shape.and_then(|shape| shape.at(1_795_231_799 + n as i64, n as u32 % 5)) else {
                continue;
            };
            let (octets, length) = Header { vdif: Vdif { thread: n as u32 % 2, ..vdif }, extended }.write();
            let mut frame = octets[..length].to_vec();
            frame.resize(FRAME, 0x11);
            seeds.push([&vtp::write(1000 + n as u64, ORDERS[n % 2])[..], &frame[..]].concat());
            seeds.push(frame);
        }
        seeds
    }

    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        TRIALS
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
        let seen = FrameSeen { illegal: None, filled, time, before: None, thread, station };
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
        generate::begin_written(stream)
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

impl Stamps for VdifFamily {
    fn frames(&self) -> &'static dyn Frames {
        &VdifFamily
    }

    fn time(&self, frame: &[u8], _: i64, _: Option<u32>) -> Option<FrameTime> {
        let (vdif, _) = Vdif::read(frame)?;
        let fits = vdif.frame_bytes() == frame.len() && vdif.frame_bytes() > vdif.header_bytes();
        // A header of zeros, as some recorders fill with, has no time.
        let stated = (vdif.seconds, vdif.epoch, vdif.frame) != (0, 0, 0) || vdif.invalid == 0;
        (fits && stated).then(|| FrameTime {
            unix_seconds: vdif.unix_seconds(),
            frame: vdif.frame,
            thread: vdif.thread as u16,
        })
    }

    fn pace(&self, frame: &[u8], fps: Option<u32>) -> Option<(u64, u64)> {
        let stated = || Header::read(frame).ok()?.frames_per_second();
        fps.or_else(stated).map(|fps| (u64::from(fps), 1))
    }

    fn max_rate(&self) -> u32 {
        1 << 24
    }

    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)> {
        let mut header = Header::read(frame).ok()?;
        if by.seconds != 0 {
            let new = header.vdif.unix_seconds().checked_add(by.seconds)?;
            let begin = by.begin.and_then(|begin| Vdif::default().at(begin, 0));
            let epoch = begin.map_or(header.vdif.epoch, |begin| begin.epoch);
            let begins = |epoch: u32| UNIX_2000 + i64::from(EPOCH_SECONDS[epoch as usize & 63]);
            // A thread whose clock is wrong, and a late frame of the second before, may be of an earlier one.
            let epoch = if new < begins(epoch) { Vdif::default().at(new, 0)?.epoch } else { epoch };
            let since = new.checked_sub(begins(epoch))?;
            header.vdif.seconds = u32::try_from(since).ok().filter(|&second| second < 1 << 30)?;
            header.vdif.epoch = epoch;
            if let Extended::Mark5b(inner) = &mut header.extended {
                *inner = inner.moved(by.seconds, inner.frame16(), None);
            }
        }
        if by.frames != 0 {
            let fps = by.fps?;
            let (second, number) =
                step(u64::from(header.vdif.seconds), header.vdif.frame, by.frames, Some(fps))?;
            let second = u32::try_from(second).ok().filter(|&second| second < 1 << 30)?;
            header = header.moved(by.packets, second, number, Some(fps));
        }
        Some(header.write())
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

    fn rule(&self, stream: &StreamFormat, slots: u32, wake: RuleWake) -> Result<LayoutRule, BadRule> {
        let layout = self.layout(stream).map_err(|_| BadRule("its packets have no places"))?;
        let header = stream.threads.first().and_then(|thread| Vdif::read(&thread.header));
        // Of a stream that is placed by its sequence numbers, the epoch does not matter.
        let epoch = header.map_or(0, |(header, _)| header.epoch as u8);
        layout.rule(epoch, slots, wake)
    }
}

/// Small frames are cheap to make and to mutate.
const FRAME: usize = 40;

/// Bytes of samples in a frame: small, so that many frames are cheap.
const SAMPLES: usize = 64;

const TRIALS: &[fn(Draw<'_>) -> Trial] = &[
    |_| Trial::numbered("vdif by sequence, little-endian", Order::Little, behind_number),
    |_| Trial::numbered("vdif by sequence, big-endian", Order::Big, behind_number),
    |draw| timed("vdif by time", draw, true),
    |draw| timed("vdif by time, rate unknown", draw, false),
];

/// The number alone places: a thread comes and goes.
fn behind_number(position: u64) -> Vec<u8> {
    let threads = if (position / 500).is_multiple_of(2) { 2 } else { 3 };
    octets(SECOND, (position / threads % 1000) as u32, (position % threads) as u16, position)
}

/// Placed by time and thread.
fn timed(name: &'static str, draw: Draw<'_>, rated: bool) -> Trial {
    let threads = [3, 0, 700, 1023][..=draw(4) as usize].to_vec();
    let (count, fps) = (threads.len() as u64, 5 + draw(1995));
    let (first, ranks) = ((SECOND - UNIX_2000) as u64 * fps * count, threads.clone());
    let packet = move |position: u64| {
        let frame = position / count;
        let unix = UNIX_2000 + (frame / fps) as i64;
        octets(unix, (frame % fps) as u32, ranks[(position % count) as usize], position)
    };
    Trial {
        threads: Some(threads),
        frames_per_second: rated.then_some(fps as u32),
        seconds: (!rated).then_some((fps * count, count << 24)),
        ..Trial::new(name, first..first + fps, packet)
    }
}

fn octets(unix: i64, frame: u32, thread: u16, position: u64) -> Vec<u8> {
    let shape = Vdif::shape(SAMPLES, 1, 2, false, false).unwrap_or_default();
    let header = Vdif { thread: u32::from(thread), ..shape.at(unix, frame).unwrap_or(shape) };
    let mut packet = header.write().to_vec();
    packet.resize(shape.frame_bytes(), 0);
    pattern::fill(position, 0, &mut packet[shape.header_bytes()..]);
    packet
}

fn meaning(_: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    let epoch = EPOCH_SECONDS.get(value as usize).map(|&seconds| UNIX_2000 + i64::from(seconds));
    let vdif = || Vdif::read(header).map(|(vdif, _)| vdif);
    Some(match name {
        "invalid" if value == 1 => "samples not valid".to_owned(),
        "legacy" if value == 1 => "16-octet header".to_owned(),
        "seconds" => utc(vdif()?.unix_seconds()),
        "epoch" => utc(epoch?).get(..10)?.to_owned(),
        "log2_channels" => format!("{} channels", 1u64 << value),
        "length8" => format!("{} octets", 8 * value),
        "bits_minus_one" => format!("{} bits per sample", value + 1),
        "complex" => if value == 1 { "complex" } else { "real" }.to_owned(),
        "station" => vdif()?.station_text(),
        _ => return None,
    })
}

fn extended_meaning(section: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    Some(match (section, name) {
        ("EDV 0xAB", _) => return mark5b::meaning(section, name, value, header),
        ("EDV 1" | "EDV 3", "rate") => {
            let megahertz = header.get(3 - 1)? & 0x80 != 0;
            format!("{value} {}", if megahertz { "MHz" } else { "kHz" })
        }
        ("EDV 1", "name") => {
            let letters = value.to_le_bytes();
            letters.iter().filter(|c| c.is_ascii_graphic()).map(|&c| char::from(c)).collect()
        }
        ("EDV 2 R2DBE", "pps_difference") => {
            let ticks = value as u32 as i32;
            format!("{:+.3} µs", f64::from(ticks) / 256.0)
        }
        ("EDV 3", "tuning") => format!("{:.6} MHz", value as f64 / f64::from(1 << 24)),
        ("EDV 3", "sideband") => if value == 1 { "upper" } else { "lower" }.to_owned(),
        _ => return None,
    })
}

/// A Unix time as ISO 8601 in UTC.
fn utc(unix: i64) -> String {
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years, so that the leap day is a year's last.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, january) = (day - (153 * month + 2) / 5 + 1, month >= 10);
    let (year, month) = (era * 400 + year + i64::from(january), if january { month - 9 } else { month + 3 });
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59Z");
    }

    /// Frames that are before the new start, as of a thread with a wrong clock, are moved as all others.
    #[test]
    fn frames_before_the_epoch_of_the_new_start_are_moved() {
        let begin = 1_798_761_600;
        let shape = Vdif::shape(1000, 1, 2, false, false).unwrap();
        let by = Move { seconds: begin - 1_767_225_600, begin: Some(begin), ..Move::default() };
        for late in [0, 1, 200 * 86_400, 3 * 365 * 86_400] {
            let old = Header {
                vdif: shape.at(1_767_225_600 - late, 7).unwrap(),
                extended: Extended::read(&[0; 16]).unwrap(),
            };
            let (octets, length) =
                VdifFamily.moved(&[&old.write().0[..32], &[0; 1000]].concat(), &by).unwrap();
            let new = Header::read_alone(&octets[..length]).unwrap().vdif;
            assert_eq!((new.unix_seconds(), new.frame), (begin - late, 7), "{late} s late");
        }
        let first =
            Header { vdif: shape.at(UNIX_2000, 0).unwrap(), extended: Extended::read(&[0; 16]).unwrap() };
        let back = Move { seconds: -1, begin: Some(begin), ..Move::default() };
        assert_eq!(VdifFamily.moved(&first.write().0, &back), None);
    }
}
