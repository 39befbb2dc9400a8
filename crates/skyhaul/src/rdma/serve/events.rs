//! What becomes of messages and connections, for the report.

use super::super::message::ServedMessage;
use super::super::report::{ConnectionReport, LossReport, MAX_LOSSES, pairs, total};
use super::{RdmaServer, Region};
use skyhaul_core::rdma::{MemorySlice, RdmaEvent};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Connections that are listed in the report.
const MAX_LISTED: usize = 1000;

impl RdmaServer {
    /// Who wrote what came to lie in memory, before it is compared.
    pub(super) fn note_places(&mut self) {
        if !self.options.verify {
            return;
        }
        for place in self.driver.list_places() {
            let region = self.regions.iter_mut().find(|region| region.memory == place.to.memory);
            if let Some((writers, message)) =
                region.and_then(|region| region.writers.as_mut()).zip(place.message)
            {
                let range = place.to.start..place.to.start + place.to.length;
                let writer = (place.connection, message);
                writers.note(range, writer, self.turns.of(writer));
            }
        }
        self.turns.end(self.driver.untouched());
    }

    pub(super) fn take(&mut self, event: RdmaEvent) -> io::Result<()> {
        match event {
            RdmaEvent::Requested { connection, peer, private } => {
                self.requested(connection, peer, &private)?;
            }
            RdmaEvent::Written {
                connection, message, stag, valid, missing, is_complete, immediate, ..
            } => {
                let number = self.numbers.get(&connection).copied().unwrap_or_default();
                self.report.immediates += u64::from(immediate.is_some());
                if let Some(report) = self.open.get_mut(&connection) {
                    report.written_bytes += total(&valid);
                    *(if is_complete { &mut report.complete } else { &mut report.incomplete }) += 1;
                }
                self.report.written_bytes += total(&valid);
                *(if is_complete { &mut self.report.complete } else { &mut self.report.incomplete }) += 1;
                let message = message.unwrap_or_default();
                self.compare(stag, (connection, message), number, &valid);
                self.list(|regions, open| ServedMessage {
                    region: region_index(regions, open, connection),
                    connection: number,
                    messages: message..message + 1,
                    in_region: stag != 0,
                    valid: valid.clone(),
                    missing: missing.clone(),
                    is_complete,
                    immediate,
                });
                if !is_complete {
                    let (in_region, immediate) = (stag != 0, immediate.is_some());
                    let of = LossReport { in_region, immediate, ..LossReport::default() };
                    self.lose_part((number, message), &missing, of);
                }
            }
            RdmaEvent::MessagesLost { connection, messages } => {
                let number = self.numbers.get(&connection).copied().unwrap_or_default();
                self.list(|regions, open| ServedMessage {
                    region: region_index(regions, open, connection),
                    connection: number,
                    messages: messages.clone(),
                    ..ServedMessage::default()
                });
                self.report.lost += messages.end - messages.start;
                if let Some(report) = self.open.get_mut(&connection) {
                    report.lost += messages.end - messages.start;
                }
                let messages = (messages.start, messages.end);
                let (connection, whole, in_region) = (number, true, true);
                self.lose(LossReport { connection, messages, whole, in_region, ..LossReport::default() });
            }
            RdmaEvent::Immediate { connection, value, .. } => self.immediate(connection, value),
            RdmaEvent::Closed { connection, by, datagrams_lost } => {
                self.driver.end_placing(connection)?;
                self.note_places();
                self.applicants.retain(|applicant| applicant.connection != connection);
                self.closed(connection, by.name(), datagrams_lost);
            }
            event @ RdmaEvent::Received { .. } => self.received(event),
            // This end reads, writes and sends nothing.
            RdmaEvent::Connected { .. } | RdmaEvent::ReadDone { .. } | RdmaEvent::Sent { .. } => {}
        }
        Ok(())
    }

    /// Immediate data that are a message of their own.
    fn immediate(&mut self, connection: u32, value: u64) {
        self.report.immediates += 1;
        self.immediates_alone += 1;
        let number = self.numbers.get(&connection).copied().unwrap_or_default();
        self.list(|regions, open| ServedMessage {
            region: region_index(regions, open, connection),
            connection: number,
            is_complete: true,
            immediate: Some(value),
            ..ServedMessage::default()
        });
    }

    /// A peer has ended a region: nobody can use it or ask for it any more.
    pub(super) fn invalidate(&mut self, stag: Option<u32>) {
        let ended = self.regions.iter_mut().filter(|region| Some(region.stag) == stag);
        for region in ended {
            region.is_invalid = true;
            self.report.invalidated.push(region.spec.name.clone());
        }
    }

    fn closed(&mut self, connection: u32, by: &str, datagrams_lost: u64) {
        self.free_buffers(connection);
        self.numbers.remove(&connection);
        if let Some(mut report) = self.open.remove(&connection) {
            self.ended += 1;
            report.datagrams_lost = datagrams_lost;
            report.closed_by = Some(by.to_owned());
            self.report.datagrams_lost += datagrams_lost;
            if self.report.connections.len() < MAX_LISTED {
                self.report.connections.push(report);
            } else {
                self.report.connections_not_listed += 1;
            }
        }
    }

    fn list(&mut self, message: impl FnOnce(&[Region], &BTreeMap<u32, ConnectionReport>) -> ServedMessage) {
        if let Some(messages) = &mut self.messages {
            messages.push_back(message(&self.regions, &self.open));
        }
    }

    fn compare(&mut self, stag: u32, writer: (u32, u64), number: u64, valid: &[Range<u64>]) {
        let Some(report) = &mut self.report.verify else { return };
        let Some(region) = self.regions.iter().find(|region| region.stag == stag) else { return };
        if let Some((writers, memory)) = region.writers.as_ref().zip(self.driver.memory(region.memory)) {
            let driver = &self.driver;
            let not_noted = |range: Range<u64>| {
                let place = MemorySlice {
                    memory: region.memory,
                    start: range.start,
                    length: range.end - range.start,
                };
                driver.not_handed(place)
            };
            writers.compare((memory, &not_noted), valid, writer, number, report);
        }
    }

    /// Parts of a message of a connection did not arrive; `loss` has the rest.
    pub(super) fn lose_part(
        &mut self,
        (connection, message): (u64, u64),
        missing: &[Range<u64>],
        mut loss: LossReport,
    ) {
        (loss.connection, loss.messages, loss.missing) = (connection, (message, message + 1), pairs(missing));
        self.lose(loss);
    }

    fn lose(&mut self, loss: LossReport) {
        if self.report.losses.len() < MAX_LOSSES {
            self.report.losses.push(loss);
        } else {
            self.report.losses_not_listed += loss.messages.1 - loss.messages.0;
        }
    }
}

/// The region that a connection is for.
fn region_index(regions: &[Region], open: &BTreeMap<u32, ConnectionReport>, connection: u32) -> usize {
    let name = open.get(&connection).map(|report| &report.region);
    regions.iter().position(|region| Some(&region.spec.name) == name).unwrap_or_default()
}
