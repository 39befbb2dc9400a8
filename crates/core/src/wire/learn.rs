//! Learns the format of one sender from its first packets.
//!
//! Streams are not announced: whether a sequence number precedes the frame and in which byte order, how long frames are,
//! how many threads there are, and which half of a frame a FILA10G datagram is must be found from the packets. So the
//! [`Learner`] keeps the heads of the first packets and lets them vote. A damaged or hostile packet is one vote.
//!
//! ```
//! use skyhaul_core::wire::{Learner, LearnOptions, vdif::Vdif, vtp, Order};
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
//! assert_eq!((format.family.name(), format.sequence, format.threads.len()), ("vdif", Some(Order::Big), 2));
//! ```
//!
//! Limits: it keeps 64 bytes of at most [`Learner::MOST`] packets. Threads that do not occur in these (more than about
//! 50, or sent in long runs) must be given in [`LearnOptions::threads`].

use super::{
    family::{Format, HEAD, Known, LearnOptions, Sample, Seen, Shape, StreamFormat},
    frame::Objects,
    header::Order,
    layout::{Keep, Place},
    vtp,
};
use crate::placement::Reject;
use std::sync::Arc;

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

impl Sample {
    /// The bytes kept.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head[..self.length.min(HEAD)]
    }

    /// The bytes after the network header.
    #[must_use]
    pub fn frame(&self, network: usize) -> &[u8] {
        self.head().get(network..).unwrap_or_default()
    }
}

impl Shape {
    /// The shape of a packet; the most specific signs are checked first. A single packet is no proof, because samples
    /// may contain any bytes.
    #[must_use]
    pub fn of(packet: &[u8], asked: Format) -> Option<Shape> {
        asked.families().find_map(|family| family.shape(packet))
    }
}

impl<'a> Seen<'a> {
    /// The heads, from the frame on.
    pub fn frames(self) -> impl Iterator<Item = &'a [u8]> {
        self.samples.iter().map(move |sample| sample.frame(self.shape.network))
    }

    /// A format with the values of the options only.
    #[must_use]
    pub fn blank<K: Known>(self, own: K) -> StreamFormat {
        StreamFormat {
            family: K::FAMILY,
            keep: self.options.keep,
            place: self.options.place,
            object_bytes: self.options.object_bytes,
            network_bytes: 0,
            sequence: None,
            packet_bytes: 0,
            frame_bytes: 0,
            header_bytes: 0,
            parts: 1,
            threads: Vec::new(),
            frames_per_second: self.options.frames_per_second,
            station: None,
            quirks: Vec::new(),
            near: self.options.near,
            own: Arc::new(own),
        }
    }

    /// The byte order of the sequence number before the frames, and the resulting way to place.
    ///
    /// # Errors
    /// [`Reject::Unrecognised`] if there is no sequence number and one was requested.
    pub fn sequence(self) -> Result<(Option<Order>, Place), Reject> {
        let found = if self.shape.network == 0 {
            None
        } else if let [only] = self.samples {
            // A single number has no neighbour to compare; counters are small.
            Some(vtp::likely_order(only.head()))
        } else {
            vtp::detect(self.samples.iter().map(|sample| sample.head()))
        };
        match (self.options.place, found) {
            (Place::Sequence, None) => Err(Reject::Unrecognised),
            (Place::Auto | Place::Sequence, Some(_)) => Ok((found, Place::Sequence)),
            (Place::Auto | Place::Time, _) => Ok((found, Place::Time)),
        }
    }
}

/// Learns the format of one sender.
#[derive(Clone, Debug)]
pub struct Learner {
    options: LearnOptions,
    samples: Vec<Sample>,
}

impl Learner {
    /// Packets needed before a conclusion.
    pub const LEAST: usize = 32;
    /// Packets needed if each is self-contained.
    const ENOUGH: usize = 3;
    /// Maximum number of packets kept; then a conclusion is drawn from these.
    pub const MOST: usize = 512;

    /// A learner without packets.
    #[must_use]
    pub fn new(options: LearnOptions) -> Learner {
        Learner { options, samples: Vec::new() }
    }

    /// Add a packet; those after the first [`MOST`](Self::MOST) are ignored.
    pub fn observe(&mut self, packet: &[u8]) {
        if self.samples.len() < Self::MOST {
            let mut head = [0; HEAD];
            head.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
            let shape = Shape::of(packet, self.options.format);
            self.samples.push(Sample { length: packet.len(), head, shape });
        }
    }

    /// The format that the packets agree on. `None`: more packets are needed; with `force`, one is enough.
    ///
    /// The error is [`Reject::Unrecognised`] if no requested format has a majority, or one of [`StreamFormat::visit`].
    #[must_use]
    pub fn conclude(&self, force: bool) -> Option<Result<StreamFormat, Reject>> {
        let seen = self.samples.len();
        let last_word = force || seen >= Self::MOST;
        if seen == 0 || (!last_word && seen < Self::LEAST && !self.says_all()) {
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
        let seen = Seen { options: &self.options, shape, samples: &mine };
        if !last_word && self.options.threads.is_none() && !shape.family.settled(&seen) {
            return None;
        }
        let format = shape.family.learn(&seen);
        // A stream that is not of frames has no layout that could fail.
        let checked = |format: StreamFormat| match format.geometry() {
            Ok(_) | Err(Reject::NotFrames) => Ok(format),
            Err(why) => Err(why),
        };
        Some(format.and_then(checked))
    }

    /// Whether nothing more must be learned, because all packets are parts of keyed objects and self-contained. Holding
    /// back more of them would prevent packets of other senders from completing their objects.
    fn says_all(&self) -> bool {
        let is_keyed =
            |sample: &Sample| sample.shape.is_some_and(|shape| shape.family.objects() != Objects::Frames);
        self.samples.len() >= Self::ENOUGH && self.samples.iter().all(is_keyed)
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
        // On a tie, the first seen wins.
        votes.into_iter().rev().max_by_key(|(_, count)| *count)
    }
}

#[cfg(test)]
mod tests;
