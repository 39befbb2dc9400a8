//! The commands of a Mark 6 (Command Set 1.0, Haystack, 14 November 2013) by which the Field System and VGOS schedules record.
//!
//! ```text
//!   input_stream=add:… ─▶ ports of the next recording     record=on:30, record=2026y330d12h00m00s:300:… ─▶ Start
//!   group, mstat, rtime, list ─▶ one group, `1`: all disks of the station
//! ```
//!
//! An answer has two codes: that of VSI-S, and that of the control plane, which is 0 if the request was carried out and 1 if not.

use super::context::{Context, Pending, Refused, Step, Stepped, parameter};
use super::numbers::{significant, vex_time};
use super::{record, scan, state};
use crate::observation::time::vex_time as read_time;
use crate::placement::Nanos;
use crate::vsi::mode::digits;
use crate::vsi::reply::{VsiCode, VsiReply};
use crate::vsi::view::{VsiAction, VsiOutcome, VsiPort};

/// The group, and the slot, that stand for all disks of the station.
const GROUP: &str = "1";
/// Revision of the command set that is spoken.
const COMMAND_SET: &str = "1.0";
/// Maximum number of input streams.
const MAX_STREAMS: usize = 16;
/// Maximum length of a field of a stream.
const MAX_STREAM_FIELD: usize = 64;
/// Maximum duration of a recording, seconds: a week.
const MAX_SECONDS: u64 = 604_800;

pub(super) fn carry_out(context: &mut Context<'_>) -> Stepped {
    match context.request.keyword.as_str() {
        "dts_id" => dts_id(context),
        "input_stream" => input_stream(context),
        "record" => recording(context),
        "rtime" => rtime(context),
        "list" => list(context),
        "mstat" => mstat(context),
        "group" => group(context),
        "scan_check" => scan_check(context),
        "msg" => messages(context),
        "status" => state::status(context),
        "disk_info" | "gsm" | "gsm_mask" | "mod_init" | "mod_remove" | "personality" | "execute"
        | "vol_stack" => Err(Refused(VsiCode::NotImplemented, "not implemented here".into())),
        _ => Err(Refused(VsiCode::NoSuchKeyword, "no such keyword".into())),
    }
}

/// `!dts_id?0:host:program:command set;`: it alone has no second code.
fn dts_id(context: &Context<'_>) -> Stepped {
    context.query_only()?;
    let version = context.view.program.rsplit(' ').next().unwrap_or_default();
    let reply = VsiReply::bare("dts_id", true, VsiCode::Done).field(&context.view.host);
    Ok(Step::Reply(reply.field(version).field(COMMAND_SET)))
}

/// `input_stream = add : label : format : payload size : payload offset : psn offset : interface : address : port [: sub-group]`
fn input_stream(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        let streams = context.runtime.mark6.streams.iter().flatten();
        return Ok(Step::Reply(context.reply(VsiCode::Done).fields(streams)));
    }
    context.idle_only()?;
    let request = context.request;
    let streams = &mut context.runtime.mark6.streams;
    match request.word(0).as_str() {
        "add" => {
            let stream = stream(&request.fields[1..])?;
            if streams.iter().any(|other| other[0] == stream[0]) {
                return Err(Refused(VsiCode::Conflict, format!("stream {} exists already", stream[0])));
            }
            if streams.len() >= MAX_STREAMS {
                return Err(Refused(VsiCode::Failed, format!("there are {MAX_STREAMS} streams already")));
            }
            streams.push(stream);
        }
        "delete" if request.field(1).is_empty() => streams.clear(),
        "delete" => {
            let before = streams.len();
            streams.retain(|stream| stream[0] != request.field(1));
            if streams.len() == before {
                return Err(parameter(format!("no stream is labelled {}", request.field(1))));
            }
        }
        // What is added is used by the next recording.
        "commit" => {}
        _ => return Err(parameter("expected add, delete or commit")),
    }
    let port = |stream: &[String; 9]| VsiPort { port: stream[7].parse().unwrap_or(0), ..VsiPort::default() };
    context.runtime.ports = context.runtime.mark6.streams.iter().map(port).collect();
    // Streams of several interfaces may come to one port.
    context.runtime.ports.sort_by_key(|port| port.port);
    context.runtime.ports.dedup();
    context.done()
}

