//! LOFAR station packets, which a station's RSP boards send to the correlator (ASTRON, "CEP beamlet data format", BDI
//! 6.0).
//!
//! 16 bytes, little-endian, and the samples of up to 244 beamlets for 16 time slices.
//!
//! ```text
//!   0   version │ clock, error, board │ bits of a sample │ configuration
//!   4   station, lane                 │ beamlets         │ time slices
//!   8   UTC second (all ones: the board's clock is not set)
//!  12   time slice in that second
//! ```
//!
//! * A time slice is 1024 cycles of a clock of 200 or 160 MHz. At 200 MHz a second has 195 312.5 slices, so even seconds
//!   begin with a slice and odd ones within one. Slices since 1970 are (second × clock + 512) / 1024 + slice, in
//!   integers, and advance by 16 from packet to packet; this number places a packet.
//! * Samples are complex, of two polarisations: 4 values of 16, 8 or 4 bits, 16 slices of one beamlet after those of the
//!   one before. A packet is as long as its header says, 7824 bytes with all beamlets.
//! * A station sends up to four lanes, each from its own board to its own port, with a part of the beamlets. The lane is
//!   in the low five bits after the station's number.
//! * A board marks an error in the payload with a bit. Lost packets are filled with that bit set.

mod family;
mod rules;

pub use family::{LofarFamily, LofarStream};

use super::frame::FrameTime;
use super::layout::{Blocks, wrong_size};
use super::written::{Generated, Generator, Made, SynthPayload};
use crate::hint::Hint;
use crate::pattern;
use crate::placement::{Geometry, Layout, Placement, Reject};
use crate::synth::{self, Signal};

crate::header! {
    /// RSP packet header.
    Rsp [16] {
        le u8 @ 0 { /** 2: BDI 5.0, 16 bits only; 3: BDI 6.0. */ version }
        le u8 @ 1 {
            /** 0: 160 MHz, 1: 200 MHz. */ clock[7],
            /** The board found an error in the payload. */ payload_error[6],
            /** Zero. */ reserved[5],
            /** RSP board. */ board[4:0]
        }
        le u8 @ 2 { /** Zero. */ spare[7:2], /** 0: 16 bits, 1: 8 bits, 2: 4 bits. */ sample[1:0] }
        le u8 @ 3 { /** Of the station's own. */ configuration }
        le u16 @ 4 { /** Number of the station. */ station[15:5], /** Lane. */ lane[4:0] }
        le u8 @ 6 { /** Beamlets in the packet. */ beamlets }
        le u8 @ 7 { /** Time slices in the packet. */ slices }
        le u32 @ 8 { /** UTC second; all ones: not set. */ second }
        le u32 @ 12 { /** Time slice in the second. */ slice }
    }
}

/// Time slices in a packet.
pub const SLICES: u8 = 16;
/// Cycles of the clock in a time slice.
const CYCLES: u64 = 1024;
/// Lanes that five bits can number.
pub const LANES: usize = 32;
/// Rank of lanes that are not of this stream.
const NONE: u8 = u8::MAX;
/// The second of a board whose clock is not set.
const UNSET: u32 = u32::MAX;

/// When a packet's first slice was taken; its number is that of packets in the second.
fn time(header: &Rsp, shift: i64) -> FrameTime {
    FrameTime {
        unix_seconds: i64::from(header.second).saturating_add(shift),
        frame: header.slice / u32::from(SLICES),
        thread: header.lane,
    }
}

impl Rsp {
    /// Cycles of the board's clock in a second.
    #[inline(always)]
    #[must_use]
    pub fn clock_hz(&self) -> u64 {
        if self.clock == 1 { 200_000_000 } else { 160_000_000 }
    }

    /// Bits of a sample's component: 16, 8 or 4.
    #[must_use]
    pub fn bits(&self) -> Option<u32> {
        [16, 8, 4].get(usize::from(self.sample)).copied()
    }

