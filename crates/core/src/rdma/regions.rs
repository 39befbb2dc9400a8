//! Registered memory by STag: who may do what, where.
//!
//! An STag is an index of 24 bits and a key of 8 bits, both random. The index of an STag that has ended is not drawn again
//! while the last 4096 to end are remembered, so that a late segment finds no newer buffer.

use super::event::MemorySlice;
use crate::wire::rdma::RdmaRefusal;
use std::collections::{BTreeMap, VecDeque};

/// Ended STags whose index is not used again.
const RESTING: usize = 4096;
/// Registered buffers, at most: so few that a free index is soon drawn.
const MAX_REGIONS: usize = 1 << 16;

/// What a peer may do in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegionRights {
    /// Read from it.
    pub read: bool,
    /// Write to it.
    pub write: bool,
    /// Invalidate its STag by a Send.
    pub invalidate: bool,
}

impl RegionRights {
    /// Read only.
    pub const READ: RegionRights = RegionRights { read: true, write: false, invalidate: false };
    /// Write only.
    pub const WRITE: RegionRights = RegionRights { read: false, write: true, invalidate: false };

    fn allow(self, needed: RegionRights) -> bool {
        (self.read || !needed.read)
            && (self.write || !needed.write)
            && (self.invalidate || !needed.invalidate)
    }

    fn or(self, other: RegionRights) -> RegionRights {
        RegionRights {
            read: self.read || other.read,
            write: self.write || other.write,
            invalidate: self.invalidate || other.invalidate,
        }
    }
}

#[derive(Debug)]
enum Use {
    Region {
        everyone: RegionRights,
        granted: BTreeMap<u32, RegionRights>,
    },
    /// The buffer of a Read: offsets count from the Read's start, and this request asked from `first` on.
    Sink {
        connection: u32,
        read: u64,
        first: u64,
    },
}

#[derive(Debug)]
struct Buffer {
    key: u8,
    slice: MemorySlice,
    used: Use,
}

#[derive(Debug, Default)]
pub(super) struct Regions {
    buffers: BTreeMap<u32, Buffer>,
    resting: VecDeque<u32>,
}

/// A place in the buffer of a Read.
#[derive(Clone, Copy, Debug)]
pub(super) struct SinkPlace {
    pub(super) read: u64,
    /// From the Read's start.
    pub(super) offset: u64,
    pub(super) slice: MemorySlice,
}

impl Regions {
    fn add(
        &mut self,
        slice: MemorySlice,
        used: Use,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<u32, RdmaRefusal> {
        if self.buffers.len() >= MAX_REGIONS {
            return Err(RdmaRefusal::QueueFull);
        }
        loop {
            let draw = random();
            let (index, key) = ((draw >> 8) as u32 & 0xFF_FFFF, draw as u8);
            // Index 0 is left out: an STag of zero is what a forgotten field says.
            if index != 0 && !self.buffers.contains_key(&index) && !self.resting.contains(&index) {
                self.buffers.insert(index, Buffer { key, slice, used });
                return Ok(index << 8 | u32::from(key));
            }
        }
    }

    pub(super) fn register(
        &mut self,
        slice: MemorySlice,
        everyone: RegionRights,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<u32, RdmaRefusal> {
        self.add(slice, Use::Region { everyone, granted: BTreeMap::new() }, random)
    }

    pub(super) fn sink(
        &mut self,
        slice: MemorySlice,
        (connection, read, first): (u32, u64, u64),
        random: &mut dyn FnMut() -> u64,
    ) -> Result<u32, RdmaRefusal> {
        self.add(slice, Use::Sink { connection, read, first }, random)
    }

    fn find(&self, stag: u32) -> Result<&Buffer, RdmaRefusal> {
        let buffer = self.buffers.get(&(stag >> 8)).filter(|buffer| buffer.key == stag as u8);
        buffer.ok_or(RdmaRefusal::BadStag)
    }

    pub(super) fn grant(
        &mut self,
        stag: u32,
        connection: u32,
        rights: RegionRights,
    ) -> Result<(), RdmaRefusal> {
        self.find(stag)?;
        match self.buffers.get_mut(&(stag >> 8)).map(|buffer| &mut buffer.used) {
            Some(Use::Region { granted, .. }) => {
                granted.insert(connection, rights);
                Ok(())
            }
            _ => Err(RdmaRefusal::BadStag),
        }
    }

    /// The STag is unknown from now on.
    pub(super) fn invalidate(&mut self, stag: u32) -> Result<(), RdmaRefusal> {
        self.find(stag)?;
        self.buffers.remove(&(stag >> 8));
        self.resting.push_back(stag >> 8);
        if self.resting.len() > RESTING {
            self.resting.pop_front();
        }
        Ok(())
    }

    /// A connection has ended: its grants and its Reads' buffers are gone.
    pub(super) fn forget(&mut self, connection: u32) {
        for buffer in self.buffers.values_mut() {
            if let Use::Region { granted, .. } = &mut buffer.used {
                granted.remove(&connection);
            }
        }
    }

    /// Where bytes of a region lie, if this peer may use them so (RFC 5040, 8.1; RFC 5041, 7.1): STag, then bounds, then
    /// rights.
    pub(super) fn access(
        &self,
        stag: u32,
        connection: u32,
        (offset, length): (u64, u64),
        needed: RegionRights,
    ) -> Result<MemorySlice, RdmaRefusal> {
        let buffer = self.find(stag)?;
        let Use::Region { everyone, granted } = &buffer.used else { return Err(RdmaRefusal::BadStag) };
        let end = offset.checked_add(length).ok_or(RdmaRefusal::OffsetWrap)?;
        if end > buffer.slice.length {
            return Err(RdmaRefusal::OutOfBounds);
        }
        let rights = everyone.or(granted.get(&connection).copied().unwrap_or_default());
        if rights.allow(needed) { Ok(buffer.slice.part(offset, length)) } else { Err(RdmaRefusal::NoAccess) }
    }

    /// Where bytes of an answer lie, if this peer was asked for them.
    pub(super) fn answer(
        &self,
        stag: u32,
        connection: u32,
        (offset, length): (u64, u64),
    ) -> Result<SinkPlace, RdmaRefusal> {
        let buffer = self.find(stag)?;
        let Use::Sink { connection: asked, read, first } = buffer.used else {
            return Err(RdmaRefusal::BadStag);
        };
        if asked != connection {
            return Err(RdmaRefusal::BadStag);
        }
        let end = offset.checked_add(length).ok_or(RdmaRefusal::OffsetWrap)?;
        if end > buffer.slice.length {
            return Err(RdmaRefusal::OutOfBounds);
        }
        Ok(SinkPlace { read, offset: first + offset, slice: buffer.slice.part(offset, length) })
    }
}
