//! What one sender sends, found from its first packets.
//!
//! Nothing announces a VDIF stream: whether a sequence number precedes the frame and in which byte order, how long
//! frames are, how many threads there are, which half of a frame a FILA10G datagram is, all has to be seen. So the
//! [`Learner`] keeps the heads of the first packets and lets them vote. A broken or hostile packet is one vote.
//!
//! ```
//! use skyhaul_core::wire::{Format, Learner, LearnOptions, vdif::Vdif, vtp, Order};
//!
//! let shape = Vdif::shape(8000, 8, 2, false, false).unwrap();
//! let mut learner = Learner::new(LearnOptions::default());
//! for n in 0..40 {
//!     let frame = Vdif { thread: n % 2, ..shape.at(1_767_225_600, n / 2).unwrap() };
//!     let mut packet = vtp::write(1000 + u64::from(n), Order::Big).to_vec();
//!     packet.extend(frame.write());
//!     packet.resize(8 + 8032, 0);
//!     learner.observe(&packet);
//! }
//! let format = learner.conclude(false).unwrap().unwrap();
//! assert_eq!((format.format, format.sequence, format.threads.len()), (Format::Vdif, Some(Order::Big), 2));
//! ```
//!
//! Limits: it keeps 64 octets of at most [`Learner::MOST`] packets. Threads that do not show in these (more than
//! about 50, or sent in long runs one after the other) have to be given in [`LearnOptions::threads`].

mod vdif;

use super::{
    ejfat,
    fila10g::{self, Phase},
    format::{Format, Quirk, StreamFormat, Thread},
    header::Order,
    layout::{Keep, Place},
    mark5b::{self, Mark5b},
    spead::{Flavour, Packet, Spead},
    vdif::Vdif,
    vtp,
};
use crate::placement::Reject;

/// What is known beforehand, and what is wanted.
#[derive(Clone, Debug)]
pub struct LearnOptions {
    /// The format, or [`Format::Auto`].
    pub format: Format,
    /// Which octets of a datagram to keep.
    pub keep: Keep,
    /// How to place.
    pub place: Place,
    /// Frames of one thread in a second, where known better than the headers tell.
    pub frames_per_second: Option<u32>,
    /// The threads of a VDIF stream, in the order in which they are to lie in an object.
    pub threads: Option<Vec<u16>>,
    /// Room for an object, octets.
    pub object_bytes: u64,
    /// A Unix time not more than 500 days from the data, to complete Mark 5B dates: usually now.
    pub near: i64,
}

impl Default for LearnOptions {
    /// Any format, frames kept whole, objects of 16 MiB, dates near 2026.
    fn default() -> LearnOptions {
        LearnOptions {
            format: Format::Auto,
            keep: Keep::StripNetwork,
            place: Place::Auto,
            frames_per_second: None,
            threads: None,
            object_bytes: 16 << 20,
            near: 1_767_225_600,
        }
    }
}

/// What is kept of a packet.
const HEAD: usize = 64;

/// The head of an observed packet.
#[derive(Clone, Debug)]
struct Sample {
    length: usize,
    head: [u8; HEAD],
    shape: Option<Shape>,
}

impl Sample {
    fn head(&self) -> &[u8] {
        &self.head[..self.length.min(HEAD)]
    }

    /// What follows the network format's octets.
    fn frame(&self, network: usize) -> &[u8] {
        self.head().get(network..).unwrap_or_default()
    }
}

/// What a packet on its own looks like. Packets of the same shape vote for the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Vdif { network: usize, legacy: bool, length: usize },
    Mark5b { network: usize },
    Fila10g,
    Spead(Flavour),
    Ejfat,
}

impl Shape {
    /// The shape of a packet, the most telling signs first. One shape is not told by one packet alone: half of a
    /// FILA10G's datagrams are samples only, so any datagram of that size may be one.
    pub(crate) fn of(packet: &[u8], asked: Format) -> Option<Shape> {
        let wanted = |format| asked == Format::Auto || asked == format;
        let find =
            |format, shape: fn(&[u8]) -> Option<Shape>| wanted(format).then(|| shape(packet)).flatten();
        find(Format::Spead, |p| {
            let flavour = Packet::read(p).ok()?.flavour;
            (p.len() > Spead::LEN).then_some(Shape::Spead(flavour))
        })
        .or_else(|| find(Format::Vdif, Shape::of_vdif))
        .or_else(|| find(Format::Mark5b, Shape::of_mark5b))
        .or_else(|| find(Format::Fila10g, |p| fila10g::read(p).map(|_| Shape::Fila10g)))
        .or_else(|| find(Format::Ejfat, |p| ejfat::read(p).ok().filter(Shape::fits).map(|_| Shape::Ejfat)))
    }

