//! What follows from a fate.

use super::frame::Train;
use super::line::{Line, Note, Part};
use super::log::{Log, Record};
use super::pool::Pool;
use skyhaul_io::fault::Damage;
use skyhaul_io::fault::path::{Direction, Fate, Outcome};
use skyhaul_io::packet::VIRTIO;

/// A packet with its damage, complete.
pub(super) fn damaged(train: &Train, at: usize, hops: u8, damage: Damage) -> Vec<u8> {
    let mut octets = train.finished(at, hops);
    let begin = train.shape.map_or(0, |shape| shape.transport) + VIRTIO;
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
    match fate {
        Fate::Lost(cause) => {
            if let Some(log) = log {
                let note = Note { number, at, copy, late: false };
                log.note(Record { lost: Some(cause), ..record(direction, &note, &item.train, item.at) });
            }
            pool.done(item.train);
        }
        Fate::Sent { due, damage, hops, late } => {
            line.push(due, item, octets, damage, hops, Note { number, at, copy, late });
        }
    }
}

/// The record of packet number `place` of a train.
pub(super) fn record(direction: Direction, note: &Note, train: &Train, place: usize) -> Record {
    let flow = train.shape.map(|shape| shape.flow).unwrap_or_default();
    let Note { number, at, copy, late } = *note;
    let octets = train.packet(place, at).map_or(0, |packet| packet.octets);
    Record {
        direction,
        number,
        copy,
        at,
        octets,
        lost: None,
        due: 0,
        sent: 0,
        late,
        flipped: false,
        cut: false,
        protocol: flow.protocol,
        from: flow.from_port,
        to: flow.to_port,
        head: train.head_of(place),
    }
}
