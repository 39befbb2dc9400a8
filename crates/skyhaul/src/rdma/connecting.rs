//! The beginning and the end of a client's connection, each within a time.

use super::address::RdmaAddress;
use super::driver::{Attempt, Driver};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{ClosedBy, RdmaEvent, RegionRights};
use std::io;
use std::time::{Duration, Instant};

/// Bytes handed out before the socket is read.
const TURN_BYTES: u64 = 256 << 10;
/// Longest wait for a stream's confirmations.
const CONFIRMING: Duration = Duration::from_millis(1);

/// A region of a peer, as its accept describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteRegion {
    pub(super) connection: u32,
    pub(super) stag: u32,
    pub(super) bytes: u64,
    pub(super) rights: RegionRights,
    /// The longest datagram or frame on the way there.
    pub(super) datagram_bytes: u16,
}

pub(super) fn failed(kind: io::ErrorKind, text: String) -> io::Error {
    io::Error::new(kind, text)
}

/// Connects, and learns of the region.
///
/// # Errors
/// The peer does not answer in time, or has no such region.
pub(super) fn connect(driver: &mut Driver, to: &RdmaAddress, attempt: &Attempt) -> io::Result<RemoteRegion> {
    let Some(region) = &to.region else {
        let text = format!("{to} names no region{}", Hint("add it to the address, like /vis"));
        return Err(failed(io::ErrorKind::InvalidInput, text));
    };
    to.endpoint.check_destination()?;
    let deadline = driver.now().plus(Nanos::from(attempt.left()));
    let peer = to.endpoint.address;
    let asked = driver.with(|endpoint, context| endpoint.connect(peer, region.as_bytes(), deadline, context));
    let connection = asked.map_err(|why| io::Error::other(format!("connect {to}: {}", why.name())))?;
    driver.use_stream(connection);
    loop {
        driver.send(TURN_BYTES);
        driver.receive(Duration::from_millis(20))?;
        if attempt.stop.is_set() {
            return Err(failed(io::ErrorKind::Interrupted, format!("interrupted while connecting {to}")));
        }
        while let Some(event) = driver.endpoint.poll_event() {
            match event {
                RdmaEvent::Connected { private, .. } => {
                    driver.send(TURN_BYTES);
                    let path = driver.endpoint.path_of(connection).map_or(0, |(bytes, _)| bytes);
                    return described(connection, &private, path).ok_or_else(|| {
                        let text = format!("connect {to}: the peer's answer does not describe a region");
                        failed(io::ErrorKind::InvalidData, text)
                    });
                }
                RdmaEvent::Closed { by: ClosedBy::Rejected, .. } => {
                    let text = format!(
                        "{to}: rejected{}",
                        Hint(
                            "the peer has no region of this name, or takes no more connections: see its --region and --connections"
                        )
                    );
                    return Err(failed(io::ErrorKind::ConnectionRefused, text));
                }
                RdmaEvent::Closed { by: ClosedBy::Silence, .. } => {
                    let text = format!(
                        "{to}: no answer within {:?}{}",
                        attempt.patience,
                        Hint(if driver.is_stream() {
                            "something listens there that is not `skyhaul rdma serve`, or is busy"
                        } else {
                            "start `skyhaul rdma serve` there, and check firewalls for UDP"
                        })
                    );
                    return Err(failed(io::ErrorKind::TimedOut, text));
                }
                RdmaEvent::Closed { by, .. } => {
                    let text = format!(
                        "{to}: the connection ended before it was accepted: {}{}",
                        by.name(),
                        Hint("check that `skyhaul rdma serve` listens there, and not another program")
                    );
                    return Err(failed(io::ErrorKind::ConnectionReset, text));
                }
                _ => {}
            }
        }
    }
}

/// STag, length and rights, from the private data of an accept.
fn described(connection: u32, private: &[u8], datagram_bytes: u16) -> Option<RemoteRegion> {
    let (stag, rest) = private.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_first_chunk::<8>()?;
    let [rights] = rest else { return None };
    let [read, write, invalidate] = [1, 2, 4].map(|bit| rights & bit != 0);
    let rights = RegionRights { read, write, invalidate };
    Some(RemoteRegion {
        connection,
        stag: u32::from_be_bytes(*stag),
        bytes: u64::from_be_bytes(*bytes),
        rights,
        datagram_bytes,
    })
}

/// Wait until the peer's host has confirmed all that was written to its stream (TCP), or the connection has ended, or nothing was
/// confirmed for `patience`. Returns why it ended, if it did.
pub(super) fn drain(
    driver: &mut Driver,
    connection: u32,
    patience: Duration,
) -> io::Result<Option<ClosedBy>> {
    let mut last = (driver.confirming(connection), Instant::now());
    while let Some(confirmed) = driver.confirming(connection) {
        if last.0 != Some(confirmed) {
            last = (Some(confirmed), Instant::now());
        }
        if last.1.elapsed() >= patience {
            break;
        }
        driver.send(TURN_BYTES);
        driver.receive(CONFIRMING)?;
        while let Some(event) = driver.endpoint.poll_event() {
            if let RdmaEvent::Closed { by, .. } = event {
                return Ok(Some(by));
            }
        }
    }
    Ok(None)
}

/// Close, and wait so long for the peer's word. Returns why the connection ended.
pub(super) fn close(driver: &mut Driver, connection: u32, patience: Duration) -> io::Result<ClosedBy> {
    let deadline = driver.now().plus(Nanos::from(patience));
    // Unless the peer has closed it in the meantime: then its end is the next event.
    let _ = driver.endpoint.close(connection, deadline);
    loop {
        while let Some(event) = driver.endpoint.poll_event() {
            if let RdmaEvent::Closed { by, .. } = event {
                driver.send(TURN_BYTES);
                return Ok(by);
            }
        }
        if driver.endpoint.connections() == 0 {
            return Ok(ClosedBy::Silence);
        }
        driver.send(TURN_BYTES);
        driver.receive(Duration::from_millis(20))?;
    }
}

/// After an error the connection is closed, so that the peer does not wait for one who has gone. The error is the first.
pub(super) fn or_close<T>(
    result: io::Result<T>,
    driver: &mut Driver,
    connection: u32,
    patience: Duration,
) -> io::Result<T> {
    result.inspect_err(|_| {
        let _ = close(driver, connection, patience);
    })
}
