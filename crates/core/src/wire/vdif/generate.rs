//! VDIF frames of two-bit noise with a tone, of the sky, or of the self-verifying pattern.

use super::extended::{ALMA_CODES, SYNC};
use super::layout::FRAMES;
use super::{Extended, Header, Vdif, station};
use crate::hint::Hint;
use crate::pattern;
use crate::samples::Coding;
use crate::sky::SkySamples;
use crate::synth::{self, Signal};
use crate::wire::frame::step;
use crate::wire::mark5b;
use crate::wire::written::{Generated, Generator, Headers, Made, SynthPayload, Written};
use std::cell::Cell;

/// Number of noise frames, used in turn.
const NOISE_FRAMES: usize = 61;

/// Bytes of frames of the sky that are made at once: a few milliseconds of work.
const SKY_BYTES: usize = 128 << 10;

/// Generates VDIF streams.
#[derive(Debug)]
pub(super) struct VdifGenerator;

impl Generator for VdifGenerator {
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String> {
        let payload = made.payload;
        let vdif = Vdif::shape(payload, 1, 2, false, false).ok_or_else(|| {
            format!("the payload must be a multiple of 8 bytes{}", Hint("for example --payload 8000"))
        })?;
        if payload > pattern::LONGEST || made.threads == 0 || made.threads > 1024 {
            return Err(format!(
                "threads must be 1 to 1024, and the payload at most 131072 bytes{}",
                Hint("for example --payload 8000 --threads 4")
            ));
        }
        if made.frames_per_second == 0 || made.frames_per_second > FRAMES {
            return Err(format!(
                "frames per second must be 1 to 16777216{}",
                Hint("for example --frame-rate 62500")
            ));
        }
        if vdif.at(made.start, 0).is_none() {
            return Err("VDIF has times from 2000 to 2048".to_owned());
        }
        let station = station(&made.station).ok_or("the station must be two ASCII characters")?;
        let samples = payload as u64 * 4 * u64::from(made.frames_per_second);
        let extended =
            Extended::nict(samples, false, "SKYHAUL").unwrap_or(Extended::Plain(Default::default()));
        let mut noise = Vec::new();
        if made.payloads == SynthPayload::Noise {
            noise.resize(payload * NOISE_FRAMES, 0);
            synth::two_bit(&Signal::default(), 0, &mut noise);
        }
        let sky = match &made.payloads {
            SynthPayload::Sky(sky) => {
                let channel = |thread| SkySamples::new(sky, samples, thread);
                let channels = (0..made.threads).map(channel).collect::<Result<Vec<_>, _>>()?;
                Some(SkyFrames::new(channels, payload))
            }
            _ => None,
        };
        let template = Header { vdif: Vdif { station, ..vdif }, extended };
        let (header, length) = template.write();
        let nothing = Second { first: 0, end: 0, time: 0, header };
        Ok(Box::new(Stream { made, vdif: template.vdif, length, second: Cell::new(nothing), noise, sky }))
    }
}

#[derive(Debug)]
struct Stream {
    made: Made,
    vdif: Vdif,
    /// Bytes of a header.
    length: usize,
    /// The second of the last frame, to which the next one usually belongs too.
    second: Cell<Second>,
    /// Noise of some frames.
    noise: Vec<u8>,
    sky: Option<SkyFrames>,
}

/// Payloads of consecutive frames of the sky.
#[derive(Debug)]
struct SkyFrames {
    /// Those of each thread.
    channels: Vec<SkySamples>,
    payload: usize,
    /// The frames from `first` to before `end`, in turn.
    bytes: Vec<u8>,
    first: u64,
    end: u64,
}

impl SkyFrames {
    fn new(channels: Vec<SkySamples>, payload: usize) -> Self {
        let frames = (SKY_BYTES / payload).clamp(4, 1024);
        Self { channels, payload, bytes: vec![0; frames * payload], first: 0, end: 0 }
    }

