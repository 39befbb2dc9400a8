//! The table of checks: one file for a few of them, in the order of their names.

mod buffers;
mod cpu;
mod drops;
mod link;
mod offloads;
mod platform;
mod queueing;
mod storage;
mod tcp;
mod way;

use super::check::Check;

/// Groups, by the letter of their checks.
pub const GROUPS: [(char, &str); 4] = [
    ('A', "CPU, power, memory, firmware"),
    ('B', "network card and driver"),
    ('C', "network stack of the kernel"),
    ('D', "disks"),
];

/// Every check, in order.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let tables = [
        cpu::TABLE,
        platform::TABLE,
        link::TABLE,
        offloads::TABLE,
        queueing::TABLE,
        buffers::TABLE,
        tcp::TABLE,
        drops::TABLE,
        way::TABLE,
        storage::TABLE,
    ];
    tables.into_iter().flatten()
}
