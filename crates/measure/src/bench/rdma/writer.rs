//! The one sender of the experiment `receivers`: Writes of the UC profile, from one short buffer, by one system call for each train.
//!
//! ```text
//!   endpoint (core) ─ head ─▶ │ head │ number │ payload │ head │ number │ payload │ …  ─▶ send      the same for every receiver
//! ```
//!
//! Heads come from the endpoint, so that a server takes them; a peer in memory accepts the connection where the receiver is a bare loop.
//! The first word of each payload is the number of its datagram, from 1: memory shows how far a receiver is, and that it placed.

use super::super::flow::{Flow, Throttle};
use super::super::options::{BenchLoad, wrong};
use super::options::RdmaBenchOptions;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::BarePlacement;
use skyhaul_core::rdma::{
    AddressProof, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RegionRights, RemoteAddress,
    RemoteWrite,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::ddp::DdpTagged;
use skyhaul_core::wire::rdma::shim::UcShim;
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::{BareSender, Give};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes before the payload of a segment.
pub(super) const HEAD_BYTES: usize = UcShim::LEN + DdpTagged::LEN;
/// Where these have the offset in the region.
const OFFSET_AT: usize = UcShim::LEN + 6;
/// Bytes of a message, about.
const MESSAGE_BYTES: usize = 64 << 10;
/// The peer is heard this often, as it may ask whether this end is there.
const LISTEN: Duration = Duration::from_millis(100);
/// Time for the peer to accept, and to confirm the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// A control datagram with the longest private data is shorter.
const CONTROL_BYTES: usize = 1024;

/// Datagrams of one length, their slots, and the messages that they are parts of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagrams {
    pub(super) bytes: usize,
    pub(super) train: usize,
    /// Datagrams of a message: whole trains.
    per_message: usize,
    /// Slots of the region that messages fill, one after the other.
    pub(super) slots: usize,
    region: u64,
}

impl Datagrams {
    /// The longest of at most so many bytes whose payload is a number of words.
    ///
    /// # Errors
    /// They do not fit a train or the region.
    pub(super) fn of(options: &RdmaBenchOptions) -> io::Result<Datagrams> {
        let (most, train) = (usize::from(options.datagram_bytes), usize::from(options.train));
        let payload = most.saturating_sub(HEAD_BYTES) / 8 * 8;
        let bytes = HEAD_BYTES + payload;
        if payload == 0 || train == 0 || train * bytes > usize::from(u16::MAX) - 28 {
            let hint = Hint("use a smaller --train or --datagram");
            return Err(wrong(format_args!(
                "a train of {train} datagrams of {most} bytes is not possible{hint}"
            )));
        }
        let per_message = train * (MESSAGE_BYTES / payload / train).max(1);
        let messages = options.memory / (per_message * payload) as u64;
        let slots = usize::try_from(messages).unwrap_or(usize::MAX).saturating_mul(per_message);
        if slots == 0 || !options.memory.is_power_of_two() {
            let hint = Hint("use a power of two of at least 1MiB, such as 64MiB");
            return Err(wrong(format_args!("a region of {} bytes cannot be measured{hint}", options.memory)));
        }
        Ok(Datagrams { bytes, train, per_message, slots, region: options.memory })
    }

    pub(super) fn payload(&self) -> usize {
        self.bytes - HEAD_BYTES
    }

    pub(super) fn message_bytes(&self) -> u64 {
        (self.per_message * self.payload()) as u64
    }

    /// The word of the region with the number of datagram `n`, from 1.
    pub(super) fn word(&self, n: u64) -> usize {
        let slot = (n.max(1) - 1) % self.slots as u64;
        slot as usize * self.payload() / 8
    }

    /// What a bare program has to know.
    pub(super) fn layout(&self) -> BarePlacement {
        BarePlacement {
            datagram_bytes: self.bytes as u16,
            head_bytes: HEAD_BYTES as u16,
            offset_at: OFFSET_AT as u16,
            train: self.train as u16,
            memory: self.region,
        }
    }

    /// The datagrams up to `sent` whose numbers the memory has not, of those that nothing later may have overwritten.
    pub(super) fn absent(&self, sent: u64, word: impl Fn(usize) -> u64) -> u64 {
        let first = sent.saturating_sub(self.slots as u64) + 1;
        (first..=sent).filter(|n| word(self.word(*n)) != *n).count() as u64
    }
}

