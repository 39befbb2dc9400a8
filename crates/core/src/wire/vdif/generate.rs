//! VDIF frames of two-bit noise with a tone, or of the self-verifying pattern.

use super::{Extended, Header, Vdif, station};
use crate::{
    pattern,
    synth::{self, Signal},
    wire::generate::{Generated, Generator, Made},
};

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
        Ok(Box::new(Stream { made, vdif: template.vdif, header, length, noise }))
    }
}

#[derive(Debug)]
struct Stream {
    made: Made,
    vdif: Vdif,
    /// The header of any frame; only its first four words differ from frame to frame.
    header: [u8; 32],
    length: usize,
    /// Noise of some frames.
    noise: Vec<u8>,
}

impl Generated for Stream {
    fn frame(&self, n: u64, head: &mut [u8]) -> (usize, &[u8]) {
        let made = &self.made;
        let threads = u64::from(made.threads);
        let (frame, thread) = (n / threads, (n % threads) as u16);
        let fps = u64::from(made.frames_per_second);
        let (second, frame) = (made.start + (frame / fps) as i64, (frame % fps) as u32);
        let vdif = self.vdif.at(second, frame).unwrap_or(self.vdif);
        let vdif = Vdif { thread: u32::from(thread), ..vdif };
        head[..self.length].copy_from_slice(&self.header[..self.length]);
        head[..Vdif::LEN].copy_from_slice(&vdif.write());
        let payload = if made.pattern {
            pattern::slice(pattern::frame_object(second, frame, thread), 0, made.payload)
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
