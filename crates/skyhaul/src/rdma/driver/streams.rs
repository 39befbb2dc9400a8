//! Streams of peers: which connection each is for, and what is to be done with it.

use super::alarm::Alarm;
use super::options::DriverOptions;
use crate::rdma::kernel::Hands;
use crate::rdma::memory::Memory;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{ClosedBy, RdmaEndpoint, StreamNeed};
use skyhaul_core::wire::rdma::mpa::{self, CRC_BYTES, LENGTH_BYTES, MAX_SEGMENT_BYTES};
use skyhaul_io::gathered::Gathered;
use skyhaul_io::tcp::Frame;
use skyhaul_io::tcp::frames::{FrameEvent, FrameOptions, FrameTally, TcpFrames};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time for a frame to become whole.
const PATIENCE: Duration = Duration::from_secs(5);
/// A host that is silent is probed after this time, and given up after twice as long.
const SILENT: Duration = Duration::from_secs(5);
/// Streams without a request, at most.
const GUESTS: usize = 64;
/// Length, segment, pad, CRC.
const LONGEST_FRAME: usize = (LENGTH_BYTES + MAX_SEGMENT_BYTES).next_multiple_of(4) + CRC_BYTES;
/// No stream has this number.
const NOWHERE: u64 = u64::MAX;

pub(super) struct Streams {
    frames: TcpFrames,
    /// Connections by their stream, and the reverse.
    ids: BTreeMap<u64, u32>,
    marks: BTreeMap<u32, u64>,
    peers: BTreeMap<u64, SocketAddr>,
    /// Frames of streams that wait for a buffer, in order: at most what one reading of a stream brought.
    kept: Kept,
}

type Kept = BTreeMap<u64, VecDeque<Vec<u8>>>;

fn rule(is_first: bool, head: &[u8]) -> Frame {
    match mpa::frame_length(is_first, head) {
        Ok(Some(length)) => Frame::Packet(length),
        Ok(None) => Frame::Incomplete,
        Err(_) => Frame::Garbage,
    }
}

impl Streams {
    pub(super) fn open(options: &DriverOptions) -> io::Result<Streams> {
        let how = FrameOptions {
            longest_frame: LONGEST_FRAME,
            connections: options.config.connections,
            guests: GUESTS,
            // The first frame of a peer that this end has connected to is its answer.
            patience: PATIENCE.max(options.attempt.patience),
            keepalive: SILENT,
        };
        let frames = match (&options.listen, &options.peer) {
            (Some(listen), _) => TcpFrames::listen(listen, rule, &how)?,
            (None, Some(peer)) => {
                let attempt = &options.attempt;
                TcpFrames::connect(peer, rule, &how, attempt.left(), &|| attempt.stop.is_set())?
            }
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let (ids, marks, peers, kept) = Default::default();
        Ok(Streams { frames, ids, marks, peers, kept })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.frames.local()
    }

    /// Readable when there is something to do.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.frames.as_fd()
    }

    pub(super) fn describe(&self) -> String {
        self.frames.describe()
    }

    pub(super) fn tallies(&self) -> [FrameTally; 2] {
        self.frames.tallies()
    }

    /// The stream that was opened here is for this connection.
    pub(super) fn belongs(&mut self, id: u32, endpoint: &mut RdmaEndpoint) {
        self.assign(0, id, endpoint);
    }

    fn assign(&mut self, mark: u64, id: u32, endpoint: &mut RdmaEndpoint) {
        self.ids.insert(mark, id);
        self.marks.insert(id, mark);
        // A frame should fit a segment of the stream (RFC 5044, 5.1).
        if let Some(bytes) = self.frames.largest_segment(mark) {
            endpoint.limit_path(id, u16::try_from(bytes).unwrap_or(u16::MAX));
        }
    }

    pub(super) fn is_held(&self, id: u32) -> bool {
        self.marks.get(&id).is_some_and(|mark| !self.frames.is_clear(*mark))
    }

    /// Bytes that the peer's host has confirmed so far, if there are others; none if there are not, or the stream has ended.
    pub(super) fn confirming(&self, id: u32) -> Option<u64> {
        let (info, waiting) = self.frames.info(*self.marks.get(&id)?)?;
        (waiting > 0 || !info.all_acknowledged()).then_some(info.bytes_acked)
    }

    pub(super) fn write(&mut self, id: u32, tally: usize, frames: Gathered<'_>, endpoint: &mut RdmaEndpoint) {
        let mark = self.marks.get(&id).copied().unwrap_or(NOWHERE);
        self.frames.write(mark, tally, frames);
        endpoint.hold(id, !self.frames.is_clear(mark));
        self.tend_one(mark, id, endpoint);
    }

