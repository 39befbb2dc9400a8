//! The reports of a worker, from the counts of its receiver.
//!
//! ```text
//!   ObjectLoad ─▶ + events of packets that were dropped ─▶ Governor ─▶ State: fill, signal, totals
//! ```
//!
//! A receiver that drops packets in the kernel or for lack of memory has an empty queue and a full socket. So a queue
//! counts as full if any packet was dropped since the last report, and the events of the dropped packets count as
//! arrived. Otherwise, a worker that is limited by its CPU would ask for more.

use crate::ejfat::proto::SendStateRequest;
use skyhaul::core::balance::{Governor, Load};
use skyhaul::core::placement::Nanos;
use skyhaul::receive::ObjectLoad;
use std::time::SystemTime;

/// Converts loads to states.
#[derive(Debug, Default)]
pub(super) struct States {
    governor: Governor,
    last: ObjectLoad,
    /// Events of dropped packets.
    dropped: f64,
}

/// The state to report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) fill: f64,
    pub(super) signal: f64,
    /// Events that arrived.
    pub(super) events: u64,
    pub(super) load: ObjectLoad,
}

impl States {
    /// The state at `now`; call it for each report.
    pub(super) fn state(&mut self, load: ObjectLoad, now: Nanos) -> State {
        let dropped = load.dropped.saturating_sub(self.last.dropped);
        if load.packets > 0 {
            self.dropped += dropped as f64 * load.finished as f64 / load.packets as f64;
        }
        let is_full = dropped > 0 || load.ring_full > self.last.ring_full;
        let fill = if is_full { 1.0 } else { load.fill };
        let events = load.finished + self.dropped as u64;
        let signal = self.governor.signal(Load { fill, received: events, taken: load.taken }, now);
        self.last = load;
        State { fill, signal, events, load }
    }
}

impl State {
    /// As a message of the protocol, without ids.
    pub(super) fn message(&self, is_ready: bool) -> SendStateRequest {
        let total = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        SendStateRequest {
            timestamp: Some(SystemTime::now().into()),
            fill_percent: self.fill as f32,
            control_signal: self.signal as f32,
            is_ready,
            total_events_recv: total(self.events),
            total_events_reassembled: total(self.load.complete),
            total_events_reassembly_err: total(self.load.incomplete),
            total_events_dequeued: total(self.load.taken),
            total_event_enqueue_err: total(self.load.ring_full),
            total_bytes_recv: total(self.load.bytes),
            total_packets_recv: total(self.load.packets),
            ..SendStateRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(events: u64, dropped: u64) -> ObjectLoad {
        let (finished, taken, packets) = (events, events, events * 10);
        ObjectLoad { finished, complete: events, taken, packets, dropped, ..ObjectLoad::default() }
    }

    #[test]
    fn a_worker_that_drops_packets_is_behind_by_what_it_dropped() {
        let mut states = States::default();
        let mut last = State::default();
        for n in 1..40u64 {
            // 1000 events of ten packets per second; the kernel drops as many packets as are received.
            last = states.state(load(n * 100, n * 1000), Nanos(n * 100_000_000));
        }
        assert_eq!((last.fill, last.events), (1.0, 2 * 39 * 100));
        assert!((-560.0..-480.0).contains(&last.signal), "{last:?}");
        let message = last.message(true);
        assert_eq!((message.total_events_recv, message.total_events_dequeued), (7800, 3900));
        assert!(message.is_ready && message.timestamp.is_some());
        let after = states.state(load(4000, 39_000), Nanos(4_000_000_000));
        assert_eq!((after.fill, after.events), (0.0, 7900), "nothing was dropped since");
    }

    #[test]
    fn a_worker_that_keeps_up_asks_for_a_quarter_more() {
        let mut states = States::default();
        let signals: Vec<f64> =
            (1..20).map(|n| states.state(load(n * 100, 0), Nanos(n * 100_000_000)).signal).collect();
        assert_eq!(signals.last(), Some(&250.0));
    }
}
