//! Arguments of `probe` that are for TCP: skyhaul's own measurements, and iperf3.

use super::super::applies::with;
use super::super::limits::{from_to, some};
use clap::Args;
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Rate, Size, Span};
use std::str::FromStr;

/// Heading of these options.
pub(super) const TCP: &str = "TCP (--tcp, --iperf3)";
/// Heading of those that only iperf3 has.
pub(super) const IPERF3: &str = "iperf3 (--iperf3)";

/// How connections are made and used.
#[derive(Args, Clone, Debug)]
pub(crate) struct TcpArgs {
    /// Measure with TCP
    #[arg(long, conflicts_with_all = ["udp", "iperf3", "sizes", "spacing", "rates", "test", "trace", "packets", "mode", "train", "join", "settle"], help_heading = TCP)]
    pub(crate) tcp: bool,
    /// Socket buffers of both ends: one, several like 1MiB,64MiB, or FROM..TO, doubled (default: the kernel tunes them)
    #[arg(long, value_name = "SIZE", help_heading = TCP)]
    pub(crate) windows: Option<Windows>,
    /// Congestion control: one or several (default: the system's)
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = TCP)]
    pub(crate) cc: Vec<String>,
    /// Size of each write and read (default: 1MiB, with iperf3 128KiB; for iperf3's datagrams, the largest that the path
    /// carries)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 1MiB"), help_heading = TCP)]
    pub(crate) write: Option<Size>,
    /// End after this many bytes of all flows together
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 1GiB"), help_heading = TCP)]
    pub(crate) bytes: Option<Size>,
    /// Exclude this time at the start (slow start) from the result
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = TCP)]
    pub(crate) omit: Span,
    /// Pace each flow in the kernel at this rate
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 1Gbps"), help_heading = TCP)]
    pub(crate) pacing: Option<Rate>,
    /// Start each flow this long after the previous one
    #[arg(long, value_name = "TIME", default_value = "0s", conflicts_with = "iperf3", help_heading = TCP)]
    pub(crate) stagger: Span,
    /// Maximum segment size
    #[arg(long, value_name = "BYTES", value_parser = from_to::<u32>(88, 32_767, "such as 1400"), help_heading = TCP)]
    pub(crate) segment: Option<u32>,
    /// Send without copying (sendfile)
    #[arg(long, help_heading = TCP)]
    pub(crate) zerocopy: bool,
    /// Receive without copying (MSG_TRUNC)
    #[arg(long, conflicts_with = "iperf3", help_heading = TCP)]
    pub(crate) discard: bool,
    /// Pairs of CPUs for the flows in turn, here and there, like 2:3,4:5
    #[arg(long, value_name = "HERE:THERE", value_delimiter = ',', value_parser = cores, conflicts_with = "iperf3", help_heading = TCP)]
    pub(crate) cores: Vec<(usize, usize)>,
}

