//! The `bpf` tier of a receiving thread: programs in the kernel place the payloads of its streams.
//!
//! ```text
//!   sender ─▶ listening socket ─ trains ─▶ engine: learns the stream              from the first packet on
//!          └▶ socket connected to the sender ─ program ─┬▶ blocks, log            from then on
//!                                                       └▶ trains ─▶ engine       what the rule does not know
//! ```
//!
//! A thread loads the program, which takes the kernel some milliseconds. The connected socket is read once the listening one has been
//! found empty, so the order of a sender's packets is kept. The process sleeps until an object begins or is complete, until
//! something comes up, or for the time of a poll.
//!
//! Heaps of SPEAD are learned here, by sender ([`HeapLearner`]): the engine does not, and places them by their heads.
//!
//! A sender of heaps that is silent for ten seconds gives its program and its memory back: its socket [leaves](skyhaul_io::udp::peer::leave) the port, is read for one
//! tick more, and closed. The sender is learned anew when it speaks again, also at other sockets, which were refused before.
//!
//! Limits: [`PEERS`] streams or senders of heaps, each of a sender of its own and of a format that has a rule; the others are received
//! as by `stage`.

mod owner;
mod peer;

pub(super) use owner::{PlacedOf, PlacingOwner};

use super::info::StreamInfo;
use super::keyed::{HeapPlacing, PlacingPlan};
use super::placer::{Placer, Until};
use peer::{Connected, KernelTurn, Lasts, Loaded, Loading, Peer, Reason, State};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::RuleWake;
use skyhaul_core::wire::{HeapLayout, HeapLearner, LearnedHeaps};
use skyhaul_io::memory::heap::KernelHeaps;
use skyhaul_io::memory::{Block, Pool};
use skyhaul_io::source::{SourceStats, Train};
use skyhaul_io::udp::bpf::{PlacementArena, PlacementProgram};
use skyhaul_io::udp::peer::{beside, share_port};
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use skyhaul_io::wake;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Streams with a program.
const PEERS: usize = 64;
/// Senders of heaps that are kept in mind: a flood of others is received as by `stage`.
const MAX_SENDERS: usize = 1024;
/// Slots of a stream's program.
const SLOTS: u32 = 32;
/// Open slots ahead of the newest object of a stream: for so many bytes, within these bounds.
const AHEAD_BYTES: u64 = 64 << 20;
const AHEAD: (u64, u64) = (2, 16);
/// Words of a program's log: half of it is used, a tenth of a second of the fastest streams.
const LOG_WORDS: u32 = 1 << 17;
/// If trains come up, so long is waited for more of them.
const GATHER: Duration = Duration::from_millis(1);
/// A listening socket that is never found empty no longer holds up the connected one after this.
const PATIENCE: Duration = Duration::from_millis(500);

/// The streams of one listening socket.
pub(super) struct Kernel {
    /// Of streams; heaps have memory of their own.
    arena: Option<Arc<PlacementArena>>,
    listening: OwnedFd,
    local: SocketAddr,
    buffer: u64,
    is_shared: bool,
    peers: Vec<Peer>,
    /// Senders of heaps whose layout is not known yet.
    learners: HashMap<SocketAddr, HeapLearner>,
    /// The sender of the last train, if there is nothing to learn of it.
    known: Option<SocketAddr>,
    /// Trains came up in the last turn.
    came_up: bool,
    /// Received since the last turn.
    between: KernelTurn,
    past: SourceStats,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("local", &self.local)
            .field("peers", &self.peers.len())
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// For the senders to this socket, into blocks of a pool of the kernel. `buffer` is that of each connected socket.
    ///
    /// # Errors
    /// The pool is another one, or a system error.
    pub(super) fn new(pool: &Pool, source: &UdpSource, buffer: u64) -> io::Result<Kernel> {
        let arena = PlacementArena::of(pool)
            .ok_or_else(|| io::Error::other("the pool of the receiver is not memory of the kernel"))?;
        Self::with(Some(Arc::new(arena)), source, buffer)
    }

    /// The same for heaps alone.
    ///
    /// # Errors
    /// This process may not load programs, or a system error.
    pub(super) fn of_heaps(source: &UdpSource, buffer: u64) -> io::Result<Kernel> {
        // Whether there may be memory of the kernel is known before the first sender.
        KernelHeaps::new(1, 1, None)?;
        Self::with(None, source, buffer)
    }

