//! Mark 5B headers for frames made from samples.

use super::{Mark5b, PAYLOAD, Time, UNIX_EPOCH_MJD};
use crate::{
    samples::Coding,
    wire::{
        frame::step,
        written::{Headers, Written},
    },
};

#[derive(Debug)]
struct Mark5bHeaders {
    first: Mark5b,
    frame: u32,
    fps: u32,
    coding: Coding,
}

/// Headers for this stream.
pub(super) fn begin(written: &Written) -> Result<Box<dyn Headers>, String> {
    let coding = Coding::SignMagnitude(written.bits);
    if !coding.is_known() || written.complex {
        return Err("Mark 5B has real samples of 1 or 2 bits".to_owned());
    }
    let streams = u64::from(written.channels) * u64::from(written.bits);
    if !streams.is_power_of_two() || streams > 32 {
        return Err(format!("{streams} bitstreams: Mark 5B has 1, 2, 4, 8, 16 or 32"));
    }
    if written.payload.is_some_and(|payload| payload != PAYLOAD) {
        return Err(format!("frames of Mark 5B hold {PAYLOAD} bytes of samples"));
    }
    if written.threads.len() != 1 || written.version.is_some() {
        return Err("Mark 5B has no threads and no versions".to_owned());
    }
    let (fps, frame) = written.frames(PAYLOAD)?;
    if fps > 1 << 16 {
        return Err(format!("{fps} frames/s: Mark 5B counts 65536 at most"));
    }
    let day = (written.start.0.div_euclid(86_400) + UNIX_EPOCH_MJD).rem_euclid(1000) as u32;
    let time = Time { day, second: written.start.0.rem_euclid(86_400) as u32, frame };
    let first = Mark5b::new(time, (u64::from(frame) * 10_000 / u64::from(fps)) as u32);
    Ok(Box::new(Mark5bHeaders { first, frame, fps, coding }))
}

impl Headers for Mark5bHeaders {
    fn payload(&self) -> usize {
        PAYLOAD
    }

    fn coding(&self) -> Coding {
        self.coding
    }

    fn header(&self, n: u64, _: usize, _: bool) -> Option<([u8; 32], usize)> {
        // Any second will do: only the difference is added to the header's own.
        let (second, frame) = step(1 << 32, self.frame, i64::try_from(n).ok()?, Some(self.fps))?;
        let moved = self.first.moved(second as i64 - (1 << 32), frame, Some(self.fps));
        let mut out = [0; 32];
        out[..Mark5b::LEN].copy_from_slice(&moved.write());
        Some((out, Mark5b::LEN))
    }
}
