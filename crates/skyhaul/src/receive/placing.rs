//! What of a stream is compiled for its format: the way of its packets from the wire to their places.
//!
//! ```text
//!   Engine ── one virtual call for each train ──▶ Placed<L> ── L::place, inlined, for each packet ──▶ Stream
//! ```
//!
//! A stream's layout is chosen once, when it begins ([`Visit`]), as the type it is; nothing behind that names a format or
//! asks for it again.

use super::stream::{Around, Part, Stream};
use skyhaul_core::placement::{Layout, Reject};
use skyhaul_core::wire::{StreamFormat, Visit};
use skyhaul_io::source::Train;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

/// Places packets by one kind of layout.
pub(super) trait Placing: Debug + Send {
    /// Put the packets of a train where they belong.
    fn train(&self, stream: &mut Stream, train: &Train<'_>, around: &mut Around<'_>);
    /// Put one packet where it belongs.
    fn packet(&self, stream: &mut Stream, packet: &[u8], around: &mut Around<'_>);
    /// The next part that is finished.
    fn poll_part(&self, stream: &mut Stream) -> Option<Part>;
}

#[derive(Debug)]
struct By<L>(L);

impl<L: Layout + Debug + Send> Placing for By<L> {
    fn train(&self, stream: &mut Stream, train: &Train<'_>, around: &mut Around<'_>) {
        for packet in train.packets() {
            stream.packet(&self.0, packet, around);
        }
    }

    fn packet(&self, stream: &mut Stream, packet: &[u8], around: &mut Around<'_>) {
        stream.packet(&self.0, packet, around);
    }

    fn poll_part(&self, stream: &mut Stream) -> Option<Part> {
        stream.poll_part(&self.0)
    }
}

/// How the packets of such a stream are placed.
pub(super) fn of(format: &StreamFormat) -> Result<Box<dyn Placing>, Reject> {
    struct Chosen;
    impl Visit for Chosen {
        type Out = Box<dyn Placing>;
        fn visit<L: Layout + Debug + Send + Sync + 'static>(self, layout: L) -> Self::Out {
            Box::new(By(layout))
        }
    }
    format.visit(Chosen)
}

/// A stream and the way of its packets.
#[derive(Debug)]
pub(super) struct Placed {
    stream: Stream,
    placing: Box<dyn Placing>,
}

impl Placed {
    pub(super) fn new(stream: Stream, placing: Box<dyn Placing>) -> Self {
        Self { stream, placing }
    }

    /// Put the packets of a train where they belong.
    #[inline]
    pub(super) fn train(&mut self, train: &Train<'_>, around: &mut Around<'_>) {
        self.placing.train(&mut self.stream, train, around);
    }

    /// Put one packet where it belongs.
    #[inline]
    pub(super) fn packet(&mut self, packet: &[u8], around: &mut Around<'_>) {
        self.placing.packet(&mut self.stream, packet, around);
    }

    /// The next part that is finished.
    #[inline]
    pub(super) fn poll_part(&mut self) -> Option<Part> {
        if !self.stream.has_part() {
            return None;
        }
        self.placing.poll_part(&mut self.stream)
    }
}

impl Deref for Placed {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl DerefMut for Placed {
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}