    /// Maximum number of beamlets of a packet, and bytes of one beamlet's samples in it.
    fn beamlet(&self) -> Option<(u32, usize)> {
        let bits = self.bits()?;
        Some((61 * 16 / bits, bits as usize * 4 / 8 * usize::from(SLICES)))
    }

    /// Bytes of the payload. `None`: the header is invalid.
    #[must_use]
    pub fn payload_bytes(&self) -> Option<usize> {
        let (most, bytes) = self.beamlet()?;
        let is_legal = matches!(self.version, 2 | 3)
            && (self.version == 3 || self.sample == 0)
            && self.reserved == 0
            && self.spare == 0
            && self.slices == SLICES
            && (1..=most).contains(&u32::from(self.beamlets));
        is_legal.then_some(usize::from(self.beamlets) * bytes)
    }

    /// Time slices since 1970, of the packet's first.
    ///
    /// # Errors
    /// [`Reject::BadField`] if the board's clock is not set, or the second has no such slice.
    #[inline(always)]
    pub fn time(&self) -> Result<u64, Reject> {
        let begins = |second: u64| (second * self.clock_hz() + CYCLES / 2) / CYCLES;
        let (second, slice) = (u64::from(self.second), u64::from(self.slice));
        let first = begins(second);
        if self.second == UNSET || slice >= begins(second + 1) - first {
            return Err(Reject::BadField);
        }
        Ok(first + slice)
    }

    /// The same header for this time slice since 1970; `None` if its second does not fit 32 bits.
    #[must_use]
    pub fn at(mut self, slices: u64) -> Option<Rsp> {
        let cycles = slices.checked_mul(CYCLES)?;
        self.second = u32::try_from(cycles / self.clock_hz()).ok().filter(|&second| second != UNSET)?;
        self.slice = (cycles % self.clock_hz() / CYCLES) as u32;
        Some(self)
    }
}

/// The layout of a stream of RSP packets: by time, and by lane if a sender has several.
#[derive(Clone, Debug)]
pub struct LofarLayout {
    blocks: Blocks,
    /// Bytes 0, 1 and 2 of every header, without error and board; beamlets and slices.
    mode: [u8; 5],
    lanes: u64,
    rank: [u8; LANES],
}

fn mode(header: &Rsp) -> [u8; 5] {
    [header.version, header.clock, header.sample, header.beamlets, header.slices]
}

impl LofarLayout {
    /// Packets like this one, of these lanes in the order of their ranks.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] if `blocks` are not of such packets; [`Reject::UnknownThread`] if there are no lanes, one is
    /// above 31, or one is repeated.
    pub fn new(blocks: Blocks, like: &Rsp, lanes: &[u16]) -> Result<LofarLayout, Reject> {
        let mut rank = [NONE; LANES];
        for (at, &lane) in lanes.iter().enumerate() {
            match rank.get_mut(usize::from(lane)) {
                Some(rank) if *rank == NONE => *rank = at as u8,
                _ => return Err(Reject::UnknownThread),
            }
        }
        if lanes.is_empty() || !blocks.units.is_multiple_of(lanes.len() as u64) {
            return Err(Reject::UnknownThread);
        }
        match like.payload_bytes() {
            Some(bytes) if bytes + Rsp::LEN == blocks.packet_bytes as usize => {
                Ok(LofarLayout { blocks, mode: mode(like), lanes: lanes.len() as u64, rank })
            }
            _ => Err(Reject::WrongSize),
        }
    }
}

impl Layout for LofarLayout {
    #[inline]
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        if packet.len() != self.blocks.packet_bytes as usize {
            let claimed = || Some(Rsp::LEN + Rsp::read(packet)?.0.payload_bytes()?);
            return Err(wrong_size(Rsp::LEN, claimed, packet));
        }
        let (header, _) = Rsp::read(packet).ok_or(Reject::Truncated)?;
        if mode(&header) != self.mode || header.reserved != 0 || header.spare != 0 {
            return Err(Reject::BadField);
        }
        let rank = self.rank[usize::from(header.lane) % LANES];
        if rank == NONE {
            return Err(Reject::UnknownThread);
        }
        let packets = header.time()? / u64::from(SLICES);
        Ok(self.blocks.place(0, packets * self.lanes + u64::from(rank)))
    }

    fn geometry(&self) -> Geometry {
        self.blocks.geometry()
    }

    fn units_between(&self, from: u64, to: u64) -> Option<u64> {
        self.blocks.between(from, to)
    }
}

