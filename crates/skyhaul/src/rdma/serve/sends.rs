//! Sends of peers: counted, compared, and handed to the thread that keeps them.

use super::super::memory::Memory;
use super::super::report::{LossReport, total};
use super::super::verify;
use super::RdmaServer;
use super::receives::{Buffers, Job, RECEIVERS, Written};
use skyhaul_core::rdma::{MemorySlice, RdmaEvent};
use skyhaul_io::memory::remote::RemoteMemory;
use std::io;
use std::sync::Arc;

impl RdmaServer {
    /// Posts the buffers of a connection that was accepted, if there are any left.
    pub(super) fn post_buffers(&mut self, connection: u32) -> io::Result<()> {
        let Some(receives) = &mut self.receives else { return Ok(()) };
        let is_free = |one: &Buffers| one.connection.is_none() && one.away == 0;
        let memory = match receives.all.iter().position(is_free) {
            Some(free) => {
                receives.all[free].connection = Some(connection);
                receives.all[free].memory
            }
            None if receives.all.len() < RECEIVERS => {
                let memory = Arc::new(RemoteMemory::new(receives.count * receives.longest)?);
                let memory = self.driver.add(Memory::Remote(memory));
                receives.all.push(Buffers { memory, connection: Some(connection), away: 0 });
                memory
            }
            // Its Sends are refused.
            None => return Ok(()),
        };
        for n in 0..receives.count {
            let buffer = MemorySlice { memory, start: n * receives.longest, length: receives.longest };
            let posted = self.driver.endpoint.post_receive(connection, buffer);
            posted.map_err(|why| io::Error::other(format!("post a buffer: {}", why.name())))?;
        }
        Ok(())
    }

    /// A Send has ended: it is counted, compared and kept.
    pub(super) fn received(&mut self, event: RdmaEvent) {
        let RdmaEvent::Received {
            connection,
            message,
            buffer,
            size,
            valid,
            missing,
            invalidated,
            is_solicited,
        } = event
        else {
            return;
        };
        self.report.solicited += u64::from(is_solicited);
        self.invalidate(invalidated);
        // Sends of a stream are not numbered; they come in order.
        let before = self.open.get(&connection).map(|open| open.received + open.received_incomplete);
        let message = message.unwrap_or(before.unwrap_or_default() + 1);
        let is_complete = size.is_some() && missing.is_empty();
        let number = self.numbers.get(&connection).copied().unwrap_or_default();
        let bytes = total(&valid);
        let report = &mut self.report;
        report.received_bytes += bytes;
        *(if is_complete { &mut report.received } else { &mut report.received_incomplete }) += 1;
        if let Some(report) = self.open.get_mut(&connection) {
            report.received_bytes += bytes;
            *(if is_complete { &mut report.received } else { &mut report.received_incomplete }) += 1;
        }
        let memory = self.driver.memory(buffer.memory).cloned();
        if let Some((verify, memory)) = self.report.verify.as_mut().zip(memory.as_ref()) {
            verify::compare_send(memory, buffer.start, &valid, (message, number), verify);
        }
        let length = valid.iter().chain(&missing).map(|range| range.end).max().unwrap_or_default();
        if !is_complete {
            let of = LossReport { is_send: true, ..LossReport::default() };
            self.lose_part((number, message), &missing, of);
        }
        let Some(receives) = &mut self.receives else { return };
        let Some((keeper, memory)) = receives.keeper.as_ref().zip(memory) else {
            // A connection that has ended meanwhile wants no buffer.
            let _ = self.driver.endpoint.post_receive(connection, buffer);
            return;
        };
        let name = format!("{number:04}-{message:08}");
        let job = Job { connection, memory: memory.clone(), buffer, name, length, is_complete };
        if keeper.jobs.send(job).is_ok()
            && let Some(of) = receives.all.iter_mut().find(|of| of.memory == buffer.memory)
        {
            of.away += 1;
        }
    }

    /// Posts buffers whose messages are written.
    pub(super) fn take_back(&mut self) {
        let Some(keeper) = self.receives.as_ref().and_then(|receives| receives.keeper.as_ref()) else {
            return;
        };
        let written: Vec<Written> = keeper.written.try_iter().collect();
        for (connection, buffer, kept) in written {
            self.came_back(connection, buffer, kept);
        }
    }

    fn came_back(&mut self, connection: u32, buffer: MemorySlice, kept: io::Result<()>) {
        if let Err(error) = kept {
            self.report.not_written += 1;
            self.report.write_error.get_or_insert_with(|| error.to_string());
        }
        let Some(receives) = &mut self.receives else { return };
        let Some(of) = receives.all.iter_mut().find(|of| of.memory == buffer.memory) else { return };
        of.away -= 1;
        if of.connection == Some(connection) {
            // It may have ended without a word to this list yet.
            let _ = self.driver.endpoint.post_receive(connection, buffer);
        }
    }

    /// The buffers of a connection that has ended are for another.
    pub(super) fn free_buffers(&mut self, connection: u32) {
        let all = self.receives.iter_mut().flat_map(|receives| &mut receives.all);
        all.filter(|of| of.connection == Some(connection)).for_each(|of| of.connection = None);
    }

    /// Waits until all messages are written.
    pub(super) fn end_receives(&mut self) {
        let Some(keeper) = self.receives.as_mut().and_then(|receives| receives.keeper.take()) else {
            return;
        };
        drop(keeper.jobs);
        for (connection, buffer, kept) in keeper.written {
            self.came_back(connection, buffer, kept);
        }
        // It has no result.
        let _ = keeper.thread.join();
    }
}
