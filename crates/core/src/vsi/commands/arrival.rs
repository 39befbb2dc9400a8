//! `net2file`, and what it has in common with `net2vbs`: data of other hosts, which connect to the port of `net_port`.
//!
//! | request | does |
//! |---|---|
//! | `net2file = open : path[,n\|w\|a]` | listens for one connection, whose bytes become a file: a new one, in place of one, or appended. Answered with the bytes that the file has |
//! | `net2file?` | `active` or `closing` and the bytes written so far, or `inactive : 0` |
//! | `net2file = close` | ends it; answered when everything is on the disk. `stop` does the same |
//!
//! jive5ab is `inactive` as soon as the connection ends, and m5copy then compares nothing. Here it is active until it is closed, so that
//! m5copy compares the bytes that were sent with those that were written.

use super::context::{Context, Pending, Refused, Step, Stepped, parameter, unexpected};
use crate::vsi::reply::VsiCode;
use crate::vsi::runtime::{Arriving, DEFAULT_DATA_PORT};
use crate::vsi::view::{VsiAcceptOptions, VsiAccepted, VsiAction, VsiExisting, VsiOutcome, VsiPort};

/// Maximum length of a path in bytes.
pub(super) const MAX_PATH_BYTES: usize = 1024;

pub(super) fn net2file(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        return query(context, "net2file", "0");
    }
    match context.request.word(0).as_str() {
        "open" => {
            let (path, existing) = path(context.request.field(1))?;
            open(context, "net2file", VsiAccepted::File { path, existing })
        }
        "close" | "stop" => close(context, "net2file"),
        "" => Err(parameter("expected open, stop or close")),
        other => Err(Refused(VsiCode::NotImplemented, format!("net2file has no {other}"))),
    }
}

/// A path, and how it is opened: `path,n` and so on.
fn path(text: &str) -> Result<(String, VsiExisting), Refused> {
    let (path, existing) = match text.rsplit_once(',') {
        Some((path, "n")) => (path, VsiExisting::Keep),
        Some((path, "w")) => (path, VsiExisting::Replace),
        Some((path, "a")) => (path, VsiExisting::Append),
        _ => (text, VsiExisting::Keep),
    };
    match path.len() {
        1..=MAX_PATH_BYTES => Ok((path.to_owned(), existing)),
        _ => Err(parameter("expected the path of a file, and ,n or ,w or ,a")),
    }
}

/// Whether it is open or closing, and how many bytes were written; `idle` is the count of none.
pub(super) fn query(context: &Context<'_>, keyword: &str, idle: &str) -> Stepped {
    let reply = context.reply(VsiCode::Done);
    let open = context.runtime.arriving(context.view).filter(|(held, _)| held.keyword == keyword);
    Ok(Step::Reply(match open {
        Some((_, arrival)) => {
            let word = if arrival.is_closing { "closing" } else { "active" };
            reply.field(word).field(arrival.written_bytes)
        }
        None if idle.is_empty() => reply.field("inactive"),
        None => reply.field("inactive").field(idle),
    }))
}

pub(super) fn open(context: &mut Context<'_>, keyword: &'static str, what: VsiAccepted) -> Stepped {
    context.free_only()?;
    context.tcp_only()?;
    let port = match &context.runtime.ports[..] {
        [] => VsiPort { port: DEFAULT_DATA_PORT, ..VsiPort::default() },
        [port] => port.clone(),
        _ => return Err(parameter("data arrive on one port, give one to net_port")),
    };
    let id = context.number();
    let options = VsiAcceptOptions { id, port, what };
    Ok(Step::Act(VsiAction::Accept(Box::new(options)), Pending::Accept(Arriving { id, keyword })))
}

pub(super) fn accepting(
    context: &mut Context<'_>,
    arriving: Arriving,
    outcome: Option<VsiOutcome>,
) -> Stepped {
    match outcome {
        Some(VsiOutcome::Accepting { present_bytes }) => {
            context.runtime.arrival = Some(arriving);
            context.runtime.measured = None;
            let reply = context.reply(VsiCode::Done);
            Ok(Step::Reply(if arriving.keyword == "net2file" { reply.field(present_bytes) } else { reply }))
        }
        // A disk does not respond; if it does later, it is not left open.
        None => {
            context.runtime.arrival = Some(arriving);
            Err(Refused(VsiCode::Busy, "the station is busy, close it and ask again".into()))
        }
        Some(VsiOutcome::Failed(code, why)) => Err(Refused(code, why)),
        Some(_) => Err(unexpected()),
    }
}

pub(super) fn close(context: &mut Context<'_>, keyword: &str) -> Stepped {
    match context.runtime.arrival.filter(|held| held.keyword == keyword) {
        // It is closing already.
        Some(held) if context.unsettled.contains(&held.id) => {
            Ok(Step::Reply(context.reply(VsiCode::Started)))
        }
        Some(held) => Ok(Step::Act(VsiAction::EndArrival { id: held.id }, Pending::EndArrival)),
        None => Err(Refused(VsiCode::Conflict, format!("{keyword} is not open"))),
    }
}

pub(super) fn ended(context: &mut Context<'_>, outcome: Option<VsiOutcome>) -> Stepped {
    match outcome {
        Some(VsiOutcome::Stopped) => {
            context.runtime.arrival = None;
            context.done()
        }
        // What was received is still being written. The client has been answered, and the port is free.
        None => Ok(Step::Reply(context.reply(VsiCode::Started))),
        Some(VsiOutcome::Failed(code, why)) => {
            context.runtime.arrival = None;
            context.errors.add(super::ERROR_TRANSFER, &why, context.now);
            Err(Refused(code, why))
        }
        Some(_) => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_unless_it_is_said_otherwise() {
        let of = |text| path(text).ok();
        assert_eq!(of("/data/a.vdif"), Some(("/data/a.vdif".into(), VsiExisting::Keep)));
        assert_eq!(of("/data/a,b,n"), Some(("/data/a,b".into(), VsiExisting::Keep)));
        assert_eq!(of("/data/a,w"), Some(("/data/a".into(), VsiExisting::Replace)));
        assert_eq!(of("/data/a,a"), Some(("/data/a".into(), VsiExisting::Append)));
        assert_eq!(of("/data/a,x"), Some(("/data/a,x".into(), VsiExisting::Keep)));
        assert!(of("").is_none() && of(",n").is_none() && of(&"a".repeat(1025)).is_none());
    }
}
