//! What leaves: control datagrams, segments of each connection in turn, and what timers ask for.

use super::{MAX_WAITING, RdmaContext, RdmaEndpoint};
use crate::placement::Nanos;
use crate::rdma::connection::{Connection, Due, State};
use crate::rdma::event::RdmaEvent;
use crate::rdma::outbound::RdmaTransmit;
use crate::wire::rdma::RdmaProfile;
use crate::wire::rdma::shim::{self, UcControl, UcKind, UcShim};
use core::net::SocketAddr;

impl RdmaEndpoint {
    pub(super) fn answer(&mut self, to: SocketAddr, conn_id: u32, control: &UcControl) {
        self.queue_control((to, 0, conn_id), control, &[]);
    }

    pub(super) fn say(&mut self, id: u32, kind: UcKind, now: Nanos) {
        if self.config.profile == RdmaProfile::Tcp {
            return self.say_in_stream(id, kind);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.say(now);
        let control = connection.control(kind, &self.config);
        let has_private = matches!(kind, UcKind::Request | UcKind::Accept);
        let private = if has_private { connection.private.clone() } else { Vec::new() };
        let to = (connection.path.to, id, connection.path.conn_id);
        self.queue_control(to, &control, &private);
    }

    pub(super) fn queue_control(
        &mut self,
        (to, connection, conn_id): (SocketAddr, u32, u32),
        control: &UcControl,
        private: &[u8],
    ) {
        let shim = UcShim { version: shim::VERSION, control: 1, crc: 1, conn_id, ..UcShim::default() };
        let control = UcControl { private_bytes: private.len() as u16, ..*control };
        let head = [&shim.write()[..], &control.write(), private].concat();
        self.queue((to, connection), head, true);
    }

    /// A control datagram or frame waits to be sent, if there is room for it.
    pub(super) fn queue(&mut self, (to, connection): (SocketAddr, u32), head: Vec<u8>, has_crc: bool) {
        if self.waiting.len() < MAX_WAITING {
            let (payload, pad, is_control) = (None, 0, true);
            self.waiting.push_back(RdmaTransmit { to, connection, head, payload, pad, has_crc, is_control });
        }
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<RdmaEvent> {
        self.events.pop_front()
    }

    /// The next datagram to send: control first, then each connection in turn.
    pub fn poll_transmit(&mut self, context: &mut RdmaContext<'_>) -> Option<RdmaTransmit> {
        if self.waiting.is_empty() {
            self.begin_closing(context.now);
        }
        if let Some(transmit) = self.waiting.pop_front() {
            self.counts.sent += 1;
            return Some(transmit);
        }
        let turn = self.turn;
        let behind = self.connections.range(turn.saturating_add(1)..);
        let mut in_turn = behind.chain(self.connections.range(..=turn));
        let is_ready = |connection: &Connection| connection.is_sending() && connection.outbound.len() > 0;
        let id = in_turn.find_map(|(id, connection)| is_ready(connection).then_some(*id))?;
        let connection = self.connections.get_mut(&id)?;
        let path = connection.path;
        let (transmit, done) = connection.outbound.next(&path)?;
        if connection.outbound.len() == 0 {
            connection.timing.handed_out(context.now);
        }
        connection.say(context.now);
        self.turn = id;
        self.counts.sent += 1;
        if let Some(operation) = done {
            self.events.push_back(RdmaEvent::Sent { connection: id, operation });
        }
        Some(transmit)
    }

    /// Say close where all has been handed out and it has not been said.
    fn begin_closing(&mut self, now: Nanos) {
        let wait = self.config.retry;
        let mut ready = Vec::new();
        for (id, connection) in &mut self.connections {
            let is_due = connection.state == State::Closing && connection.repeat.is_none();
            if !is_due || connection.outbound.len() > 0 {
                continue;
            }
            match self.config.profile {
                RdmaProfile::Uc => {
                    connection.repeat = Some((now.plus(wait), wait));
                    ready.push(*id);
                }
                RdmaProfile::Bare => connection.deadline = Some(now),
                // The peer ends its half of the stream, or the deadline passes.
                RdmaProfile::Tcp => {}
            }
        }
        ready.into_iter().for_each(|id| self.say(id, UcKind::Close, now));
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.connections.values().filter_map(|connection| connection.poll_timeout(&self.config)).min()
    }

    /// Ends what is due: messages, Reads, handshakes, silent connections; repeats requests.
    pub fn handle_timeout(&mut self, context: &mut RdmaContext<'_>) {
        let now = context.now;
        let ids: Vec<u32> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let (inbound, mut shared) =
                connection.parts(&mut self.regions, &mut self.events, &mut self.messages, &self.config, now);
            inbound.handle_timeout(&mut shared);
            for due in connection.due(&self.config, now) {
                match due {
                    Due::Say(kind) => self.say(id, kind, now),
                    Due::Ask(read) => {
                        if let Some(connection) = self.connections.get_mut(&id)
                            && let Err(why) = connection.ask(read, &mut self.regions, context.random, now)
                        {
                            self.counts.refused_here.add(why);
                        }
                    }
                    Due::Probe => {
                        self.counts.silences += 1;
                        if let Some(connection) = self.connections.get_mut(&id)
                            && let Err(why) = connection.probe(&mut self.regions, context.random, now)
                        {
                            self.counts.refused_here.add(why);
                        }
                    }
                    Due::EndRead(read) => {
                        if let Some(connection) = self.connections.get_mut(&id) {
                            connection.end_read(read, &mut self.regions, &mut self.events);
                        }
                    }
                    Due::End(by) => self.end(id, by, now),
                }
            }
        }
    }
}
