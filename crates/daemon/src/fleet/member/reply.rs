//! Replies of the station to requests of its member.

use crate::station::StationReply;
use skyhaul_core::fleet::StationAnswer;
use skyhaul_core::hint::split;
use skyhaul_core::station::StationRefusal;

/// A reply of the station, for the member.
pub(super) fn answer(reply: StationReply) -> StationAnswer {
    use StationRefusal as R;
    let Err(refusal) = reply else { return StationAnswer::Done };
    let reason = split(&refusal.to_string()).0.to_owned();
    match refusal {
        R::NameTaken { .. } => StationAnswer::NameTaken,
        R::InputBusy { .. }
        | R::NoMemory { .. }
        | R::NoRate { .. }
        | R::NoSpace { .. }
        | R::NoDisk { .. } => StationAnswer::Busy { reason },
        _ => StationAnswer::Refused { reason },
    }
}