impl TcpArgs {
    /// An option that means nothing for datagrams of skyhaul's own, if one was given.
    pub(crate) fn stray(&self) -> Option<&'static str> {
        [
            (self.windows.is_some(), "--windows"),
            (!self.cc.is_empty(), "--cc"),
            (self.write.is_some(), "--write"),
            (self.bytes.is_some(), "--bytes"),
            (self.omit != Span::default(), "--omit"),
            (self.pacing.is_some(), "--pacing"),
            (self.stagger != Span::default(), "--stagger"),
            (self.segment.is_some(), "--segment"),
            (self.zerocopy, "--zerocopy"),
            (self.discard, "--discard"),
            (!self.cores.is_empty(), "--cores"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// What a test with iperf3's server has no use for; so neither have the options that are only for such a test.
const NOT_OF_IPERF3: [&str; 17] = [
    "sizes", "spacing", "test", "trace", "packets", "mode", "train", "join", "settle", "report", "diagnose",
    "tcp", "stagger", "discard", "cores", "stamp", "udpmon",
];

/// Options of iperf3 only.
#[derive(Args, Clone, Debug)]
pub(crate) struct Iperf3Args {
    /// Measure with an iperf3 server, on port 5201 by default; needs no token
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201", conflicts_with_all = NOT_OF_IPERF3, help_heading = IPERF3)]
    pub(crate) iperf3: Option<u16>,
    /// End after this many blocks of all flows together
    #[arg(long, value_name = "N", add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3.into_iter().chain(["bytes"]), value_parser = from_to::<u64>(1, 1 << 40, "such as 1000"), help_heading = IPERF3)]
    pub(crate) blocks: Option<u64>,
    /// Maximum burst of datagrams
    #[arg(long, value_name = "N", add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3, value_parser = from_to::<u32>(1, 1000, "such as 10"), help_heading = IPERF3)]
    pub(crate) burst: Option<u32>,
    /// Send small writes immediately (TCP_NODELAY)
    #[arg(long, add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3, help_heading = IPERF3)]
    pub(crate) no_delay: bool,
    /// Type-of-service byte: DSCP times four
    #[arg(long, value_name = "N", add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3, default_value_t = 0, help_heading = IPERF3)]
    pub(crate) tos: u8,
    /// Use 64-bit sequence numbers in datagrams
    #[arg(long, add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3, help_heading = IPERF3)]
    pub(crate) wide: bool,
    /// Also get the server's report
    #[arg(long, add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3, help_heading = IPERF3)]
    pub(crate) server_output: bool,
    /// Line of text to include in the report
    #[arg(long, value_name = "TEXT", add = with("iperf3"), conflicts_with_all = NOT_OF_IPERF3, help_heading = IPERF3)]
    pub(crate) title: Option<String>,
}

/// Windows of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows(pub(crate) Vec<Size>);

impl FromStr for Windows {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        /// TCP's own limit.
        const MAX_BYTES: u64 = 1 << 30;
        let size = |text: &str| {
            let size = text.trim().parse::<Size>().map_err(|error| error.to_string())?;
            let fits = (1024..=MAX_BYTES).contains(&size.bytes());
            fits.then_some(size)
                .ok_or_else(|| format!("invalid window `{text}`{}", Hint("write 1KiB to 1GiB")))
        };
        let Some((from, to)) = text.split_once("..") else {
            return text.split(',').map(size).collect::<Result<_, _>>().map(Self);
        };
        let (from, to) = (size(from)?, size(to)?);
        if from >= to {
            return Err(format!("`{text}` is a descending range{}", Hint("write the smaller window first")));
        }
        let doubled = std::iter::successors(Some(from.bytes()), |bytes| bytes.checked_mul(2));
        let below = doubled.take_while(|&bytes| bytes < to.bytes());
        Ok(Self(below.chain([to.bytes()]).map(Size::from_bytes).collect()))
    }
}

fn cores(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let pair = text.split_once(':').and_then(|(here, there)| Some((number(here)?, number(there)?)));
    pair.ok_or_else(|| {
        format!(
            "expected a pair of CPUs, got `{text}`{}",
            Hint("write one CPU of this host and one of the server, like 2:3")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_listed_or_doubled() {
        let windows = |text: &str| text.parse::<Windows>().map(|windows| windows.0);
        let bytes =
            |text: &str| -> Vec<u64> { windows(text).unwrap().iter().map(|size| size.bytes()).collect() };
        assert_eq!(bytes("1MiB,3MiB"), [1 << 20, 3 << 20]);
        assert_eq!(bytes("1MiB..8MiB"), [1 << 20, 2 << 20, 4 << 20, 8 << 20]);
        assert_eq!(bytes("1MiB..3MiB"), [1 << 20, 2 << 20, 3 << 20]);
        assert_eq!(bytes("1MiB..1GiB").len(), 11);
        for wrong in ["", "2GiB", "8MiB..1MiB", "1MiB..", "many"] {
            assert!(windows(wrong).is_err(), "{wrong}");
        }
        assert_eq!(cores("2:3"), Ok((2, 3)));
        assert!(cores("2").is_err());
    }
}
