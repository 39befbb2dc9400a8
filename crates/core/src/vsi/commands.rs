//! The keywords, and what each of them does.
//!
//! A command answers immediately, or names an action and what its outcome means ([`Pending`]). What the field's programs know and this
//! station does not do is answered with code 2; any other keyword with code 7.

mod input;
mod numbers;
mod record;
mod scan;
mod state;

use super::errors::VsiErrors;
use super::line::VsiRequest;
use super::reply::{VsiCode, VsiReply};
use super::runtime::VsiRuntime;
use super::view::{VsiAction, VsiOutcome, VsiView};
use crate::placement::Nanos;

/// Number of an error in `error?`: a recording could not begin.
pub const ERROR_NOT_STARTED: u32 = 1001;
/// Number of an error in `error?`: a recording ended without being asked to, or lost data.
pub const ERROR_ENDED: u32 = 1002;

/// What a request is carried out with.
pub(super) struct Context<'a> {
    pub(super) runtime: &'a mut VsiRuntime,
    pub(super) errors: &'a mut VsiErrors,
    pub(super) next_recording: &'a mut u64,
    pub(super) view: &'a VsiView,
    pub(super) now: Nanos,
    pub(super) request: &'a VsiRequest,
}

/// What follows from a request, or from an outcome.
pub(super) enum Step {
    Reply(VsiReply),
    Act(VsiAction, Pending),
}

/// What the outcome of an action means.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    Start(record::Starting),
    Stop,
    Check,
    Select(scan::Selection),
}

/// A request that is refused: the code, and why.
pub(super) struct Refused(VsiCode, String);

type Stepped = Result<Step, Refused>;

/// Keywords of the field that this station knows and does not carry out.
const NOT_IMPLEMENTED: [&str; 61] = [
    "1pps_source",
    "ack",
    "bank_info",
    "bank_set",
    "bank_switch",
    "bufsize",
    "constraints",
    "data_check",
    "dbglev",
    "disk2etransfer",
    "disk2file",
    "disk2net",
    "disk2out",
    "disk_info",
    "disk_model",
    "disk_serial",
    "disk_size",
    "disk_state",
    "disk_state_mask",
    "dot",
    "dot_inc",
    "dot_set",
    "file2check",
    "file2disk",
    "file2mem",
    "file2net",
    "file_check",
    "fill2file",
    "fill2net",
    "fill2vbs",
    "fill_pattern",
    "get_stats",
    "group_def",
    "in2file",
    "in2net",
    "itcp_id",
    "layout",
    "mem2file",
    "mem2net",
    "memstat",
    "mount",
    "net2check",
    "net2disk",
    "net2file",
    "net2mem",
    "net2out",
    "net2vbs",
    "packet",
    "personality",
    "play",
    "pointers",
    "position",
    "protect",
    "recover",
    "start_stats",
    "task_id",
    "trackmask",
    "transfermode",
    "unmount",
    "vbs2net",
    "vsn",
];

/// Carries out a request.
pub(super) fn carry_out(context: &mut Context<'_>) -> Step {
    let stepped = match context.request.keyword.as_str() {
        "status" => state::status(context),
        "error" => state::error(context),
        "evlbi" => state::evlbi(context),
        "tstat" => state::tstat(context),
        "rtime" => state::rtime(context),
        "dts_id" => state::dts_id(context),
        "os_rev" => state::os_rev(context),
        "version" => state::version(context),
        "dir_info" => state::dir_info(context),
        "mode" => input::mode(context),
        "clock_set" | "play_rate" => input::clock(context),
        "mtu" => input::mtu(context),
        "ipd" => input::packet_interval(context),
        "net_protocol" => input::net_protocol(context),
        "net_port" => input::net_port(context),
        "datastream" => input::datastream(context),
        "set_disks" => input::set_disks(context),
        "record" => record::record(context),
        "reset" => record::reset(context),
        "scan_set" => scan::scan_set(context),
        "scan_check" => scan::scan_check(context),
        "scandir" => scan::scandir(context),
        known if NOT_IMPLEMENTED.binary_search(&known).is_ok() => {
            Err(Refused(VsiCode::NotImplemented, "not implemented here".into()))
        }
        _ => Err(Refused(VsiCode::NoSuchKeyword, "no such keyword".into())),
    };
    context.finish(stepped)
}

/// Answers the request whose action had this outcome; `None`: it takes longer than the client waits.
pub(super) fn answer(context: &mut Context<'_>, pending: Pending, outcome: Option<VsiOutcome>) -> Step {
    let stepped = match pending {
        Pending::Start(starting) => record::started(context, starting, outcome),
        Pending::Stop => record::stopped(context, outcome),
        Pending::Check => scan::checked(context, outcome),
        Pending::Select(selection) => scan::selected(context, &selection, outcome),
    };
    context.finish(stepped)
}

impl Context<'_> {
    fn finish(&self, stepped: Stepped) -> Step {
        stepped.unwrap_or_else(|Refused(code, why)| Step::Reply(self.reply(code).message(&why)))
    }

    fn reply(&self, code: VsiCode) -> VsiReply {
        VsiReply::new(&self.request.keyword, self.request.query, code)
    }

    fn done(&self) -> Stepped {
        Ok(Step::Reply(self.reply(VsiCode::Done)))
    }

    fn query_only(&self) -> Result<(), Refused> {
        match self.request.query {
            true => Ok(()),
            false => Err(Refused(VsiCode::NotImplemented, "only a query".into())),
        }
    }

    /// Settings of a recording cannot be changed while it runs.
    fn idle_only(&self) -> Result<(), Refused> {
        match self.runtime.running(self.view) {
            None => Ok(()),
            Some(recording) => {
                let why = format!("recording {}", recording.label);
                Err(Refused(VsiCode::Conflict, why))
            }
        }
    }
}

fn parameter(why: impl Into<String>) -> Refused {
    Refused(VsiCode::Parameter, why.into())
}

/// What an outcome that no request expects is answered with.
fn unexpected() -> Refused {
    Refused(VsiCode::Indeterminate, "the station gave no answer to this request".into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_is_in_order() {
        assert!(super::NOT_IMPLEMENTED.is_sorted());
    }
}