/// The fields of a stream; the sub-group may be missing.
fn stream(fields: &[String]) -> Result<[String; 9], Refused> {
    let why = "expected label:format:payload size:payload offset:psn offset:interface:address:port:sub-group";
    let given: Vec<String> = fields.iter().cloned().chain(std::iter::once("0".to_owned())).take(9).collect();
    let stream: [String; 9] = given.try_into().map_err(|_| parameter(why))?;
    let is_text = |field: &String| {
        !field.is_empty() && field.len() <= MAX_STREAM_FIELD && field.bytes().all(|b| b.is_ascii_graphic())
    };
    let is_number = |at: usize| stream[at].parse::<u16>().is_ok();
    let is_port = stream[7].parse::<u16>().is_ok_and(|port| port > 0);
    let is_whole = stream.iter().all(is_text) && [2, 3, 4].into_iter().all(is_number) && is_port;
    if is_whole && fields.len() <= 9 { Ok(stream) } else { Err(parameter(why)) }
}

/// `record = on : duration [: size : scan : experiment : station]`, a time in place of `on`, or `record = off`.
fn recording(context: &mut Context<'_>) -> Stepped {
    let request = context.request;
    if request.query {
        return record_state(context);
    }
    if request.word(0) == "off" {
        return record::off(context);
    }
    if context.runtime.mark6.is_closed || context.runtime.mark6.is_protected {
        return Err(Refused(VsiCode::Conflict, "the group is not open, use group=open".into()));
    }
    let now = i64::try_from(context.now.0 / Nanos::SECOND.0).unwrap_or(i64::MAX);
    let seconds = digits(request.field(1)).filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    let seconds = seconds.ok_or_else(|| parameter("expected a duration in seconds, up to a week"))?;
    let gigabytes = match request.field(2) {
        "" => 0,
        text => digits(text).ok_or_else(|| parameter("expected the size in GB"))?,
    };
    let length = i64::try_from(seconds).unwrap_or(0);
    let (start, begin, from) = match request.word(0).as_str() {
        "on" => (None, now, now),
        text => {
            let time = read_time(text)
                .ok_or_else(|| parameter("expected on, off or a time such as 2026y330d12h00m00s"))?;
            (Some(time.second), time.second, time.rounded_up())
        }
    };
    let stop = from.saturating_add(length);
    if stop <= now {
        return Err(Refused(VsiCode::Conflict, "its end is in the past".into()));
    }
    let base = match request.field(3) {
        "" => record::label(&format!("{begin}"), request.field(4), request.field(5)),
        scan => record::label(scan, request.field(4), request.field(5)),
    };
    // The name has three parts even if only the scan is given.
    let base = base.map(|base| if base.contains('_') { base } else { format!("EXP_STN_{base}") });
    let before = context.runtime.mark6.clone();
    context.runtime.mark6.span = (start, Some(stop));
    context.runtime.mark6.bits_per_second = (gigabytes > 0).then(|| gigabytes as f64 * 8e9 / seconds as f64);
    let stepped = record::begin(context, base);
    if stepped.is_err() {
        context.runtime.mark6 = before;
    }
    stepped
}

/// `!record?0:0:state:group:number:scan;`
fn record_state(context: &Context<'_>) -> Stepped {
    let (runtime, view) = (&*context.runtime, context.view);
    let running = runtime.running(view);
    let is_early = runtime
        .mark6
        .span
        .0
        .is_some_and(|start| i64::try_from(context.now.0 / Nanos::SECOND.0).is_ok_and(|now| now < start));
    let state = match running {
        Some(_) if is_early => "pending",
        Some(_) => "recording",
        None => "off",
    };
    let reply = context.reply(VsiCode::Done).field(state).field(GROUP);
    let last = runtime.last.as_ref().map(|(_, label)| label.as_str());
    let Some(label) = running.map(|recording| recording.label.as_str()).or(last) else {
        return Ok(Step::Reply(reply));
    };
    let number = view.scan_number(label).unwrap_or(view.scans.len()) + 1;
    Ok(Step::Reply(reply.field(number).field(label)))
}

