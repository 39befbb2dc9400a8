//! One read of one connection: into the scratch buffer, or directly into the sink's memory.

use super::{PieceSink, cut::Cutter};
use crate::tcp::port::{Got, got};
use std::{
    io::{IoSliceMut, Read},
    net::TcpStream,
};

/// Most bytes of one read into a sink's own memory.
const DIRECT: usize = 1 << 20;

/// Read the next bytes of a long body into the sink's own memory if the sink offers some, and what follows into
/// `scratch`. Returns what was read into `scratch`, and how many bytes went to the sink.
pub(super) fn read_body(
    stream: &mut TcpStream,
    cutter: &Cutter,
    mark: u64,
    sink: &mut dyn PieceSink,
    scratch: &mut [u8],
) -> (Got, usize) {
    let Some((head, at, left)) = cutter.body() else { return (Got::Nothing, 0) };
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let most = left.min(DIRECT);
    let read = match sink.room(mark, head, at, most) {
        None => return (got(stream.read(scratch)), 0),
        Some([]) => {
            sink.filled(mark, 0);
            return (got(stream.read(scratch)), 0);
        }
        Some(room) => {
            let length = room.len().min(most);
            let room = &mut room[..length];
            if length < left {
                stream.read(room).map(|n| (n, length))
            } else {
                // The body ends in this read: the same call reads what follows it.
                stream
                    .read_vectored(&mut [IoSliceMut::new(room), IoSliceMut::new(scratch)])
                    .map(|n| (n, length))
            }
        }
    };
    let (n, length) = match read {
        Ok(read) => read,
        Err(error) => {
            sink.filled(mark, 0);
            return (got(Err(error)), 0);
        }
    };
    let direct = n.min(length);
    sink.filled(mark, direct);
    (if n == 0 { Got::End(None) } else { Got::Bytes(n - direct) }, direct)
}
