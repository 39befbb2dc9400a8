//! A disk that serves what it is asked in turn, recordings that write to it, and readers of several processes that ask for all of it,
//! under the turns of the core ([`DiskTurns`]).
//!
//! ```
//! let played = skyhaul_sim::disk::play(7).unwrap();
//! assert!(played.written_bytes > 0);
//! ```
//!
//! The disk knows no priorities: one request after the other, and now and then it stands still. Where recordings need at most nine tenths
//! of its rate, they lose nothing, and the readers get at least a quarter of what is left, each of them some. Where they need more than all
//! of it, readers get no more than the turns that are allowed beside writes.

use crate::random::Random;
use skyhaul_core::disk_turns::{DiskTurns, MAX_TURN_BYTES, TURN_BYTES, TurnTicket, WriteDemand};
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;

/// Length of a step.
const STEP: Nanos = Nanos(500_000);
const STEPS_PER_SECOND: u64 = 2_000;
const SECONDS: u64 = 12;
/// Chunks that are given to the disk at a time.
const DEPTH: u64 = 2;

/// What happened in a world, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Worlds in which recordings needed more than the disk has.
    pub overloaded: u64,
    /// Bytes of recordings that were written.
    pub written_bytes: u64,
    /// Bytes for which there was no memory.
    pub lost_bytes: u64,
    /// Bytes that readers got.
    pub read_bytes: u64,
}

impl Played {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.overloaded += other.overloaded;
        self.written_bytes += other.written_bytes;
        self.lost_bytes += other.lost_bytes;
        self.read_bytes += other.read_bytes;
    }
}

/// Something that the disk does.
enum Request {
    Write,
    /// For this reader.
    Read(usize),
}

struct Reader {
    process: usize,
    bytes: u64,
    ticket: Option<TurnTicket>,
    /// The step in which it asks again.
    asks_at: u64,
    got: u64,
}

/// A process with readers, and what it has heard of the demand.
struct Process {
    turns: DiskTurns,
    /// Steps between looks at it; 1 in the process that records.
    interval: u64,
}

struct Disk {
    random: Random,
    /// Bytes in a step.
    rate: u64,
    /// Bytes of recordings in a step.
    incoming: u64,
    chunk_bytes: u64,
    memory_bytes: u64,
    queue: VecDeque<(Request, u64)>,
    /// Steps from and to which it stands still, in each part of the time.
    halt: u64,
    processes: Vec<Process>,
    readers: Vec<Reader>,
    partial: u64,
    waiting: u64,
    flying: u64,
    played: Played,
}

/// Plays the world of `seed`.
///
/// # Errors
/// What does not hold.
pub fn play(seed: u64) -> Result<Played, String> {
    let mut disk = Disk::random(seed);
    (0..SECONDS * STEPS_PER_SECOND).for_each(|step| disk.step(step));
    disk.judge().map_err(|why| format!("disk world {seed}: {why}"))?;
    Ok(disk.played)
}

impl Disk {
    fn random(seed: u64) -> Self {
        let mut random = Random(seed);
        // 20 to 400 MB/s.
        let rate = random.between(10_000, 200_000);
        let overloaded = random.chance(0.2);
        let percent = if overloaded { random.between(101, 140) } else { random.between(5, 90) };
        let incoming = rate * percent / 100;
        let processes: Vec<_> = (0..random.between(1, 6))
            .map(|n| Process { turns: DiskTurns::default(), interval: if n == 0 { 1 } else { 8 } })
            .collect();
        let count = random.between(1, 16);
        let readers = (0..count).map(|_| {
            let most = if random.chance(0.3) { MAX_TURN_BYTES } else { TURN_BYTES };
            let (process, bytes) =
                (random.below(processes.len() as u64) as usize, random.between(64 << 10, most));
            Reader { process, bytes, ticket: None, asks_at: 0, got: 0 }
        });
        let readers: Vec<_> = readers.collect();
        let chunk_bytes = random.between(1 << 20, 8 << 20);
        let halt = random.below(STEPS_PER_SECOND / 4);
        // What comes in while the disk does what readers have begun, and while it stands still; what is filled and written.
        let begun = processes.len() as u64 * MAX_TURN_BYTES;
        let memory_bytes = 2 * (begun + halt * incoming) + (DEPTH + 2) * chunk_bytes;
        let played = Played { overloaded: u64::from(overloaded), ..Played::default() };
        let (queue, partial, waiting, flying) = (VecDeque::new(), 0, 0, 0);
        Self {
            random,
            rate,
            incoming,
            chunk_bytes,
            memory_bytes,
            queue,
            halt,
            processes,
            readers,
            partial,
            waiting,
            flying,
            played,
        }
    }

