//! VDIF frames of two-bit noise with a tone, or of the self-verifying pattern.

use super::{Extended, Header, Vdif, station};
use crate::{
    pattern,
    synth::{self, Signal},
    wire::generate::{Generated, Generator, Made},
};
use std::cell::Cell;

/// Number of noise frames, used in turn.
const NOISE_FRAMES: usize = 61;

/// Generates VDIF streams.
#[derive(Debug)]
pub(super) struct VdifGenerator;

impl Generator for VdifGenerator {
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String> {
        let payload = made.payload;
        let vdif = Vdif::shape(payload, 1, 2, false, false)
            .ok_or("the payload must be a multiple of 8 bytes\nhint: for example --payload 8000")?;
        if payload > pattern::LONGEST || made.threads == 0 || made.threads > 1024 {
            return Err(
                "threads must be 1 to 1024, and the payload at most 131072 bytes\nhint: for example --payload 8000 --threads 4"
                    .to_owned(),
            );
        }
        if made.frames_per_second == 0 || made.frames_per_second > 1 << 24 {
            return Err(
                "frames per second must be 1 to 16777216\nhint: for example --frame-rate 62500".to_owned()
            );
        }
        let station = station(&made.station).ok_or("the station must be two ASCII characters")?;
        let samples = payload as u64 * 4 * u64::from(made.frames_per_second);
        let extended =
            Extended::nict(samples, false, "SKYHAUL").unwrap_or(Extended::Plain(Default::default()));
        let mut noise = Vec::new();
        if !made.pattern {
            noise.resize(payload * NOISE_FRAMES, 0);
            synth::two_bit(&Signal::default(), 0, &mut noise);
        }
        let template = Header { vdif: Vdif { station, ..vdif }, extended };
        let (header, length) = template.write();
        let nothing = Second { first: 0, end: 0, time: 0, header };
        Ok(Box::new(Stream { made, vdif: template.vdif, length, second: Cell::new(nothing), noise }))
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
        let payload = if made.pattern {
            pattern::slice(pattern::frame_object(second.time, frame, thread), 0, made.payload)
        } else {
            let at = (n % NOISE_FRAMES as u64) as usize * made.payload;
            &self.noise[at..at + made.payload]
        };
        (self.length, payload)
    }

    fn frame_bytes(&self) -> usize {
        self.vdif.frame_bytes()
    }

    fn describe(&self) -> String {
        let made = &self.made;
        let what = if made.pattern { "pattern" } else { "noise" };
        format!(
            "{what}: VDIF, {} threads, {} B frames, {} frames/s",
            made.threads,
            self.frame_bytes(),
            made.frames_per_second
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header patched in place is the one that the table writes.
    #[test]
    fn a_header_is_that_of_its_number() {
        for (threads, frames_per_second) in [(1, 7), (1, 1 << 24), (3, 5), (1024, 2), (257, 16_000_000)] {
            let start = 1_767_225_590;
            let made =
                Made { payload: 64, threads, frames_per_second, start, station: "Sk".into(), pattern: true };
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
}
