//! Queries of what the station is, has and does.

use super::context::{Context, Refused, Step, Stepped};
use super::numbers::{rate, significant, unix_time, vex_time};
use super::{blocks, transfer};
use crate::placement::Nanos;
use crate::vsi::reply::VsiCode;
use crate::vsi::view::{VsiCounts, VsiDisk, VsiRecording, VsiSource, VsiTransferState};

/// Bits of `status?`.
mod bits {
    pub(super) const READY: u32 = 1;
    pub(super) const ERROR_PENDING: u32 = 1 << 1;
    pub(super) const BUSY: u32 = 1 << 3;
    pub(super) const RECORDING: u32 = 1 << 6;
    pub(super) const FULL: u32 = 1 << 7;
    pub(super) const LOSING: u32 = 1 << 10;
    pub(super) const TO_FILE: u32 = 1 << 12;
    pub(super) const SENDING: u32 = 1 << 14;
}

/// What `version?` calls the program: m5copy accepts what begins with `jive5`.
const PROGRAM: &str = "jive5ab-compatible";
/// The version of jive5ab whose commands these are.
const COMMAND_SET: &str = "3.1.0";
/// What `tstat` calls a recording.
const RECORDING: &str = "vbsrecord";

pub(super) fn status(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let view = context.view;
    let running = context.runtime.running(view);
    let sends = context.runtime.transferring(view).is_some();
    let is_to_file = context.runtime.transfer.as_ref().is_some_and(|held| held.to_file.is_some());
    let receives = context.runtime.arriving(view).is_some();
    let has_room = view.selected(&context.runtime.disks).any(|disk| disk.free_bytes > 0);
    let pending = context.errors.peek();
    let word = [
        (view.is_ready, bits::READY),
        (pending.is_some(), bits::ERROR_PENDING),
        (view.is_active || running.is_some() || sends || receives, bits::BUSY),
        (running.is_some() || blocks::arriving(context.runtime, view).is_some(), bits::RECORDING),
        (!has_room, bits::FULL),
        (running.is_some_and(|recording| recording.counts.discarded_bytes > 0), bits::LOSING),
        (sends && is_to_file, bits::TO_FILE),
        (sends && !is_to_file, bits::SENDING),
    ];
    let word: u32 = word.into_iter().filter_map(|(is_set, bit)| is_set.then_some(bit)).sum();
    let reply = context.reply(VsiCode::Done).field(format_args!("0x{word:08x}"));
    Ok(Step::Reply(match pending {
        Some(error) => reply.field(error.number).field(&error.message).field(vex_time(error.first, 4)),
        None => reply,
    }))
}

pub(super) fn error(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let error = context.errors.pop();
    let repeated = error.as_ref().filter(|error| error.count > 1);
    let reply = context
        .reply(VsiCode::Done)
        .optional(error.as_ref().map(|error| error.number))
        .optional(error.as_ref().map(|error| &error.message))
        .optional(error.as_ref().map(|error| vex_time(error.first, 4)))
        .optional(repeated.map(|error| vex_time(error.last, 4)))
        .optional(repeated.map(|error| error.count));
    Ok(Step::Reply(reply))
}

pub(super) fn evlbi(context: &mut Context<'_>) -> Stepped {
    let counts = context.runtime.last_recording(context.view).map(|recording| recording.counts);
    let counts = counts.unwrap_or_default();
    let default = ["total", "%t", "loss", "%l (%L)", "out-of-order", "%o (%O)", "extent", "%R"];
    let written = |text: &str| statistics(text, &counts, context.now);
    let values: Vec<String> = match context.request.query {
        true => default.iter().map(|text| written(text)).collect(),
        false => context.request.fields.iter().map(|text| written(text)).collect(),
    };
    Ok(Step::Reply(context.reply(VsiCode::Done).fields(values)))
}

