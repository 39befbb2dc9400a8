//! A range of a scan as a file of a server of etransfer, as `disk2etransfer` of jive5ab sends it.
//!
//! ```text
//!   write-file ─▶ what it has ─▶ pieces behind that ─▶ pace, pause ─▶ data channel ─▶ `y` ─▶ read-file: as long as here?
//! ```
//!
//! It is complete when the server has confirmed all bytes, and says that it has as many as the range. What a transfer that ends early has sent stays
//! with the server, where [`UploadMode::Resume`](skyhaul_core::etransfer::UploadMode) continues it. etransfer has no checksums: of a file that is there, the length is compared.

use super::reading::{FromDisks, Wanted};
use super::{Early, MAX_ADDRESSES, Pacing, SEND_BYTES, STALL_TIMEOUT, Sending, ask, out_of_turn, range_of};
use crate::etransfer_copy::session::{Session, Wire, WrittenFile};
use skyhaul::core::placement::Nanos;
use skyhaul::recording::RangePiece;
use skyhaul_core::etransfer::DataHeader;
use skyhaul_core::station::{EtransferWrite, TransferEvent};
use skyhaul_transfer::copy::FetchError;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

impl From<FetchError> for Early {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Over => Self::Stopped,
            FetchError::Final(why) | FetchError::Busy(why, _) | FetchError::Broken(why) => Self::Failed(why),
        }
    }
}

impl Sending {
    /// Sends a range of the scan to a file of a server. Returns whether parts of the scan are missing.
    pub(super) fn upload(
        &mut self,
        write: EtransferWrite,
        wanted: &Sender<Wanted>,
        from_disks: &Receiver<FromDisks>,
    ) -> Result<bool, Early> {
        let FromDisks::Opened(size_bytes) = self.next(from_disks)? else { return Err(out_of_turn()) };
        let (from, to) = range_of(write.from, write.to, size_bytes)?;
        let control = Arc::clone(&self.control);
        let is_over = || control.is_stopped();
        let (mut session, path) = (self.session(&is_over)?, self.plan.request.path.clone());
        let opened = session.write_file((&path, to - from), write.mode, &is_over)?;
        let WrittenFile { begun, have } = match opened {
            Some(opened) if opened.have < to - from => opened,
            // It is kept, or whole.
            other => {
                self.tell(TransferEvent::Writing { size_bytes, range: (to, to) });
                return match other {
                    Some(whole) => Ok(session.remove(&whole.begun, &is_over).map(|()| false)?),
                    None => Ok(false),
                };
            }
        };
        let from = from + have;
        self.tell(TransferEvent::Writing { size_bytes, range: (from, to) });
        ask(wanted, Wanted::Range(from, to))?;
        let head = DataHeader { uuid: begun.uuid.clone(), bytes: to - from, is_push: false };
        let mut wire = session.channel(&head, &is_over)?;
        let has_gaps = self.pieces(&mut wire, from_disks, &is_over)?;
        wire.confirm(&is_over)?;
        session.remove(&begun, &is_over)?;
        session.verify(&path, to - from + have, &is_over)?;
        Ok(has_gaps)
    }

    fn session(&self, is_over: &dyn Fn() -> bool) -> Result<Session, Early> {
        let (host, port) = (self.plan.request.host.as_str(), self.plan.request.port);
        let unknown = |error: std::io::Error| Early::Failed(format!("the address of {host}: {error}"));
        let addresses: Vec<_> =
            (host, port).to_socket_addrs().map_err(unknown)?.take(MAX_ADDRESSES).collect();
        Ok(Session::open(host, &addresses, STALL_TIMEOUT, is_over)?)
    }

    fn pieces(
        &mut self,
        wire: &mut Wire,
        from_disks: &Receiver<FromDisks>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, Early> {
        let mut pacing = Pacing::new();
        loop {
            let piece = match self.next(from_disks)? {
                FromDisks::Piece(piece) => piece,
                FromDisks::End { has_gaps } => return Ok(has_gaps),
                _ => return Err(out_of_turn()),
            };
            self.counts.read_bytes += piece.len() as u64;
            if let RangePiece::Fill(fill) = &piece {
                self.counts.filled_bytes += fill.len() as u64;
            }
            for part in piece.chunks(SEND_BYTES) {
                self.wait_for_turn(&mut pacing)?;
                wire.write(part, is_over)?;
                self.counts.sent_bytes += part.len() as u64;
                pacing.pacer.sent(part.len() as u64, Nanos::from(pacing.begun.elapsed()));
                self.show_progress();
            }
        }
    }
}