    /// Make the frames of the stream `made` from `next` on, unless they are there.
    fn prepare(&mut self, next: u64, made: &Made) -> u64 {
        if next < self.first || next >= self.end {
            let (samples, threads) = (self.payload as u64 * 4, u64::from(made.threads));
            let per_second = u64::from(made.frames_per_second);
            for (n, bytes) in (next..).zip(self.bytes.chunks_mut(self.payload)) {
                let frame = n / threads;
                let second = made.start.saturating_add((frame / per_second) as i64);
                let channel = &self.channels[(n % threads) as usize];
                channel.fill(channel.number(second, frame % per_second * samples), bytes);
            }
            self.first = next;
            self.end = next.saturating_add((self.bytes.len() / self.payload) as u64);
        }
        self.end
    }

    /// The payload of a frame that was made.
    fn payload(&self, n: u64) -> &[u8] {
        debug_assert!((self.first..self.end).contains(&n), "frame {n} was not made");
        let at = (n.wrapping_sub(self.first) as usize % (self.bytes.len() / self.payload)) * self.payload;
        &self.bytes[at..at + self.payload]
    }
}

/// What the frames of a second have in common.
#[derive(Clone, Copy, Debug)]
struct Second {
    /// Its packets: the first, and the first of the next second.
    first: u64,
    end: u64,
    /// Unix seconds.
    time: i64,
    /// The header of its first frame in thread 0.
    header: [u8; 32],
}

impl Stream {
    /// The second of packet `n`.
    #[cold]
    fn begin_second(&self, n: u64) -> Second {
        let packets = u64::from(self.made.frames_per_second) * u64::from(self.made.threads);
        let number = n / packets;
        let time = self.made.start.saturating_add(number as i64);
        let mut header = self.second.get().header;
        header[..Vdif::LEN].copy_from_slice(&self.vdif.at(time, 0).unwrap_or(self.vdif).write());
        let first = number * packets;
        let second = Second { first, end: first.saturating_add(packets), time, header };
        self.second.set(second);
        second
    }
}

impl Generated for Stream {
    fn prepare(&mut self, next: u64) -> u64 {
        self.sky.as_mut().map_or(u64::MAX, |sky| sky.prepare(next, &self.made))
    }

    fn frame(&self, n: u64, head: &mut [u8]) -> (usize, &[u8]) {
        let made = &self.made;
        let mut second = self.second.get();
        if n < second.first || n >= second.end {
            second = self.begin_second(n);
        }
        let at = n - second.first;
        let (frame, thread) = match made.threads {
            1 => (at as u32, 0),
            threads => ((at / u64::from(threads)) as u32, (at % u64::from(threads)) as u16),
        };
        head[..self.length].copy_from_slice(&second.header[..self.length]);
        // VDIF §5: the frame within the second is in bits 23 to 0 of word 1, the thread in bits 25 to 16 of word 3.
        head[4..7].copy_from_slice(&frame.to_le_bytes()[..3]);
        head[14] = thread as u8;
        head[15] |= (thread >> 8) as u8;
        let payload = match &self.sky {
            Some(sky) => sky.payload(n),
            None if made.payloads == SynthPayload::Pattern => {
                pattern::slice(pattern::frame_object(second.time, frame, thread), 0, made.payload)
            }
            None => {
                let at = (n % NOISE_FRAMES as u64) as usize * made.payload;
                &self.noise[at..at + made.payload]
            }
        };
        (self.length, payload)
    }

    fn frame_bytes(&self) -> usize {
        self.vdif.frame_bytes()
    }

    fn describe(&self) -> String {
        let made = &self.made;
        let what = made.payloads.name();
        format!(
            "{what}: VDIF, {} threads, {} B frames, {} frames/s",
            made.threads,
            self.frame_bytes(),
            made.frames_per_second
        )
    }
}

/// Bytes of samples in a frame if nothing else is asked for.
const USUAL: usize = 8000;
/// The same for VLBA's frames, which are 5032 or 1032 bytes long.
const VLBA: [usize; 2] = [5000, 1000];

/// VDIF headers for frames made from samples: legacy, EDV 0 to 4 (2 as ALMA writes it), and 0xAB.
#[derive(Debug)]
struct VdifHeaders {
    first: Header,
    threads: Vec<u16>,
    fps: u32,
    coding: Coding,
}