/// Returns a text in which each `%` and letter is replaced by the count that it stands for.
fn statistics(text: &str, counts: &VsiCounts, now: Nanos) -> String {
    let all = counts.packets as f64 + counts.lost as f64;
    let percent = |part: Option<u64>| match part {
        Some(part) if all > 0.0 => format!("{:.2}%", part as f64 * 100.0 / all),
        Some(_) => "0.00%".to_owned(),
        None => "?".to_owned(),
    };
    let count = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
    let average = counts.extent.zip(counts.reordered).map(|(extent, n)| extent as f64 / n.max(1) as f64);
    let (mut written, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            written.push(letter);
            continue;
        }
        let value = match letters.next() {
            Some('t') => counts.packets.to_string(),
            Some('l') => counts.lost.to_string(),
            Some('L') => percent(Some(counts.lost)),
            Some('o') => count(counts.reordered),
            Some('O') => percent(counts.reordered),
            Some('d') => counts.discarded.to_string(),
            Some('D') => percent(Some(counts.discarded)),
            Some('r') => count(counts.extent),
            Some('R') => format!("{}seqnr/pkt", average.map_or("?".to_owned(), significant)),
            Some('u') => unix_time(now),
            Some('U') => vex_time(now, 4),
            other => other.map(String::from).unwrap_or_default(),
        };
        written.push_str(&value);
    }
    written
}

pub(super) fn tstat(context: &mut Context<'_>) -> Stepped {
    let reply = context.reply(VsiCode::Done);
    let (runtime, view) = (&*context.runtime, context.view);
    let (id, name, steps) = if let Some(VsiRecording { id, counts, .. }) = runtime.running(view) {
        (*id, RECORDING, [("receive", counts.received_bytes), ("record", counts.recorded_bytes)])
    } else if let (Some(sending), Some(held)) = (runtime.transferring(view), &runtime.transfer) {
        let name = transfer::keyword(held.source);
        let second = if held.to_file.is_some() { "write" } else { "send" };
        (sending.id, name, [("read", sending.read_bytes), (second, sending.sent_bytes)])
    } else if let Some((held, arrival)) = runtime.arriving(view) {
        let name = if held.keyword == blocks::KEYWORD { RECORDING } else { held.keyword };
        (held.id, name, [("receive", arrival.written_bytes), ("write", arrival.written_bytes)])
    } else {
        failed_chunks(context)?;
        return Ok(Step::Reply(reply.field("0.0").field("no_transfer")));
    };
    let counts = steps.map(|(_, bytes)| bytes);
    if !context.request.query {
        let reply = reply.field(unix_time(context.now)).field(name);
        let reply = steps.iter().fold(reply, |reply, (name, bytes)| reply.field(name).field(bytes));
        return Ok(Step::Reply(reply));
    }
    let before = context.runtime.measured.filter(|(of, ..)| *of == id);
    let (_, then, earlier) = before.unwrap_or((id, context.now, counts));
    context.runtime.measured = Some((id, context.now, counts));
    let seconds = context.now.since(then).0 as f64 / 1e9;
    let reply = reply.field(format_args!("{seconds:.2}s")).field(name);
    let rates = steps.into_iter().zip(earlier).map(|((name, bytes), earlier)| {
        let bits = bytes.saturating_sub(earlier) as f64 * 8.0;
        let per_second = if seconds > 0.0 { bits / seconds } else { 0.0 };
        format!("{name} {}", rate(per_second))
    });
    Ok(Step::Reply(reply.fields(rates)))
}

/// Refuses once after chunks could not be sent. m5copy has no other sign of it: it asks until nothing is sent, and takes that for success.
fn failed_chunks(context: &mut Context<'_>) -> Result<(), Refused> {
    let held = context.runtime.transfer.as_mut();
    let Some(held) = held.filter(|held| held.source == VsiSource::Chunks && !held.is_shown) else {
        return Ok(());
    };
    let ended = context.view.transfer(held.id).filter(|of| of.state == VsiTransferState::Ended);
    let Some(ended) = ended else { return Ok(()) };
    held.is_shown = true;
    match &ended.failure {
        Some(why) => Err(Refused(VsiCode::Failed, format!("{} was not sent, {why}", ended.label))),
        None => Ok(()),
    }
}

