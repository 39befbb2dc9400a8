//! Options that a measurement sets on a connection before use, and reads back: window, congestion control, pacing.
//!
//! ```no_run
//! use skyhaul_io::{quantity::Size, tcp::tune};
//! use std::net::TcpStream;
//! let stream = TcpStream::connect("10.0.0.9:5201")?;
//! tune::set_congestion(&stream, "bbr")?;
//! let window = tune::set_send_buffer(&stream, Size::from_bytes(64 << 20));
//! println!("{} of {} bytes granted, {}", window.granted, window.asked, tune::congestion(&stream)?);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: a receive buffer must be set before connecting or listening if it is to allow a window scale for more than
//! the system's default maximum.

use crate::{
    address::system_text,
    quantity::Size,
    source::Buffer,
    udp::{get_option, set_option},
};
use skyhaul_core::hint::Hint;
use socket2::SockRef;
use std::{fs, io, os::fd::AsFd};

/// The largest window of TCP: 65 535 bytes scaled by 2^14 (RFC 7323 §2.3).
pub const LARGEST_WINDOW: u64 = 65_535 << 14;

/// The algorithms that this kernel has loaded.
#[must_use]
pub fn available_congestion() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The algorithm of a connection.
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn congestion(socket: &impl AsFd) -> io::Result<String> {
    let name = SockRef::from(socket).tcp_congestion()?;
    let name = name.split(|&b| b == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Set the algorithm of a connection.
///
/// # Errors
/// It is not available, or not permitted; the error lists the available ones.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes()).map_err(|error| {
        let text = format!(
            "use congestion control {name}: {}{}",
            system_text(&error),
            Hint(format_args!(
                "this kernel has {}; `modprobe tcp_{name}` as root may add it",
                available_congestion().join(", ")
            ))
        );
        io::Error::new(error.kind(), text)
    })
}

