//! Counters of this host along the path of a packet, in one reading: interface, IP, UDP, backlog, CPUs.
//!
//! ```text
//!   sent       udp.sent ─▶ ip.sent ─▶ interface.sent            udp.no_room   interface.send_dropped
//!   received   interface.received ─▶ backlog.processed ─▶ ip.received ─▶ ip.delivered ─▶ udp.received
//!              interface.receive_dropped   backlog.dropped   ip.discarded                udp.buffer_full …
//! ```
//!
//! The difference of two readings shows in which layer packets were lost, if nothing else used the host meanwhile,
//! because all counters are those of the network namespace or of the host.
//!
//! ```
//! use skyhaul_io::host::stages;
//! let before = stages::read(Some("lo"));
//! // ... packets ...
//! let moved = stages::since(&stages::read(Some("lo")), &before);
//! assert!(moved.contains_key("udp.received"));
//! ```
//!
//! CPUs count packets that their backlogs dropped from all networks of the host, and the interface counts these too. So
//! the differences show at most as many drops as the interfaces of this network counted, which are
//! `network.receive_dropped`; packets that never leave the host are not included.
//!
//! Limits: an interface, IP and UDP count a train that passes as one packet as one, so layers can be compared only if
//! packets are sent one by one. CPU times are counted in ticks, of which [`TICKS`] make a second.
//!
//! The parsers of the kernel's tables also serve the checks of a host:
//!
//! | table | a line | gives |
//! |---|---|---|
//! | `/proc/net/snmp`, `netstat` | `Udp: InErrors RcvbufErrors`, then `Udp: 3 2` | `Udp`, `InErrors`, 3 … |
//! | `/proc/net/snmp6` | `Udp6RcvbufErrors 5` | `Udp`, `RcvbufErrors`, 5 |
//! | `/proc/net/softnet_stat` | a processor, hexadecimal | its number, `processed`, `dropped`, `squeezed` |
//!
//! ```
//! use skyhaul_io::host::stages::protocols;
//! let all: Vec<_> = protocols("Udp: InErrors RcvbufErrors\nUdp: 3 2\n").collect();
//! assert_eq!(all, [("Udp", "InErrors", 3), ("Udp", "RcvbufErrors", 2)]);
//! ```
//!
//! Limits: values that are not counters (`Tcp: MaxConn -1`) are omitted.

use std::collections::BTreeMap;

/// Counters by name; those that the kernel does not report are missing.
pub type Stages = BTreeMap<String, u64>;

/// Ticks per second in the CPU counters (`USER_HZ`, the same on all architectures here).
pub const TICKS: u64 = 100;

/// `/proc/net/dev`, behind the name: receive, then transmit.
const DEVICE: [(usize, &str); 8] = [
    (0, "interface.received_bytes"),
    (1, "interface.received"),
    (2, "interface.receive_errors"),
    (3, "interface.receive_dropped"),
    (8, "interface.sent_bytes"),
    (9, "interface.sent"),
    (10, "interface.send_errors"),
    (11, "interface.send_dropped"),
];

/// Packets that all interfaces dropped on receipt.
const ALL_DROPPED: &str = "network.receive_dropped";
const BACKLOG_DROPPED: &str = "backlog.dropped";

/// `/proc/net/snmp`; `snmp6` has the same words behind `Ip6`, `Udp6` and `Icmp6`.
const PROTOCOLS: [(&str, &str, &str); 21] = [
    ("Ip", "InReceives", "ip.received"),
    ("Ip", "InHdrErrors", "ip.bad_headers"),
    ("Ip", "InAddrErrors", "ip.not_ours"),
    ("Ip", "InDiscards", "ip.discarded"),
    ("Ip", "InDelivers", "ip.delivered"),
    ("Ip", "OutRequests", "ip.sent"),
    ("Ip", "OutDiscards", "ip.send_discarded"),
    ("Ip", "OutNoRoutes", "ip.no_route"),
    ("Ip", "ReasmFails", "ip.reassembly_failures"),
    ("Ip", "FragFails", "ip.fragment_failures"),
    ("Udp", "InDatagrams", "udp.received"),
    ("Udp", "NoPorts", "udp.no_port"),
    ("Udp", "InErrors", "udp.errors"),
    ("Udp", "RcvbufErrors", "udp.buffer_full"),
    ("Udp", "InCsumErrors", "udp.bad_checksums"),
    ("Udp", "MemErrors", "udp.no_memory"),
    ("Udp", "OutDatagrams", "udp.sent"),
    ("Udp", "SndbufErrors", "udp.no_room"),
    ("Tcp", "InSegs", "tcp.received"),
    ("Icmp", "InMsgs", "icmp.received"),
    ("Icmp", "InDestUnreachs", "icmp.unreachable"),
];

