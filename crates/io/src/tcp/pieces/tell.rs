//! What was cut, counted and reported.

use super::{
    End, Piece, PieceEvent, PieceSink, PieceStats,
    cut::{Cutter, Told},
};
use std::{io, net::SocketAddr};

impl PieceStats {
    /// Count bytes of a body that were read directly into the sink's memory.
    pub(super) fn direct(&mut self, cutter: &mut Cutter, bytes: usize) {
        let Some((head, at, _)) = cutter.body().filter(|_| bytes > 0) else { return };
        self.pieces += 1;
        self.bytes += bytes as u64;
        self.begins(head, at);
        self.told += bytes as u64;
        if let Some(packet) = cutter.filled(bytes as u64) {
            self.packets += 1;
            self.packet_bytes += packet;
        }
    }

    /// The head is delivered with the beginning of the body.
    fn begins(&mut self, head: &[u8], at: u64) {
        if at == 0 {
            self.heads += head.len() as u64;
            self.told += head.len() as u64;
        }
    }

    /// Count a piece that was taken.
    fn piece(&mut self, piece: &Piece<'_>) {
        self.pieces += 1;
        self.begins(piece.head, piece.at);
        self.told += piece.bytes.len() as u64;
        if piece.is_last() {
            self.packets += 1;
            self.packet_bytes += piece.head.len() as u64 + piece.body;
        }
    }

    /// Count the end of a connection: closed by the sender or broken by this error, within a packet or not.
    pub(super) fn ended(&mut self, error: Option<io::Error>, within: bool) -> End {
        let (how, count) = match error.map(|e| e.raw_os_error()) {
            None if within => (End::MidPacket, &mut self.mid_packet),
            None => (End::Orderly, &mut self.orderly),
            Some(Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH)) => {
                (End::TimedOut, &mut self.timed_out)
            }
            Some(_) => (End::Reset, &mut self.resets),
        };
        *count += 1;
        how
    }
}

/// Report to the sink what was cut, and count it if it is taken.
pub(super) fn tell(
    told: Told<'_>,
    (connection, sender): (u64, &SocketAddr),
    stats: &mut PieceStats,
    sink: &mut dyn PieceSink,
) -> bool {
    match told {
        Told::Piece { head, at, body, bytes } => {
            let piece = Piece { sender, connection, head, at, body, bytes };
            let taken = sink.offer(&piece);
            if taken {
                stats.piece(&piece);
            }
            taken
        }
        other => {
            told_at_last(other, (connection, sender), stats, sink);
            true
        }
    }
}

/// The same, where the sink cannot decline.
pub(super) fn told_at_last(
    told: Told<'_>,
    (connection, sender): (u64, &SocketAddr),
    stats: &mut PieceStats,
    sink: &mut dyn PieceSink,
) {
    match told {
        Told::Piece { head, at, body, bytes } => {
            let piece = Piece { sender, connection, head, at, body, bytes };
            stats.piece(&piece);
            sink.event(PieceEvent::Piece(piece));
        }
        Told::Lost => stats.lost += 1,
        Told::Skipped { bytes, found } => {
            stats.skipped += bytes;
            stats.found += u64::from(found);
            sink.event(PieceEvent::Skipped { connection, bytes });
        }
    }
}
