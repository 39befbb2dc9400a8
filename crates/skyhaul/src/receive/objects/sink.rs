//! What sinks see of heaps and events, and how it is counted.
//!
//! Apart from the tables: who writes a sink reads this file only.

use crate::receive::Nowhere;
use crate::receive::keyed::Object;
use serde::{Deserialize, Serialize};
use skyhaul_core::pattern;
use skyhaul_core::wire::FamilyRef;
use skyhaul_core::wire::keyed::{Data, Keyed, Left, Stored};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

/// A finished object, as sinks see it.
#[derive(Debug)]
pub struct Received<'a> {
    /// Its family.
    pub family: FamilyRef,
    /// Its number: heap counter, tick.
    pub number: u64,
    /// Which source it is of, where its packets say that: the data id of an event. Otherwise 0.
    pub source: u16,
    /// Who sent its first packet.
    pub sender: SocketAddr,
    /// Whether nothing is missing.
    pub complete: bool,
    /// Bytes of the payload that did not come, ascending and disjoint. They are zero.
    pub missing: &'a [Range<u64>],
    /// Bytes of the payload that came.
    pub received: u64,
    /// Bytes of the payload, if a packet told.
    pub size: Option<u64>,
    /// The payload.
    pub payload: &'a [u8],
    /// What of it is data.
    pub data: Data,
    /// How it is stored.
    pub stored: &'a dyn Storable,
}

/// An object's form on disks, whatever its family.
pub trait Storable: std::fmt::Debug {
    /// See [`Keyed::describe`].
    fn describe(&self) -> String;
    /// See [`Keyed::heads_bytes`].
    fn heads_bytes(&self, parts: usize) -> usize;
    /// See [`Keyed::store`].
    fn store(&self, left: &Left, to: &mut Vec<u8>) -> Option<Stored>;
}

impl<W: Keyed> Storable for Object<W> {
    fn describe(&self) -> String {
        W::describe(&self.kept)
    }

    fn heads_bytes(&self, parts: usize) -> usize {
        W::heads_bytes(&self.kept, parts)
    }

    fn store(&self, left: &Left, to: &mut Vec<u8>) -> Option<Stored> {
        W::store(&self.kept, left, to)
    }
}

impl<'a> Received<'a> {
    /// An object of this family.
    #[must_use]
    pub fn of<W: Keyed>(family: FamilyRef, object: &'a Object<W>) -> Self {
        let payload = object.payload();
        Received {
            family,
            number: object.number,
            source: object.source,
            sender: object.sender,
            complete: object.complete,
            missing: &object.missing,
            received: object.received,
            size: object.size,
            payload,
            data: W::data(&object.kept, payload.len() as u64, object.complete),
            stored: object,
        }
    }
}

impl Received<'_> {
    /// The ranges of the payload that came.
    pub fn present(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let end = self.payload.len();
        let within = move |at: u64| usize::try_from(at).unwrap_or(end).min(end);
        let starts = std::iter::once(0).chain(self.missing.iter().map(move |gap| within(gap.end)));
        let ends = self.missing.iter().map(move |gap| within(gap.start)).chain([end]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
    }

    /// The parts of the payload that are data.
    pub fn data(&self) -> impl Iterator<Item = &[u8]> {
        let parts: &[Range<u64>] = match &self.data {
            Data::None | Data::All => &[],
            Data::Parts(parts) => parts,
        };
        let all = (self.data == Data::All).then_some(self.payload);
        let part = |range: &Range<u64>| self.payload.get(range.start as usize..range.end as usize);
        all.into_iter().chain(parts.iter().filter_map(part))
    }

    /// Whether what came of its data is the pattern of its number.
    fn is_pattern(&self) -> bool {
        let all = 0..self.payload.len() as u64;
        let data = match &self.data {
            Data::None => &[],
            Data::All => std::slice::from_ref(&all),
            Data::Parts(parts) => parts.as_slice(),
        };
        data.iter().all(|part| {
            let gaps = self.missing.iter().filter(|gap| gap.start < part.end && gap.end > part.start);
            let ends = gaps.clone().map(|gap| gap.start).chain([part.end]);
            let starts = [part.start].into_iter().chain(gaps.map(|gap| gap.end));
            starts.zip(ends).filter(|(start, end)| start < end).all(|(start, end)| {
                let bytes = self.payload.get(start as usize..end as usize).unwrap_or_default();
                pattern::first_error(self.number, start, bytes).is_none()
            })
        })
    }
}

/// Where finished objects go. Called on a thread of its own: it may take its time, and the tables' rings fill meanwhile.
pub trait ObjectSink: Send {
    /// An object; its memory is given back when this returns.
    ///
    /// # Errors
    /// Nothing more can be taken: the receiver ends.
    fn object(&mut self, object: &Received<'_>) -> io::Result<()>;

    /// Time passes.
    fn tick(&mut self) {}

    /// Those were all.
    ///
    /// # Errors
    /// The last of them could not be written.
    fn finished(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Objects that go nowhere.
impl ObjectSink for Nowhere {
    fn object(&mut self, _: &Received<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Objects of a family by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectCounts {
    /// All of it came.
    pub complete: u64,
    /// Some of it came.
    pub incomplete: u64,
    /// Nothing of them came, by the gaps in their senders' numbers; `None` where that is not known of any sender.
    pub missing: Option<u64>,
    /// Senders of which it is not known: their numbers have no regular step.
    pub unknown_senders: u64,
    /// Finished, but taken too slowly.
    pub ring_full: u64,
    /// Bytes that are missing in the incomplete ones.
    pub missing_bytes: u64,
    /// Bytes of payload that came.
    pub payload_bytes: u64,
    /// Whose payload is not the pattern, where that was asked for.
    pub wrong: u64,
}

impl ObjectCounts {
    pub(super) fn add(&mut self, object: &Received<'_>, verify: bool) {
        self.payload_bytes += object.received;
        if object.complete {
            self.complete += 1;
        } else {
            self.incomplete += 1;
            self.missing_bytes += object.missing.iter().map(|gap| gap.end - gap.start).sum::<u64>();
        }
        self.wrong += u64::from(verify && !object.is_pattern());
    }
}