/// `/proc/stat`, behind the name of a processor.
const PROCESSOR: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Read them; `interface` by its name, or all together.
#[must_use]
pub fn read(interface: Option<&str>) -> Stages {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut stages = Stages::new();
    device(&mut stages, &text("/proc/thread-self/net/dev"), interface);
    counted(&mut stages, protocols(&text("/proc/thread-self/net/snmp")));
    counted(&mut stages, protocols6(&text("/proc/thread-self/net/snmp6")));
    backlog(&mut stages, &text("/proc/net/softnet_stat"));
    processors(&mut stages, &text("/proc/stat"));
    stages
}

/// What was counted between two readings, of backlogs no more than this network's interfaces counted. A counter that fell is left out:
/// it was reset.
#[must_use]
pub fn since(now: &Stages, before: &Stages) -> Stages {
    let difference = |(name, value): (&String, &u64)| {
        let before = before.get(name).copied().unwrap_or(0);
        value.checked_sub(before).map(|difference| (name.clone(), difference))
    };
    let mut moved: Stages = now.iter().filter_map(difference).collect();
    let ours = moved.get(ALL_DROPPED).copied();
    if let Some((dropped, ours)) = moved.get_mut(BACKLOG_DROPPED).zip(ours) {
        *dropped = ours.min(*dropped);
    }
    moved
}

fn add(stages: &mut Stages, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        let sum = stages.entry(name.to_owned()).or_default();
        *sum = sum.wrapping_add(value);
    }
}

fn device(stages: &mut Stages, table: &str, interface: Option<&str>) {
    for (name, numbers) in table.lines().skip(2).filter_map(|line| line.split_once(':')) {
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        let number = |column: usize| numbers.get(column).and_then(|n| n.parse().ok());
        let wanted = interface.is_none_or(|wanted| wanted == name.trim());
        if wanted || name.trim() != "lo" {
            add(stages, ALL_DROPPED, number(3));
        }
        for (column, name) in DEVICE.into_iter().filter(|_| wanted) {
            add(stages, name, number(column));
        }
    }
}

fn counted<'a>(stages: &mut Stages, all: impl Iterator<Item = (&'a str, &'a str, u64)>) {
    for (protocol, name, value) in all {
        for (_, _, ours) in PROTOCOLS.iter().filter(|(p, n, _)| (*p, *n) == (protocol, name)) {
            add(stages, ours, Some(value));
        }
    }
}

/// Those of all processors together.
fn backlog(stages: &mut Stages, table: &str) {
    for (_, name, value) in backlogs(table) {
        add(stages, &format!("backlog.{name}"), Some(value));
    }
}

fn processors(stages: &mut Stages, text: &str) {
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let mut words = line.split_whitespace();
        let Some(cpu) = words.next() else { continue };
        for (state, word) in PROCESSOR.iter().zip(words) {
            add(stages, &format!("{cpu}.{state}"), word.parse().ok());
        }
    }
}

/// The column of the processor's number, from Linux 5.10.
const CPU_COLUMN: usize = 12;

/// Protocol, name and value of a table of two lines for each protocol: names, then values.
pub fn protocols(table: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    let mut lines = table.lines().filter_map(|line| line.split_once(':'));
    let pairs = std::iter::from_fn(move || Some((lines.next()?, lines.next()?)));
    pairs.filter(|((names, _), (values, _))| names == values).flat_map(|((protocol, names), (_, values))| {
        let all = names.split_whitespace().zip(values.split_whitespace());
        all.filter_map(move |(name, value)| Some((protocol, name, value.parse().ok()?)))
    })
}

/// The same for IPv6, with one line for each counter; protocols have the names of IPv4.
pub fn protocols6(table: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let ((protocol, name), value) = (words.next()?.split_once('6')?, words.next()?);
        Some((protocol, name, value.parse().ok()?))
    })
}

/// CPU, name and value of the backlog counters.
pub fn backlogs(table: &str) -> impl Iterator<Item = (u64, &'static str, u64)> {
    table.lines().enumerate().flat_map(|(line, text)| {
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
        let processor = text.split_whitespace().nth(CPU_COLUMN).and_then(hexadecimal).unwrap_or(line as u64);
        let named = ["processed", "dropped", "squeezed"].into_iter().zip(text.split_whitespace());
        named.filter_map(move |(name, word)| Some((processor, name, hexadecimal(word)?)))
    })
}

