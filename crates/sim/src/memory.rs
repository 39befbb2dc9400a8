//! The receiver's memory and disks: a fixed number of bytes, in blocks that come back when a disk has written them, late
//! if it is slow, and by another one if it fails.

use crate::random::Random;
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;

/// What a block holds when it is handed out: never what was received into it before.
const POISON: u8 = 0xDD;

#[derive(Clone, Debug)]
struct Disk {
    /// For each block.
    latency: u64,
    busy_until: Nanos,
    fails_at: Option<Nanos>,
}

/// A block that a disk writes.
#[derive(Debug)]
struct Writing {
    done: Nanos,
    disk: usize,
    block: Vec<u8>,
}

/// All bytes that there are, in the blocks of objects.
#[derive(Debug)]
pub struct Memory {
    total: u64,
    free: u64,
    /// Blocks that objects under construction have.
    held: usize,
    /// Finished blocks in the hands of whoever takes them, who keeps so many.
    kept: VecDeque<Vec<u8>>,
    keep: usize,
    writing: Vec<Writing>,
    disks: Vec<Disk>,
    /// What was asked for last was not there.
    pub is_short: bool,
    /// Blocks that another disk had to write again.
    pub rewritten: u64,
}

impl Memory {
    /// `bytes` behind some disks; one of them may be 200 times slower, one may fail. Who takes blocks keeps the last `keep`.
    pub fn random(random: &mut Random, bytes: u64, keep: usize) -> Memory {
        let base = random.pick(&[0, 0, 10_000, 1_000_000]);
        let mut disks: Vec<Disk> = (0..random.between(1, 4))
            .map(|_| Disk { latency: base, busy_until: Nanos(0), fails_at: None })
            .collect();
        if random.chance(0.2) {
            disks[0].latency *= 200;
        }
        if random.chance(0.2) {
            let last = disks.len() - 1;
            disks[last].fails_at = Some(Nanos(random.below(2_000_000_000)));
        }
        Memory {
            total: bytes,
            free: bytes,
            held: 0,
            kept: VecDeque::new(),
            keep,
            writing: Vec::new(),
            disks,
            is_short: false,
            rewritten: 0,
        }
    }

    /// Memory for an object; `old` is what it outgrew.
    ///
    /// # Errors
    /// `old`, where so much is not free.
    pub fn take(&mut self, bytes: u64, old: Option<Vec<u8>>) -> Result<Vec<u8>, Option<Vec<u8>>> {
        self.is_short = self.free < bytes;
        if self.is_short {
            return Err(old);
        }
        self.free -= bytes;
        self.held += 1;
        let mut block = vec![POISON; bytes as usize];
        if let Some(old) = old {
            block[..old.len()].copy_from_slice(&old);
            self.give_back(&old);
        }
        Ok(block)
    }

    /// Blocks that objects under construction have, or that are retired and not taken.
    pub fn held(&self) -> usize {
        self.held
    }

    /// A block that holds nothing worth writing.
    pub fn give_back(&mut self, block: &[u8]) {
        self.held -= 1;
        self.free += block.len() as u64;
    }

    /// A finished block: it is free again when who takes it kept it, and a disk wrote it.
    pub fn finished(&mut self, block: Vec<u8>, now: Nanos) {
        self.held -= 1;
        self.kept.push_back(block);
        if self.kept.len() > self.keep
            && let Some(first) = self.kept.pop_front()
        {
            self.write(first, now);
        }
    }

    /// Let a disk write a block; where there is none it is lost.
    fn write(&mut self, block: Vec<u8>, now: Nanos) {
        let alive = |disk: &Disk| disk.fails_at.is_none_or(|at| now < at);
        let best = (0..self.disks.len())
            .filter(|&d| alive(&self.disks[d]))
            .min_by_key(|&d| self.disks[d].busy_until);
        let Some(disk) = best else {
            self.free += block.len() as u64;
            return;
        };
        let chosen = &mut self.disks[disk];
        let done = chosen.busy_until.max(now).plus(Nanos(chosen.latency));
        chosen.busy_until = done;
        if done <= now {
            self.free += block.len() as u64;
        } else {
            self.writing.push(Writing { done, disk, block });
        }
    }

    /// What the disks did until `now`.
    pub fn pass(&mut self, now: Nanos) {
        let failed: Vec<bool> = self.disks.iter().map(|d| d.fails_at.is_some_and(|at| at <= now)).collect();
        for writing in std::mem::take(&mut self.writing) {
            let in_time = self.disks[writing.disk].fails_at.is_none_or(|at| writing.done <= at);
            if in_time && writing.done <= now {
                self.free += writing.block.len() as u64;
            } else if !in_time && failed[writing.disk] {
                // Still in memory, so another one can write it.
                self.rewritten += 1;
                self.write(writing.block, now);
            } else {
                self.writing.push(writing);
            }
        }
    }

    /// Whether every byte is free, kept or being written.
    pub fn is_whole(&self) -> bool {
        let away = self.kept.iter().chain(self.writing.iter().map(|writing| &writing.block));
        self.held == 0 && self.free + away.map(|block| block.len() as u64).sum::<u64>() == self.total
    }
}
