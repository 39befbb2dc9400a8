//! Settings of a flow, and the memory of an end.

use super::budget::Account;
use super::options::Tuning;
use skyhaul_io::fifo::Fifo;
use skyhaul_io::memory::{Block, Pool, PoolOptions};
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

/// Memory of an end with so many flows, charged to its account, and all of it touched.
pub(super) fn blocks(tuning: &Tuning, flows: usize, account: &Account) -> io::Result<(Pool, Fifo<Block>)> {
    let block_bytes = tuning.range as usize;
    let total_bytes = (block_bytes * tuning.blocks(flows)) as u64;
    account.charge(total_bytes)?;
    let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
    pool.wait_until_touched()?;
    let empty = Fifo::default();
    std::iter::from_fn(|| pool.take()).for_each(|block| empty.push(block));
    Ok((pool, empty))
}
