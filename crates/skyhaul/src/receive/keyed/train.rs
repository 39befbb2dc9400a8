//! Places trains of packets in the table: consecutive packets of an object are looked up and noted once.
//!
//! When packets of 1472 bytes were placed one by one, most of the 780 instructions per packet found the same heap again.
//! Packets outside such a run are placed one by one, with the same result.

use super::lock::TableLock;
use super::own::Reader;
use super::run::{Run, Sender};
use super::state::StreamState;
use super::store::{HeadOf, Store};
use skyhaul_core::wire::keyed::{Following, Head, Keyed};
use skyhaul_io::source::Train;

impl<S: Store> StreamState<S> {
    /// Place the packets of a train, each of which is a whole packet.
    #[inline]
    pub(crate) fn train(&self, held: &mut TableLock<'_, S>, me: &mut Reader<S::Out>, train: &Train<'_>) {
        self.look_at_clock(me);
        me.counts.trains += 1;
        me.counts.packets += train.count() as u64;
        me.counts.bytes += train.bytes.len() as u64;
        match Self::sender(held.table(), me, train.sender) {
            Err(why) => {
                me.counts.refused_bytes += train.bytes.len() as u64;
                train.packets().for_each(|_| me.counts.rejects.add(why));
            }
            Ok(sender) => {
                // Without a stride it is one packet of any length.
                let stride = if train.stride == 0 { train.bytes.len() } else { train.stride };
                let mut left = train.bytes;
                loop {
                    let placed = Self::next_run(held, me, left, stride, &sender);
                    match left.split_at_checked(placed * stride) {
                        Some((_, rest)) if !rest.is_empty() => left = rest,
                        _ => break,
                    }
                }
            }
        }
        if held.shared {
            held.finish(me);
        }
    }

    /// Place, or reject, the consecutive packets at the front of `bytes`. Returns the number of packets.
    #[inline]
    fn next_run(
        held: &mut TableLock<'_, S>,
        me: &mut Reader<S::Out>,
        bytes: &[u8],
        stride: usize,
        sender: &Sender,
    ) -> usize {
        let packet = &bytes[..stride.min(bytes.len())];
        let head = match S::Wire::read(packet) {
            Ok(head) => head,
            Err(why) => {
                me.counts.refuse(why, 1, packet.len() as u64);
                return 1;
            }
        };
        let more = bytes[packet.len()..].chunks_exact(stride.max(1));
        let following = head
            .following(packet)
            .map_or(0, |next| (1..).zip(more).take_while(|&(n, packet)| next.is(n, packet)).count());
        if following == 0 {
            Self::one(held, me, &head, packet, sender);
            return 1;
        }
        let run = Run::of(head.placement(0).start as usize, bytes, stride, 1 + following);
        let refused = match held.run(me, &head, 0, run, sender) {
            Ok(placed) => return placed,
            Err(refused) => refused,
        };
        me.counts.refuse(refused.why, refused.packets, run.bytes_of(refused.packets));
        for packet in bytes.chunks_exact(stride).take(1 + following).skip(refused.packets) {
            match S::Wire::read(packet) {
                Ok(head) => Self::one(held, me, &head, packet, sender),
                Err(why) => me.counts.refuse(why, 1, packet.len() as u64),
            }
        }
        1 + following
    }

    #[inline]
    fn one(
        held: &mut TableLock<'_, S>,
        me: &mut Reader<S::Out>,
        head: &HeadOf<'_, S>,
        packet: &[u8],
        sender: &Sender,
    ) {
        let payload = &packet[head.placement(0).start as usize..];
        if let Err(why) = held.part(me, head, 0, payload, sender) {
            me.counts.refuse(why, 1, payload.len() as u64);
        }
    }
}
