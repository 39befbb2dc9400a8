//! `record = mk6 : 1`: scans that come by TCP are written in blocks over the disks, as a Mark 6 does, for m5copy with `mk6://`.
//!
//! | request | does |
//! |---|---|
//! | `record = mk6 : 1`, `mk6 : 0`, `record? mk6` | chooses blocks or FlexBuff's chunks for the next `record = on` |
//! | `record = on : label` | listens for one connection, whose frames become blocks |
//! | `record = off` | ends it; answered when everything is on the disks |
//!
//! Packets are recorded in chunks only: blocks have no index, and no place for what is lost.

use super::arrival;
use super::context::{Context, Pending, Refused, Starting, Step, Stepped, parameter};
use crate::vsi::reply::VsiCode;
use crate::vsi::runtime::{Arriving, DEFAULT_DATA_PORT, VsiRuntime};
use crate::vsi::view::{
    VsiAcceptOptions, VsiAccepted, VsiAction, VsiBlocks, VsiDisk, VsiOutcome, VsiPort, VsiView,
};

/// The command that begins what arrives.
pub(super) const KEYWORD: &str = "record";
/// Size of a block, unless `net_protocol` sets another: that of a Mark 6.
const BLOCK_BYTES: u64 = 10_000_000;

pub(super) fn choose(context: &mut Context<'_>) -> Stepped {
    context.idle_only()?;
    context.runtime.in_blocks = match context.request.field(1) {
        "0" => false,
        "1" => true,
        _ => return Err(parameter("expected 0 or 1 after mk6")),
    };
    context.done()
}

/// Label and bytes of the scan that arrives in blocks, while it does or is closing.
pub(super) fn arriving<'a>(runtime: &'a VsiRuntime, view: &VsiView) -> Option<(&'a str, u64)> {
    let (_, arrival) = runtime.arriving(view).filter(|(held, _)| held.keyword == KEYWORD)?;
    let (_, label) = runtime.last.as_ref()?;
    Some((label, arrival.written_bytes))
}

pub(super) fn begin(context: &mut Context<'_>, base: Result<String, Refused>) -> Stepped {
    context.free_only()?;
    let base = base?;
    if context.runtime.protocol != "tcp" {
        let why = "only data by tcp are recorded in blocks of a Mark 6, packets as FlexBuff";
        return Err(Refused(VsiCode::NotImplemented, why.into()));
    }
    let id = context.number();
    accept(context, Starting { id, base, variant: 0 })
}

/// Listens for the scan under the first label that is free, from that of `starting` on.
fn accept(context: &mut Context<'_>, mut starting: Starting) -> Stepped {
    let Some(packets) = context.runtime.mode.packets() else {
        let why = "a block has whole frames, set mode first";
        return Err(Refused(VsiCode::Conflict, why.into()));
    };
    let port = match &context.runtime.ports[..] {
        [] => VsiPort { port: DEFAULT_DATA_PORT, ..VsiPort::default() },
        [port] => port.clone(),
        _ => return Err(parameter("data arrive on one port, give one to net_port")),
    };
    let label = starting.free_label(context)?;
    let runtime = &*context.runtime;
    let block_bytes = if runtime.sizes_set.1 { runtime.work_bytes } else { BLOCK_BYTES };
    let disk = |disk: &VsiDisk| disk.path.clone();
    let disks = context.view.selected(&runtime.disks).map(disk).collect();
    let blocks = VsiBlocks { label, packets, block_bytes, disks };
    let options = VsiAcceptOptions { id: starting.id, port, what: VsiAccepted::Blocks(blocks) };
    Ok(Step::Act(VsiAction::Accept(Box::new(options)), Pending::AcceptBlocks(starting)))
}

pub(super) fn accepting(
    context: &mut Context<'_>,
    mut starting: Starting,
    outcome: Option<VsiOutcome>,
) -> Stepped {
    if outcome == Some(VsiOutcome::LabelTaken) {
        starting.variant += 1;
        return accept(context, starting);
    }
    if matches!(outcome, Some(VsiOutcome::Accepting { .. }) | None) {
        context.runtime.last = Some((starting.id, starting.label()));
    }
    arrival::accepting(context, Arriving { id: starting.id, keyword: KEYWORD }, outcome)
}

pub(super) fn end(context: &mut Context<'_>) -> Stepped {
    if let Some((_, label)) = context.runtime.last.clone() {
        context.runtime.select(&label);
    }
    arrival::close(context, KEYWORD)
}
