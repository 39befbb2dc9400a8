//! `disk2net` and `file2net`: the selected scan or a file, or a range of it, to a host that listens on the port of `net_port`.
//!
//! | request | does |
//! |---|---|
//! | `disk2net = connect : host` | opens the selected scan, and connects; answered with 1 at once |
//! | `file2net = connect : host : path` | the same with a file |
//! | `disk2net?` | `connected`, `active` or `inactive`, the host, the first byte, the next one to be sent, one past the last |
//! | `disk2net = on [: start [: end]]` | sends; `+n` counts from what `scan_set` selected, and of the end from the start |
//! | `disk2net = disconnect` | ends it |
//!
//! m5copy takes a transfer that is `inactive` when it asks for the first time after `on` for a file that is whole at the other end already.
//! So a transfer that had something to send is `active` for one query at least. And it believes that all was sent if the next byte to be
//! sent is the end: of a transfer that failed, it never is.

use super::context::{Context, Pending, Refused, Step, Stepped, parameter, unexpected};
use crate::vsi::mode::digits;
use crate::vsi::reply::VsiCode;
use crate::vsi::runtime::{DEFAULT_DATA_PORT, Transferring};
use crate::vsi::view::{VsiAction, VsiConnectOptions, VsiOutcome, VsiSource, VsiTransfer, VsiTransferState};

/// Maximum length of the name of a host.
const MAX_HOST_BYTES: usize = 253;

/// What the command of a transfer sends.
pub(super) fn keyword(source: VsiSource) -> &'static str {
    match source {
        VsiSource::Scan => "disk2net",
        VsiSource::File => "file2net",
        VsiSource::Chunks => "vbs2net",
        VsiSource::ScanToFile => "disk2file",
        VsiSource::ScanToEtransfer => "disk2etransfer",
    }
}

/// `disk2net` or `file2net`.
pub(super) fn as_one_file(context: &mut Context<'_>, source: VsiSource) -> Stepped {
    if context.request.query {
        return query(context, source);
    }
    match context.request.word(0).as_str() {
        "connect" => {
            let host = context.request.field(1).to_owned();
            let (label, range) = match source {
                VsiSource::File => (context.request.field(2).to_owned(), (0, None)),
                VsiSource::Scan | VsiSource::Chunks | VsiSource::ScanToFile | VsiSource::ScanToEtransfer => {
                    selected(context)?
                }
            };
            connect(context, &host, label, source, range)
        }
        "on" => on(context),
        "disconnect" => disconnect(context),
        "" => Err(parameter("expected connect, on or disconnect")),
        other => Err(Refused(VsiCode::NotImplemented, format!("{} has no {other}", context.request.keyword))),
    }
}

/// The label of the selected scan, and the range of it.
pub(super) fn selected(context: &Context<'_>) -> Result<(String, (u64, Option<u64>)), Refused> {
    let selected = &context.runtime.selected;
    match selected.label.as_str() {
        "" => Err(Refused(VsiCode::Failed, "no scan is selected, use scan_set".into())),
        label => Ok((label.to_owned(), (selected.start, selected.end))),
    }
}

fn query(context: &mut Context<'_>, source: VsiSource) -> Stepped {
    let reply = context.reply(VsiCode::Done);
    let view = context.view;
    let known = context.runtime.transfer.as_mut().filter(|held| held.source == source);
    let known = known.and_then(|held| Some((view.transfer(held.id)?, held)));
    let Some((transfer, held)) = known else { return Ok(Step::Reply(reply.field("inactive"))) };
    let (from, to) = held.range;
    let was_shown = std::mem::replace(&mut held.is_shown, true);
    let word = match transfer.state {
        VsiTransferState::Connecting => "inactive",
        VsiTransferState::Connected => "connected",
        VsiTransferState::Sending => "active",
        VsiTransferState::Ended if held.is_begun && !was_shown && from < to => "active",
        VsiTransferState::Ended => "inactive",
    };
    let reply = reply.field(word).field(&transfer.host).field(from);
    Ok(Step::Reply(reply.field(next_byte(transfer, from, to)).field(to)))
}

/// The byte that is sent next; the end only if all of them have arrived.
fn next_byte(transfer: &VsiTransfer, from: u64, to: u64) -> u64 {
    if transfer.is_complete {
        return to;
    }
    from.saturating_add(transfer.sent_bytes).min(to.saturating_sub(1)).max(from.min(to))
}

/// A name or an address, as it can be looked up.
pub(super) fn host_name(host: &str) -> Result<String, Refused> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    match !host.is_empty() && host.len() <= MAX_HOST_BYTES && host.bytes().all(legal) {
        true => Ok(host.to_owned()),
        false => Err(parameter("expected the name or address of a host")),
    }
}

/// Begins a transfer to `host`: of a range, or to the end.
pub(super) fn connect(
    context: &mut Context<'_>,
    host: &str,
    label: String,
    source: VsiSource,
    (start, end): (u64, Option<u64>),
) -> Stepped {
    context.free_only()?;
    context.tcp_only()?;
    let host = host_name(host)?;
    let runtime = &*context.runtime;
    if label.is_empty() {
        return Err(parameter("expected what is to be sent"));
    }
    let port = match &runtime.ports[..] {
        [] => DEFAULT_DATA_PORT,
        [port] => port.port,
        _ => return Err(parameter("data are sent to one port, give one to net_port")),
    };
    let id = context.number();
    let options = VsiConnectOptions { id, label, source, host, port, ..VsiConnectOptions::default() };
    let (range, to_end) = ((start, end.unwrap_or(start)), end.is_none());
    let held = Transferring { id, source, range, to_end, ..Transferring::default() };
    Ok(Step::Act(VsiAction::Connect(Box::new(options)), Pending::Connect(held)))
}

