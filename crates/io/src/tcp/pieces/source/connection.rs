//! One connection of a source.

use super::super::cut::Cutter;
use crate::udp::set_option;
use std::{
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
};

/// Bytes of a long body that are worth being woken for.
const GATHER: i32 = 128 << 10;

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) sender: SocketAddr,
    pub(super) cutter: Cutter,
    /// Bytes the next read asks for.
    pub(super) most: usize,
    /// Whether the kernel reports it only when [`GATHER`] bytes are there.
    pub(super) gathers: bool,
}

impl Connection {
    /// Within a long body nobody waits for its next bytes: many at once save wakings. Where its end is near, or
    /// short packets come, each byte is reported.
    pub(super) fn gather(&mut self) {
        let gathers = self.cutter.body().is_some_and(|(_, _, left)| left >= GATHER as u64);
        if gathers != self.gathers {
            let bytes = if gathers { GATHER } else { 1 };
            // Without it, it is only slower.
            let _ = set_option(self.stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes);
            self.gathers = gathers;
        }
    }
}
