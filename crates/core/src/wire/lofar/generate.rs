//! Packets of a synthetic station: noise, or the self-verifying pattern.

use super::{LANES, Rsp, SLICES, time};
use crate::{
    pattern,
    synth::{self, Signal},
    wire::generate::{Generated, Generator, Made},
};

/// Number of noise packets, used in turn.
const NOISE_PACKETS: usize = 61;
/// Bytes of a beamlet of 16 bits.
const BEAMLET: usize = 128;

/// Generates streams of 16 bits at 200 MHz, as in BDI 5.0 and 6.0, with one lane for each thread.
#[derive(Debug)]
pub(super) struct LofarGenerator;

impl Generator for LofarGenerator {
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String> {
        if made.threads == 0 || usize::from(made.threads) > LANES {
            return Err("threads must be 1 to 32 lanes\nhint: for example --threads 4".to_owned());
        }
        if made.payload < BEAMLET {
            return Err("the payload must be a multiple of 128 bytes, the size of a beamlet\nhint: for example --payload 7808".to_owned());
        }
        let beamlets = (made.payload / BEAMLET).min(61) as u8;
        let template =
            Rsp { version: 3, clock: 1, configuration: 0xAA, beamlets, slices: SLICES, ..Rsp::default() };
        let payload = template.payload_bytes().ok_or("invalid packet size")?;
        let second = u32::try_from(made.start).map_err(|_| "a start between 1970 and 2106")?;
        let begin = Rsp { second, ..template }.time().map_err(|_| "a start between 1970 and 2106")?;
        let mut noise = Vec::new();
        if !made.pattern {
            noise.resize(payload * NOISE_PACKETS, 0);
            synth::two_bit(&Signal::default(), 0, &mut noise);
        }
        // Stations are numbered; two letters are read as a number.
        let station =
            made.station.bytes().fold(0u32, |number, letter| (number * 26 + u32::from(letter % 32)) % 2048);
        let template = Rsp { station: station as u16, ..template };
        Ok(Box::new(Stream { made, template, payload, begin, noise }))
    }

    fn takes_sequence(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Stream {
    made: Made,
    template: Rsp,
    payload: usize,
    /// Time slices since 1970 of the first packet.
    begin: u64,
    noise: Vec<u8>,
}

impl Generated for Stream {
    fn frame(&self, n: u64, head: &mut [u8]) -> (usize, &[u8]) {
        let lanes = u64::from(self.made.threads);
        let (packet, lane) = (n / lanes, (n % lanes) as u16);
        let slices = self.begin.saturating_add(packet.saturating_mul(u64::from(SLICES)));
        let header = Rsp { lane, board: lane as u8, ..self.template }.at(slices).unwrap_or(self.template);
        head[..Rsp::LEN].copy_from_slice(&header.write());
        let payload = if self.made.pattern {
            let time = time(&header, 0);
            pattern::slice(pattern::frame_object(time.unix_seconds, time.frame, time.thread), 0, self.payload)
        } else {
            let at = (n % NOISE_PACKETS as u64) as usize * self.payload;
            &self.noise[at..at + self.payload]
        };
        (Rsp::LEN, payload)
    }

    fn frame_bytes(&self) -> usize {
        Rsp::LEN + self.payload
    }

    fn describe(&self) -> String {
        let what = if self.made.pattern { "pattern" } else { "noise" };
        format!(
            "{what}: LOFAR RSP, station {}, {} lanes, 16 bit × {} beamlets, 200 MHz",
            self.template.station, self.made.threads, self.template.beamlets
        )
    }
}
