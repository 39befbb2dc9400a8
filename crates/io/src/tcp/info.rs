//! The kernel's information about a TCP connection (`TCP_INFO`), as plain numbers.
//!
//! It shows what limited a sender (the peer's window, its own send buffer, or neither: [`Limited`]), and how the path
//! responded: round-trip times, retransmissions, the rate at which data were acknowledged.
//!
//! ```
//! use skyhaul_io::tcp::info::TcpInfo;
//! use std::net::{TcpListener, TcpStream};
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let stream = TcpStream::connect(listener.local_addr()?)?;
//! let info = TcpInfo::of(&stream)?;
//! assert!(info.snd_mss > 0 && info.snd_cwnd > 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The kernel's structure has grown at its end (`include/uapi/linux/tcp.h`). An older kernel gives less of it: fields
//! that not every supported kernel (5.4) has are `None` there, so that 0 is always a measured 0.
//!
//! Limits: counters of 32 bits wrap, as the kernel's do.
//!
//! Waiting for several sockets at once, without a runtime.
//!
//! Limits: meant for a door with some hundred guests, not for the data path.

use crate::udp::get_sized_option;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// One reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State of congestion avoidance: 0 open, 1 disorder, 2 window reduced, 3 recovery, 4 loss.
    pub ca_state: u8,
    /// Timeouts in a row of the oldest segment.
    pub retransmits: u8,
    /// Window scale (RFC 7323) of the peer's and of this end's window.
    pub wscale: (u8, u8),
    /// The last delivery rate was bounded by the application, not by the path.
    pub app_limited: bool,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Largest segment sent, and largest seen, in bytes.
    pub snd_mss: u32,
    /// Largest segment received.
    pub rcv_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments considered lost.
    pub lost: u32,
    /// Retransmitted segments under way.
    pub retrans: u32,
    /// Path MTU in bytes.
    pub pmtu: u32,
    /// Limit of this end's receive window in bytes.
    pub rcv_ssthresh: u32,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// Slow start ends at this congestion window, in segments; above 2^30: not yet set.
    pub snd_ssthresh: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Reordering that the sender tolerates, in segments.
    pub reordering: u32,
    /// Round trip as the receiver estimates it; 0: not known.
    pub rcv_rtt: Duration,
    /// Bytes that the receiver's application reads per round trip, by which the window is tuned.
    pub rcv_space: u32,
    /// Segments retransmitted so far.
    pub total_retrans: u32,
    /// Rate in bytes per second at which the kernel spaces segments; `u64::MAX`: none.
    pub pacing_rate: u64,
    /// Limit of that rate in bytes per second (`SO_MAX_PACING_RATE`).
    pub max_pacing_rate: u64,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Bytes received from the peer in order.
    pub bytes_received: u64,
    /// Time since data came, in steps of the kernel's clock tick.
    pub last_data_recv: Duration,
    /// Segments sent, retransmissions included.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Bytes in the send buffer that were never sent.
    pub notsent: u32,
    /// Smallest round trip seen lately; `None`: nothing measured.
    pub min_rtt: Option<Duration>,
    /// Segments sent that carried data.
    pub data_segs_out: u32,
    /// Bytes per second at which data were delivered lately.
    pub delivery_rate: u64,
    /// What limited the sender.
    pub limited: Limited,
    /// Segments that arrived, retransmissions included.
    pub delivered: u32,
    /// Of these, marked by ECN.
    pub delivered_ce: u32,
    /// Bytes sent, retransmissions included (4.19).
    pub bytes_sent: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Segments that the peer reports to have received twice.
    pub dsack_dups: u32,
    /// Times that reordering was seen.
    pub reord_seen: u32,
    /// Segments received out of order (5.4).
    pub rcv_ooopack: Option<u32>,
    /// The peer's window in bytes (5.4).
    pub snd_wnd: Option<u32>,
    /// This end's window as announced, in bytes (6.2).
    pub rcv_wnd: Option<u32>,
}

/// Time since the connection was opened in which there were data to send, and its causes. The rest of `busy` was spent
/// on the congestion window or the path itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Time with data waiting or in flight.
    pub busy: Duration,
    /// The peer's window was full.
    pub receive_window: Duration,
    /// The send buffer was too small to fill the window.
    pub send_buffer: Duration,
}

