//! The sockets of senders whose payloads the kernel places.

use super::{PlacedOf, PlacingOwner};
use crate::receive::keyed::HeapPlacing;
use crate::receive::placer::Until;
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::{RuleCounts, SlotShape};
use skyhaul_io::source::{Source, SourceStats};
use skyhaul_io::udp::UdpSource;
use skyhaul_io::udp::bpf::PlacementProgram;
use skyhaul_io::udp::peer::leave;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Times that a socket is read in a turn, at most.
const POLLS: usize = 64;
/// A sender of heaps that has sent nothing for so long is silent.
const SILENCE: Duration = Duration::from_secs(10);

/// A sender.
pub(super) struct Peer {
    pub(super) of: PlacedOf,
    pub(super) sender: SocketAddr,
    pub(super) state: State,
    /// What was placed of heaps, when they ended.
    pub(super) last: Option<(RuleCounts, u64)>,
}

pub(super) enum State {
    Loading(Loading),
    Placing(Box<Connected>),
    /// Its socket gets nothing more, and is read until the next tick.
    Leaving(Box<Connected>),
    /// The kernel does not place it.
    Without(Reason),
}

/// Why the kernel does not place a stream.
#[derive(Default)]
pub(super) struct Reason {
    pub(super) text: String,
    pub(super) lasts: Lasts,
}

/// How long a reason holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lasts {
    /// As long as its sender is known.
    #[default]
    Always,
    /// Another sender to this socket may leave what is lacking.
    UntilOneLeaves,
    /// Until the program of another socket, which places this sender's heaps, is given up.
    UntilUnclaimed,
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, lasts: Lasts::Always }
    }
}

pub(super) type Loading = JoinHandle<Result<Loaded, String>>;

/// A program, and what is to be placed by it.
pub(super) enum Loaded {
    Stream { program: Box<PlacementProgram>, shape: SlotShape, packet_bytes: u64 },
    Heaps(Box<HeapPlacing>),
}

impl Loaded {
    pub(super) fn program(&self) -> &PlacementProgram {
        match self {
            Loaded::Stream { program, .. } => program,
            Loaded::Heaps(placing) => placing.placer.program(),
        }
    }
}

/// A socket that receives only from its sender, with the program.
pub(super) struct Connected {
    pub(super) fd: OwnedFd,
    pub(super) source: UdpSource,
    /// What the listening socket still has comes before.
    pub(super) is_behind: Option<Instant>,
    /// Empty datagrams that only woke this process.
    pub(super) wakes: u64,
    /// When something last came from it.
    pub(super) heard: Instant,
}

/// What a turn received.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::receive) struct KernelTurn {
    pub(in crate::receive) packets: usize,
    pub(in crate::receive) bytes: u64,
}

impl State {
    /// The kernel does not place it as long as others have what it takes.
    pub(super) fn lacking(text: String) -> State {
        State::Without(Reason { text, lasts: Lasts::UntilOneLeaves })
    }

    /// Whether it is without a program for a reason of this kind.
    pub(super) fn lacks(&self, lasts: Lasts) -> bool {
        matches!(self, State::Without(why) if why.lasts == lasts)
    }
}

impl Peer {
    /// The socket of a stream that was replaced, and that of a silent sender of heaps, leaves the port.
    pub(super) fn leave_if_over(
        &mut self,
        owner: &mut impl PlacingOwner,
        turn: &mut KernelTurn,
        now: Nanos,
    ) -> io::Result<()> {
        let State::Placing(connected) = &mut self.state else { return Ok(()) };
        let is_there = owner.is_there(self.of);
        let is_silent = matches!(self.of, PlacedOf::Heaps(_)) && connected.heard.elapsed() >= SILENCE;
        if is_there && !is_silent {
            return Ok(());
        }
        if leave(connected.fd.as_fd()).is_err() && is_there {
            // It keeps what it has.
            connected.heard = Instant::now();
            return Ok(());
        }
        connected.read(owner, is_there.then_some(self.of), turn, &|| now)?;
        if let PlacedOf::Heaps(sender) = self.of {
            owner.end_heaps(sender);
            self.last = owner.placed(self.of);
            owner.forget_heaps(sender);
        }
        let state = std::mem::replace(&mut self.state, State::Without(Reason::default()));
        if let State::Placing(connected) = state {
            self.state = State::Leaving(connected);
        }
        Ok(())
    }
}

impl Connected {
    /// Adds its counters, with those of its program and the bytes that it placed. Returns how many arrivals its socket dropped.
    pub(super) fn add_to(&self, all: &mut SourceStats, placed: Option<(RuleCounts, u64)>) -> u64 {
        let stats = self.source.stats();
        all.packets += stats.packets - self.wakes;
        all.bytes += stats.bytes;
        all.trains += stats.trains - self.wakes;
        all.truncated += stats.truncated;
        // The counts of a stream's program went with it.
        let Some((counts, placed_bytes)) = placed else { return 0 };
        all.packets += counts.placed + counts.refused.total();
        all.bytes += placed_bytes;
        all.trains += counts.silent_runs() + counts.wakes;
        // The kernel counts a train as dropped by the socket if nothing is left of it: these are counted after the drops.
        let drops = stats.socket_drops.saturating_sub(counts.silent_runs());
        all.socket_drops += drops;
        drops
    }

    /// Takes trains that came up, each after what the kernel placed before it. Returns whether there were some.
    pub(super) fn read(
        &mut self,
        owner: &mut impl PlacingOwner,
        of: Option<PlacedOf>,
        turn: &mut KernelTurn,
        now: &impl Fn() -> Nanos,
    ) -> io::Result<bool> {
        let mut came_up = false;
        for _ in 0..POLLS {
            let mut trains = 0;
            let wakes = &mut self.wakes;
            self.source.poll(Duration::ZERO, &mut |train| {
                trains += 1;
                // Real empty datagrams are refused by the program.
                if train.bytes.is_empty() {
                    *wakes += 1;
                    return;
                }
                came_up = true;
                let now = now();
                if let Some(of) = of {
                    let taken = owner.take_log(of, Until::CameUp(train.count()), now);
                    turn.packets += taken.packets as usize;
                    turn.bytes += taken.bytes;
                }
                turn.packets += train.count();
                turn.bytes += train.bytes.len() as u64;
                owner.handle_train(&train, now);
            })?;
            if trains == 0 {
                break;
            }
        }
        Ok(came_up)
    }
}