    fn of_vdif(packet: &[u8]) -> Option<Shape> {
        [vtp::Vtp::LEN, 0].into_iter().find_map(|network| {
            let (vdif, _) = Vdif::read(packet.get(network..)?)?;
            let (length, legacy) = (vdif.frame_bytes(), vdif.legacy == 1);
            let fits = length + network == packet.len() && length > vdif.header_bytes();
            fits.then_some(Shape::Vdif { network, legacy, length })
        })
    }

    fn of_mark5b(packet: &[u8]) -> Option<Shape> {
        let network = packet.len().checked_sub(mark5b::FRAME).filter(|n| [0, vtp::Vtp::LEN].contains(n))?;
        let (header, _) = Mark5b::read(packet.get(network..)?)?;
        (header.sync == mark5b::SYNC).then_some(Shape::Mark5b { network })
    }

    /// Whether a segment lies in its event; a magic number, where there is no balancer, there is not.
    fn fits((header, payload): &(ejfat::Reassembly, &[u8])) -> bool {
        let end = u64::from(header.offset) + payload.len() as u64;
        header.reserved == 0 && !payload.is_empty() && end <= u64::from(header.length)
    }
}

/// Finds what one sender sends.
#[derive(Clone, Debug)]
pub struct Learner {
    options: LearnOptions,
    samples: Vec<Sample>,
}

impl Learner {
    /// Packets that are needed before anything is concluded.
    pub const LEAST: usize = 32;
    /// Packets that are kept; then it is concluded from what there is.
    pub const MOST: usize = 512;

    /// A learner that has seen nothing.
    #[must_use]
    pub fn new(options: LearnOptions) -> Learner {
        Learner { options, samples: Vec::new() }
    }

    /// Take a packet into account; those after the first [`MOST`](Self::MOST) are not.
    pub fn observe(&mut self, packet: &[u8]) {
        if self.samples.len() < Self::MOST {
            let mut head = [0; HEAD];
            head.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
            let shape = Shape::of(packet, self.options.format);
            self.samples.push(Sample { length: packet.len(), head, shape });
        }
    }

    /// What the packets agree on. `None`: more are needed, which `force` forbids (but one is needed even then).
    ///
    /// The error is [`Reject::Unrecognised`] where no format that was asked for has a majority, or one of those of
    /// [`StreamFormat::layout`].
    #[must_use]
    pub fn conclude(&self, force: bool) -> Option<Result<StreamFormat, Reject>> {
        let seen = self.samples.len();
        let last_word = force || seen >= Self::MOST;
        if seen == 0 || (!last_word && seen < Self::LEAST) {
            return None;
        }
        let Some((shape, votes)) = self.winner() else {
            return last_word.then_some(Err(Reject::Unrecognised));
        };
        let enough = if last_word { votes * 2 > seen } else { votes * 4 >= seen * 3 };
        if !enough && !force {
            return last_word.then_some(Err(Reject::Unrecognised));
        }
        let mine: Vec<&Sample> = self.samples.iter().filter(|s| s.shape == Some(shape)).collect();
        if !last_word && !self.settled(shape, &mine) {
            return None;
        }
        let format = self.format(shape, &mine);
        Some(format.and_then(|format| format.layout().map(|_| format)))
    }

    /// The shape of most packets, and how many have it.
    fn winner(&self) -> Option<(Shape, usize)> {
        let mut votes: Vec<(Shape, usize)> = Vec::new();
        for shape in self.samples.iter().filter_map(|sample| sample.shape) {
            match votes.iter_mut().find(|(other, _)| *other == shape) {
                Some((_, count)) => *count += 1,
                None => votes.push((shape, 1)),
            }
        }
        // On a tie the first seen.
        votes.into_iter().rev().max_by_key(|(_, count)| *count)
    }

    /// Whether more packets would hardly change what was found.
    fn settled(&self, shape: Shape, mine: &[&Sample]) -> bool {
        match shape {
            Shape::Vdif { network, .. } => self.options.threads.is_some() || vdif::settled(mine, network),
            _ => true,
        }
    }

    fn format(&self, shape: Shape, mine: &[&Sample]) -> Result<StreamFormat, Reject> {
        match shape {
            Shape::Vdif { network, legacy, length } => vdif::format(self, mine, network, legacy, length),
            Shape::Mark5b { network } => self.mark5b(mine, network),
            Shape::Fila10g => self.fila10g(mine),
            Shape::Spead(flavour) => Ok(StreamFormat {
                flavour: Some(flavour),
                place: Place::Sequence,
                ..self.blank(Format::Spead)
            }),
            Shape::Ejfat => {
                let mut data_ids: Vec<u16> = mine.iter().filter_map(|s| ejfat::data_id(s.head())).collect();
                data_ids.sort_unstable();
                data_ids.dedup();
                Ok(StreamFormat { data_ids, place: Place::Sequence, ..self.blank(Format::Ejfat) })
            }
        }
    }

