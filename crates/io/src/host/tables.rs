//! Parsers of the kernel's tables of counters, for the counters along a packet's path ([`stages`](super::stages)) and
//! the checks of a host.
//!
//! | table | a line | gives |
//! |---|---|---|
//! | `/proc/net/snmp`, `netstat` | `Udp: InErrors RcvbufErrors`, then `Udp: 3 2` | `Udp`, `InErrors`, 3 … |
//! | `/proc/net/snmp6` | `Udp6RcvbufErrors 5` | `Udp`, `RcvbufErrors`, 5 |
//! | `/proc/net/softnet_stat` | a processor, hexadecimal | its number, `processed`, `dropped`, `squeezed` |
//!
//! ```
//! use skyhaul_io::host::tables::protocols;
//! let all: Vec<_> = protocols("Udp: InErrors RcvbufErrors\nUdp: 3 2\n").collect();
//! assert_eq!(all, [("Udp", "InErrors", 3), ("Udp", "RcvbufErrors", 2)]);
//! ```
//!
//! Limits: values that are not counters (`Tcp: MaxConn -1`) are omitted.

/// The column of the processor's number, from Linux 5.10.
const PROCESSOR: usize = 12;

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
        let processor = text.split_whitespace().nth(PROCESSOR).and_then(hexadecimal).unwrap_or(line as u64);
        let named = ["processed", "dropped", "squeezed"].into_iter().zip(text.split_whitespace());
        named.filter_map(move |(name, word)| Some((processor, name, hexadecimal(word)?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