/// Datagrams, or trains if the kernel handles a train as one.
///
/// The kernel's own UDP counters, for IPv4 and IPv6 together.
///
/// They explain losses between the interface and the socket: a datagram that the interface counted, but no socket
/// received, is counted here by reason. They cover the whole network namespace, so compare readings before and after a
/// run.
///
/// ```
/// use skyhaul_io::host::stages::UdpCounters;
/// let before = UdpCounters::read();
/// // ... a run ...
/// let lost = UdpCounters::read().since(&before).receive_buffer_errors;
/// ```
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
    fn each_table_is_read_by_its_names() {
        let mut s = Stages::new();
        device(
            &mut s,
            "Inter-|\n face |\n  eth0: 10 20 1 2 0 0 0 0 30 40 3 4 0 0 0 0\n  lo: 1 1 0 9 0 0 0 0 1 1 0 0 0 0 0 0\n\
             eth0.7: 1 1 0 5 0 0 0 0 1 1 0 0 0 0 0 0\n",
            Some("eth0"),
        );
        let table = "Ip: InReceives InDelivers\nIp: 7 5\nUdp: RcvbufErrors New\nUdp: 3 9\nUdpLite: RcvbufErrors\nUdpLite: 8\n";
        counted(&mut s, protocols(table));
        counted(&mut s, protocols6("Ip6InReceives  4\nUdp6RcvbufErrors 2\nUdpLite6RcvbufErrors 9\nx\n"));
        backlog(&mut s, "0000000a 00000001 00000002 0\n00000010 00000000 00000001 0\n");
        processors(&mut s, "cpu  1 2 3 4 5 6 7 8 9 9\ncpu0 1 0 0 0 0 0 7\nintr 1 2\n");
        let is = |name: &str, value: u64| assert_eq!(s.get(name), Some(&value), "{name}");
        is("interface.received", 20);
        is("interface.receive_dropped", 2);
        is("interface.send_dropped", 4);
        is("network.receive_dropped", 7);
        is("ip.received", 11);
        is("ip.delivered", 5);
        is("udp.buffer_full", 5);
        is("backlog.processed", 26);
        is("backlog.squeezed", 3);
        is("cpu.softirq", 7);
        is("cpu0.softirq", 7);
        assert_eq!(s.get("cpu0.steal"), None, "an older kernel");
    }

    #[test]
    fn differences_leave_out_what_fell() {
        let stages =
            |pairs: &[(&str, u64)]| pairs.iter().map(|&(name, n)| (name.to_owned(), n)).collect::<Stages>();
        let moved = since(&stages(&[("a", 5), ("b", 1), ("c", 2)]), &stages(&[("a", 3), ("b", 2)]));
        assert_eq!(moved, stages(&[("a", 2), ("c", 2)]));
    }

    #[test]
    fn backlogs_of_other_networks_are_none_of_this_one() {
        let moved = |all: u64, ours: Option<u64>| {
            let mut now = Stages::from([("backlog.dropped".to_owned(), 100 + all)]);
            now.extend(ours.map(|ours| ("network.receive_dropped".to_owned(), ours)));
            since(&now, &Stages::from([("backlog.dropped".to_owned(), 100)]))["backlog.dropped"]
        };
        assert_eq!([moved(50, Some(0)), moved(50, Some(7)), moved(50, Some(70))], [0, 7, 50]);
        assert_eq!(moved(50, None), 50, "a reading of an older version");
    }

    #[test]
    fn a_datagram_is_counted_in_every_layer() {
        let before = read(Some("lo"));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut [0; 4]).unwrap();
        let moved = since(&read(Some("lo")), &before);
        for name in
            ["udp.sent", "ip.sent", "interface.sent", "interface.received", "ip.received", "udp.received"]
        {
            assert!(moved.get(name).is_some_and(|&n| n > 0), "{name}: {moved:?}");
        }
        assert!(read(None).len() >= moved.len());
    }

    #[test]
    fn what_is_odd_is_left_out() {
        let table = "Udp: A B\nUdp: 3 2\nodd\nTcp: A C\nTcp: -1 4\nIp: A\nIcmp: 5\nIp: A";
        assert_eq!(protocols(table).collect::<Vec<_>>(), [("Udp", "A", 3), ("Udp", "B", 2), ("Tcp", "C", 4)]);
        let table = "Udp6RcvbufErrors \t5\nIp6 x\nUdpLite6InErrors 9\n\nIp6ReasmFails\n";
        let six: Vec<_> = protocols6(table).collect();
        assert_eq!(six, [("Udp", "RcvbufErrors", 5), ("UdpLite", "InErrors", 9)]);
    }

    #[test]
    fn a_processor_has_its_number_or_that_of_its_line() {
        let table = "0000000e 00000001\n000000ff 0 x 0 0 0 0 0 0 0 0 0 00000007\n";
        let all: Vec<_> = backlogs(table).collect();
        let expected = [(0, "processed", 14), (0, "dropped", 1), (7, "processed", 255), (7, "dropped", 0)];
        assert_eq!(all, expected);
    }

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