pub(super) fn rtime(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let (free, total) = space(context);
    let mode = &context.runtime.mode;
    let bits = mode.frame_bits_per_second().filter(|bits| *bits > 0.0);
    let seconds = bits.map(|bits| significant(free as f64 * 8.0 / bits) + "s");
    let unknown = || "?".to_owned();
    let percent = total.filter(|total| *total > 0).map(|total| free as f64 * 100.0 / total as f64);
    let reply = context
        .reply(VsiCode::Done)
        .field(seconds.unwrap_or_else(unknown))
        .field(significant(free as f64 / 1e9) + "GB")
        .field(percent.map_or_else(unknown, |percent| significant(percent) + "%"))
        .field(mode.format().unwrap_or("<unknown>"))
        .field(mode.tracks())
        .field("0MHz")
        .field(bits.map_or_else(unknown, |bits| significant(bits / 1e6) + "Mbps"));
    Ok(Step::Reply(reply))
}

/// Free and all bytes of the selected disks.
pub(super) fn space(context: &Context<'_>) -> (u64, Option<u64>) {
    let disks: Vec<&VsiDisk> = context.view.selected(&context.runtime.disks).collect();
    let free = disks.iter().fold(0u64, |sum, disk| sum.saturating_add(disk.free_bytes));
    let total = disks.iter().try_fold(0u64, |sum, disk| Some(sum.saturating_add(disk.total_bytes?)));
    (free, total)
}

pub(super) fn dir_info(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let (free, total) = space(context);
    let reply = context.reply(VsiCode::Done).field(context.view.scans.len());
    let reply = match total {
        Some(total) => reply.field(total.saturating_sub(free)).field(total),
        None => reply.field("?").field("?"),
    };
    Ok(Step::Reply(reply))
}

pub(super) fn dts_id(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    // System type, date, medium (1: disks), serial number, ports, revisions of command set and boards.
    let reply = context.reply(VsiCode::Done).field("-");
    let reply = reply.field(context.view.built.as_deref().unwrap_or("?")).field(1).field(&context.view.host);
    Ok(Step::Reply(reply.field(0).field(0).fields(["-"; 3])))
}

pub(super) fn os_rev(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    match &context.view.system {
        Some(system) => Ok(Step::Reply(context.reply(VsiCode::Done).message(system))),
        None => Ok(Step::Reply(context.reply(VsiCode::Indeterminate).field("the system is unknown"))),
    }
}

pub(super) fn version(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let width = format!("{}bit", usize::BITS);
    let reply = context.reply(VsiCode::Done).field(PROGRAM).field(COMMAND_SET).field(width);
    let built = if cfg!(debug_assertions) { "Debug" } else { "Release" };
    let reply = reply.field(built).field(&context.view.program);
    // jive5ab gives the host, day and time of its build in three fields, then its StreamStor. m5copy sends nothing to servers of etransfer unless the
    // next is there.
    Ok(Step::Reply(reply.field("").field("").field("").field("etransfer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_replace_their_letters() {
        let counts =
            VsiCounts { packets: 99, lost: 1, reordered: Some(2), extent: Some(5), ..VsiCounts::default() };
        let of = |text| statistics(text, &counts, Nanos(1_500_000_000));
        assert_eq!(of("%t/%l (%L) %o (%O) %r %R %u%%%q%"), "99/1 (1.00%) 2 (2.00%) 5 2.5seqnr/pkt 1.500%q");
        let unknown = VsiCounts { reordered: None, extent: None, ..counts };
        assert_eq!(statistics("%o %O %r %R %d", &unknown, Nanos(0)), "? ? ? ?seqnr/pkt 0");
    }
}