/// Number of noise packets, used in turn.
const NOISE_PACKETS: usize = 61;
/// Bytes of a beamlet of 16 bits.
const BEAMLET: usize = 128;

/// Generates streams of 16 bits at 200 MHz, as in BDI 5.0 and 6.0, with one lane for each thread.
#[derive(Debug)]
struct LofarGenerator;

impl Generator for LofarGenerator {
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String> {
        if made.threads == 0 || usize::from(made.threads) > LANES {
            return Err(format!("threads must be 1 to 32 lanes{}", Hint("for example --threads 4")));
        }
        if made.payload < BEAMLET {
            return Err(format!(
                "the payload must be a multiple of 128 bytes, the size of a beamlet{}",
                Hint("for example --payload 7808")
            ));
        }
        let beamlets = (made.payload / BEAMLET).min(61) as u8;
        if let SynthPayload::Sky(_) = made.payloads {
            return Err(format!("two-bit samples of the sky are sent as VDIF{}", Hint("use --format vdif")));
        }
        let template =
            Rsp { version: 3, clock: 1, configuration: 0xAA, beamlets, slices: SLICES, ..Rsp::default() };
        let payload = template.payload_bytes().ok_or("invalid packet size")?;
        let second = u32::try_from(made.start).map_err(|_| "a start between 1970 and 2106")?;
        let begin = Rsp { second, ..template }.time().map_err(|_| "a start between 1970 and 2106")?;
        let mut noise = Vec::new();
        if made.payloads == SynthPayload::Noise {
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
        let payload = if self.made.payloads == SynthPayload::Pattern {
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
        let what = self.made.payloads.name();
        format!(
            "{what}: LOFAR RSP, station {}, {} lanes, 16 bit × {} beamlets, 200 MHz",
            self.template.station, self.made.threads, self.template.beamlets
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet of station 214 as its boards send it: BDI 6.0, 8 bits, 122 beamlets, 200 MHz.
    fn like() -> Rsp {
        Rsp {
            version: 3,
            clock: 1,
            sample: 1,
            configuration: 0xAA,
            station: 214,
            lane: 3,
            beamlets: 122,
            slices: SLICES,
            ..Rsp::default()
        }
    }

    #[test]
    fn a_header_is_what_the_station_writes() {
        let header = Rsp { board: 4, second: 0x62BC_3F00, slice: 0x0001_2345, ..like() };
        let octets = [3, 0x84, 1, 0xAA, 0xC3, 0x1A, 122, 16, 0x00, 0x3F, 0xBC, 0x62, 0x45, 0x23, 0x01, 0];
        assert_eq!(header.write(), octets);
        assert_eq!(u16::from_le_bytes([0xC3, 0x1A]), 6851, "214 << 5 | 3");
        assert_eq!(header.payload_bytes(), Some(7808));
    }

    #[test]
    fn modes_are_as_long_as_they_say() {
        for (sample, beamlets) in [(0, 61), (1, 122), (2, 244)] {
            let header = Rsp { sample, beamlets, ..like() };
            assert_eq!(header.payload_bytes(), Some(7808));
            assert_eq!(Rsp { beamlets: beamlets + 1, ..header }.payload_bytes(), None);
        }
        for wrong in [
            Rsp { version: 1, ..like() },
            Rsp { version: 2, ..like() },
            Rsp { sample: 3, ..like() },
            Rsp { slices: 8, ..like() },
            Rsp { beamlets: 0, ..like() },
            Rsp { reserved: 1, ..like() },
            Rsp { spare: 1, ..like() },
        ] {
            assert_eq!(wrong.payload_bytes(), None, "{wrong:?}");
        }
    }

    #[test]
    fn seconds_have_half_slices_at_200_mhz() {
        let of = |clock, second: u32| {
            let at = |second, slice| Rsp { clock, second, slice, ..like() }.time();
            let first = at(second, 0).unwrap();
            let count = at(second + 1, 0).unwrap() - first;
            assert_eq!(at(second, count as u32 - 1), Ok(first + count - 1));
            assert_eq!(at(second, count as u32), Err(Reject::BadField), "no such slice");
            count
        };
        assert_eq!((of(1, 1_656_500_000), of(1, 1_656_500_001)), (195_313, 195_312));
        assert_eq!((of(0, 1_656_500_000), of(0, 1_656_500_001)), (156_250, 156_250));
        assert_eq!(Rsp { second: UNSET, ..like() }.time(), Err(Reject::BadField), "the clock is not set");
    }

    proptest! {
        #[test]
        fn time_slices_and_seconds_are_each_others(clock in 0u8..2, second in 0u32..UNSET - 1, slice in 0u32..156_250) {
            let header = Rsp { clock, second, slice, ..like() };
            let slices = header.time().unwrap();
            prop_assert_eq!(header.at(slices), Some(header));
            prop_assert_eq!(header.at(slices + 1).unwrap().time(), Ok(slices + 1));
        }

        #[test]
        fn packets_follow_each_other_over_seconds(lanes in 1usize..5, begin in 0u64..1 << 45, count in 1u64..50) {
            let ids: Vec<u16> = (0..lanes as u16).collect();
            let blocks = Blocks::new(7824, 0, lanes, 1 << 20).unwrap();
            let layout = LofarLayout::new(blocks, &like(), &ids).unwrap();
            let units = layout.blocks.units;
            for n in 0..count * lanes as u64 {
                let (packet, lane) = (n / lanes as u64, (n % lanes as u64) as u16);
                let header = Rsp { lane, ..like() }.at(begin + 16 * packet).unwrap();
                let mut octets = header.write().to_vec();
                octets.resize(7824, 0);
                let place = layout.place(&octets).unwrap();
                let position = place.key.number * units + place.offset / 7824;
                prop_assert_eq!(position, begin / 16 * lanes as u64 + n);
            }
        }
    }

    #[test]
    fn what_is_of_another_stream_is_refused() {
        let layout = LofarLayout::new(Blocks::new(7824, 0, 1, 1 << 20).unwrap(), &like(), &[3]).unwrap();
        let place = |header: Rsp, bytes: usize| {
            let mut octets = header.write().to_vec();
            octets.resize(bytes, 0);
            layout.place(&octets).map(|_| ())
        };
        let right = like().at(1 << 40).unwrap();
        assert_eq!(place(right, 7824), Ok(()));
        assert_eq!(place(Rsp { payload_error: 1, board: 7, ..right }, 7824), Ok(()), "it came all the same");
        assert_eq!(place(Rsp { lane: 2, ..right }, 7824), Err(Reject::UnknownThread));
        assert_eq!(place(Rsp { clock: 0, slice: 0, ..right }, 7824), Err(Reject::BadField), "another clock");
        assert_eq!(
            place(Rsp { sample: 2, beamlets: 244, ..right }, 7824),
            Err(Reject::BadField),
            "another mode"
        );
        assert_eq!(place(Rsp { second: UNSET, ..right }, 7824), Err(Reject::BadField));
        assert_eq!(place(right, 7000), Err(Reject::Truncated));
        assert_eq!(place(right, 8000), Err(Reject::WrongSize));
        assert_eq!(
            LofarLayout::new(Blocks::new(7824, 0, 1, 1 << 20).unwrap(), &like(), &[32]).unwrap_err(),
            Reject::UnknownThread
        );
    }
}