fn gigabytes(bytes: u64) -> u64 {
    bytes / 1_000_000_000
}

/// `rtime? [Mb/s]`: `!rtime?0:0:group:Mb/s:seconds:GB left:percent left:GB in all;`
fn rtime(context: &Context<'_>) -> Stepped {
    context.query_only()?;
    let (free, total) = state::space(context);
    let rate = match context.request.field(0) {
        "" => None,
        text => {
            let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
            Some(rate.ok_or_else(|| parameter("expected a rate in Mb/s"))?)
        }
    };
    let reply = context.reply(VsiCode::Done).field(GROUP).field(rate.map_or("-".to_owned(), significant));
    let seconds = rate.map(|rate| (free as f64 * 8.0 / (rate * 1e6)) as u64);
    let percent =
        total.filter(|total| *total > 0).map(|total| significant(free as f64 * 100.0 / total as f64));
    let reply =
        reply.field(seconds.map_or("-".to_owned(), |seconds| seconds.to_string())).field(gigabytes(free));
    let total = total.map_or("-".to_owned(), |total| gigabytes(total).to_string());
    Ok(Step::Reply(reply.field(percent.unwrap_or_else(|| "-".into())).field(total)))
}

/// A group that is asked for: the one that there is, or all.
fn known_group(text: &str) -> Result<(), Refused> {
    match text.to_ascii_lowercase().as_str() {
        "" | "all" | GROUP => Ok(()),
        _ => Err(parameter("there is one group, 1: all disks of the station")),
    }
}

/// `list? [group]`: number, scan, state and GB of each; of more than fit, the last ones.
fn list(context: &Context<'_>) -> Stepped {
    context.query_only()?;
    known_group(context.request.field(0))?;
    let view = context.view;
    let is_recorded = |label: &str| {
        view.recordings.iter().any(|recording| recording.is_running && recording.label == label)
    };
    let mut entries: Vec<[String; 4]> = Vec::new();
    let mut bytes = 0;
    for (at, scan) in view.scans.iter().enumerate().rev() {
        let state = if is_recorded(&scan.label) { "recording" } else { "recorded" };
        let entry =
            [(at + 1).to_string(), scan.label.clone(), state.to_owned(), gigabytes(scan.bytes).to_string()];
        bytes += entry.iter().map(|field| field.len() + 1).sum::<usize>();
        if bytes > MAX_LIST_BYTES {
            break;
        }
        entries.push(entry);
    }
    let fields = entries.iter().rev().flatten();
    Ok(Step::Reply(context.reply(VsiCode::Done).field(GROUP).field(view.scans.len()).fields(fields)))
}

/// What the scans of a list may take of an answer.
const MAX_LIST_BYTES: usize = 960;

/// `mstat? [group]`: `group:slot:eMSN:disks found:disks:GB free:GB in all:status 1:status 2:type`.
fn mstat(context: &Context<'_>) -> Stepped {
    context.query_only()?;
    known_group(context.request.field(0))?;
    let (view, mark6) = (context.view, &context.runtime.mark6);
    let (free, total) = state::space(context);
    let total = total.map(gigabytes);
    let found = view.disks.iter().filter(|disk| disk.free_bytes > 0 || disk.total_bytes.is_some()).count();
    let serial = format!("{}%0001/{}/4/{}", view.host, total.unwrap_or(0), view.disks.len());
    let (first, second) = match (mark6.is_closed, mark6.is_protected) {
        (_, true) => ("closed", "protected"),
        (true, false) => ("closed", "unprotected"),
        (false, false) => ("open", "ready"),
    };
    let reply = context.reply(VsiCode::Done).field(GROUP).field(1).field(serial).field(found);
    let total = total.map_or("-".to_owned(), |total| total.to_string());
    let reply = reply.field(view.disks.len()).field(gigabytes(free)).field(total);
    Ok(Step::Reply(reply.field(first).field(second).field("vbs")))
}

