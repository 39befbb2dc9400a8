//! An interpreter of the kernel's instructions, strict about memory: every access must be within one region, and packets are
//! reached only between their ends.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use skyhaul_core::balance::xdp::{COUNTS_BYTES, LEASE_BYTES, MapName, Program, Step};

const STACK: u64 = 0x1000_0000;
const PACKET: u64 = 0x2000_0000;
const CONTEXT: u64 = 0x3000_0000;
const IMAGE: u64 = 0x4000_0000;
const LEASE: u64 = 0x5000_0000;
const COUNTS: u64 = 0x6000_0000;
const OUTER: u64 = 0x7000_0000;
const INNER: u64 = 0x7100_0000;
const COUNTS_MAP: u64 = 0x7200_0000;

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Back,
    Redirect(u64),
}

pub struct Machine {
    steps: Vec<Step>,
    pub image: Vec<u8>,
    pub lease: [u8; LEASE_BYTES],
    pub counts: Vec<u8>,
    pub now: u64,
}

struct Run<'a> {
    machine: &'a mut Machine,
    registers: [u64; 11],
    stack: [u8; 512],
    packet: &'a mut Vec<u8>,
    cut: usize,
    /// Octets in one piece.
    linear: usize,
    redirected: Option<u64>,
}

impl Machine {
    pub fn new(program: &Program, image: Vec<u8>) -> Machine {
        let number = |map| match map {
            MapName::Tables => OUTER as i32,
            MapName::Lease => LEASE as i32,
            MapName::Counts => COUNTS_MAP as i32,
        };
        let mut lease = [0; LEASE_BYTES];
        lease[..8].copy_from_slice(&1000u64.to_ne_bytes());
        lease[8..16].copy_from_slice(&1u64.to_ne_bytes());
        lease[24..].copy_from_slice(&u64::MAX.to_ne_bytes());
        Machine { steps: program.steps(number), image, lease, counts: vec![0; COUNTS_BYTES], now: 1000 }
    }

    /// Run over `packet`, of which `linear` octets are in one piece.
    pub fn run(&mut self, packet: &mut Vec<u8>, linear: usize) -> Verdict {
        let steps = self.steps.clone();
        let linear = linear.min(packet.len());
        let mut run = Run {
            machine: self,
            registers: [0; 11],
            stack: [0xA5; 512],
            packet,
            cut: 0,
            linear,
            redirected: None,
        };
        run.registers[1] = CONTEXT;
        run.registers[10] = STACK + 512;
        let mut at = 0;
        loop {
            let step = steps[at];
            at += 1;
            match run.step(step, steps.get(at).copied()) {
                Next::Go => {}
                Next::Over => at += 1,
                Next::Jump(by) => at += by,
                Next::Exit => break,
            }
        }
        let (answer, redirected, cut) = (run.registers[0], run.redirected, run.cut);
        packet.drain(..cut);
        match (answer, redirected) {
            (2, None) => Verdict::Pass,
            (3, None) => Verdict::Back,
            (4, Some(to)) => Verdict::Redirect(to),
            other => panic!("answered {other:?}"),
        }
    }
}

enum Next {
    Go,
    Over,
    Jump(usize),
    Exit,
}