pub(super) fn connecting(
    context: &mut Context<'_>,
    held: Transferring,
    outcome: Option<VsiOutcome>,
) -> Stepped {
    match outcome {
        // The connection is made while the client asks whether it stands.
        Some(VsiOutcome::Started) | None => {
            let code = match held.source {
                VsiSource::Scan | VsiSource::ScanToFile | VsiSource::ScanToEtransfer => VsiCode::Started,
                // m5copy accepts only 0 for these.
                VsiSource::File | VsiSource::Chunks => VsiCode::Done,
            };
            context.runtime.transfer = Some(held);
            context.runtime.measured = None;
            Ok(Step::Reply(context.reply(code)))
        }
        Some(VsiOutcome::Failed(code, why)) => Err(Refused(code, why)),
        Some(_) => Err(unexpected()),
    }
}

fn on(context: &mut Context<'_>) -> Stepped {
    let conflict = |why: &str| Refused(VsiCode::Conflict, why.to_owned());
    let (view, request) = (context.view, context.request);
    let held = context.runtime.transfer.as_ref().ok_or_else(|| conflict("not connected"))?;
    let transfer = view.transfer(held.id).ok_or_else(|| conflict("not connected"))?;
    match transfer.state {
        VsiTransferState::Connected if !held.is_begun => {}
        VsiTransferState::Connecting => return Err(conflict("not connected yet")),
        VsiTransferState::Ended => return Err(conflict("not connected")),
        _ => return Err(conflict("already running")),
    }
    let end = if held.to_end { transfer.size_bytes } else { held.range.1 };
    let from = place(request.field(1), "start", held.range.0)?.unwrap_or(held.range.0);
    // jive5ab takes 0 for the end, too.
    let to = place(request.field(2), "end", from)?.filter(|&to| to > 0).unwrap_or(end);
    if from > to {
        return Err(conflict("the end is before the start"));
    }
    if to > transfer.size_bytes {
        return Err(parameter(format!("the scan has {} bytes", transfer.size_bytes)));
    }
    let id = held.id;
    Ok(Step::Act(VsiAction::Send { id, from, to }, Pending::Send((from, to))))
}

/// A byte number, or `+n` from `base`; `None` if it is not given.
fn place(text: &str, what: &str, base: u64) -> Result<Option<u64>, Refused> {
    let wrong =
        || parameter(format!("expected the {what} as a number of bytes such as 1000 or +1000, got {text}"));
    match text.strip_prefix('+') {
        _ if text.is_empty() => Ok(None),
        Some(more) => digits(more).and_then(|more| base.checked_add(more)).ok_or_else(wrong).map(Some),
        None => digits(text).ok_or_else(wrong).map(Some),
    }
}

pub(super) fn sending(context: &mut Context<'_>, range: (u64, u64), outcome: Option<VsiOutcome>) -> Stepped {
    match outcome {
        Some(VsiOutcome::Started) => {
            if let Some(held) = &mut context.runtime.transfer {
                (held.range, held.is_begun, held.is_shown) = (range, true, false);
            }
            context.done()
        }
        None => Err(Refused(VsiCode::Busy, "the station is busy, ask again".into())),
        Some(VsiOutcome::Failed(code, why)) => Err(Refused(code, why)),
        Some(_) => Err(unexpected()),
    }
}

pub(super) fn disconnect(context: &mut Context<'_>) -> Stepped {
    match context.runtime.transferring(context.view) {
        Some(transfer) => Ok(Step::Act(VsiAction::Disconnect { id: transfer.id }, Pending::Disconnect)),
        None => Err(Refused(VsiCode::Conflict, "no transfer runs".into())),
    }
}

pub(super) fn disconnected(context: &mut Context<'_>, outcome: Option<VsiOutcome>) -> Stepped {
    match outcome {
        Some(VsiOutcome::Stopped) => context.done(),
        None => Ok(Step::Reply(context.reply(VsiCode::Started))),
        Some(VsiOutcome::Failed(code, why)) => Err(Refused(code, why)),
        Some(_) => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_never_ends_at_its_end() {
        let of = |sent_bytes, is_complete, (from, to)| {
            next_byte(&VsiTransfer { sent_bytes, is_complete, ..VsiTransfer::default() }, from, to)
        };
        assert_eq!([of(0, false, (10, 20)), of(4, false, (10, 20)), of(10, false, (10, 20))], [10, 14, 19]);
        assert_eq!([of(10, true, (10, 20)), of(0, true, (20, 20)), of(0, false, (20, 20))], [20, 20, 20]);
        assert_eq!(of(u64::MAX, false, (0, u64::MAX)), u64::MAX - 1);
    }

    #[test]
    fn places_are_numbers_or_distances() {
        let of = |text| place(text, "start", 100).ok();
        assert_eq!(
            [of(""), of("7"), of("+7"), of("+0")],
            [Some(None), Some(Some(7)), Some(Some(107)), Some(Some(100))]
        );
        for bad in ["-7", "x", "+", "+-7", "18446744073709551616", "+18446744073709551615"] {
            assert!(of(bad).is_none(), "{bad}");
        }
    }
}
