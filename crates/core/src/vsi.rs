//! VSI-S, the protocol by which the NASA Field System, m5copy and people at a terminal control a recorder.
//!
//! ```text
//!   bytes ──VsiLines──▶ line ──▶ ┌─────────────┐ ──Reply──▶ client
//!                                │ VsiDialogue │ ──Do─────▶ station: start, stop, inspect
//!                VsiView ──────▶ └─────────────┘ ◀─outcome─ station
//!                                  VsiRuntimes (shared by all dialogues: settings, errors)
//! ```
//!
//! One line is one or several requests, and is answered by one line. A dialogue answers from a [`VsiView`] of the station, without
//! waiting; what takes time is an action, whose outcome the caller reports. So every dialogue can be played without a socket:
//!
//! ```
//! use skyhaul_core::placement::Nanos;
//! use skyhaul_core::vsi::*;
//! let mut lines = VsiLines::default();
//! let (mut dialogue, mut shared) = (VsiDialogue::new(1), VsiRuntimes::default());
//! let (view, now) = (VsiView::default(), Nanos(0));
//! let mut outputs = Vec::new();
//! lines.push(b"mode=VDIF_8000-8192-64-2; record=on:n26c3_mh_no0001\n", |line| {
//!     outputs.extend(dialogue.handle_line(&line, &mut shared, &view, now));
//! });
//! let [VsiOutput::Do(VsiAction::Start(options))] = &outputs[..] else { panic!() };
//! assert_eq!((&options.label[..], options.frame_bytes), ("n26c3_mh_no0001", Some(8032)));
//! // The station is ready for the first packet.
//! let outputs = dialogue.handle_done(VsiOutcome::Started, &mut shared, &view, now);
//! assert_eq!(outputs, [VsiOutput::Reply("!mode = 0 ;!record = 0 ;\n".into())]);
//! ```
//!
//! Any bytes lead to answers with a [`VsiCode`], in bounded memory. The commands, and what is not implemented:
//! `docs/reference/vsi-s.md`. VSI-S has no authentication: the caller decides who may send lines.

mod chunk_exchange;
mod commands;
mod datastream;
mod dialogue;
mod errors;
mod line;
mod mode;
mod reply;
mod runtime;
#[cfg(test)]
mod tests;
mod view;

pub use chunk_exchange::{
    ChunkHead, ChunkName, MAX_CHUNK_HEAD_BYTES, MAX_CHUNK_LIST_BYTES, MAX_EXCHANGED_BYTES, NotAChunkHead,
    chunk_list, parse_chunk_list,
};
pub use datastream::{MAX_DATASTREAMS, VsiDatastream, VsiMatch};
pub use dialogue::{MAX_WAITING_REQUESTS, VsiDialogue, VsiDialogueCounts, VsiOutput};
pub use errors::{ERROR_ENDED, ERROR_NOT_STARTED, ERROR_TRANSFER, MAX_PENDING_ERRORS, VsiError, VsiErrors};
pub use line::{MAX_LINE_BYTES, NotARequest, VsiLine, VsiLines, VsiRequest};
pub use mode::{ModeError, VsiMode, VsiPackets};
pub use reply::{MAX_REPLY_BYTES, VsiCode, VsiDialect, VsiReply};
pub use runtime::{DEFAULT_DATA_PORT, DEFAULT_RUNTIME, MAX_RUNTIME_NAME_BYTES, MAX_RUNTIMES, VsiRuntimes};
pub use view::{
    VsiAcceptOptions, VsiAccepted, VsiAction, VsiArrival, VsiBlocks, VsiConnectOptions, VsiCounts, VsiDisk,
    VsiExisting, VsiFileWrite, VsiOutcome, VsiPort, VsiRecordOptions, VsiRecording, VsiScan, VsiScanFacts,
    VsiSource, VsiTransfer, VsiTransferState, VsiView,
};