impl Run<'_> {
    fn memory(&mut self, at: u64, octets: usize) -> &mut [u8] {
        let within = |region: &mut [u8], base: u64| -> Option<std::ops::Range<usize>> {
            let from = usize::try_from(at.checked_sub(base)?).ok()?;
            (from.checked_add(octets)? <= region.len()).then_some(from..from + octets)
        };
        let (base, region): (u64, &mut [u8]) = match at & 0xF000_0000 {
            STACK => {
                assert_eq!(at % octets as u64, 0, "the stack is aligned");
                (STACK, &mut self.stack)
            }
            PACKET => {
                assert!(at >= PACKET + self.cut as u64, "before the packet");
                (PACKET, &mut self.packet[..self.linear])
            }
            IMAGE => (IMAGE, &mut self.machine.image),
            LEASE => (LEASE, &mut self.machine.lease),
            COUNTS => (COUNTS, &mut self.machine.counts),
            _ => panic!("an access at {at:#x}"),
        };
        let range = within(region, base).unwrap_or_else(|| panic!("an access beyond {base:#x}: {at:#x}"));
        &mut region[range]
    }

    fn load(&mut self, at: u64, octets: usize) -> u64 {
        if at & 0xF000_0000 == CONTEXT {
            assert_eq!(octets, 4);
            let end = if at == CONTEXT { self.cut } else { self.linear };
            assert!(at == CONTEXT || at == CONTEXT + 4);
            return PACKET + end as u64;
        }
        let memory = self.memory(at, octets);
        let mut all = [0; 8];
        all[..octets].copy_from_slice(memory);
        u64::from_le_bytes(all)
    }

    fn store(&mut self, at: u64, octets: usize, value: u64) {
        self.memory(at, octets).copy_from_slice(&value.to_le_bytes()[..octets]);
    }

    fn step(&mut self, step: Step, after: Option<Step>) -> Next {
        let Step { code, to, from, offset, number } = step;
        let (to, from) = (usize::from(to), usize::from(from));
        let operand = if code & 8 == 0 { i64::from(number) as u64 } else { self.registers[from] };
        let octets = match code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        };
        let moved = |base: u64| base.wrapping_add(i64::from(offset) as u64);
        match code {
            0x18 => {
                assert_eq!(after.map(|after| after.code), Some(0));
                self.registers[to] = u64::from(number as u32);
                return Next::Over;
            }
            0xB4 => self.registers[to] = u64::from(number as u32),
            0xDC => {
                let value = self.registers[to];
                self.registers[to] = match number {
                    16 => (value as u16).swap_bytes().into(),
                    32 => (value as u32).swap_bytes().into(),
                    64 => value.swap_bytes(),
                    _ => panic!("{number} bits"),
                };
            }
            0x85 => self.call(number),
            0x95 => return Next::Exit,
            0x05 => return Next::Jump(usize::try_from(offset).expect("forward")),
            _ => match code & 7 {
                1 => self.registers[to] = self.load(moved(self.registers[from]), octets),
                2 => self.store(moved(self.registers[to]), octets, i64::from(number) as u64),
                3 => self.store(moved(self.registers[to]), octets, self.registers[from]),
                7 => self.registers[to] = compute(code & 0xF0, self.registers[to], operand),
                5 => {
                    let left = self.registers[to];
                    let holds = match code & 0xF0 {
                        0x10 => left == operand,
                        0x20 => left > operand,
                        0x50 => left != operand,
                        0xA0 => left < operand,
                        0xB0 => left <= operand,
                        other => panic!("jump {other:#x}"),
                    };
                    return if holds {
                        Next::Jump(usize::try_from(offset).expect("forward"))
                    } else {
                        Next::Go
                    };
                }
                _ => panic!("instruction {code:#x}"),
            },
        }
        Next::Go
    }

    fn call(&mut self, helper: i32) {
        let [_, one, two, ..] = self.registers;
        let answer = match helper {
            1 => {
                assert_eq!(self.load(two, 4), 0, "the only element");
                match one {
                    OUTER => INNER,
                    INNER => IMAGE,
                    COUNTS_MAP => COUNTS,
                    _ => panic!("no map: {one:#x}"),
                }
            }
            23 => {
                assert_eq!(two, 0);
                self.redirected = Some(one);
                4
            }
            44 => {
                self.cut += two as usize;
                0
            }
            160 => self.machine.now,
            188 => (self.packet.len() - self.cut) as u64,
            _ => panic!("function {helper}"),
        };
        self.registers[0] = answer;
        // They do not outlive a call.
        self.registers[1..6].fill(0xDEAD_BEEF);
    }
}

fn compute(op: u8, left: u64, right: u64) -> u64 {
    match op {
        0x00 => left.wrapping_add(right),
        0x10 => left.wrapping_sub(right),
        0x40 => left | right,
        0x50 => left & right,
        0x60 => left << right,
        0x70 => left >> right,
        0xA0 => left ^ right,
        0xB0 => right,
        other => panic!("operation {other:#x}"),
    }
}