    /// What the options tell, and nothing else.
    fn blank(&self, format: Format) -> StreamFormat {
        StreamFormat {
            format,
            keep: self.options.keep,
            place: self.options.place,
            object_bytes: self.options.object_bytes,
            network_bytes: 0,
            sequence: None,
            packet_bytes: 0,
            frame_bytes: 0,
            header_bytes: 0,
            threads: Vec::new(),
            frames_per_second: self.options.frames_per_second,
            station: None,
            edv: None,
            bits: 0,
            channels: 0,
            complex: false,
            phase: None,
            flavour: None,
            data_ids: Vec::new(),
            quirks: Vec::new(),
            near: self.options.near,
        }
    }

    /// The byte order of the sequence number before the frames, and the way to place that follows.
    fn sequence(&self, mine: &[&Sample], network: usize) -> Result<(Option<Order>, Place), Reject> {
        let heads = || mine.iter().map(|sample| sample.head());
        let found = if network == 0 {
            None
        } else if let [only] = mine {
            // One number has no neighbour: counters are small.
            let read = |order| vtp::psn(only.head(), order);
            Some(if read(Order::Big) < read(Order::Little) { Order::Big } else { Order::Little })
        } else {
            vtp::detect(heads())
        };
        match (self.options.place, found) {
            (Place::Sequence, None) => Err(Reject::Unrecognised),
            (Place::Auto | Place::Sequence, Some(_)) => Ok((found, Place::Sequence)),
            (Place::Auto | Place::Time, _) => Ok((found, Place::Time)),
        }
    }

    fn mark5b(&self, mine: &[&Sample], network: usize) -> Result<StreamFormat, Reject> {
        let read = |sample: &&Sample| Some(Mark5b::read(sample.frame(network))?.0);
        let headers: Vec<Mark5b> = mine.iter().filter_map(read).collect();
        let (sequence, place) = self.sequence(mine, network)?;
        let template = mine.first().map_or(&[][..], |sample| sample.frame(network));
        Ok(StreamFormat {
            place,
            sequence,
            network_bytes: network,
            packet_bytes: mark5b::FRAME + network,
            frame_bytes: mark5b::FRAME,
            quirks: mark5b_quirks(&headers, network > 0 && sequence.is_none()),
            ..self.mark5b_frames(Format::Mark5b, &headers, template)
        })
    }

    fn fila10g(&self, mine: &[&Sample]) -> Result<StreamFormat, Reject> {
        // The sync word stands at the front of first halves: their counters must agree in parity.
        let counter = |s: &&Sample| fila10g::Fila10g::read(s.head()).map(|(header, _)| header.counter);
        let firsts: Vec<(Phase, Mark5b, &[u8])> = mine
            .iter()
            .filter_map(|s| {
                let (header, _) = Mark5b::read(s.frame(fila10g::Fila10g::LEN))?;
                let sync = header.sync == mark5b::SYNC;
                Some((Phase::of(counter(s)?), header, s.frame(fila10g::Fila10g::LEN))).filter(|_| sync)
            })
            .collect();
        let even = firsts.iter().filter(|(phase, ..)| *phase == Phase::Even).count();
        let odd = firsts.len() - even;
        if firsts.len() * 8 < mine.len() || even == odd || self.options.place == Place::Time {
            return Err(Reject::Unrecognised);
        }
        let headers: Vec<Mark5b> = firsts.iter().map(|(_, header, _)| *header).collect();
        Ok(StreamFormat {
            place: Place::Sequence,
            network_bytes: fila10g::Fila10g::LEN,
            packet_bytes: fila10g::DATAGRAM,
            frame_bytes: fila10g::HALF,
            phase: Some(if even > odd { Phase::Even } else { Phase::Odd }),
            quirks: mark5b_quirks(&headers, false),
            ..self.mark5b_frames(Format::Fila10g, &headers, firsts[0].2)
        })
    }

    /// What Mark 5B headers tell, whole or half.
    fn mark5b_frames(&self, format: Format, headers: &[Mark5b], template: &[u8]) -> StreamFormat {
        let header = template.get(..Mark5b::LEN).unwrap_or_default().to_vec();
        StreamFormat {
            header_bytes: Mark5b::LEN,
            threads: vec![Thread { id: 0, shift: 0, header }],
            frames_per_second: self.options.frames_per_second.or_else(|| mark5b::frames_per_second(headers)),
            ..self.blank(format)
        }
    }
}

fn mark5b_quirks(headers: &[Mark5b], no_sequence: bool) -> Vec<Quirk> {
    let no_checksum = headers.iter().all(|header| header.crc == 0);
    [(no_checksum, Quirk::NoChecksum), (no_sequence, Quirk::NoSequence)]
        .into_iter()
        .filter_map(|(is, quirk)| is.then_some(quirk))
        .collect()
}

#[cfg(test)]
mod tests;
