//! What a reader does with the log of a program that places heaps: the same as with a train, but for the copy.

use super::placing::PlacedAt;
use super::state::{ReaderState, StreamState};
use super::store::{HeadOf, Run, Store};
use super::train::TableLock;
use crate::receive::placer::{TakenFromLog, Until};
use skyhaul_core::placement::Reject;
use skyhaul_core::placement::rule::LoggedPacket;
use skyhaul_core::wire::HeapLayout;
use skyhaul_core::wire::keyed::Keyed;
use std::net::SocketAddr;

/// Packets of a run of the log, with their heads, of `each` bytes.
struct Logged<'a> {
    packets: &'a [LoggedPacket],
    heads: &'a [u8],
    each: usize,
    layout: HeapLayout,
}

impl<'a> Logged<'a> {
    fn head(&self, at: usize) -> &'a [u8] {
        self.heads.get(at * self.each..(at + 1) * self.each).unwrap_or_default()
    }
}

impl<S: Store> StreamState<S> {
    /// Takes what the log of this sender's program has, in order.
    pub(crate) fn add_log(
        &self,
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        sender: &SocketAddr,
        until: Until,
    ) -> TakenFromLog {
        let mut taken = TakenFromLog::default();
        while let Some(place) = held.table().store.placing_of(sender)
            && let Some((_, has_front)) = place.placer.next_run(until)
        {
            let packets = std::mem::take(&mut place.placer.run);
            let heads = std::mem::take(&mut place.placer.heads);
            me.counts.trains += u64::from(!has_front);
            let (each, layout) = (heads.len() / packets.len().max(1), place.layout);
            let logged = Logged { packets: &packets, heads: &heads, each, layout };
            let bytes = self.add_logged(held, me, sender, &logged);
            taken.packets += packets.len() as u64;
            taken.bytes += bytes;
            if let Some(place) = held.table().store.placing_of(sender) {
                place.bytes += bytes;
                (place.placer.run, place.placer.heads) = (packets, heads);
            }
        }
        taken
    }

    /// Packets of one train. Returns their bytes.
    fn add_logged(
        &self,
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        address: &SocketAddr,
        logged: &Logged<'_>,
    ) -> u64 {
        self.update_clock(me);
        me.counts.packets += logged.packets.len() as u64;
        let sender = Self::sender(held.table(), me, address);
        // Packets before this one are placed one by one.
        let (mut at, mut alone, mut all) = (0, 0, 0);
        let mut padded = Vec::new();
        while let Some(&packet) = logged.packets.get(at) {
            let whole = logged.layout.with_padding(logged.head(at), &mut padded);
            let is_padded = whole.is_some();
            let parsed = S::Wire::peek(whole.unwrap_or_else(|| logged.head(at)));
            let (LoggedPacket::Placed { slot, unit }, Ok(Some(head))) = (packet, parsed) else {
                // An empty packet: of others, the program has read the head.
                me.counts.refuse(Reject::Truncated, 1, 0);
                at += 1;
                continue;
            };
            let place = S::Wire::placement(&head, 0);
            let count =
                if at < alone || is_padded { 1 } else { Self::logged_run(logged, at, (slot, unit), &head) };
            let packet_bytes = u64::from(place.start) + place.length;
            let run = Run::placed(place.length as usize, count, PlacedAt { slot, unit });
            let done = match &sender {
                Ok(sender) => held.add_run(me, &head, 0, &run, sender).or_else(|rejected| {
                    let packets = if count == 1 { 1 } else { rejected.packets };
                    me.counts.refuse(rejected.why, packets, run.bytes_of(packets));
                    alone = at + count;
                    Ok(packets)
                }),
                Err(why) => {
                    me.counts.refuse(*why, count, count as u64 * packet_bytes);
                    Ok::<usize, Reject>(count)
                }
            };
            let done = done.unwrap_or_default();
            at += done;
            all += done as u64 * packet_bytes;
        }
        me.counts.bytes += all;
        all
    }

    /// Number of packets, from `at` on, that lie side by side in a heap.
    fn logged_run<'a>(
        logged: &Logged<'a>,
        at: usize,
        (slot, unit): (u32, u32),
        head: &HeadOf<'a, S>,
    ) -> usize {
        let Some(follows) = S::Wire::following(head, logged.head(at)) else { return 1 };
        let is_next = |&n: &usize| {
            let next = LoggedPacket::Placed { slot, unit: unit + n as u32 };
            logged.packets.get(at + n) == Some(&next) && follows(n as u64, logged.head(at + n))
        };
        1 + (1..logged.packets.len()).take_while(is_next).count()
    }
}
