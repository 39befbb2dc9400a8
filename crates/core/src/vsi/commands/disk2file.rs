//! `disk2file`: the selected scan, or a range of it, to a file of this host.
//!
//! | request | does |
//! |---|---|
//! | `disk2file = [path] : [start] : [end] : [n\|w\|a\|resume] [: bytes]` | begins to write; answered with 1 |
//! | `disk2file?` | `active`, the path, the first byte, the next one, one past the last, and how the file was opened; or `inactive` and the path |
//! | `reset = abort` | ends it |
//!
//! A start is an absolute byte number of the scan, and so is an end unless it begins with `+`. m5copy asks until it is `inactive`, and takes
//! that for success. So the first query after a failure is answered with 4 and the reason.

use super::arrival::MAX_PATH_BYTES;
use super::context::{Context, Pending, Refused, Step, Stepped, parameter};
use super::transfer::selected;
use crate::vsi::mode::digits;
use crate::vsi::reply::VsiCode;
use crate::vsi::runtime::{ToFile, Transferring};
use crate::vsi::view::{
    VsiAction, VsiConnectOptions, VsiExisting, VsiFileWrite, VsiSource, VsiTransferState,
};

pub(super) fn disk2file(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        return query(context);
    }
    context.free_only()?;
    let (label, (start, end)) = selected(context)?;
    let request = context.request;
    let path = match request.field(0) {
        "" => format!("{label}.m5a"),
        path if path.len() <= MAX_PATH_BYTES => path.to_owned(),
        _ => return Err(parameter("the path is too long")),
    };
    let from = number(request.field(1), "start")?.unwrap_or(start);
    let to = match request.field(2).strip_prefix('+') {
        Some(more) => {
            let to = number(more, "end")?.and_then(|more| from.checked_add(more));
            Some(to.ok_or_else(|| parameter("expected the end as a number of bytes such as 1000 or +1000"))?)
        }
        None => number(request.field(2), "end")?.or(end),
    };
    if to.is_some_and(|to| from >= to) {
        return Err(parameter("the end is not behind the start"));
    }
    let (existing, option) = match request.field(3) {
        "" | "n" => (VsiExisting::Keep, "n"),
        "w" => (VsiExisting::Replace, "w"),
        "a" => (VsiExisting::Append, "a"),
        // jive5ab shows what it opens the file for.
        "resume" => (VsiExisting::Resume, "a"),
        other => return Err(parameter(format!("expected n, w, a or resume, got {other}"))),
    };
    let cached_bytes = number(request.field(4), "bytes in memory")?;
    if cached_bytes == Some(0) {
        return Err(parameter("expected more than 0 bytes in memory"));
    }
    let id = context.number();
    let source = VsiSource::ScanToFile;
    let write = VsiFileWrite { existing, from, to };
    let options =
        VsiConnectOptions { id, label, source, host: path.clone(), write, ..VsiConnectOptions::default() };
    let to_file = Some(ToFile { path, option, cached_bytes });
    let range = (from, to.unwrap_or(from));
    let held = Transferring { id, source, range, to_end: to.is_none(), to_file, ..Transferring::default() };
    Ok(Step::Act(VsiAction::Connect(Box::new(options)), Pending::Connect(held)))
}

/// A number of bytes; `None` if it is not given.
fn number(text: &str, what: &str) -> Result<Option<u64>, Refused> {
    let wrong = || parameter(format!("expected the {what} as an absolute number of bytes, got {text}"));
    match text {
        "" => Ok(None),
        _ => digits(text).ok_or_else(wrong).map(Some),
    }
}

fn query(context: &mut Context<'_>) -> Stepped {
    let reply = context.reply(VsiCode::Done);
    let view = context.view;
    let held = context.runtime.transfer.as_mut();
    let Some(held) = held.filter(|held| held.to_file.is_some()) else {
        return Ok(Step::Reply(reply.field("inactive")));
    };
    let Some(file) = &held.to_file else { return Ok(Step::Reply(reply.field("inactive"))) };
    match view.transfer(held.id) {
        Some(transfer) if transfer.state != VsiTransferState::Ended => {
            let (from, to) = match transfer.state {
                VsiTransferState::Sending => transfer.range,
                // It is being opened.
                _ => held.range,
            };
            let reply = reply.field("active").field(&file.path).field(from);
            let reply =
                reply.field(from.saturating_add(transfer.sent_bytes).min(to)).field(to).field(file.option);
            Ok(Step::Reply(match file.cached_bytes {
                Some(bytes) => reply.field(bytes),
                None => reply,
            }))
        }
        ended => {
            let failure = ended.and_then(|transfer| transfer.failure.as_ref());
            match failure.filter(|_| !std::mem::replace(&mut held.is_shown, true)) {
                Some(why) => Err(Refused(VsiCode::Failed, format!("{} was not written, {why}", file.path))),
                None => Ok(Step::Reply(reply.field("inactive").field(&file.path))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_absolute() {
        let of = |text| number(text, "start").ok();
        assert_eq!(
            [of(""), of("0"), of("99999999999")],
            [Some(None), Some(Some(0)), Some(Some(99_999_999_999))]
        );
        for bad in ["+1", "-1", "1k", "x", "18446744073709551616"] {
            assert!(of(bad).is_none(), "{bad}");
        }
    }
}
