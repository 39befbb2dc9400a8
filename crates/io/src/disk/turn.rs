//! Turns at a disk: what recordings write goes first, and readers and copies share the rest ([`skyhaul_core::disk_turns`]).
//!
//! ```text
//!   recorder ─ WriteClaim::set ─▶ ┌──────────────────┐ ◀─ DiskTurn::ask ─ readers, copies
//!                                 │ turns of a device │ ─▶ has_begun, wait
//!   other processes ◀─ demand ──▶ └──────────────────┘
//! ```
//!
//! Turns are kept for each file system by its number, so that every directory and file on it counts, with nothing to hand around. Other
//! processes, such as `skyhaul cat` and `skyhaul mount`, learn what a recorder needs from a file in memory ([`demand`]); each gives its
//! own readers their turns.
//!
//! A thread that waits calls what it was given by [`while_waiting`], so that who watches it knows why it takes long. A disk that hangs has
//! no demand: its readers are let through, and hang there as they would without a recording.
//!
//! Limits: two file systems on one device do not know of each other. The page cache is not ours: a program that does not ask for turns has
//! what the kernel gives it.

mod demand;

use crate::lock::{lock, wait_while};
use demand::{Announced, OtherDemand};
use skyhaul_core::disk_turns::{DiskTurns, TURN_BYTES, TurnTicket, WriteDemand};
use skyhaul_core::placement::Nanos;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// How often a thread looks at what other processes need.
const LOOK_INTERVAL: Duration = Duration::from_millis(4);
/// How often one looks whether it has waited long enough.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);
/// How often a thread that waits says so.
const SAY_INTERVAL: Duration = Duration::from_millis(100);
/// How often a demand is announced although it is the same.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(250);

/// How long readers and copies of this process have waited for recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// They wait now.
    pub waiting: usize,
    /// Turns that did not begin at once.
    pub waits: u64,
    /// Their time together.
    pub waited: Duration,
}

#[derive(Debug, Default)]
struct State {
    turns: DiskTurns,
    begun: BTreeSet<TurnTicket>,
    /// What each recording of this process needs.
    own: BTreeMap<u64, WriteDemand>,
    next_claim: u64,
    others: OtherDemand,
    announced: Option<Announced>,
    counts: TurnCounts,
}

/// The turns of one file system.
#[derive(Debug)]
struct Device {
    number: u64,
    state: Mutex<State>,
    changed: Condvar,
}

/// All file systems that were used, and those of the directories to which something was recorded.
#[derive(Debug)]
struct Devices {
    all: BTreeMap<u64, Arc<Device>>,
    of_recordings: BTreeMap<PathBuf, u64>,
}

static DEVICES: Mutex<Devices> = Mutex::new(Devices { all: BTreeMap::new(), of_recordings: BTreeMap::new() });

fn now() -> Nanos {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().into()
}

fn device(number: u64) -> Arc<Device> {
    let new = || {
        let (state, changed) = Default::default();
        Arc::new(Device { number, state, changed })
    };
    Arc::clone(lock(&DEVICES).all.entry(number).or_insert_with(new))
}

impl Device {
    /// Applies what has changed: turns begin, and others hear of a demand.
    fn settle(&self, state: &mut State) {
        let own = state.own.values().fold(WriteDemand::default(), |sum, demand| sum.plus(*demand));
        let demand = own.plus(state.others.demand());
        state.turns.set_demand(demand);
        let before = state.begun.len();
        while let Some(ticket) = state.turns.poll_turn(now()) {
            state.begun.insert(ticket);
        }
        if state.begun.len() > before {
            self.changed.notify_all();
        }
        if own.recordings == 0 {
            state.announced = None;
        } else if let Some(announced) = &mut state.announced {
            announced.say(own, ANNOUNCE_INTERVAL);
        }
    }

    /// Looks at what other processes need, at most every so often.
    fn look(&self, state: &mut State, owner: u32, interval: Duration) {
        state.others.look(self.number, owner, interval);
    }
}

/// What a recording needs of a disk: its share of the [`WriteDemand`]. Dropped, it needs nothing any more.
#[derive(Debug)]
pub struct WriteClaim {
    device: Arc<Device>,
    number: u64,
}

impl WriteClaim {
    /// The claim of a recording to the file system of a file in this directory.
    ///
    /// Other processes are told if `/dev/shm` can be written to.
    ///
    /// # Errors
    /// The file system cannot be asked for its number.
    pub fn new(directory: &Path, file: &File) -> io::Result<Self> {
        Ok(Self::at(file.metadata()?.dev(), directory))
    }

    /// The same, by the number of the file system.
    fn at(number: u64, directory: &Path) -> Self {
        lock(&DEVICES).of_recordings.insert(directory.to_owned(), number);
        let device = device(number);
        let mut state = lock(&device.state);
        let claim = state.next_claim;
        state.next_claim += 1;
        state.own.insert(claim, WriteDemand { recordings: 1, ..WriteDemand::default() });
        if state.announced.is_none() {
            state.announced = Announced::new(number);
        }
        device.settle(&mut state);
        drop(state);
        Self { device, number: claim }
    }

