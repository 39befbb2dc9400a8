//! What a world is made of. It is played the same way for windows of both policies; what differs between them is a
//! [`Side`]: who sends, how a receiver reads it, and what must hold of the window besides the [ledger](crate::ledger).
//!
//! ```
//! use skyhaul_sim::play;
//! let tally = play::seed(7, &mut |_| ()).unwrap();
//! assert!(tally.packets > 0);
//! ```

use crate::ledger::{Held, Ledger, Tally};
use crate::network::{Arrival, Network};
use crate::random::Random;
use skyhaul_core::assembly::{Retired, Window};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::Control;
use std::fmt::Debug;
use std::ops::Range;

/// Everything that is chosen, and everything that will happen.
#[derive(Debug)]
pub struct World<S: Side> {
    /// What is drawn while it is played is drawn from this.
    pub seed: u64,
    /// Who sends, and the receiver's limits.
    pub side: S,
    /// What the way does to it.
    pub network: Network,
    /// What arrives.
    pub arrivals: Vec<Arrival<S::Id>>,
    /// Bytes for all objects.
    pub memory: u64,
    /// Whoever takes the objects keeps this many before their memory comes free.
    pub kept: usize,
    /// The receiver looks at its clock this often; 0: exactly when it should.
    pub tick: Nanos,
    /// Most bytes that are handed in at a time; 0: whole packets.
    pub piece: u64,
    /// The stream ends when so many senders said so; 0: never.
    pub stops: u64,
}

/// Takes one line for each event.
pub type Log<'a> = &'a mut dyn FnMut(&dyn Fn() -> String);

/// A packet as a receiver reads it.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Where its payload belongs.
    pub placement: Placement,
    /// What it says of its stream.
    pub control: Option<Control>,
}

/// Senders whose packets go to a window of one policy, and its limits.
pub trait Side: Debug + Sized {
    /// A packet that is sent.
    type Id: Copy + Debug + PartialEq;
    /// The window.
    type Window: Window<Vec<u8>>;
    /// What must hold of it.
    type Judge<'a>: Judge<Self>
    where
        Self: 'a;

    /// What is sent, in words.
    fn name(&self) -> String;

    /// The window with its limits, empty.
    fn window(&self) -> Self::Window;

    /// The judge of what it does.
    fn judge(&self) -> Self::Judge<'_>;

    /// The octets of a packet: always the same.
    fn packet(&self, id: Self::Id) -> Vec<u8>;

    /// Something absurd, or nearly right, that no sender sent, near this packet.
    fn forge(&self, like: Self::Id, random: &mut Random) -> Vec<u8>;

    /// Where a packet belongs, by the sender's own arithmetic: `start` and `number_bits` say nothing.
    fn belongs(&self, id: Self::Id) -> Placement;

    /// What a receiver reads in what came from the sender of this packet.
    ///
    /// # Errors
    /// It is no packet of such a stream.
    fn read(&self, like: Self::Id, packet: &[u8]) -> Result<Said, Reject>;

    /// The number of a packet's sender.
    fn sender(&self, _: Self::Id) -> u64 {
        0
    }

    /// The number of a packet's object, where packets tell only some bits of it.
    fn number(&self, id: Self::Id) -> u64 {
        self.belongs(id).key.number
    }

    /// A sender said that it begins anew, with this object.
    fn forget(_: &mut Self::Window, _start: Key, _now: Nanos) {}
}

/// What must hold of a window of one policy. Keys are those by which senders know their objects.
pub trait Judge<S: Side> {
    /// A part was accepted; `of` a packet that was sent, unless it was damaged or forged. The ledger has it after that.
    fn accept(&mut self, ledger: &Ledger, part: &Placement, of: Option<S::Id>, now: Nanos) -> Held;

    /// A refusal must have its reason.
    fn refuse(
        &mut self,
        ledger: &Ledger,
        part: &Placement,
        why: Reject,
        of: Option<S::Id>,
        now: Nanos,
    ) -> Held;

    /// An object, or a part of one, was handed on, with these of its payloads.
    fn retire(
        &mut self,
        ledger: &Ledger,
        told: &Retired<Vec<u8>>,
        payloads: &[Range<u64>],
        now: Nanos,
    ) -> Held;

    /// The key of the object that is handed on as this one.
    fn known_as(&self, told: Key) -> Key {
        told
    }

    /// Whether a packet that says that its sender begins with this object is news.
    fn begins(&self, _start: Key, _now: Nanos) -> bool {
        false
    }

    /// What is finished of this source may come again.
    fn forget(&mut self, _source: u64) {}

    /// Nothing is more than it may be, and nothing was due before `overdue`.
    fn limits(&self, overdue: Nanos, held: usize) -> Held;

    /// Nothing more will come out. Adds what it counted.
    fn finish(&self, world: &World<S>, ledger: &Ledger, tally: &mut Tally) -> Held;
}