/// How far the receiver is, for a closed loop.
pub(super) enum Look {
    /// It says so itself.
    Told,
    /// By its count of datagrams.
    Counted(Box<dyn Fn() -> u64 + Send>),
    /// By the words of its memory.
    Memory(Box<dyn Fn(usize) -> u64 + Send>),
}

impl Look {
    /// Write down the bytes that have arrived of `sent` datagrams.
    fn note(&self, datagrams: &Datagrams, sent: u64, seen: &mut u64, flow: &Flow) {
        match self {
            Look::Told => return,
            Look::Counted(count) => *seen = count(),
            Look::Memory(word) => {
                // A few at a time: each is a line of memory that the other CPU has just written.
                const STEP: u64 = 8;
                while *seen < sent {
                    let next = (*seen + STEP).min(sent);
                    if word(datagrams.word(next)) != next {
                        break;
                    }
                    *seen = next;
                }
            }
        }
        flow.received.0.store(*seen * datagrams.bytes as u64, Ordering::Relaxed);
    }
}

/// Both ends are this process: nothing needs to be proven.
struct Trust;

impl AddressProof for Trust {
    fn cookie(&self, _: SocketAddr, nonce: u64) -> [u8; 16] {
        u128::from(nonce).to_be_bytes()
    }

    fn is_cookie(&self, peer: SocketAddr, nonce: u64, cookie: [u8; 16]) -> bool {
        self.cookie(peer, nonce) == cookie
    }
}

fn with<T>(now: Nanos, call: impl FnOnce(&mut RdmaContext<'_>) -> T) -> T {
    let mut random = || RandomState::new().hash_one(now.0);
    call(&mut RdmaContext { now, random: &mut random, proof: &Trust, crc32c: crc32c_append })
}

/// An error of the endpoint.
fn refused(what: &str, why: skyhaul_core::wire::rdma::RdmaRefusal) -> io::Error {
    io::Error::other(format!("{what}: {}", why.name()))
}

/// What a writer did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wrote {
    pub(super) datagrams: u64,
    pub(super) messages: u64,
    /// From the first datagram to the last.
    pub(super) began: Option<Instant>,
    pub(super) seconds: f64,
    /// CPU time in which it waited until it might send.
    pub(super) waited: Duration,
}

/// See the [module](self). It stays on the thread that opened it.
pub(super) struct Writer {
    endpoint: RdmaEndpoint,
    connection: u32,
    stag: u32,
    /// A server is at the other end.
    has_server: bool,
    sender: BareSender,
    to: SocketAddr,
    datagrams: Datagrams,
    began: Instant,
}

