//! What must hold at the end of a world.

use super::plan::{BUFFERS, CLIENT, GUARD, Operation, Posted, SERVER, TARGET, UNTOUCHED, address, content};
use super::world::World;
use crate::ledger::{Held, hold};
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{ClosedBy, MemorySlice, RdmaEvent};
use skyhaul_core::wire::rdma::RdmaRefusal;
use std::collections::BTreeSet;
use std::ops::Range;

pub(super) fn judge(world: &World) -> Held {
    for side in [CLIENT, SERVER] {
        let counts = world.endpoint(side).counts();
        counts.check();
        hold!(counts.datagrams == world.delivered[side], "{} arrived: {counts:?}", world.delivered[side]);
        // Without a keep-alive, a server does not learn that its client has gone.
        let may_wait = side == SERVER
            && world.config.keep_alive.is_none()
            && world.closed(CLIENT).is_none_or(|(_, by, _)| by != ClosedBy::Here);
        if !world.is_dead(side) && !may_wait {
            hold!(world.connection[side].is_none(), "side {side} still has its connection");
            hold!(world.endpoint(side).connections() == 0, "side {side} has connections of nobody");
        }
    }
    for (stranger, (asked, answered)) in &world.strangers {
        let is_peer = [CLIENT, SERVER].map(address).contains(stranger);
        hold!(is_peer || answered <= asked, "{stranger} sent {asked} bytes and was sent {answered}");
    }
    deadlines(world)?;
    reads(world)?;
    writes(world)?;
    sends(world)?;
    numbers(world)?;
    quiet(world)
}

/// Nothing waits past its deadline.
fn deadlines(world: &World) -> Held {
    if world.is_dead(CLIENT) {
        return Ok(());
    }
    let connected = world.events[CLIENT]
        .iter()
        .find(|(_, event)| matches!(event, RdmaEvent::Connected { .. }))
        .map(|(at, _)| *at);
    let closed = world.closed(CLIENT);
    let answered = connected.or(closed.map(|(at, ..)| at));
    hold!(answered.is_some_and(|at| at <= world.connect_deadline), "connect ended at {answered:?}");
    if let Some(deadline) = world.close_deadline {
        hold!(
            closed.is_some_and(|(at, ..)| at <= deadline),
            "close ended as {closed:?}, not by {deadline:?}"
        );
    }
    Ok(())
}

/// Each Read ends once, in time, with exactly the bytes that it says, and nothing is written later.
fn reads(world: &World) -> Held {
    if world.is_dead(CLIENT) {
        return Ok(());
    }
    let memory = &world.memory[CLIENT][TARGET as usize];
    let mut expected = vec![UNTOUCHED; memory.len()];
    for posted in &world.posted {
        let (Some(number), Operation::Read { area, deadline }) = (posted.read, posted.operation) else {
            continue;
        };
        let mut ends = world.events[CLIENT].iter().filter_map(|(at, event)| match event {
            RdmaEvent::ReadDone { read, missing, asked, .. } if *read == number => {
                Some((*at, missing, *asked))
            }
            _ => None,
        });
        let Some((at, missing, asked)) = ends.next() else {
            return Err(format!("Read {number} never ended"));
        };
        hold!(ends.next().is_none(), "Read {number} ended twice");
        hold!(at <= deadline.max(Nanos(0)), "Read {number} ended at {at:?}, and was due at {deadline:?}");
        hold!(asked >= 1, "Read {number} was never asked for");
        for byte in area.0..area.1 {
            if !missing.iter().any(|range| range.contains(&(byte - area.0))) {
                expected[(GUARD + byte) as usize] = content(u64::MAX, byte);
            }
        }
    }
    let differs = memory.iter().zip(&expected).position(|(is, should)| is != should);
    hold!(differs.is_none(), "byte {differs:?} of the Reads' buffers is not what was reported");
    Ok(())
}

fn covers(ranges: &[Range<u64>]) -> BTreeSet<u64> {
    ranges.iter().flat_map(Clone::clone).collect()
}

/// Each byte of the region is that of the one report that names it, and all others were never touched.
fn writes(world: &World) -> Held {
    if world.is_dead(SERVER) {
        return Ok(());
    }
    let memory = &world.memory[SERVER][TARGET as usize];
    let mut expected = vec![UNTOUCHED; memory.len()];
    let mut met = BTreeSet::new();
    for (_, event) in &world.events[SERVER] {
        let RdmaEvent::Written { stag, valid, missing, is_complete, immediate, .. } = event else { continue };
        let first = valid.iter().chain(missing).map(|range| range.start).min();
        let is_it = |posted: &&Posted| match posted.operation {
            Operation::Write { area, is_allowed, immediate: own } => match (first, immediate) {
                (Some(first), _) if *stag != 0 => is_allowed && area.0 <= first && first < area.1,
                (_, Some(value)) => own == Some(*value),
                _ => area.0 == area.1 && own.is_none(),
            },
            _ => false,
        };
        let Some(posted) = world.posted.iter().find(is_it) else {
            return Err(format!("nobody wrote {event:?}"));
        };
        let Operation::Write { area, immediate: own, .. } = posted.operation else { continue };
        if area.0 < area.1 || immediate.is_some() {
            hold!(met.insert(posted.content), "{event:?} is the second report of {posted:?}");
        }
        let (valid, missing) = (covers(valid), covers(missing));
        hold!(valid.is_disjoint(&missing), "{event:?} names a byte twice");
        hold!(
            immediate.is_none() || *immediate == own,
            "{event:?} has the immediate data of another message"
        );
        if *is_complete {
            let is_whole = valid.len() as u64 == area.1 - area.0 && *immediate == own;
            hold!(is_whole && missing.is_empty(), "{event:?} is said to be complete: {posted:?}");
        }
        if *stag != 0 {
            let named = valid.iter().chain(&missing).copied().collect::<BTreeSet<u64>>();
            let end = named.last().map_or(area.0, |last| last + 1);
            hold!(
                named.len() as u64 == end - area.0 && end <= area.1,
                "{event:?} leaves bytes out: {posted:?}"
            );
        }
        for byte in valid {
            expected[(GUARD + byte) as usize] = content(posted.content, byte - area.0);
        }
    }
    let differs = memory.iter().zip(&expected).position(|(is, should)| is != should);
    hold!(differs.is_none(), "byte {differs:?} of the region is not what was reported");
    Ok(())
}