impl Headers for VdifHeaders {
    fn payload(&self) -> usize {
        self.first.vdif.payload_bytes()
    }

    fn coding(&self) -> Coding {
        self.coding
    }

    fn header(&self, n: u64, rank: usize, valid: bool) -> Option<([u8; 32], usize)> {
        let (steps, thread) = (i64::try_from(n).ok()?, *self.threads.get(rank)?);
        let vdif = &self.first.vdif;
        let (second, frame) = step(u64::from(vdif.seconds), vdif.frame, steps, Some(self.fps))?;
        let second = u32::try_from(second).ok().filter(|second| *second < 1 << 30)?;
        let frame = Some(frame).filter(|frame| *frame < FRAMES)?;
        let packets = steps.checked_mul(self.threads.len() as i64)?.checked_add(rank as i64)?;
        let mut header = self.first.moved(packets, second, frame, Some(self.fps));
        (header.vdif.thread, header.vdif.invalid) = (u32::from(thread), u32::from(!valid));
        Some(header.write())
    }
}

/// Headers for this stream.
pub(super) fn begin_written(written: &Written) -> Result<Box<dyn Headers>, String> {
    let version = written.version.as_deref().unwrap_or("0").to_ascii_lowercase();
    let is_mark5b = matches!(&*version, "171" | "0xab");
    let coding = if is_mark5b { Coding::SignMagnitude } else { Coding::Offset }(written.bits);
    if !coding.is_known() {
        return Err(format!(
            "{coding} cannot be written{}",
            Hint("1, 2, 4, 8, 16 and 32 bits can (EDV 0xAB: 1 and 2)")
        ));
    }
    if !written.channels.is_power_of_two() {
        let channels = written.channels;
        return Err(format!("{channels} channels: VDIF has a power of two of channels in a thread"));
    }
    let usual = match &*version {
        "3" => VLBA[0],
        _ if is_mark5b => mark5b::PAYLOAD,
        _ => USUAL,
    };
    let payload = written.payload.unwrap_or(usual);
    let (fps, frame) = written.frames(payload)?;
    if fps > FRAMES {
        return Err(format!("{fps} frames/s: VDIF numbers at most {FRAMES} frames in a second"));
    }
    if version == "3" && !VLBA.contains(&payload) {
        return Err("frames of EDV 3 hold 5000 or 1000 bytes of samples".to_owned());
    }
    if version == "2" && (written.bits, written.complex) != (2, false) {
        return Err("frames of EDV 2, which are ALMA's, hold real samples of 2 bits".to_owned());
    }
    if is_mark5b && (payload != mark5b::PAYLOAD || written.complex) {
        return Err("frames of EDV 0xAB hold 10000 bytes of real samples".to_owned());
    }
    let shape = Vdif::shape(payload, written.channels, written.bits, written.complex, version == "legacy");
    let vdif = shape
        .and_then(|shape| shape.at(written.start.0, frame))
        .ok_or("VDIF has frames of a multiple of 8 bytes below 128 MiB, and times from 2000 to 2048")?;
    if written.threads.is_empty() || written.threads.iter().any(|&thread| thread > 1023) {
        return Err("threads have numbers from 0 to 1023".to_owned());
    }
    let station =
        station(&written.station).ok_or("the station must be two letters, or a number below 12288")?;
    let rate = || {
        format!(
            "the sample rate {} does not fit this header: a whole number of kHz does",
            written.sample_rate
        )
    };
    let words = |words: [u32; 4]| {
        Extended::read(words.map(u32::to_le_bytes).as_flattened()).ok_or("an EDV without its words")
    };
    let extended = match &*version {
        "legacy" => Extended::Legacy,
        "0" => words([0; 4])?,
        "1" => Extended::nict(written.sample_rate, written.complex, "SKYHAUL").ok_or_else(rate)?,
        "2" => words([2 << 24 | ALMA_CODES[0] << 4, 0, 0, 0])?,
        "3" => Extended::vlba(written.sample_rate, written.complex).ok_or_else(rate)?,
        "4" => words([4 << 24 | written.channels.min(64) << 16, SYNC, u32::MAX, u32::MAX])?,
        _ if is_mark5b => {
            let day = (written.start.0.div_euclid(86_400) + mark5b::UNIX_EPOCH_MJD).rem_euclid(1000) as u32;
            let second = written.start.0.rem_euclid(86_400) as u32;
            let time = mark5b::Time { day, second, frame };
            Extended::Mark5b(mark5b::Mark5b::new(time, (u64::from(frame) * 10_000 / u64::from(fps)) as u32))
        }
        other => return Err(format!("no EDV {other}: legacy, 0, 1, 2, 3, 4 or 0xAB")),
    };
    let first = Header { vdif: Vdif { station, ..vdif }, extended };
    Ok(Box::new(VdifHeaders { first, threads: written.threads.clone(), fps, coding }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sky::Sky;

    /// The header patched in place is the one that the table writes.
    #[test]
    fn a_header_is_that_of_its_number() {
        for (threads, frames_per_second) in [(1, 7), (1, 1 << 24), (3, 5), (1024, 2), (257, 16_000_000)] {
            let start = 1_767_225_590;
            let made = Made {
                payload: 64,
                threads,
                frames_per_second,
                start,
                station: "Sk".into(),
                payloads: SynthPayload::Pattern,
            };
            let stream = VdifGenerator.begin(made).unwrap();
            let packets = u64::from(threads) * u64::from(frames_per_second);
            let near = [0, 1, 5, packets - 1, packets, packets + 1, 3 * packets + 300, 12 * packets - 1, 2];
            for n in near {
                let mut head = [0; 32];
                let (length, payload) = stream.frame(n, &mut head);
                assert_eq!((length, payload.len()), (32, 64));
                let (vdif, _) = Vdif::read(&head).unwrap();
                let frame = n / u64::from(threads);
                let second = start + (frame / u64::from(frames_per_second)) as i64;
                let frame = (frame % u64::from(frames_per_second)) as u32;
                assert_eq!((vdif.unix_seconds(), vdif.frame), (second, frame), "packet {n}");
                assert_eq!(u64::from(vdif.thread), n % u64::from(threads), "packet {n}");
                assert_eq!(head[..Vdif::LEN], vdif.write(), "packet {n}");
            }
        }
    }

    /// Every payload is that of its time and thread, wherever a sender begins.
    #[test]
    fn frames_of_the_sky_follow_from_their_times() {
        let sky =
            Sky { seed: 5, noise: 1, correlation: 0.5, delay: 1e-6, rate: 1e-9, frequency: 8.4e9, epoch: 0 };
        let start = 1_767_225_590;
        let stream = |start, threads| {
            let payloads = SynthPayload::Sky(sky);
            let made =
                Made { payload: 64, threads, frames_per_second: 50, start, station: "Ef".into(), payloads };
            VdifGenerator.begin(made).unwrap()
        };
        let payload = |stream: &mut Box<dyn Generated>, n| {
            let end = stream.prepare(n);
            assert!(end > n && stream.prepare(end - 1) == end, "frames stay until others are needed");
            stream.frame(n, &mut [0; 32]).1.to_vec()
        };
        let (mut two, mut later, mut one) = (stream(start, 2), stream(start + 3, 2), stream(start, 1));
        for n in [0, 1, 7, 99, 100, 5000] {
            assert_eq!(payload(&mut two, n + 300), payload(&mut later, n), "packet {n}");
        }
        for frame in [0, 60] {
            assert_eq!(payload(&mut two, 2 * frame), payload(&mut one, frame));
            assert_ne!(payload(&mut two, 2 * frame + 1), payload(&mut one, frame));
        }
        let samples = SkySamples::new(&sky, 64 * 4 * 50, 1).unwrap();
        let mut expected = [0; 64];
        samples.fill(samples.number(start + 1, 10 * 256), &mut expected);
        assert_eq!(payload(&mut two, 121), expected);
    }
}