impl Writer {
    /// Connects: with the server at that address, or with a peer in memory that accepts for a bare loop.
    ///
    /// # Errors
    /// The system refuses a socket, or the server does not accept.
    pub(super) fn connect(to: SocketAddr, datagrams: Datagrams, has_server: bool) -> io::Result<Writer> {
        let give = match datagrams.train {
            1 => Give::Single,
            train => Give::TrainsOf(train as u16),
        };
        let sender = BareSender::open(&Endpoint::udp(to), give, datagrams.bytes)?;
        let config = RdmaConfig { datagram_bytes: datagrams.bytes as u16, ..RdmaConfig::default() };
        let mut writer = Writer {
            endpoint: RdmaEndpoint::new(config),
            connection: 0,
            stag: 0,
            has_server,
            sender,
            to,
            datagrams,
            began: Instant::now(),
        };
        let deadline = writer.now().plus(Nanos::from(PATIENCE));
        let asked = with(writer.now(), |context| writer.endpoint.connect(to, b"bench", deadline, context));
        writer.connection = asked.map_err(|why| refused("connect", why))?;
        let mut peer = (!has_server).then(|| RdmaEndpoint::new(config));
        let private = loop {
            if writer.now() > deadline {
                let text = format!("connect {to}: no answer within {PATIENCE:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            match peer.as_mut() {
                Some(peer) => writer.talk_in_memory(peer)?,
                None => writer.talk(Duration::from_millis(20))?,
            }
            match writer.endpoint.poll_event() {
                Some(RdmaEvent::Connected { private, .. }) => break private,
                Some(RdmaEvent::Closed { by, .. }) => {
                    return Err(io::Error::other(format!("connect {to}: {}", by.name())));
                }
                _ => {}
            }
        };
        let stag = private.first_chunk().ok_or_else(|| io::Error::other("the answer names no region"))?;
        writer.stag = u32::from_be_bytes(*stag);
        // The last word of the handshake: the server need not ask for it, and a bare loop does not get it.
        match peer.as_mut() {
            Some(peer) => writer.talk_in_memory(peer)?,
            None => writer.talk(Duration::ZERO)?,
        }
        Ok(writer)
    }

    fn now(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// Send what waits and is not a segment, and take what comes within `wait`.
    fn talk(&mut self, wait: Duration) -> io::Result<()> {
        let now = self.now();
        while let Some(transmit) = with(now, |context| self.endpoint.poll_transmit(context)) {
            self.sender.send(&transmit.assemble(&[]))?;
        }
        let mut bytes = [0; CONTROL_BYTES];
        let mut wait = wait;
        while let Some(length) = self.sender.receive(&mut bytes, wait)? {
            let now = self.now();
            with(now, |context| self.endpoint.handle_datagram(self.to, &bytes[..length], context));
            wait = Duration::ZERO;
        }
        if self.endpoint.poll_timeout().is_some_and(|due| due <= self.now()) {
            let now = self.now();
            with(now, |context| self.endpoint.handle_timeout(context));
        }
        Ok(())
    }

    /// The same with a peer that has no socket, and accepts.
    fn talk_in_memory(&mut self, peer: &mut RdmaEndpoint) -> io::Result<()> {
        let (now, to) = (self.now(), self.to);
        while let Some(transmit) = with(now, |context| self.endpoint.poll_transmit(context)) {
            with(now, |context| peer.handle_datagram(to, &transmit.assemble(&[]), context));
        }
        while let Some(event) = peer.poll_event() {
            let RdmaEvent::Requested { connection, .. } = event else { continue };
            let slice = MemorySlice { memory: 0, start: 0, length: self.datagrams.region };
            let rights = RegionRights { write: true, ..RegionRights::default() };
            let stag = with(now, |context| peer.register(slice, rights, context));
            let stag = stag.map_err(|why| refused("register", why))?;
            let accepted = with(now, |context| peer.accept(connection, &stag.to_be_bytes(), context));
            accepted.map_err(|why| refused("accept", why))?;
        }
        while let Some(transmit) = with(now, |context| peer.poll_transmit(context)) {
            with(now, |context| self.endpoint.handle_datagram(to, &transmit.assemble(&[]), context));
        }
        Ok(())
    }

    /// Writes for the time of a run, at its rate, or as fast as the receiver shows that it follows.
    ///
    /// # Errors
    /// The system does not take a datagram, or the peer has ended the connection.
    pub(super) fn write(
        &mut self,
        options: &RdmaBenchOptions,
        flow: &Arc<Flow>,
        look: &Look,
    ) -> io::Result<Wrote> {
        let load = match options.rate {
            0 => BenchLoad::Closed,
            rate => BenchLoad::Rate(rate),
        };
        let mut throttle = Throttle::new(flow.clone(), load, options.stop.clone());
        let datagrams = self.datagrams;
        let mut batch = vec![0x5a_u8; datagrams.train * datagrams.bytes];
        let (began, mut wrote, mut seen, mut listened) =
            (Instant::now(), Wrote::default(), 0, Instant::now());
        // Messages are whole, so that none is called incomplete.
        while began.elapsed() < options.time && !options.stop.is_set() {
            self.post(wrote.messages)?;
            wrote.messages += 1;
            for _ in 0..datagrams.per_message / datagrams.train {
                let now = self.now();
                for datagram in batch.chunks_exact_mut(datagrams.bytes) {
                    wrote.datagrams += 1;
                    self.fill(datagram, wrote.datagrams, now)?;
                }
                let sent = wrote.datagrams - datagrams.train as u64;
                throttle.wait_with(batch.len() as u64, || look.note(&datagrams, sent, &mut seen, flow));
                self.sender.send(&batch)?;
            }
            if self.has_server && listened.elapsed() >= LISTEN {
                listened = Instant::now();
                self.talk(Duration::ZERO)?;
            }
            while let Some(event) = self.endpoint.poll_event() {
                if let RdmaEvent::Closed { by, .. } = event {
                    return Err(io::Error::other(format!("the connection ended by {}", by.name())));
                }
            }
        }
        wrote.began = Some(began);
        wrote.seconds = began.elapsed().as_secs_f64();
        wrote.waited = throttle.waited;
        Ok(wrote)
    }

    /// Ends the connection, so that the server knows how much was sent.
    ///
    /// # Errors
    /// The socket fails, or the server does not confirm.
    pub(super) fn close(mut self) -> io::Result<()> {
        if !self.has_server {
            return Ok(());
        }
        let deadline = self.now().plus(Nanos::from(PATIENCE));
        self.endpoint.close(self.connection, deadline).map_err(|why| refused("close", why))?;
        loop {
            self.talk(Duration::from_millis(20))?;
            while let Some(event) = self.endpoint.poll_event() {
                match event {
                    RdmaEvent::Closed { by, .. } if by.name() == "here" => return Ok(()),
                    RdmaEvent::Closed { by, .. } => {
                        return Err(io::Error::other(format!("the connection ended by {}", by.name())));
                    }
                    _ => {}
                }
            }
        }
    }

    fn post(&mut self, before: u64) -> io::Result<()> {
        let length = self.datagrams.message_bytes();
        let offset = before % (self.datagrams.slots / self.datagrams.per_message) as u64 * length;
        let source = MemorySlice { memory: 0, start: 0, length };
        let to = RemoteAddress { stag: self.stag, offset };
        let write = RemoteWrite { source, to, immediate: None, is_solicited: false };
        self.endpoint.write(self.connection, write).map(|_| ()).map_err(|why| refused("write", why))
    }

    /// The head of the next segment and the number of its datagram.
    fn fill(&mut self, datagram: &mut [u8], number: u64, now: Nanos) -> io::Result<()> {
        loop {
            let next = with(now, |context| self.endpoint.poll_transmit(context));
            let transmit = next.ok_or_else(|| io::Error::other("a message has too few segments"))?;
            if transmit.is_control {
                self.sender.send(&transmit.assemble(&[]))?;
                continue;
            }
            let length = transmit.payload.map_or(0, |slice| slice.length as usize);
            if (transmit.head.len(), length) != (HEAD_BYTES, self.datagrams.payload()) || transmit.has_crc {
                return Err(io::Error::other("a segment is not one of those that were agreed on"));
            }
            datagram[..HEAD_BYTES].copy_from_slice(&transmit.head);
            datagram[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(&number.to_ne_bytes());
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagrams() -> Datagrams {
        // Two messages of two trains of three: 12 slots of 96 bytes.
        Datagrams { bytes: HEAD_BYTES + 96, train: 3, per_message: 6, slots: 12, region: 2048 }
    }

    #[test]
    fn numbers_are_looked_for_where_they_were_written_last() {
        let own = datagrams();
        assert_eq!(
            (own.payload(), own.message_bytes(), own.word(1), own.word(12), own.word(13)),
            (96, 576, 0, 132, 0)
        );
        let mut memory = [0_u64; 144];
        (1..=15).for_each(|n| memory[own.word(n)] = n);
        let absent = |memory: &[u64], sent| own.absent(sent, |at| memory[at]);
        assert_eq!((absent(&memory, 15), absent(&memory, 3)), (0, 3), "1 to 3 were overwritten by 13 to 15");
        memory[own.word(9)] = 0;
        memory[own.word(14)] = 2;
        assert_eq!(absent(&memory, 15), 2);
        assert_eq!(own.absent(0, |_| 0), 0);
    }

    #[test]
    fn a_writer_connects_in_memory_and_its_segments_follow_each_other() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let own = datagrams();
        let mut writer = Writer::connect(receiver.local_addr().unwrap(), own, false).unwrap();
        let (mut datagram, mut offsets) = (vec![0; own.bytes], Vec::new());
        for n in 1..=18_u64 {
            if n % 6 == 1 {
                writer.post((n - 1) / 6).unwrap();
            }
            writer.fill(&mut datagram, n, Nanos(0)).unwrap();
            let read = |at: usize| u64::from_be_bytes(datagram[at..at + 8].try_into().unwrap());
            offsets.push(read(OFFSET_AT) / 96);
            assert_eq!(datagram[HEAD_BYTES..HEAD_BYTES + 8], n.to_ne_bytes());
        }
        // The region again and again.
        assert!(offsets.iter().copied().eq((0..18).map(|n| n % 12)), "{offsets:?}");
        writer.close().unwrap();
        // Nothing of the handshake or the end was sent to a receiver that knows neither.
        receiver.set_nonblocking(true).unwrap();
        assert!(receiver.recv(&mut datagram).is_err());
    }
}
