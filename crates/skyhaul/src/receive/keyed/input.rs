//! Packets that follow each other in memory, as a reader.

use super::fed::Input;
use super::lock::TableLock;
use super::own::Reader;
use super::state::StreamState;
use super::store::Store;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::keyed::{Head, Keyed};
use skyhaul_io::source::SourceStats;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Packets that follow each other in memory: a file, or what a TCP connection carried.
pub(crate) struct Bytes<T> {
    bytes: T,
    at: usize,
    sender: Option<SocketAddr>,
    packets: u64,
    /// The next head is searched for.
    lost: bool,
    /// Packets of a heap follow each other: where those of another begin, it is over. The heap that is under way.
    whole: bool,
    heap: Option<u64>,
}

/// Bytes of memory that are read in one look, however often each of them is.
const STRETCH: usize = 1 << 20;

impl<T: AsRef<[u8]>> Bytes<T> {
    pub(crate) fn new(bytes: T) -> Self {
        Self { bytes, at: 0, sender: None, packets: 0, lost: false, whole: false, heap: None }
    }

    /// The same of bytes in which all that there is of a heap lies together; `heap` went on before them.
    pub(crate) fn heap_by_heap(bytes: T, heap: Option<u64>) -> Self {
        Self { whole: true, heap, ..Self::new(bytes) }
    }

    /// The heap that is under way at the end.
    pub(crate) fn heap(&self) -> Option<u64> {
        self.heap
    }
}

impl<S: Store, T: AsRef<[u8]> + Send> Input<S> for Bytes<T> {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        // Readers of memory are told apart by a port of nobody's address.
        let port = me.number as u16;
        let from = *self.sender.get_or_insert(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        let (bytes, before) = (self.bytes.as_ref(), self.packets);
        let mut read = 0;
        core.look_at_clock(me);
        let mut held = TableLock::new(core);
        while self.at < bytes.len() && read < STRETCH && !core.is_over() {
            let rest = &bytes[self.at..];
            let found = if self.lost { Err(Reject::BadMagic) } else { S::Wire::peek(rest) };
            if let Ok(Some(head)) = found
                && let place = head.placement(0)
                && let Some(payload) = rest
                    .get(place.start as usize..)
                    .zip(usize::try_from(place.length).ok())
                    .and_then(|(behind, length)| behind.get(..length))
            {
                let end = place.start as usize + payload.len();
                me.counts.bytes += end as u64;
                if self.whole
                    && self.heap.replace(place.key.number).is_some_and(|heap| heap != place.key.number)
                {
                    held.table().end_heaps(me.now);
                }
                let sender = StreamState::sender(held.table(), me, &from);
                let placed = sender.and_then(|sender| held.part(me, &head, 0, payload, &sender));
                if let Err(why) = placed {
                    me.counts.rejects.add(why);
                    me.counts.refused_bytes += payload.len() as u64;
                }
                self.packets += 1;
                self.at += end;
                read += end;
                continue;
            }
            let skip = match found {
                // It ends beyond the bytes: what is in it may look like packets, and is none.
                Ok(_) => {
                    me.counts.rejects.add(Reject::Truncated);
                    rest.len()
                }
                Err(_) => {
                    let (skip, is_head) = next_head::<S::Wire>(rest, usize::from(!self.lost), &mut read);
                    self.lost = !is_head;
                    skip
                }
            };
            me.counts.skipped_bytes += skip as u64;
            self.at += skip;
        }
        let packets = self.packets - before;
        me.counts.packets += packets;
        me.counts.trains += 1;
        held.finish(me);
        Ok(packets as usize)
    }

    fn is_finished(&self) -> bool {
        self.at >= self.bytes.as_ref().len()
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            packets: self.packets,
            bytes: self.at as u64,
            tier: "bytes",
            because: "they are in memory".into(),
            ..SourceStats::default()
        }
    }
}

/// Bytes from `from` on until something that can be a head, and whether there is; or as many as could be searched before
/// a [`STRETCH`] was `read`. A head that is none costs what it makes us read of it, again and again.
fn next_head<W: Keyed>(bytes: &[u8], from: usize, read: &mut usize) -> (usize, bool) {
    for at in from..bytes.len() {
        if *read >= STRETCH {
            return (at, false);
        }
        *read += 1;
        let rest = &bytes[at..];
        if W::MAGIC.first().is_none_or(|first| rest[0] == *first) {
            if matches!(W::peek(rest), Ok(Some(_))) {
                return (at, true);
            }
            *read += W::examined(rest);
        }
    }
    (bytes.len(), false)
}

#[cfg(test)]
mod tests {
    use super::super::config::StreamConfig;
    use super::super::ring::Ring;
    use super::super::store::ObjectStore;
    use super::*;
    use crate::spead::receive::tests::{config, packets};
    use skyhaul_core::placement::Nanos;
    use skyhaul_core::wire::spead::SpeadWire;
    use std::sync::Arc;
    use std::time::Instant;

    fn core(config: &StreamConfig) -> StreamState<ObjectStore<SpeadWire>> {
        let store = ObjectStore::new(config, Nanos(0));
        StreamState::new(config, Instant::now(), store, Arc::new(Ring::new(config.ring)))
    }

    /// Looks until the end; the most bytes that one of them passed, and how many there were.
    fn looks(bytes: &[u8], heaps: u64) -> (usize, usize) {
        let core = core(&config());
        let mut me = core.enter("test".into(), true);
        let mut input = Bytes::new(bytes);
        let (mut most, mut looks) = (0, 0);
        while !Input::<ObjectStore<SpeadWire>>::is_finished(&input) {
            let before = input.at;
            input.look(&core, &mut me).unwrap();
            assert!(input.at > before, "a look brings it further");
            (most, looks) = (most.max(input.at - before), looks + 1);
        }
        assert_eq!((me.counts.heaps, me.counts.rejects.total()), (heaps, 0));
        assert_eq!(me.counts.bytes + me.counts.skipped_bytes, bytes.len() as u64);
        (most, looks)
    }

    #[test]
    fn garbage_ends_a_look_as_packets_do() {
        let good: Vec<u8> = packets(1, 1000, 1472).concat();
        let noise = vec![0xAA; 5 * STRETCH];
        let (most, count) = looks(&[&noise[..], &good].concat(), 1);
        assert!(most <= STRETCH + good.len() && count >= 5, "{most} bytes in one of {count} looks");
        // Nothing is found later than it would be without the bound: what looks like a head, and ends beyond the bytes, is
        // passed over wherever a look ends.
        let claims = [0x53, 4, 2, 6, 0, 0, 0xFF, 0xFF].repeat(1000);
        let (_, count) = looks(&[&noise[..STRETCH - 100], &claims, &good].concat(), 1);
        assert!(count > 100, "each of them costs its half megabyte, not {count} looks");
    }

    #[test]
    fn heads_that_are_none_and_long_to_read_end_a_look() {
        // Each is read to its end, half a megabyte further, before it is seen that nothing in it tells a heap.
        let bad = [0x53, 4, 2, 6, 0, 0, 0xFF, 0xFF].repeat(70_000);
        let core = core(&config());
        let mut me = core.enter("test".into(), true);
        let mut input = Bytes::new(bad);
        for _ in 0..50 {
            let before = input.at;
            input.look(&core, &mut me).unwrap();
            assert!((1..=64).contains(&(input.at - before)), "{} bytes", input.at - before);
        }
    }
}