    fn with(arena: Option<Arc<PlacementArena>>, source: &UdpSource, buffer: u64) -> io::Result<Kernel> {
        Ok(Kernel {
            arena,
            listening: source.descriptor()?,
            local: source.local(),
            buffer,
            is_shared: false,
            peers: Vec::new(),
            learners: HashMap::new(),
            known: None,
            came_up: false,
            between: KernelTurn::default(),
            past: SourceStats::default(),
        })
    }

    fn connected(&self) -> impl Iterator<Item = &Connected> {
        self.peers.iter().filter_map(|peer| match &peer.state {
            State::Placing(connected) | State::Leaving(connected) => Some(&**connected),
            State::Loading(_) | State::Without(_) => None,
        })
    }

    /// Waits for packets, or for an object that the kernel has begun or completed.
    ///
    /// # Errors
    /// A system error.
    pub(super) fn wait(&mut self, most: Duration) -> io::Result<()> {
        if std::mem::take(&mut self.came_up) && GATHER < most {
            std::thread::sleep(GATHER);
            return Ok(());
        }
        let sockets: Vec<BorrowedFd<'_>> = std::iter::once(self.listening.as_fd())
            .chain(self.connected().map(|peer| peer.fd.as_fd()))
            .collect();
        wake::wait_for(&sockets, most).map(drop)
    }

    /// Takes what the kernel placed and what came up. `is_empty`: the listening socket has been found empty.
    ///
    /// # Errors
    /// A socket fails.
    pub(super) fn receive(
        &mut self,
        owner: &mut impl PlacingOwner,
        is_empty: bool,
        now: impl Fn() -> Nanos,
    ) -> io::Result<KernelTurn> {
        let mut turn = std::mem::take(&mut self.between);
        for Peer { of, state, .. } in &mut self.peers {
            let connected = match state {
                State::Placing(connected) if owner.is_there(*of) => connected,
                State::Leaving(connected) => {
                    connected.read(owner, None, &mut turn, &now)?;
                    continue;
                }
                _ => continue,
            };
            if let Some(since) = connected.is_behind {
                if !is_empty && since.elapsed() < PATIENCE {
                    continue;
                }
                connected.is_behind = None;
            }
            let before = turn.packets;
            self.came_up |= connected.read(owner, Some(*of), &mut turn, &now)?;
            let taken = owner.take_log(*of, Until::ComesUp, now());
            turn.packets += taken.packets as usize;
            turn.bytes += taken.bytes;
            if turn.packets > before {
                connected.heard = Instant::now();
            }
            owner.turn_placing(*of);
        }
        Ok(turn)
    }

    /// New streams get programs, and those that have ended, or are silent, give them up. Call it a few times a second.
    ///
    /// # Errors
    /// A socket fails.
    pub(super) fn handle_tick(&mut self, owner: &mut impl PlacingOwner, now: Nanos) -> io::Result<()> {
        self.close_left(owner, now)?;
        for peer in &mut self.peers {
            peer.leave_if_over(owner, &mut self.between, now)?;
        }
        self.peers.retain(|peer| owner.is_there(peer.of) || matches!(peer.state, State::Leaving(_)));
        self.forget_unclaimed(owner);
        for (at, info) in owner.placeable() {
            let of = PlacedOf::Stream { at, id: info.id };
            if self.peers.iter().all(|peer| peer.of != of) {
                let state = self.loads(|| match &self.arena {
                    Some(arena) => load(arena, &info),
                    None => State::Without("it has no memory of the kernel".to_owned().into()),
                });
                self.peers.push(Peer { of, sender: info.sender, state, last: None });
            }
        }
        self.load_heaps(owner);
        for at in 0..self.peers.len() {
            if matches!(&self.peers[at].state, State::Loading(thread) if thread.is_finished()) {
                let state = std::mem::replace(&mut self.peers[at].state, State::Without(Reason::default()));
                let State::Loading(thread) = state else { continue };
                let begun = self.begin(at, thread, owner);
                self.peers[at].state = begun.unwrap_or_else(|why| State::Without(why.into()));
            }
        }
        Ok(())
    }

    /// Senders whose heaps the program of another socket placed, and places no more, are learned when they speak again.
    fn forget_unclaimed(&mut self, owner: &mut impl PlacingOwner) {
        let before = self.peers.len();
        self.peers.retain(|peer| {
            !peer.state.lacks(Lasts::UntilUnclaimed) || owner.claim_heaps(peer.sender).is_none()
        });
        if self.peers.len() < before {
            self.known = None;
        }
    }

    /// Begins to load a program, if there are not too many.
    fn loads(&self, load: impl FnOnce() -> State) -> State {
        let loads = self.peers.iter().filter(|peer| !matches!(peer.state, State::Without(_))).count();
        match loads < PEERS {
            true => load(),
            false => State::lacking(format!("the kernel places {PEERS} streams at most")),
        }
    }

