//! Datagrams of one stream, numbered and stamped when they leave.

use super::{Shared, State};
use crate::probe::iperf3::datagram::{Head, Metered};
use skyhaul::send::{Control, Engine, Limits, Next, Outlet, Pacing, Real, SendError, SendStats, Source};
use skyhaul_core::placement::Nanos;
use skyhaul_io::gathered::Extent;
use skyhaul_io::quantity::Size;
use skyhaul_io::udp::send::{SendOptions, Sent, TRAIN_BYTES, TRAIN_PACKETS, UdpSender};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Send buffer if none is asked for, and what those of all streams of a test may have together.
const BUFFER: u64 = 4 << 20;
const BUFFERS: u64 = 128 << 20;
/// At a rate, this much of it may leave at once.
const BURST: Duration = Duration::from_micros(100);

impl Shared {
    /// Send until it is over.
    pub(super) fn send(&self, state: &State, socket: UdpSocket) -> io::Result<()> {
        let buffer = BUFFER.min(BUFFERS / self.streams.len().max(1) as u64);
        let buffer = self.params.window.unwrap_or(Size::from_bytes(buffer));
        let sender =
            UdpSender::from_fd(OwnedFd::from(socket), &SendOptions { buffer, ..SendOptions::default() })?;
        let rate = self.params.rate.bits_per_second();
        let block = usize::try_from(self.params.block.bytes()).unwrap_or(1460);
        let burst = match self.params.burst {
            0 => usize::try_from(u128::from(rate) / 8 * BURST.as_micros() / 1_000_000).unwrap_or(usize::MAX),
            burst => burst as usize * block,
        };
        let pacing = Pacing {
            rate,
            burst_bytes: burst.max(block),
            slack: Duration::from_secs(1),
            ..Pacing::default()
        };
        let outlet = Outlet::Udp(vec![sender]);
        let mut engine = Engine::new(outlet, &pacing, Box::new(Real(Instant::now())));
        let mut datagrams = Datagrams::new(self, state, block);
        match engine.drive(&mut datagrams, 0, &Control::new(rate), false) {
            Ok(()) | Err(SendError::Cancelled) => Ok(()),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}

struct Datagrams<'a> {
    shared: &'a Shared,
    state: &'a State,
    wide: bool,
    block: usize,
    /// Numbers of the batch begin behind this one.
    number: u64,
    packets: usize,
    heads: Vec<[u8; 16]>,
    payload: Vec<u8>,
    bytes: u64,
    failed: Option<SendError>,
}

impl<'a> Datagrams<'a> {
    fn new(shared: &'a Shared, state: &'a State, block: usize) -> Self {
        let wide = shared.params.wide;
        let payload = (0..block.saturating_sub(Head::length(wide))).map(|n| (n * 31) as u8).collect();
        Self {
            shared,
            state,
            wide,
            block,
            number: 0,
            packets: 0,
            heads: Vec::new(),
            payload,
            bytes: 0,
            failed: None,
        }
    }
}

impl Source for Datagrams<'_> {
    fn next(&mut self) -> Result<Next, SendError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let empty = self.shared.left.as_ref().is_some_and(|left| left.load(super::Relaxed) == 0);
        Ok(if empty || self.shared.is_over() { Next::End } else { Next::Packets(None) })
    }

    fn is_over(&self) -> bool {
        self.shared.is_over()
    }

    fn fill(&mut self, limits: Limits) -> Result<(), SendError> {
        let train = (TRAIN_BYTES / self.block).clamp(1, TRAIN_PACKETS);
        let by_bytes = usize::try_from(limits.bytes).unwrap_or(usize::MAX) / self.block;
        let most = by_bytes.min(limits.trains.saturating_mul(train)).clamp(1, 4 * TRAIN_PACKETS) as u64;
        self.packets = self.shared.claim(most, self.block as u64) as usize;
        Ok(())
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn gather<'a>(
        &'a mut self,
        _: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize> {
        // Here, not when the batch was made: it has waited for its time.
        let time = Nanos(u64::try_from(self.shared.begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let (first, wide) = (self.number + 1, self.wide);
        self.heads.clear();
        self.heads.extend((0..self.packets as u64).map(|n| Head { time, number: first + n }.write(wide)));
        for (n, head) in self.heads.iter().enumerate() {
            let head = &head[..Head::length(wide).min(self.block)];
            slices.extend([IoSlice::new(head), IoSlice::new(&self.payload)]);
            extents.push(Extent { first: 2 * n, bytes: self.block });
        }
        Ok(())
    }

    fn leave_out(&mut self, _: usize, error: SendError) {
        self.failed = Some(error);
    }

    fn sent(&mut self, sent: Sent, stats: &mut SendStats) {
        self.number += sent.packets as u64;
        self.bytes += sent.bytes as u64;
        stats.packets += sent.packets as u64;
        self.state.publish(Metered { bytes: self.bytes, packets: self.number, ..Metered::default() });
    }
}
