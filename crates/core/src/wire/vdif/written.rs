//! VDIF headers for frames made from samples: legacy, EDV 0 to 4 (2 as ALMA writes it), and 0xAB.

use super::{
    Extended, Header, Vdif,
    extended::{ALMA_CODES, SYNC},
    station,
};
use crate::{
    samples::Coding,
    wire::{
        frame::step,
        mark5b,
        written::{Headers, Written},
    },
};

/// Bytes of samples in a frame if nothing else is asked for.
const USUAL: usize = 8000;
/// The same for VLBA's frames, which are 5032 or 1032 bytes long.
const VLBA: [usize; 2] = [5000, 1000];

#[derive(Debug)]
struct VdifHeaders {
    first: Header,
    threads: Vec<u16>,
    fps: u32,
    coding: Coding,
}

/// Headers for this stream.
pub(super) fn begin(written: &Written) -> Result<Box<dyn Headers>, String> {
    let version = written.version.as_deref().unwrap_or("0").to_ascii_lowercase();
    let is_mark5b = matches!(&*version, "171" | "0xab");
    let coding = if is_mark5b { Coding::SignMagnitude } else { Coding::Offset }(written.bits);
    if !coding.is_known() {
        return Err(format!(
            "{coding} cannot be written\nhint: 1, 2, 4, 8, 16 and 32 bits can (EDV 0xAB: 1 and 2)"
        ));
    }
    if !written.channels.is_power_of_two() {
        return Err(format!(
            "{} channels: VDIF has a power of two of channels in a thread",
            written.channels
        ));
    }
    let usual = match &*version {
        "3" => VLBA[0],
        _ if is_mark5b => mark5b::PAYLOAD,
        _ => USUAL,
    };
    let payload = written.payload.unwrap_or(usual);
    let (fps, frame) = written.frames(payload)?;
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
        let packets = steps.checked_mul(self.threads.len() as i64)?.checked_add(rank as i64)?;
        let mut header = self.first.moved(packets, second, frame, Some(self.fps));
        (header.vdif.thread, header.vdif.invalid) = (u32::from(thread), u32::from(!valid));
        Some(header.write())
    }
}