impl TcpInfo {
    /// Read it from a TCP socket.
    ///
    /// # Errors
    /// The descriptor is not a TCP socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let (words, length) =
            get_sized_option::<[u64; 32]>(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO)?;
        let mut bytes = [0u8; 256];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(Self::read(bytes.get(..length).unwrap_or(&bytes)))
    }

    /// Whether everything written was acknowledged.
    #[must_use]
    pub fn all_acknowledged(&self) -> bool {
        self.unacked == 0 && self.notsent == 0
    }

    /// Read as much of the kernel's structure as this kernel has.
    fn read(bytes: &[u8]) -> Self {
        let octet = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let some = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let word = |at: usize| some(at).unwrap_or(0);
        let long =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |w| u64::from_ne_bytes(*w));
        let micros = |at: usize| Duration::from_micros(word(at).into());
        // Bit fields begin at the least significant bit where the least significant byte comes first.
        let (scales, flags) = (octet(6), octet(7));
        let little = cfg!(target_endian = "little");
        let wscale = if little { (scales & 15, scales >> 4) } else { (scales >> 4, scales & 15) };
        let app_limited = if little { flags & 1 != 0 } else { flags & 0x80 != 0 };
        Self {
            ca_state: octet(1),
            retransmits: octet(2),
            wscale,
            app_limited,
            rto: micros(8),
            snd_mss: word(16),
            rcv_mss: word(20),
            unacked: word(24),
            lost: word(32),
            retrans: word(36),
            last_data_recv: Duration::from_millis(word(52).into()),
            pmtu: word(60),
            rcv_ssthresh: word(64),
            rtt: micros(68),
            rttvar: micros(72),
            snd_ssthresh: word(76),
            snd_cwnd: word(80),
            reordering: word(88),
            rcv_rtt: micros(92),
            rcv_space: word(96),
            total_retrans: word(100),
            pacing_rate: long(104),
            max_pacing_rate: long(112),
            bytes_acked: long(120),
            bytes_received: long(128),
            segs_out: word(136),
            segs_in: word(140),
            notsent: word(144),
            // Before the first round trip, the kernel reports 2^32 - 1.
            min_rtt: some(148).filter(|&m| m != 0 && m != u32::MAX).map(|m| Duration::from_micros(m.into())),
            data_segs_out: word(156),
            delivery_rate: long(160),
            limited: Limited {
                busy: Duration::from_micros(long(168)),
                receive_window: Duration::from_micros(long(176)),
                send_buffer: Duration::from_micros(long(184)),
            },
            delivered: word(192),
            delivered_ce: word(196),
            bytes_sent: long(200),
            bytes_retrans: long(208),
            dsack_dups: word(216),
            reord_seen: word(220),
            rcv_ooopack: some(224),
            snd_wnd: some(228),
            rcv_wnd: some(232),
        }
    }
}

/// Indices of those of `sockets` from which something can be read (or accepted, or that are closed), waiting at most
/// `wait` for the first. A signal ends the wait early.
///
/// # Errors
/// The system has no memory for this many.
pub fn readable(sockets: &[BorrowedFd<'_>], wait: Duration) -> io::Result<Vec<usize>> {
    let mut all: Vec<PollFd<'_>> =
        sockets.iter().map(|&socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
    let wait = Timespec::try_from(wait).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut all, Some(&wait)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |(n, socket): (usize, &PollFd<'_>)| (!socket.revents().is_empty()).then_some(n);
    Ok(all.iter().enumerate().filter_map(ready).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_connection_that_moved_data_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 40_000]).unwrap();
        let mut into = vec![0; 40_000];
        receiver.read_exact(&mut into).unwrap();
        let (mut out, at) = (TcpInfo::of(&sender).unwrap(), TcpInfo::of(&receiver).unwrap());
        for _ in 0..1000 {
            if out.all_acknowledged() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            out = TcpInfo::of(&sender).unwrap();
        }
        // The handshake counts as one byte acknowledged.
        assert_eq!((out.bytes_acked, at.bytes_received), (40_001, 40_000));
        assert!(out.bytes_sent >= 40_000 && out.delivered > 0 && out.data_segs_out > 0);
        assert!(out.rtt > Duration::ZERO && out.min_rtt.is_some() && out.pmtu > 500);
        assert!(out.wscale.0 > 0 && out.snd_wnd.is_some_and(|w| w > 0));
        assert!(TcpInfo::of(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn a_shorter_answer_leaves_what_it_lacks_unknown() {
        let bytes: Vec<u8> = (0..58u32).flat_map(|n| (n * 4).to_ne_bytes()).collect();
        let whole = TcpInfo::read(&bytes);
        assert_eq!((whole.rtt, whole.snd_cwnd), (Duration::from_micros(68), 80));
        assert_eq!(whole.last_data_recv, Duration::from_millis(52));
        assert_eq!((whole.rcv_ooopack, whole.snd_wnd, whole.rcv_wnd), (Some(224), Some(228), None));
        let old = TcpInfo::read(&bytes[..104]);
        assert_eq!((old.total_retrans, old.pacing_rate, old.snd_wnd, old.min_rtt), (100, 0, None, None));
        assert_eq!(TcpInfo::read(&bytes[..230]).snd_wnd, None, "half a field is none");
        assert_eq!(TcpInfo::read(&[]), TcpInfo::default());
    }

    #[test]
    fn those_with_something_to_read_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let all = [listener.as_fd(), accepted.as_fd()];
        assert!(readable(&all, Duration::ZERO).unwrap().is_empty());
        one.write_all(b"x").unwrap();
        assert_eq!(readable(&all, Duration::from_secs(5)).unwrap(), [1]);
        let _two = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(readable(&all, Duration::from_secs(5)).unwrap(), [0, 1]);
    }
}
