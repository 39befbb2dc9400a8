//! What is kept of a connection whose packets come in pieces.

use super::super::cut::{Cutter, Rules};
use crate::{tcp::port::READ, udp::set_option};
use std::{net::TcpStream, os::fd::AsFd};

/// Bytes of a long body that are worth being woken for.
const GATHER: i32 = 128 << 10;

pub(super) struct Way {
    pub(super) cutter: Cutter,
    /// Bytes the next read asks for.
    pub(super) most: usize,
    /// Whether the kernel reports it only when [`GATHER`] bytes are there.
    pub(super) gathers: bool,
}

impl Way {
    pub(super) fn new(rules: &Rules) -> Self {
        Self { cutter: Cutter::new(rules), most: READ, gathers: false }
    }

    /// Within a long body nobody waits for its next bytes: many at once save wakings. Where its end is near, or
    /// short packets come, each byte is reported.
    pub(super) fn gather(&mut self, stream: &TcpStream) {
        let gathers = self.cutter.body().is_some_and(|(_, _, left)| left >= GATHER as u64);
        if gathers != self.gathers {
            let bytes = if gathers { GATHER } else { 1 };
            // Without it, it is only slower.
            let _ = set_option(stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes);
            self.gathers = gathers;
        }
    }
}
