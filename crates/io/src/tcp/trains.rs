//! A stretch of a stream, cut into trains: the part that needs no socket.

use super::{Frame, Framer};
use crate::source::Train;
use std::net::SocketAddr;

/// Cuts a stretch of stream into trains.
pub(super) struct Cut<'a> {
    pub(super) framer: &'a dyn Framer,
    pub(super) longest: usize,
    pub(super) sender: &'a SocketAddr,
}

impl Cut<'_> {
    /// Hand on all whole packets in `bytes`, equal neighbours as one train. Returns how many bytes they are, and
    /// whether what follows may be the beginning of a packet.
    pub(super) fn trains(&self, bytes: &[u8], mut each: impl FnMut(Train<'_>)) -> (usize, bool) {
        let (mut first, mut at, mut stride) = (0, 0, 0);
        let mut train = |from: usize, to: usize, stride: usize| {
            if from < to {
                each(Train { bytes: &bytes[from..to], stride, ..Train::single(&[], self.sender) });
            }
        };
        let sound = loop {
            let rest = &bytes[at..];
            if rest.is_empty() {
                break true;
            }
            match self.framer.frame(rest) {
                Frame::Packet(n) if n > 0 && n <= self.longest => {
                    if n > rest.len() {
                        break true;
                    }
                    if n != stride {
                        train(first, at, stride);
                        (first, stride) = (at, n);
                    }
                    at += n;
                }
                // A head longer than any packet is invalid.
                Frame::Incomplete => break rest.len() < self.longest,
                Frame::Packet(_) | Frame::Garbage => break false,
            }
        };
        train(first, at, stride);
        (at, sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], framer: &dyn Framer, longest: usize) -> (Vec<(usize, usize)>, usize, bool) {
        let sender = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut trains = Vec::new();
        let cut = Cut { framer, longest, sender: &sender };
        let (used, sound) = cut.trains(bytes, |t| trains.push((t.bytes.len(), t.stride)));
        (trains, used, sound)
    }

    /// The first byte is the length.
    fn by_first_byte(head: &[u8]) -> Frame {
        if head[0] == 0xFF { Frame::Garbage } else { Frame::Packet(head[0].into()) }
    }

    #[test]
    fn equal_neighbours_are_a_train_and_the_rest_is_kept() {
        let stream = [3, 0, 0, 3, 0, 0, 2, 0, 3, 0];
        assert_eq!(cut(&stream, &by_first_byte, 10), (vec![(6, 3), (2, 2)], 8, true));
        assert_eq!(cut(&[1, 1], &Fixed2, 10), (vec![], 0, true));
        assert_eq!(cut(&[], &by_first_byte, 10), (vec![], 0, true));
    }

    #[test]
    fn what_is_no_packet_ends_the_stream() {
        assert_eq!(cut(&[2, 0, 0xFF, 1], &by_first_byte, 10), (vec![(2, 2)], 2, false));
        assert_eq!(cut(&[2, 0, 0, 1], &by_first_byte, 10), (vec![(2, 2)], 2, false), "a length of zero");
        assert_eq!(cut(&[11, 0], &by_first_byte, 10), (vec![], 0, false), "longer than allowed");
        assert_eq!(cut(&[0; 10], &Fixed2, 10), (vec![], 0, false), "a head without end");
    }

    struct Fixed2;
    impl Framer for Fixed2 {
        fn frame(&self, _: &[u8]) -> Frame {
            Frame::Incomplete
        }
    }
}
