//! The keywords, and what each of them does.
//!
//! A command answers immediately, or names an action and what its outcome means ([`Pending`]). What the field's programs know and this
//! station does not do is answered with code 2; any other keyword with code 7.

mod arrival;
mod blocks;
mod chunks;
mod context;
mod disk2etransfer;
mod disk2file;
mod file_check;
mod input;
mod mark6;
mod numbers;
mod record;
mod scan;
mod state;
mod transfer;

use context::ERROR_TRANSFER;
pub(super) use context::{Context, Pending, Step};

use super::reply::{VsiCode, VsiDialect};
use super::view::{VsiOutcome, VsiSource};
use context::Refused;

/// Keywords of the field that this station knows and does not carry out.
const NOT_IMPLEMENTED: [&str; 52] = [
    "1pps_source",
    "ack",
    "bank_info",
    "bank_set",
    "bank_switch",
    "bufsize",
    "constraints",
    "data_check",
    "dbglev",
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
    "net2mem",
    "net2out",
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
    "vsn",
];

/// Carries out a request.
pub(super) fn carry_out(context: &mut Context<'_>) -> Step {
    if context.dialect == VsiDialect::Mark6 {
        let stepped = mark6::carry_out(context);
        return context.finish(stepped);
    }
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
        "disk2etransfer" => disk2etransfer::disk2etransfer(context),
        "disk2file" => disk2file::disk2file(context),
        "file_check" => file_check::file_check(context),
        "disk2net" => transfer::as_one_file(context, VsiSource::Scan),
        "file2net" => transfer::as_one_file(context, VsiSource::File),
        "vbs2net" => chunks::vbs2net(context),
        "net2vbs" => chunks::net2vbs(context),
        "net2disk" => record::net2disk(context),
        "net2file" => arrival::net2file(context),
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
        Pending::Check if context.dialect == VsiDialect::Mark6 => mark6::checked(context, outcome),
        Pending::Check => scan::checked(context, outcome),
        Pending::CheckFile(bytes) => file_check::checked(context, bytes, outcome),
        Pending::Select(selection) => scan::selected(context, &selection, outcome),
        Pending::Connect(held) => transfer::connecting(context, held, outcome),
        Pending::Send(range) => transfer::sending(context, range, outcome),
        Pending::Disconnect => transfer::disconnected(context, outcome),
        Pending::AcceptBlocks(starting) => blocks::accepting(context, starting, outcome),
        Pending::Accept(arriving) => arrival::accepting(context, arriving, outcome),
        Pending::EndArrival => arrival::ended(context, outcome),
    };
    context.finish(stepped)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_is_in_order() {
        assert!(super::NOT_IMPLEMENTED.is_sorted());
    }
}
