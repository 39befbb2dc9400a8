//! Settings of a flow.

use skyhaul_io::quantity::Size;
use skyhaul_io::tcp::tune::{set_congestion, set_receive_buffer, set_send_buffer};
use std::io;
use std::net::TcpStream;

/// Give a flow its window and its congestion control.
pub(super) fn tune(stream: &TcpStream, window: Option<u64>, congestion: Option<&str>) -> io::Result<()> {
    if let Some(bytes) = window {
        let size = Size::from_bytes(bytes);
        set_send_buffer(stream, size);
        set_receive_buffer(stream, size);
    }
    if let Some(name) = congestion {
        set_congestion(stream, name)?;
    }
    Ok(())
}
