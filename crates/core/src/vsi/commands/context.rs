//! What commands are carried out with, and what follows from them.

use crate::placement::Nanos;
use crate::vsi::errors::VsiErrors;
pub(super) use crate::vsi::errors::{ERROR_ENDED, ERROR_NOT_STARTED, ERROR_TRANSFER};
use crate::vsi::line::VsiRequest;
use crate::vsi::reply::{VsiCode, VsiDialect, VsiReply};
use crate::vsi::runtime::{Arriving, Transferring, VsiRuntime};
use crate::vsi::view::{VsiAction, VsiView};
use std::collections::BTreeSet;

/// What a request is carried out with.
pub(in crate::vsi) struct Context<'a> {
    pub(in crate::vsi) dialect: VsiDialect,
    pub(in crate::vsi) runtime: &'a mut VsiRuntime,
    pub(in crate::vsi) errors: &'a mut VsiErrors,
    pub(in crate::vsi) next_recording: &'a mut u64,
    pub(in crate::vsi) unsettled: &'a mut BTreeSet<u64>,
    pub(in crate::vsi) view: &'a VsiView,
    pub(in crate::vsi) now: Nanos,
    pub(in crate::vsi) request: &'a VsiRequest,
}

/// What follows from a request, or from an outcome.
pub(in crate::vsi) enum Step {
    Reply(VsiReply),
    Act(VsiAction, Pending),
}

/// What the outcome of an action means.
#[derive(Clone, Debug)]
pub(in crate::vsi) enum Pending {
    Start(Starting),
    Stop,
    Check,
    /// The bytes that the file must have.
    CheckFile(u64),
    Select(Selection),
    Connect(Transferring),
    Send((u64, u64)),
    Disconnect,
    Accept(Arriving),
    AcceptBlocks(Starting),
    EndArrival,
}

/// A request that is refused: the code, and why.
pub(super) struct Refused(pub(super) VsiCode, pub(super) String);

pub(super) type Stepped = Result<Step, Refused>;

/// A recording that is to begin.
#[derive(Clone, Debug)]
pub(in crate::vsi) struct Starting {
    pub(super) id: u64,
    /// The label that was asked for.
    pub(super) base: String,
    /// Which of its variants is tried: 0 is the label itself.
    pub(super) variant: usize,
}

/// A scan and the range that is to be selected of it.
#[derive(Clone, Debug)]
pub(in crate::vsi) struct Selection {
    pub(super) label: String,
    pub(super) start: String,
    pub(super) end: String,
}

impl Context<'_> {
    pub(super) fn finish(&self, stepped: Stepped) -> Step {
        stepped.unwrap_or_else(|Refused(code, why)| Step::Reply(self.reply(code).message(&why)))
    }

    pub(super) fn reply(&self, code: VsiCode) -> VsiReply {
        VsiReply::of(self.dialect, &self.request.keyword, self.request.query, code)
    }

    pub(super) fn done(&self) -> Stepped {
        Ok(Step::Reply(self.reply(VsiCode::Done)))
    }

    pub(super) fn query_only(&self) -> Result<(), Refused> {
        match self.request.query {
            true => Ok(()),
            false => Err(Refused(VsiCode::NotImplemented, "only a query".into())),
        }
    }

    /// Settings of a recording cannot be changed while it runs.
    pub(super) fn idle_only(&self) -> Result<(), Refused> {
        match self.runtime.running(self.view).filter(|_| !self.runtime.is_stopping) {
            None => Ok(()),
            Some(recording) => {
                let why = format!("recording {}", recording.label);
                Err(Refused(VsiCode::Conflict, why))
            }
        }
    }

    /// A runtime does one thing at a time.
    pub(super) fn free_only(&self) -> Result<(), Refused> {
        self.idle_only()?;
        if let Some(transfer) = self.runtime.transferring(self.view) {
            return Err(Refused(VsiCode::Conflict, format!("sending {} already", transfer.label)));
        }
        if let Some(arriving) = self.runtime.open_arrival(self.view) {
            return Err(Refused(VsiCode::Conflict, format!("{} is open already", arriving.keyword)));
        }
        Ok(())
    }

    /// What is written to all disks cannot be begun while only some are selected.
    pub(super) fn all_disks_only(&self) -> Result<(), Refused> {
        let selected = self.view.selected(&self.runtime.disks).count();
        match self.view.selects_disks || selected == self.view.disks.len() {
            true => Ok(()),
            false => Err(Refused(VsiCode::NotImplemented, "recordings use all disks of this station".into())),
        }
    }

    /// Data go to and come from other hosts by TCP.
    pub(super) fn tcp_only(&self) -> Result<(), Refused> {
        match self.runtime.protocol {
            "tcp" => Ok(()),
            other => {
                let why = format!("data are sent by tcp, {other} is not implemented: net_protocol=tcp");
                Err(Refused(VsiCode::NotImplemented, why))
            }
        }
    }

    /// A number for a recording, a transfer or an arrival.
    pub(super) fn number(&mut self) -> u64 {
        *self.next_recording += 1;
        *self.next_recording - 1
    }
}

pub(super) fn parameter(why: impl Into<String>) -> Refused {
    Refused(VsiCode::Parameter, why.into())
}

/// What an outcome that no request expects is answered with.
pub(super) fn unexpected() -> Refused {
    Refused(VsiCode::Indeterminate, "the station gave no answer to this request".into())
}
