//! Tests whether this kernel segments trains correctly.
//!
//! Some kernels (7.0 until fixes in 7.1) corrupt a `UDP_SEGMENT` train whose last packet is as long as the others, which
//! is the usual case with telescope formats. So before the first train of a process, a few go over the loopback to a
//! socket without GRO, and every byte is compared. It takes well under a millisecond.
//!
//! Limits: the loopback does not segment in hardware; faults of a device cause wrong checksums at the receiver
//! (`--verify` with the pattern payload checks a path end to end).

use super::open::set;
use super::submit::{Packets, SendMode, submit};
use crate::gathered::{Extent, Gathered};
use crate::lock::lock;
use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    os::fd::AsFd,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// The outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelfTest {
    /// Every packet arrived intact.
    Passed,
    /// A packet differed, or the kernel refused; with the reason.
    Failed(String),
    /// The test was not possible: no loopback in this network namespace.
    Untried(String),
}

/// Packets in a train and their length: short and many, MTU 1500 filled, jumbo.
const TRAINS: [(usize, usize); 3] = [(64, 100), (44, 1472), (7, 8972)];

/// The result, once known. Locked during the test.
static OUTCOME: Mutex<Option<&'static SelfTest>> = Mutex::new(None);

/// Test once per process; the result is cached.
pub fn gso_self_test() -> &'static SelfTest {
    hold_self_test().get_or_insert_with(|| {
        let v4 = over(Ipv4Addr::LOCALHOST.into());
        let outcome = if matches!(v4, SelfTest::Untried(_)) { over(Ipv6Addr::LOCALHOST.into()) } else { v4 };
        Box::leak(Box::new(outcome))
    })
}

/// Keeps a test from running while this is held: before a fork, because the child would wait for a test thread that it
/// does not have.
pub fn hold_self_test() -> MutexGuard<'static, Option<&'static SelfTest>> {
    lock(&OUTCOME)
}

fn over(loopback: IpAddr) -> SelfTest {
    let sockets = || -> io::Result<(UdpSocket, UdpSocket)> {
        let (to, from) = (UdpSocket::bind((loopback, 0))?, UdpSocket::bind((loopback, 0))?);
        to.set_read_timeout(Some(Duration::from_millis(500)))?;
        // Enough for a train of small packets with the kernel's overhead; capped silently by rmem_max.
        set(to.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &(1i32 << 20))?;
        from.connect(to.local_addr()?)?;
        Ok((to, from))
    };
    let (to, from) = match sockets() {
        Ok(pair) => pair,
        Err(error) => return SelfTest::Untried(format!("{loopback}: {error}")),
    };
    for (count, length) in TRAINS {
        if let Err(why) = one_train(&to, &from, count, length) {
            return SelfTest::Failed(format!("{count} packets of {length} bytes: {why}"));
        }
    }
    SelfTest::Passed
}

fn one_train(to: &UdpSocket, from: &UdpSocket, count: usize, length: usize) -> Result<(), String> {
    let bytes: Vec<u8> = (0..count * length).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    let slices: Vec<IoSlice<'_>> = bytes.chunks(length).map(IoSlice::new).collect();
    let extents: Vec<Extent> =
        slices.iter().enumerate().map(|(first, slice)| Extent { first, bytes: slice.len() }).collect();
    let packets = Packets(Gathered::new(&slices, &extents));
    let (groups, n) = packets.cut(0, SendMode::Gso);
    submit(from.as_fd(), packets, &groups[..n], None, true).map_err(|e| format!("refused: {e}"))?;
    let source = from.local_addr().map_err(|e| e.to_string())?;
    let mut packet = vec![0; 65_536];
    for (n, expected) in bytes.chunks(length).enumerate() {
        let (got, sender) =
            to.recv_from(&mut packet).map_err(|e| format!("packet {n} did not arrive: {e}"))?;
        if packet[..got] != *expected || sender != source {
            return Err(format!("packet {n} arrived altered"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_passes_or_says_why() {
        match gso_self_test() {
            SelfTest::Passed => {}
            other => eprintln!("SKIPPED: segmentation is not usable here: {other:?}"),
        }
        assert!(matches!(over("192.0.2.1".parse().unwrap()), SelfTest::Untried(_)));
    }
}
