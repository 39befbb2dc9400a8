//! The receiver's memory and disks: a fixed number of blocks that come back when a disk has written them, late if
//! it is slow, and by another one if it fails.

use crate::random::Random;
use skyhaul_core::placement::Nanos;

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

/// All blocks that there are.
#[derive(Debug)]
pub struct Memory {
    free: Vec<Vec<u8>>,
    writing: Vec<Writing>,
    disks: Vec<Disk>,
    total: usize,
    /// Blocks that another disk had to write again.
    pub rewritten: u64,
    /// Blocks that no disk could write.
    pub unwritten: u64,
}

impl Memory {
    /// `blocks` of `bytes` each, behind some disks; one of them may be 200 times slower, one may fail.
    #[must_use]
    pub fn random(random: &mut Random, blocks: usize, bytes: usize) -> Memory {
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
            free: (0..blocks).map(|_| vec![POISON; bytes]).collect(),
            writing: Vec::new(),
            disks,
            total: blocks,
            rewritten: 0,
            unwritten: 0,
        }
    }

    /// A free block.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.free.pop()
    }

    /// Blocks that are neither free nor being written.
    #[must_use]
    pub fn held(&self) -> usize {
        self.total - self.free.len() - self.writing.len()
    }

    /// Whether no block is free.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// A block that holds nothing worth writing.
    pub fn give_back(&mut self, mut block: Vec<u8>) {
        block.fill(POISON);
        self.free.push(block);
    }

    /// Let a disk write a block; it is free again after that.
    pub fn write(&mut self, block: Vec<u8>, now: Nanos) {
        let alive = |disk: &Disk| disk.fails_at.is_none_or(|at| now < at);
        let best = (0..self.disks.len())
            .filter(|&d| alive(&self.disks[d]))
            .min_by_key(|&d| self.disks[d].busy_until);
        let Some(disk) = best else {
            self.unwritten += 1;
            return self.give_back(block);
        };
        let chosen = &mut self.disks[disk];
        let done = chosen.busy_until.max(now).plus(Nanos(chosen.latency));
        chosen.busy_until = done;
        if done <= now { self.give_back(block) } else { self.writing.push(Writing { done, disk, block }) }
    }

    /// What the disks did until `now`.
    pub fn pass(&mut self, now: Nanos) {
        let failed: Vec<bool> = self.disks.iter().map(|d| d.fails_at.is_some_and(|at| at <= now)).collect();
        for writing in std::mem::take(&mut self.writing) {
            let in_time = self.disks[writing.disk].fails_at.is_none_or(|at| writing.done <= at);
            if in_time && writing.done <= now {
                self.give_back(writing.block);
            } else if !in_time && failed[writing.disk] {
                // Still in memory, so another one can write it.
                self.rewritten += 1;
                self.write(writing.block, now);
            } else {
                self.writing.push(writing);
            }
        }
    }

    /// Whether every block is free or being written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.held() == 0
    }
}