    /// A train that came to the listening socket: of heaps, its sender's layout is learned.
    #[inline]
    pub(super) fn hear(&mut self, owner: &mut impl PlacingOwner, train: &Train<'_>) {
        if self.known != Some(*train.sender) {
            self.study(owner, train);
        }
    }

    fn study(&mut self, owner: &mut impl PlacingOwner, train: &Train<'_>) {
        let sender = *train.sender;
        let is_known = self.peers.iter().any(|peer| peer.of == PlacedOf::Heaps(sender));
        let is_crowded = !self.learners.contains_key(&sender)
            && (self.learners.len() >= PEERS || self.peers.len() >= MAX_SENDERS);
        if is_known || is_crowded || !owner.is_heaps(sender) {
            self.known = Some(sender);
            return;
        }
        let learner = self.learners.entry(sender).or_default();
        train.packets().for_each(|packet| learner.note(packet));
    }

    /// Senders of heaps whose layout is known get programs.
    fn load_heaps(&mut self, owner: &mut impl PlacingOwner) {
        let mut learned = Vec::new();
        self.learners.retain(|&sender, learner| match learner.learned() {
            LearnedHeaps::NotYet => true,
            known => {
                learned.push((sender, known));
                false
            }
        });
        for (sender, known) in learned {
            let state = match known {
                LearnedHeaps::Layout(layout) => self.loads(|| match plan(owner, sender, &layout) {
                    Ok(plan) => {
                        in_a_thread(move || Ok(Loaded::Heaps(Box::new(HeapPlacing::load(layout, plan)?))))
                    }
                    Err(why) => State::Without(why),
                }),
                LearnedHeaps::Irregular(why) => State::Without(why.to_owned().into()),
                LearnedHeaps::NotYet => continue,
            };
            self.peers.push(Peer { of: PlacedOf::Heaps(sender), sender, state, last: None });
        }
    }

    /// Nothing is placed from now on: all goes up.
    pub(super) fn close(&mut self, owner: &mut impl PlacingOwner) {
        for peer in &mut self.peers {
            if let (PlacedOf::Heaps(sender), State::Placing(_)) = (peer.of, &peer.state) {
                owner.end_heaps(sender);
                peer.last = owner.placed(peer.of);
            }
        }
    }

    /// After [`close`](Self::close): its senders may have programs at other sockets of the stream.
    pub(super) fn give_up_senders(&mut self, owner: &mut impl PlacingOwner) {
        for peer in &self.peers {
            if let (PlacedOf::Heaps(sender), State::Placing(_)) = (peer.of, &peer.state) {
                owner.forget_heaps(sender);
            }
        }
    }

    /// The program is loaded: its sender gets a socket. Until slots are opened, all comes up.
    fn begin(
        &mut self,
        peer: usize,
        thread: Loading,
        owner: &mut impl PlacingOwner,
    ) -> Result<State, String> {
        let loaded = thread.join().map_err(|_| "the thread that loads its program panicked".to_owned())??;
        let Peer { of, sender, .. } = self.peers[peer];
        if !owner.is_there(of) {
            return Err("its stream has ended".to_owned());
        }
        let failed = |error: io::Error| error.to_string();
        if !self.is_shared {
            share_port(self.listening.as_fd()).map_err(failed)?;
            self.is_shared = true;
        }
        let socket = beside(self.local, sender, self.buffer, |socket| loaded.program().attach(socket))
            .map_err(failed)?;
        let options = UdpOptions { tier: Tier::Stage, ..UdpOptions::default() };
        let fd = socket.try_clone().map_err(failed)?.into();
        let source = UdpSource::from_fd(socket.into(), &options).map_err(failed)?;
        match (loaded, of) {
            (Loaded::Stream { program, shape, packet_bytes }, PlacedOf::Stream { at, .. }) => {
                let object_bytes = u64::from(shape.units) * u64::from(shape.unit_bytes);
                let ahead = (AHEAD_BYTES / object_bytes.max(1)).clamp(AHEAD.0, AHEAD.1);
                owner.begin_stream(at, Placer::<Block>::new(*program, shape, packet_bytes, ahead));
            }
            (Loaded::Heaps(placing), _) => owner.begin_heaps(*placing),
            _ => return Err("its stream has ended".to_owned()),
        }
        let heard = Instant::now();
        Ok(State::Placing(Box::new(Connected { fd, source, is_behind: Some(heard), wakes: 0, heard })))
    }

