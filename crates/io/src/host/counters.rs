//! The kernel's own UDP counters, for IPv4 and IPv6 together.
//!
//! They explain losses between the interface and the socket: a datagram that the interface counted, but no socket
//! received, is counted here by reason. They cover the whole network namespace, so compare readings before and after a
//! run.
//!
//! ```
//! use skyhaul_io::host::counters::UdpCounters;
//! let before = UdpCounters::read();
//! // ... a run ...
//! let lost = UdpCounters::read().since(&before).receive_buffer_errors;
//! ```

use super::tables::{protocols, protocols6};

/// Datagrams, or trains if the kernel handles a train as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Delivered to sockets.
    pub in_datagrams: u64,
    /// To a port without a listener.
    pub no_ports: u64,
    /// Not delivered, for any other reason.
    pub in_errors: u64,
    /// Sent.
    pub out_datagrams: u64,
    /// Dropped because the socket's receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Not sent because the send buffer or device queue was full.
    pub send_buffer_errors: u64,
    /// With a wrong checksum.
    pub checksum_errors: u64,
    /// Dropped because all UDP sockets together reached their memory limit (`net.ipv4.udp_mem`).
    pub memory_errors: u64,
}

impl UdpCounters {
    /// Read them for this thread's network namespace; a counter that the kernel does not report is 0.
    #[must_use]
    pub fn read() -> Self {
        let text =
            |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let mut counters = Self::default();
        counters.add(protocols(&text("snmp")));
        counters.add(protocols6(&text("snmp6")));
        counters
    }

    /// The difference from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            in_datagrams: self.in_datagrams.saturating_sub(earlier.in_datagrams),
            no_ports: self.no_ports.saturating_sub(earlier.no_ports),
            in_errors: self.in_errors.saturating_sub(earlier.in_errors),
            out_datagrams: self.out_datagrams.saturating_sub(earlier.out_datagrams),
            receive_buffer_errors: self.receive_buffer_errors.saturating_sub(earlier.receive_buffer_errors),
            send_buffer_errors: self.send_buffer_errors.saturating_sub(earlier.send_buffer_errors),
            checksum_errors: self.checksum_errors.saturating_sub(earlier.checksum_errors),
            memory_errors: self.memory_errors.saturating_sub(earlier.memory_errors),
        }
    }

    fn add<'a>(&mut self, all: impl Iterator<Item = (&'a str, &'a str, u64)>) {
        all.filter(|(protocol, ..)| *protocol == "Udp")
            .for_each(|(_, name, value)| self.add_one(name, value));
    }

    fn add_one(&mut self, name: &str, value: u64) {
        let counter = match name {
            "InDatagrams" => &mut self.in_datagrams,
            "NoPorts" => &mut self.no_ports,
            "InErrors" => &mut self.in_errors,
            "OutDatagrams" => &mut self.out_datagrams,
            "RcvbufErrors" => &mut self.receive_buffer_errors,
            "SndbufErrors" => &mut self.send_buffer_errors,
            "InCsumErrors" => &mut self.checksum_errors,
            "MemErrors" => &mut self.memory_errors,
            _ => return,
        };
        *counter = counter.saturating_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_added() {
        let mut c = UdpCounters::default();
        c.add(protocols("Tcp: x y\nTcp: 1 2\nUdp: InDatagrams NoPorts RcvbufErrors New\nUdp: 10 2 3 9\nUdpLite: InDatagrams\n"));
        c.add(protocols6("Ip6InReceives 5\nUdp6InDatagrams                 \t7\nUdp6MemErrors 1\nUdpLite6InDatagrams 100\n"));
        assert_eq!((c.in_datagrams, c.no_ports, c.receive_buffer_errors, c.memory_errors), (17, 2, 3, 1));
        c.add(protocols("Udp: InDatagrams"));
        assert_eq!(c.in_datagrams, 17, "half a table is no table");
    }

    #[test]
    fn a_datagram_to_nobody_is_counted() {
        let before = UdpCounters::read();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        socket.send_to(b"x", gone).unwrap();
        assert!(UdpCounters::read().since(&before).no_ports > 0);
    }
}