    fn step(&mut self, step: u64) {
        self.receive();
        let used = self.partial + self.waiting + self.flying;
        let demand = WriteDemand {
            recordings: 1,
            pending_bytes: self.waiting + self.flying,
            memory_percent: (100 * used / self.memory_bytes).min(100) as u8,
        };
        let now = Nanos(step * STEP.0);
        for (number, process) in self.processes.iter_mut().enumerate() {
            if step % process.interval == number as u64 % process.interval {
                process.turns.set_demand(demand);
            }
            for reader in self.readers.iter_mut().filter(|reader| reader.process == number) {
                if reader.ticket.is_none() && reader.asks_at <= step {
                    reader.ticket = Some(process.turns.ask(now, reader.bytes));
                }
            }
            while let Some(ticket) = process.turns.poll_turn(now) {
                let mine = |reader: &Reader| reader.process == number && reader.ticket == Some(ticket);
                if let Some(reader) = self.readers.iter().position(mine) {
                    self.queue.push_back((Request::Read(reader), self.readers[reader].bytes));
                }
            }
        }
        // Twice in a world it stands still.
        if step % (SECONDS * STEPS_PER_SECOND / 2) >= self.halt {
            self.serve(step);
        }
    }

    fn receive(&mut self) {
        let used = self.partial + self.waiting + self.flying;
        if used + self.incoming > self.memory_bytes {
            self.played.lost_bytes += self.incoming;
            return;
        }
        self.partial += self.incoming;
        if self.partial >= self.chunk_bytes {
            self.partial -= self.chunk_bytes;
            self.waiting += self.chunk_bytes;
        }
        while self.waiting > 0 && self.flying < DEPTH * self.chunk_bytes {
            self.waiting -= self.chunk_bytes;
            self.flying += self.chunk_bytes;
            self.queue.push_back((Request::Write, self.chunk_bytes));
        }
    }

    /// What the disk does in a step.
    fn serve(&mut self, step: u64) {
        let mut left = self.rate;
        while left > 0
            && let Some((request, bytes)) = self.queue.front_mut()
        {
            let done = left.min(*bytes);
            (left, *bytes) = (left - done, *bytes - done);
            if *bytes > 0 {
                return;
            }
            match request {
                Request::Write => {
                    self.flying -= self.chunk_bytes;
                    self.played.written_bytes += self.chunk_bytes;
                }
                Request::Read(number) => {
                    let reader = &mut self.readers[*number];
                    if let Some(ticket) = reader.ticket.take() {
                        self.processes[reader.process].turns.end(ticket);
                    }
                    reader.got += reader.bytes;
                    reader.asks_at = step + 1 + self.random.below(4);
                    self.played.read_bytes += reader.bytes;
                }
            }
            self.queue.pop_front();
        }
    }

    fn judge(&self) -> Result<(), String> {
        let Played { lost_bytes, read_bytes, .. } = self.played;
        if self.played.overloaded > 0 {
            // What had begun before memory filled, and a turn a second for each process.
            let most = self.processes.len() as u64 * MAX_TURN_BYTES * (SECONDS + 2);
            return match read_bytes <= most {
                true => Ok(()),
                false => Err(format!(
                    "readers got {read_bytes} bytes beside a disk that is too slow; at most {most} are allowed"
                )),
            };
        }
        if lost_bytes > 0 {
            return Err(format!("{lost_bytes} bytes of recordings were lost"));
        }
        let left = (self.rate - self.incoming) * (SECONDS * STEPS_PER_SECOND - 2 * self.halt);
        if read_bytes < left / 4 {
            return Err(format!("readers got {read_bytes} of {left} bytes that were left"));
        }
        match self.readers.iter().position(|reader| reader.got == 0) {
            Some(number) => Err(format!("reader {number} of {} got nothing", self.readers.len())),
            None => Ok(()),
        }
    }
}