    pub(super) fn receive(
        &mut self,
        wait: Duration,
        began: Instant,
        (hands, alarm): (&mut Hands<'_, '_>, &mut Alarm),
    ) -> io::Result<usize> {
        let Streams { ids, peers, kept, .. } = self;
        let mut turn = Turn { ids, peers, kept, fresh: Vec::new(), over: Vec::new() };
        let (taken, free) = turn.take_kept(hands);
        free.into_iter().for_each(|mark| self.frames.pause(mark, false));
        let wait = if taken > 0 { Duration::ZERO } else { wait };
        let polled = self.frames.poll(wait, &mut |mark, event| {
            alarm.pass(Nanos::from(began.elapsed()), hands);
            turn.take(mark, event, hands)
        })?;
        let Turn { fresh, over, .. } = turn;
        for (mark, id) in fresh {
            match id {
                Some(id) => self.assign(mark, id, hands.endpoint),
                None => self.frames.leave(mark),
            }
        }
        for id in over {
            self.marks.remove(&id);
        }
        self.kept.keys().for_each(|mark| self.frames.pause(*mark, true));
        for (mark, id) in self.ids.clone() {
            self.tend_one(mark, id, hands.endpoint);
            hands.endpoint.hold(id, !self.frames.is_clear(mark));
        }
        Ok(taken + polled)
    }

    fn tend_one(&mut self, mark: u64, id: u32, endpoint: &RdmaEndpoint) {
        match endpoint.stream_need(id) {
            StreamNeed::Open => {}
            StreamNeed::Finish => self.frames.finish(mark),
            StreamNeed::Close => self.frames.leave(mark),
        }
    }
}

/// What has changed in one turn.
struct Turn<'a> {
    ids: &'a mut BTreeMap<u64, u32>,
    peers: &'a mut BTreeMap<u64, SocketAddr>,
    kept: &'a mut Kept,
    /// Streams that had their first frame, and their connections; none if it was no request.
    fresh: Vec<(u64, Option<u32>)>,
    /// Connections whose stream has ended.
    over: Vec<u32>,
}

impl Turn<'_> {
    /// Takes frames that were kept back, as far as there are buffers. Returns their number, and the streams that have none left.
    fn take_kept(&mut self, hands: &mut Hands<'_, '_>) -> (usize, Vec<u64>) {
        let (mut taken, mut free) = (0, Vec::new());
        for (mark, mut frames) in std::mem::take(self.kept) {
            let id = self.ids.get(&mark).copied();
            while id.is_some_and(|id| !hands.endpoint.lacks_buffers(id))
                && let Some(frame) = frames.pop_front()
            {
                taken += 1;
                if !self.frame(mark, &frame, hands) {
                    // The connection has ended.
                    frames.clear();
                }
            }
            if id.is_none() || frames.is_empty() {
                free.push(mark);
            } else {
                self.kept.insert(mark, frames);
            }
        }
        (taken, free)
    }

    /// Returns whether more of the stream is to be read.
    fn take(&mut self, mark: u64, event: FrameEvent<'_>, hands: &mut Hands<'_, '_>) -> bool {
        match event {
            FrameEvent::Opened(peer) => {
                self.peers.insert(mark, peer);
                true
            }
            FrameEvent::Frame(frame) | FrameEvent::Garbage(frame) => self.frame(mark, frame, hands),
            FrameEvent::Finished { rest } => {
                let id = self.ids.get(&mark).copied();
                if !rest.is_empty() {
                    self.frame(mark, rest, hands);
                }
                if let Some(id) = id {
                    hands.endpoint.end_half(id, hands.context.now);
                }
                false
            }
            FrameEvent::Ended { rest, error } => {
                self.ended(mark, rest, error.as_ref(), hands);
                false
            }
        }
    }

    fn frame(&mut self, mark: u64, frame: &[u8], hands: &mut Hands<'_, '_>) -> bool {
        let Hands { endpoint, context, memories, placed, arrived } = hands;
        let Some(&id) = self.ids.get(&mark) else {
            let Some(&peer) = self.peers.get(&mark) else { return false };
            **arrived += 1;
            let id = endpoint.handle_request(peer, frame, context);
            if let Some(id) = id {
                self.ids.insert(mark, id);
            }
            self.fresh.push((mark, id));
            return id.is_some();
        };
        if endpoint.path_of(id).is_none() {
            // Its connection has ended: what is still on its way is for nobody.
            return false;
        }
        if endpoint.lacks_buffers(id) || self.kept.contains_key(&mark) {
            self.kept.entry(mark).or_default().push_back(frame.to_vec());
            return true;
        }
        **arrived += 1;
        if let Some(place) = endpoint.handle_frame(id, frame, context) {
            // Peers are given places in memory of this kind only.
            if let Some(Memory::Remote(memory)) = memories.get(place.to.memory as usize) {
                memory.place(place.to.start, &frame[place.from.clone()]);
            }
            placed.iter_mut().for_each(|list| list.push(place.clone()));
        }
        endpoint.path_of(id).is_some()
    }

    fn ended(&mut self, mark: u64, rest: &[u8], error: Option<&io::Error>, hands: &mut Hands<'_, '_>) {
        let by = match error.map(io::Error::kind) {
            None => ClosedBy::Peer,
            Some(io::ErrorKind::TimedOut) => ClosedBy::Silence,
            Some(_) => ClosedBy::Reset,
        };
        let id = self.ids.get(&mark).copied();
        // The beginning of a frame, or of a request: it is refused as cut short.
        if !rest.is_empty() && (id.is_none() || by == ClosedBy::Peer) {
            self.frame(mark, rest, hands);
        }
        // Nothing is to be done with it any more.
        self.fresh.retain(|(fresh, _)| *fresh != mark);
        if let Some(id) = id {
            hands.endpoint.end_stream(id, by, hands.context.now);
            self.over.push(id);
        }
        self.kept.remove(&mark);
        self.ids.remove(&mark);
        self.peers.remove(&mark);
    }
}
