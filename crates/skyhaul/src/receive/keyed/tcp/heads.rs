//! The source of the pieces: its options, and how the heads of a family's packets are found in a stream of bytes.

use crate::receive::keyed::config::TcpReaderOptions;
use skyhaul_core::wire::keyed::{Head, Keyed};
use skyhaul_io::tcp::pieces::{Found, Heads, PieceOptions};
use std::marker::PhantomData;

/// The heads of a family's packets in a stream of bytes.
struct HeadsOf<W>(PhantomData<W>);

impl<W: Keyed> Heads for HeadsOf<W> {
    fn find(&self, bytes: &[u8]) -> Found {
        match W::peek(bytes) {
            Ok(None) => Found::More,
            Ok(Some(head)) => {
                let place = head.placement(0);
                Found::Packet { head: place.start as usize, body: place.length }
            }
            Err(_) => Found::Garbage,
        }
    }

    fn longest_head(&self) -> usize {
        W::LONGEST_HEAD
    }

    fn magic(&self) -> &[u8] {
        W::MAGIC
    }
}

/// Options of the source.
pub(super) fn options(config: &TcpReaderOptions, largest: u64) -> PieceOptions {
    PieceOptions {
        longest_body: largest.max(4 << 30),
        accept: config.connections,
        connections: config.at_once,
        keepalive: config.keepalive,
        ..PieceOptions::default()
    }
}

/// The reader of the heads.
pub(super) fn heads<W: Keyed>() -> Box<dyn Heads> {
    Box::new(HeadsOf::<W>(PhantomData))
}
