//! `vbs2net` and `net2vbs`: the chunks of a scan from one FlexBuff to another ([`ChunkHead`](crate::vsi::ChunkHead)).
//!
//! | request | does |
//! |---|---|
//! | `vbs2net = connect : scan : host` | sends the chunks that the other host has not |
//! | `vbs2net?` | `inactive`, or `active`, the host and the bytes sent so far |
//! | `vbs2net = disconnect` | ends it |
//! | `net2vbs = open` | listens for chunks of any scan |
//! | `net2vbs?` | `inactive`, or `active` or `closing` and the bytes written so far |
//! | `net2vbs = close` | ends it; 1 after 4 s, and it closes on |
//! | `… = nthread : a : b`, `…? nthread` | kept and shown |

use super::arrival;
use super::context::{Context, Refused, Step, Stepped, parameter};
use super::transfer;
use crate::vsi::mode::digits;
use crate::vsi::reply::VsiCode;
use crate::vsi::view::{VsiAccepted, VsiSource, VsiTransferState};

pub(super) fn vbs2net(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        return match context.request.word(0).as_str() {
            "nthread" => threads(context, 0),
            _ => query(context),
        };
    }
    match context.request.word(0).as_str() {
        "connect" => {
            let (scan, host) = (context.request.field(1).to_owned(), context.request.field(2).to_owned());
            transfer::connect(context, &host, scan, VsiSource::Chunks, (0, None))
        }
        "disconnect" => transfer::disconnect(context),
        "nthread" => set_threads(context, 0),
        "" => Err(parameter("expected connect, disconnect or nthread")),
        other => Err(Refused(VsiCode::NotImplemented, format!("vbs2net has no {other}"))),
    }
}

fn query(context: &Context<'_>) -> Stepped {
    let reply = context.reply(VsiCode::Done);
    let sending = context.runtime.transfer.as_ref().filter(|held| held.source == VsiSource::Chunks);
    let sending = sending.and_then(|_| context.runtime.transferring(context.view));
    Ok(Step::Reply(match sending {
        Some(transfer) => {
            let is_sending = transfer.state == VsiTransferState::Sending;
            let reply = reply.field(if is_sending { "active" } else { "connected" });
            reply.field(&transfer.host).field(transfer.sent_bytes)
        }
        None => reply.field("inactive"),
    }))
}

pub(super) fn net2vbs(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        return match context.request.word(0).as_str() {
            "nthread" => threads(context, 1),
            _ => arrival::query(context, "net2vbs", ""),
        };
    }
    match context.request.word(0).as_str() {
        "open" => {
            context.all_disks_only()?;
            arrival::open(context, "net2vbs", VsiAccepted::Chunks)
        }
        "close" => arrival::close(context, "net2vbs"),
        "nthread" => set_threads(context, 1),
        "" => Err(parameter("expected open, close or nthread")),
        other => Err(Refused(VsiCode::NotImplemented, format!("net2vbs has no {other}"))),
    }
}

fn threads(context: &Context<'_>, of: usize) -> Stepped {
    let (first, second) = context.runtime.chunk_threads[of];
    Ok(Step::Reply(context.reply(VsiCode::Done).field(first).field(second)))
}

fn set_threads(context: &mut Context<'_>, of: usize) -> Stepped {
    let (first, second) = context.runtime.chunk_threads[of];
    let number = |text: &str, or: u32| match text {
        "" => Ok(or),
        _ => digits(text)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0)
            .ok_or_else(|| parameter(format!("expected numbers of threads such as 1, got {text}"))),
    };
    let numbers = (number(context.request.field(1), first)?, number(context.request.field(2), second)?);
    context.runtime.chunk_threads[of] = numbers;
    context.done()
}