/// Each buffer holds the bytes of one Send, and nothing where bytes are missing.
fn sends(world: &World) -> Held {
    if world.is_dead(SERVER) {
        return Ok(());
    }
    let memory = &world.memory[SERVER][BUFFERS as usize];
    let (mut met, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (_, event) in &world.events[SERVER] {
        let RdmaEvent::Received { buffer, size, missing, .. } = event else { continue };
        hold!(used.insert(buffer.start), "{event:?} is the second message in its buffer");
        let bytes = &memory[buffer.start as usize..][..buffer.length as usize];
        let missing = covers(missing);
        let end = (0..buffer.length).rev().find(|at| bytes[*at as usize] != UNTOUCHED).map_or(0, |at| at + 1);
        let is_it = |posted: &&Posted| {
            let Operation::Send { length } = posted.operation else { return false };
            let is_right = |at: u64| match missing.contains(&at) || at >= size.unwrap_or(end) {
                true => bytes[at as usize] == UNTOUCHED,
                false => bytes[at as usize] == content(posted.content, at),
            };
            size.is_none_or(|size| size == length) && end <= length && (0..buffer.length).all(is_right)
        };
        let free = world.posted.iter().filter(is_it).find(|posted| !met.contains(&posted.content));
        let Some(posted) = free else { return Err(format!("nobody sent {event:?}")) };
        met.insert(posted.content);
    }
    let unused = |buffer: &&MemorySlice| !used.contains(&buffer.start);
    for buffer in world.buffers.iter().filter(unused) {
        let bytes = &memory[buffer.start as usize..][..buffer.length as usize];
        hold!(bytes.iter().all(|byte| *byte == UNTOUCHED), "{buffer:?} was written and not reported");
    }
    Ok(())
}

/// Where the server knows how much was sent, every message and every datagram is accounted for.
fn numbers(world: &World) -> Held {
    let Some((_, ClosedBy::Peer, datagrams_lost)) = world.closed(SERVER) else { return Ok(()) };
    let lost = world.segments_sent - world.segments_seen.len() as u64;
    hold!(datagrams_lost == lost, "{lost} datagrams were lost, and {datagrams_lost} are reported");
    let counts = world.endpoint(SERVER).counts();
    let ended = counts.complete + counts.incomplete + counts.lost;
    let asked: u64 = world.events[CLIENT]
        .iter()
        .map(|(_, event)| match event {
            RdmaEvent::ReadDone { asked, .. } => u64::from(*asked),
            _ => 0,
        })
        .sum();
    let others = world.posted.iter().filter(|posted| posted.read.is_none()).count() as u64;
    // A client that died with its close on the way cannot say what it asked for. Requests that were still to be sent when the
    // connection was closed never had a number.
    hold!(
        world.is_dead(CLIENT) || (others..=others + asked).contains(&ended),
        "{ended} messages ended, of {others} and {asked} Read Requests"
    );
    Ok(())
}

/// In a world without faults, all that is allowed completes and only what is not allowed is refused.
fn quiet(world: &World) -> Held {
    let faults = world.faults;
    let is_quiet = faults.loss + faults.duplicate + faults.corrupt + faults.hostile == 0.0
        && faults.jitter == 0
        && faults.kill.is_none();
    if !is_quiet || world.closed(SERVER).is_none_or(|(_, by, _)| by != ClosedBy::Peer) {
        return Ok(());
    }
    let allowed = [
        RdmaRefusal::BadStag,
        RdmaRefusal::NoAccess,
        RdmaRefusal::OutOfBounds,
        RdmaRefusal::OffsetWrap,
        RdmaRefusal::TooManyReads,
    ];
    for side in [CLIENT, SERVER] {
        let refused = world.endpoint(side).counts().refused;
        let odd = refused.iter().find(|(why, _)| !allowed.contains(why));
        hold!(odd.is_none(), "nothing disturbs world {}, and {odd:?} was refused", world.seed);
    }
    for (_, event) in &world.events[SERVER] {
        let is_whole = match event {
            RdmaEvent::Written { is_complete, valid, .. } => *is_complete || valid.is_empty(),
            RdmaEvent::Received { missing, size, .. } => missing.is_empty() && size.is_some(),
            _ => true,
        };
        hold!(is_whole, "nothing disturbs world {}, and {event:?}", world.seed);
    }
    Ok(())
}
