//! An event to send: bytes where they lie, of one source.

use super::config::{EventConfig, EventDivision};
use crate::send::SendError;
use crate::send::objects::{Chunks, Object, Payload};
use skyhaul_core::packetize::{Divided, Part};
use skyhaul_core::wire::{EventError, EventPackets, EventShape};

/// An event of one source. Its tick is given when it is sent.
#[derive(Clone, Debug)]
pub struct Event {
    data_id: u16,
    chunks: Chunks,
}

impl Event {
    /// An event without bytes yet, of the source `data_id`.
    #[must_use]
    pub fn new(data_id: u16) -> Self {
        Self { data_id, chunks: Chunks::default() }
    }

    /// The event of these bytes.
    #[must_use]
    pub fn from(data_id: u16, payload: impl Into<Payload>) -> Self {
        let mut event = Self::new(data_id);
        event.push(payload.into());
        event
    }

    /// An event whose `bytes` verify themselves: the pattern of `tick`, with which it is to be sent (see
    /// [`skyhaul_core::pattern`]).
    #[must_use]
    pub fn pattern(data_id: u16, tick: u64, bytes: u64) -> Self {
        let mut event = Self::new(data_id);
        event.chunks.push_pattern(tick, 0..bytes);
        event
    }

    /// Add bytes.
    pub fn push(&mut self, payload: Payload) {
        self.chunks.push(payload);
    }

    /// Its source.
    #[must_use]
    pub fn data_id(&self) -> u16 {
        self.data_id
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    fn shape(&self, division: EventDivision, tick: u64) -> EventShape {
        let EventDivision { packet_bytes, addressing, version } = division;
        let (data_id, event_bytes) = (self.data_id, self.chunks.bytes());
        EventShape { tick, data_id, event_bytes, packet_bytes, addressing, version }
    }

    /// Bytes of its packets.
    pub(super) fn wire_bytes(&self, division: EventDivision) -> Result<u64, SendError> {
        Ok(self.plan(division, 0)?.bytes_on_wire())
    }
}

impl Object for Event {
    type Config = EventConfig;
    type Plan = EventPackets;

    fn check(&self, division: EventDivision) -> Result<(), SendError> {
        self.plan(division, 0).map(|_| ())
    }

    #[inline]
    fn plan(&self, division: EventDivision, number: u64) -> Result<EventPackets, SendError> {
        Ok(EventPackets::new(&self.shape(division, number))?)
    }

    #[inline]
    fn with_number(plan: &EventPackets, number: u64) -> EventPackets {
        plan.with_tick(number)
    }

    #[inline]
    fn count(plan: &EventPackets) -> u64 {
        plan.count()
    }

    #[inline]
    fn bytes_of(plan: &EventPackets, n: u64) -> u64 {
        plan.bytes_of(n)
    }

    #[inline]
    fn head_bytes_max(plan: &EventPackets) -> usize {
        plan.head_bytes_max()
    }

    #[inline]
    fn packet(&self, plan: &EventPackets, n: u64, head: &mut [u8]) -> Part {
        plan.packet(n, head)
    }

    #[inline]
    fn chunks(&self) -> &Chunks {
        &self.chunks
    }
}

impl From<EventError> for SendError {
    fn from(error: EventError) -> Self {
        SendError::Packets(error.to_string())
    }
}
