//! What follows from a fate.

use super::line::{Line, Part};
use super::log::{Log, Record};
use super::pool::Pool;
use skyhaul_io::fault::Damage;
use skyhaul_io::fault::path::{Direction, Fate, Outcome};
use skyhaul_io::packet::VIRTIO;

/// A packet with its damage, complete.
pub(super) fn damaged(part: &Part, hops: u8, damage: Damage) -> Vec<u8> {
    let mut octets = part.train.finished(part.at, hops);
    let begin = part.train.shape.map_or(0, |shape| shape.transport) + VIRTIO;
    let begin = begin.min(octets.len());
    let left = damage.apply(&mut octets[begin..]);
    octets.truncate(begin + left);
    octets
}

/// What became of a packet goes to its line, or to the log.
pub(super) fn conclude(
    direction: Direction,
    outcome: Outcome<Part>,
    line: &mut Line,
    pool: &mut Pool,
    log: &mut Option<Log>,
) {
    let Outcome { item, number, copy, at, octets, fate } = outcome;
    let flow = item.train.shape.map(|shape| shape.flow).unwrap_or_default();
    let mut record = Record {
        direction,
        number,
        copy,
        at,
        octets,
        lost: None,
        due: 0,
        sent: 0,
        late: false,
        flipped: false,
        cut: false,
        protocol: flow.protocol,
        from: flow.from_port,
        to: flow.to_port,
        head: if log.is_some() { item.train.head_of(item.at) } else { [0; 16] },
    };
    match fate {
        Fate::Lost(cause) => {
            record.lost = Some(cause);
            if let Some(log) = log {
                log.note(record);
            }
            pool.done(item.train);
        }
        Fate::Sent { due, damage, hops, late } => {
            (record.due, record.late) = (due, late);
            (record.flipped, record.cut) = (damage.flip.is_some(), damage.cut.is_some());
            line.push(due, item, damage, hops, record);
        }
    }
}