/// `group = open | close | protect | unprotect | new | mount | unmount : 1`
fn group(context: &mut Context<'_>) -> Stepped {
    let request = context.request;
    if request.query {
        return Ok(Step::Reply(context.reply(VsiCode::Done).field(GROUP)));
    }
    if request.field(1) != GROUP {
        return Err(parameter("there is one group, 1: all disks of the station"));
    }
    let word = request.word(0);
    if !["new", "mount"].contains(&word.as_str()) {
        context.idle_only()?;
    }
    let mark6 = &mut context.runtime.mark6;
    match word.as_str() {
        // The disks of the station are always there.
        "new" | "mount" => {}
        "open" if mark6.is_protected => {
            return Err(Refused(VsiCode::Conflict, "the group is protected, use group=unprotect".into()));
        }
        "open" => mark6.is_closed = false,
        "close" | "unmount" => mark6.is_closed = true,
        "protect" => mark6.is_protected = true,
        "unprotect" => (mark6.is_protected, mark6.is_closed) = (false, true),
        "erase" => {
            return Err(Refused(VsiCode::NotImplemented, "scans are not erased by this command".into()));
        }
        _ => return Err(parameter("expected open, close, protect, unprotect, new, mount or unmount")),
    }
    context.done()
}

/// `scan_check?`: the last scan.
fn scan_check(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    context.idle_only()?;
    let last = context.runtime.last.as_ref().map(|(_, label)| label.clone());
    let label = last.or_else(|| context.view.scans.last().map(|scan| scan.label.clone()));
    let label = label.ok_or_else(|| Refused(VsiCode::Conflict, "there is no scan".into()))?;
    context.runtime.select(&label);
    Ok(Step::Act(VsiAction::Inspect { label }, Pending::Check))
}

/// `number:scan:streams:label:status:format:start:seconds:GB:Gb/s:bytes missing`
pub(super) fn checked(context: &mut Context<'_>, outcome: Option<VsiOutcome>) -> Stepped {
    let facts = scan::inspected(outcome)?;
    let label = &context.runtime.selected.label;
    let number = context.view.scan_number(label).map_or("?".to_owned(), |at| (at + 1).to_string());
    let reply = context.reply(VsiCode::Done).field(number).field(label);
    let streams = &context.runtime.mark6.streams;
    let name = streams.first().map_or("-", |stream| stream[0].as_str());
    let reply = reply.field(streams.len().max(1)).field(name);
    let unknown = || "?".to_owned();
    let status = match (&facts.format, facts.missing_bytes) {
        (None, _) | (_, None) => "unk",
        (Some(_), Some(0)) => "OK",
        (Some(_), Some(_)) => "missing",
    };
    let reply = reply
        .field(status)
        .field(facts.format.map_or_else(unknown, |format| format.to_ascii_lowercase()))
        .field(facts.start.map_or_else(unknown, |start| vex_time(start, 4)))
        .field(facts.length.map_or_else(unknown, |length| significant(length.0 as f64 / 1e9)))
        .field(significant(facts.bytes as f64 / 1e9))
        .field(facts.bytes_per_second.map_or_else(unknown, |rate| significant(rate * 8.0 / 1e9)))
        .field(facts.missing_bytes.map_or_else(unknown, |bytes| bytes.to_string()));
    Ok(Step::Reply(reply))
}

/// `msg?`: takes the oldest message.
fn messages(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let reply = context.reply(VsiCode::Done);
    Ok(Step::Reply(match context.errors.pop() {
        Some(error) => reply.field(error.number).message(&error.message),
        None => reply,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_its_fields() {
        let of = |text: &str| {
            let fields: Vec<String> = text.split(':').map(str::to_owned).collect();
            stream(&fields).ok().map(|stream| stream.join(":"))
        };
        let whole = "bandA:vdif:8224:42:66:eth2:127.0.0.1:12000";
        assert_eq!(of(whole), Some(format!("{whole}:0")));
        assert_eq!(of(&format!("{whole}:12")), Some(format!("{whole}:12")));
        for bad in [
            "",
            "bandA:vdif:8224:42:66:eth2:127.0.0.1",
            "bandA:vdif:8224:42:66:eth2:127.0.0.1:0",
            "bandA:vdif:x:42:66:eth2:127.0.0.1:12000",
            "a:vdif:8224:42:66:eth2:127.0.0.1:12000:1:2",
            ":vdif:8224:42:66:eth2:127.0.0.1:12000",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