    /// The recording has given the disk so many bytes that are not written, and this percentage of its memory is in use.
    pub fn set(&self, pending_bytes: u64, memory_percent: u8) {
        let mut state = lock(&self.device.state);
        state.own.insert(self.number, WriteDemand { recordings: 1, pending_bytes, memory_percent });
        self.device.settle(&mut state);
    }
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        let mut state = lock(&self.device.state);
        state.own.remove(&self.number);
        self.device.settle(&mut state);
    }
}

/// What readers and copies of this process waited at the disk of a directory to which it has recorded.
#[must_use]
pub fn turn_counts(directory: &Path) -> TurnCounts {
    let devices = lock(&DEVICES);
    let number = devices.of_recordings.get(directory);
    let device = number.and_then(|number| devices.all.get(number)).map(Arc::clone);
    drop(devices);
    device.map(|device| lock(&device.state).counts).unwrap_or_default()
}

thread_local! {
    static WHILE_WAITING: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

/// From now on, whenever this thread waits for its turn, `call` is called ten times a second.
pub fn while_waiting(call: impl Fn() + 'static) {
    WHILE_WAITING.with_borrow_mut(|known| *known = Some(Box::new(call)));
}

/// A turn at a disk, asked for or begun. It ends when it is dropped.
#[derive(Debug)]
pub struct DiskTurn {
    device: Arc<Device>,
    /// `None`: nothing is recorded there.
    ticket: Option<TurnTicket>,
    owner: u32,
    asked: Instant,
    /// It did not begin at once.
    is_late: bool,
    has_begun: bool,
}

impl DiskTurn {
    /// Asks for a turn to read or write so many bytes of a file.
    ///
    /// # Errors
    /// The file cannot be asked for its file system.
    pub fn ask(file: &File, bytes: u64) -> io::Result<Self> {
        Ok(Self::of(&file.metadata()?, bytes))
    }

    fn of(status: &Metadata, bytes: u64) -> Self {
        Self::at(status.dev(), status.uid(), bytes)
    }

    /// The same, by the number of a file system and the owner of the file.
    fn at(number: u64, owner: u32, bytes: u64) -> Self {
        let device = device(number);
        let mut state = lock(&device.state);
        device.look(&mut state, owner, LOOK_INTERVAL);
        device.settle(&mut state);
        let is_recorded = state.turns.demand().recordings > 0;
        let ticket = is_recorded.then(|| state.turns.ask(now(), bytes));
        drop(state);
        let mut turn =
            Self { device, ticket, owner, asked: Instant::now(), is_late: false, has_begun: !is_recorded };
        turn.is_late = !turn.has_begun();
        if turn.is_late {
            lock(&turn.device.state).counts.waiting += 1;
        }
        turn
    }

    /// Whether something is recorded there, so that turns should be short ([`TURN_BYTES`]).
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.ticket.is_some()
    }

    /// Whether it has begun.
    pub fn has_begun(&mut self) -> bool {
        if !self.has_begun
            && let Some(ticket) = self.ticket
        {
            let mut state = lock(&self.device.state);
            self.device.look(&mut state, self.owner, LOOK_INTERVAL);
            self.device.settle(&mut state);
            self.has_begun = state.begun.contains(&ticket);
            drop(state);
            self.note_begin();
        }
        self.has_begun
    }

    /// Waits until it has begun.
    pub fn wait(&mut self) {
        let mut said = Instant::now();
        while !self.has_begun() {
            let Some(ticket) = self.ticket else { return };
            // The end of another turn wakes this thread; what another process does has to be looked for.
            let state = lock(&self.device.state);
            let has_others = state.others.demand().recordings > 0;
            let time = if has_others { LOOK_INTERVAL } else { WAIT_INTERVAL };
            drop(wait_while(&self.device.changed, state, time, |state| !state.begun.contains(&ticket)));
            if said.elapsed() >= SAY_INTERVAL {
                said = Instant::now();
                WHILE_WAITING.with_borrow(|call| call.iter().for_each(|call| call()));
            }
        }
    }

    fn note_begin(&mut self) {
        if self.has_begun && std::mem::take(&mut self.is_late) {
            let counts = &mut lock(&self.device.state).counts;
            counts.waiting = counts.waiting.saturating_sub(1);
            counts.waits += 1;
            counts.waited += self.asked.elapsed();
        }
    }
}

impl Drop for DiskTurn {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        // One that was given up has waited, too.
        self.has_begun = true;
        self.note_begin();
        let mut state = lock(&self.device.state);
        state.begun.remove(&ticket);
        state.turns.end(ticket);
        self.device.settle(&mut state);
    }
}

/// Reads as [`FileExt::read_at`], in turn with recordings: fewer bytes at a time while something is recorded to the disk.
///
/// # Errors
/// A system error.
pub fn read_at_in_turn(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    read_in_turn(DiskTurn::of(&file.metadata()?, (into.len() as u64).min(TURN_BYTES)), file, into, offset)
}

fn read_in_turn(mut turn: DiskTurn, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    turn.wait();
    let most = if turn.is_shared() { into.len().min(TURN_BYTES as usize) } else { into.len() };
    file.read_at(&mut into[..most], offset)
}

#[cfg(test)]
mod tests;