    /// Sockets that left the port before the last tick hold nothing that anybody waits for: they are closed.
    fn close_left(&mut self, owner: &mut impl PlacingOwner, now: Nanos) -> io::Result<()> {
        let has_left = |peer: &Peer| matches!(peer.state, State::Leaving(_));
        let (left, rest): (Vec<Peer>, Vec<Peer>) =
            std::mem::take(&mut self.peers).into_iter().partition(has_left);
        self.peers = rest;
        for peer in left {
            let State::Leaving(mut connected) = peer.state else { continue };
            connected.read(owner, None, &mut self.between, &|| now)?;
            connected.add_to(&mut self.past, peer.last);
            // It, and others, may be learned now.
            self.known = None;
            self.peers.retain(|peer| !peer.state.lacks(Lasts::UntilOneLeaves));
        }
        Ok(())
    }

    /// The counters of the listening socket, with those of the connected ones.
    pub(super) fn stats(&self, owner: &impl PlacingOwner, mut all: SourceStats) -> SourceStats {
        all.packets += self.past.packets;
        all.bytes += self.past.bytes;
        all.trains += self.past.trains;
        all.truncated += self.past.truncated;
        all.socket_drops += self.past.socket_drops;
        let mut placing = 0;
        for peer in &self.peers {
            let (State::Placing(connected) | State::Leaving(connected)) = &peer.state else { continue };
            placing += usize::from(matches!(peer.state, State::Placing(_)));
            let drops = connected.add_to(&mut all, owner.placed(peer.of).or(peer.last));
            if drops > 0 {
                all.remedies.push(format!(
                    "{}: the socket had no room for {drops} arrivals that the kernel could not place",
                    peer.sender
                ));
            }
        }
        if placing > 0 {
            all.tier = "bpf";
        }
        all.because = self.because(placing);
        all
    }

    fn because(&self, placing: usize) -> String {
        if self.peers.is_empty() {
            return "bpf is requested, and no stream has begun that the kernel can place".to_owned();
        }
        let mut text = format!("requested; the kernel places {placing} of {} streams", self.peers.len());
        let why = |peer: &Peer| match &peer.state {
            State::Placing(_) | State::Leaving(_) => None,
            State::Loading(_) => Some(format!("{}: its program is being loaded", peer.sender)),
            State::Without(Reason { text, .. }) => Some(format!("{}: {text}", peer.sender)),
        };
        if let Some(why) = self.peers.iter().find_map(why) {
            text += "; ";
            text += &why;
        }
        text
    }
}

/// The kernel does not place with this.
pub(super) fn not_placed(what: &str) -> io::Error {
    let text = format!("the kernel does not place with {what}{}", Hint("omit --tier bpf"));
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// What a program for a sender's heaps takes, or why there is none.
fn plan(
    owner: &mut impl PlacingOwner,
    sender: SocketAddr,
    layout: &HeapLayout,
) -> Result<PlacingPlan, Reason> {
    let reason = |text: &str, lasts| Reason { text: text.to_owned(), lasts };
    let claim = owner
        .claim_heaps(sender)
        .ok_or_else(|| reason("the kernel places what it sends to another socket", Lasts::UntilUnclaimed))?;
    let memory = owner.heap_memory().ok_or_else(|| reason("no heaps are received", Lasts::UntilOneLeaves))?;
    PlacingPlan::new(claim, layout, memory).map_err(|text| reason(&text, Lasts::UntilOneLeaves))
}

/// Begins to load the program of a stream.
fn load(arena: &Arc<PlacementArena>, info: &StreamInfo) -> State {
    let (arena, format) = (Arc::clone(arena), info.format.clone());
    let wake = RuleWake { completed: 1, begun: 1 };
    let load = move || {
        let rule = format.rule(SLOTS, wake).and_then(|rule| rule.logged(arena.elements(), LOG_WORDS));
        let rule = rule.map_err(|error| error.to_string())?;
        let program = PlacementProgram::over(&rule.rule, &arena).map_err(|error| error.to_string())?;
        (0..).zip(&rule.parameters).for_each(|(at, &value)| program.set_parameter(at, value));
        let packet_bytes = format.packet_bytes as u64;
        Ok(Loaded::Stream { program: Box::new(program), shape: rule.rule.shape, packet_bytes })
    };
    in_a_thread(load)
}

fn in_a_thread(load: impl FnOnce() -> Result<Loaded, String> + Send + 'static) -> State {
    match std::thread::Builder::new().name("placement".to_owned()).spawn(load) {
        Ok(thread) => State::Loading(thread),
        Err(error) => State::Without(format!("no thread to load its program: {error}").into()),
    }
}
