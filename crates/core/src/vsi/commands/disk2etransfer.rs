//! `disk2etransfer`: the selected scan, or the range of it that `scan_set` selects, to a file of a server of etransfer.
//!
//! | request | does |
//! |---|---|
//! | `disk2etransfer = host[@port] : path [: mode]` | begins to connect and to send; answered with 1 |
//! | `disk2etransfer?` | `active`, the scan, the first byte, the next one, one past the last; or `inactive` |
//! | `reset = abort` | ends it |
//!
//! The mode is `new` (the default), `overwrite`, `resume` or `skipexisting`. jive5ab connects before it answers, and answers with 0 where nothing is to
//! be sent; here the connection is made while the client asks. m5copy asks until it is `inactive`, and takes that for success. So the first query
//! after a failure is answered with 4 and the reason.

use super::arrival::MAX_PATH_BYTES;
use super::context::{Context, Pending, Refused, Step, Stepped, parameter};
use super::transfer::{host_name, selected};
use crate::etransfer::UploadMode;
use crate::vsi::reply::VsiCode;
use crate::vsi::runtime::Transferring;
use crate::vsi::view::{VsiAction, VsiConnectOptions, VsiFileWrite, VsiSource, VsiTransferState};

/// The port for commands of a server.
const DEFAULT_PORT: u16 = 4004;

pub(super) fn disk2etransfer(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        return query(context);
    }
    context.free_only()?;
    let (label, (from, to)) = selected(context)?;
    let request = context.request;
    let (host, port) = match request.field(0).split_once('@') {
        None => (request.field(0), Some(DEFAULT_PORT)),
        Some((host, port)) => (host, port.parse().ok().filter(|&port| port > 0)),
    };
    let port = port.ok_or_else(|| parameter("expected a port after the host, such as correlator@4004"))?;
    let host = host_name(host)?;
    let path = match request.field(1) {
        "" => return Err(parameter("expected the path of a file at the other host")),
        // Commands of etransfer are lines.
        path if path.len() > MAX_PATH_BYTES || path.contains(char::is_control) => {
            return Err(parameter("the path is too long, or has control characters"));
        }
        path => path.to_owned(),
    };
    let mode = mode(&request.word(2))?;
    let id = context.number();
    let source = VsiSource::ScanToEtransfer;
    let write = VsiFileWrite { from, to, ..VsiFileWrite::default() };
    let options = VsiConnectOptions { id, label, source, host, port, write, path, mode };
    let held = Transferring {
        id,
        source,
        range: (from, to.unwrap_or(from)),
        to_end: to.is_none(),
        ..Transferring::default()
    };
    Ok(Step::Act(VsiAction::Connect(Box::new(options)), Pending::Connect(held)))
}

/// What becomes of a file that exists.
fn mode(word: &str) -> Result<UploadMode, Refused> {
    match word {
        "" | "new" => Ok(UploadMode::New),
        // m5copy says `allowoverwrite`.
        "overwrite" | "allowoverwrite" => Ok(UploadMode::OverWrite),
        "resume" => Ok(UploadMode::Resume),
        "skipexisting" => Ok(UploadMode::SkipExisting),
        other => Err(parameter(format!("expected new, overwrite, resume or skipexisting, got {other}"))),
    }
}

fn query(context: &mut Context<'_>) -> Stepped {
    let reply = context.reply(VsiCode::Done);
    let view = context.view;
    let held = context.runtime.transfer.as_mut();
    let Some(held) = held.filter(|held| held.source == VsiSource::ScanToEtransfer) else {
        return Ok(Step::Reply(reply.field("inactive")));
    };
    match view.transfer(held.id) {
        Some(transfer) if transfer.state != VsiTransferState::Ended => {
            let (from, to) = match transfer.state {
                VsiTransferState::Sending => transfer.range,
                // The connection is being made.
                _ => held.range,
            };
            let next = from.saturating_add(transfer.sent_bytes).min(to);
            let reply = reply.field("active").field(&transfer.label);
            Ok(Step::Reply(reply.field(from).field(next).field(to)))
        }
        ended => {
            let failure = ended.and_then(|transfer| transfer.failure.as_ref());
            match failure.filter(|_| !std::mem::replace(&mut held.is_shown, true)) {
                Some(why) => Err(Refused(VsiCode::Failed, format!("the scan was not sent, {why}"))),
                None => Ok(Step::Reply(reply.field("inactive"))),
            }
        }
    }
}