/// Ask for a send buffer of `size`, beyond `wmem_max` where that is permitted.
pub fn set_send_buffer(socket: &impl AsFd, size: Size) -> Buffer {
    set_buffer(socket, size, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
}

/// Ask for a receive buffer of `size`, beyond `rmem_max` where that is permitted. The kernel then no longer tunes the
/// window by itself.
pub fn set_receive_buffer(socket: &impl AsFd, size: Size) -> Buffer {
    set_buffer(socket, size, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
}

/// Makes the send buffer of a connection `size` large, unless the kernel may make it as large by itself, or must not make it so large: it
/// never becomes smaller than what the kernel would make of it.
pub fn raise_send_buffer(socket: &impl AsFd, size: Size) {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default();
    let last = |text: String| text.split_whitespace().last().and_then(|most| most.parse::<u64>().ok());
    let Some(tuned) = last(setting("ipv4/tcp_wmem")).map(|bytes| bytes / 2) else { return };
    let bytes = i32::try_from(size.bytes()).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    let fd = socket.as_fd();
    if tuned >= size.bytes() || set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_ok() {
        return;
    }
    if last(setting("core/wmem_max")).is_some_and(|most| most.min(size.bytes()) > tuned) {
        // What it is then is as good.
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

fn set_buffer(socket: &impl AsFd, size: Size, force: i32, plain: i32) -> Buffer {
    // The kernel doubles the value, in an i32.
    let bytes = i32::try_from(size.bytes()).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    let fd = socket.as_fd();
    // A refusal shows in the granted size.
    if set_option(fd, libc::SOL_SOCKET, force, &bytes).is_err() {
        let _ = set_option(fd, libc::SOL_SOCKET, plain, &bytes);
    }
    Buffer { asked: size.bytes(), granted: granted(socket, plain) }
}

/// The send and the receive buffer as the kernel granted them, in bytes of data: half of what it sets aside.
#[must_use]
pub fn buffers(socket: &impl AsFd) -> (u64, u64) {
    (granted(socket, libc::SO_SNDBUF), granted(socket, libc::SO_RCVBUF))
}

/// Options that are set for good (`SO_BUF_LOCK`, Linux 5.14), and the flag of the receive buffer among them.
const BUFFER_LOCK: i32 = 72;
const RECEIVE_LOCKED: i32 = 2;

/// How large the kernel may make the receive buffer of a connection, in bytes of data: what it is now, if it was set or the kernel does not
/// tune buffers.
#[must_use]
pub fn receive_limit(socket: &impl AsFd) -> u64 {
    let now = granted(socket, libc::SO_RCVBUF);
    let locks = get_option::<i32>(socket.as_fd(), libc::SOL_SOCKET, BUFFER_LOCK).unwrap_or(RECEIVE_LOCKED);
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    if locks & RECEIVE_LOCKED != 0 || setting("tcp_moderate_rcvbuf").trim() == "0" {
        return now;
    }
    let most = setting("tcp_rmem").split_whitespace().nth(2).and_then(|most| most.parse::<u64>().ok());
    most.map_or(now, |most| now.max(most / 2))
}

fn granted(socket: &impl AsFd, name: i32) -> u64 {
    let bytes = get_option::<i32>(socket.as_fd(), libc::SOL_SOCKET, name).unwrap_or(0);
    u64::try_from(bytes).unwrap_or(0) / 2
}

/// Largest segment to announce (`TCP_MAXSEG`), before connecting.
///
/// # Errors
/// The kernel does not accept the value.
pub fn set_largest_segment(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    SockRef::from(socket).set_tcp_mss(bytes).map_err(|error| {
        let text = format!(
            "set TCP_MAXSEG to {bytes}: {}{}",
            system_text(&error),
            Hint("88 to 32767, before connecting")
        );
        io::Error::new(error.kind(), text)
    })
}

/// Largest segment in use.
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn largest_segment(socket: &impl AsFd) -> io::Result<u32> {
    SockRef::from(socket).tcp_mss()
}

/// Let the kernel space segments so that the rate stays below `bits_per_second` (`SO_MAX_PACING_RATE`); 0: no limit.
///
/// # Errors
/// The kernel has no such option.
pub fn set_pacing(socket: &impl AsFd, bits_per_second: u64) -> io::Result<()> {
    let bytes = if bits_per_second == 0 { u64::MAX } else { (bits_per_second / 8).max(1) };
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::info::TcpInfo;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_was_asked_and_granted_is_read_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(receive_limit(&stream) >= buffers(&stream).1);
        let send = set_send_buffer(&stream, Size::from_bytes(100_000));
        let receive = set_receive_buffer(&stream, Size::from_bytes(50_000));
        assert_eq!((send.asked, send.granted), (100_000, 100_000));
        assert_eq!(buffers(&stream), (100_000, receive.granted));
        assert_eq!(receive_limit(&stream), receive.granted, "a buffer that was set is not tuned");
        let absurd = set_send_buffer(&stream, Size::from_bytes(u64::MAX));
        assert_eq!(absurd.asked, u64::MAX);
        assert!(absurd.granted >= 100_000);
        set_pacing(&stream, 80_000_000).unwrap();
        assert_eq!(TcpInfo::of(&stream).unwrap().max_pacing_rate, 10_000_000);
        set_pacing(&stream, 0).unwrap();
        assert!(largest_segment(&stream).unwrap() > 500);
    }

    #[test]
    fn a_send_buffer_is_raised_and_never_made_smaller() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let setting = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap();
        let tuned = setting.split_whitespace().last().unwrap().parse::<u64>().unwrap() / 2;
        let most = fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap().trim().parse::<u64>().unwrap();
        for bytes in [1, tuned, 3 * tuned] {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            raise_send_buffer(&stream, Size::from_bytes(bytes));
            let locks: i32 = get_option(stream.as_fd(), libc::SOL_SOCKET, BUFFER_LOCK).unwrap();
            // The kernel still tunes it, or it is larger than the kernel would make it.
            let is_set = locks & 1 != 0;
            assert!(
                !is_set || bytes > tuned && buffers(&stream).0 > tuned,
                "{bytes}: {:?}",
                buffers(&stream)
            );
            assert!(is_set || bytes <= tuned || most <= tuned, "{bytes}: nothing was done");
        }
    }

    #[test]
    fn congestion_control_is_set_or_the_error_says_what_there_is() {
        let available = available_congestion();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // Reno is part of every kernel.
        assert!(available.iter().any(|name| name == "reno"), "{available:?}");
        set_congestion(&socket, "reno").unwrap();
        assert_eq!(congestion(&socket).unwrap(), "reno");
        let error = set_congestion(&socket, "no-such-one").unwrap_err().to_string();
        assert!(error.contains("hint:") && error.contains("reno"), "{error}");
    }
}
