//! What every transport must do, and places to try it.
#![allow(dead_code, unreachable_pub)]

use skyhaul_io::namespace::Network;
use skyhaul_io::netlink::route::Routes;
use skyhaul_io::source::{Source, SourceStats};
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// Packet `n` of sender `who`: its number, then bytes that follow from it. Never shorter than 8 bytes unless empty.
pub fn packet(who: u8, n: u64, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..length).map(|i| (i as u64 ^ (n.wrapping_mul(151)) ^ u64::from(who)) as u8).collect();
    for (to, from) in bytes.iter_mut().zip(n.to_be_bytes()) {
        *to = from;
    }
    bytes
}

/// Everything that came, by sender, in order.
pub type Arrived = BTreeMap<SocketAddr, Vec<Vec<u8>>>;

/// Poll until `count` packets came, or nothing more does.
pub fn collect(source: &mut dyn Source, count: usize) -> Arrived {
    let mut arrived = Arrived::new();
    let (mut seen, mut quiet) = (0, Instant::now());
    while seen < count && quiet.elapsed() < Duration::from_secs(2) {
        let got = collect_once(source, &mut arrived, Duration::from_millis(20));
        seen += got;
        if got > 0 {
            quiet = Instant::now();
        }
    }
    // One look more, for packets that came twice.
    collect_once(source, &mut arrived, Duration::from_millis(4));
    arrived
}

pub fn collect_once(source: &mut dyn Source, arrived: &mut Arrived, wait: Duration) -> usize {
    let mut seen = 0;
    let said = source
        .poll(wait, &mut |train| {
            assert_eq!(train.packets().count(), train.count());
            seen += train.count();
            arrived.entry(*train.sender).or_default().extend(train.packets().map(<[u8]>::to_vec));
        })
        .unwrap();
    assert_eq!(said, seen, "poll says how many packets it handed on");
    seen
}

/// The packets of one sender are those sent, in order, none twice, and the counters agree.
pub fn assert_same(arrived: &[Vec<u8>], sent: &[Vec<u8>], what: &str) {
    let lengths = |p: &[Vec<u8>]| p.iter().map(Vec::len).take(20).collect::<Vec<_>>();
    assert_eq!(
        arrived.len(),
        sent.len(),
        "{what}: packets; lengths {:?} of {:?}",
        lengths(arrived),
        lengths(sent)
    );
    for (n, (a, b)) in arrived.iter().zip(sent).enumerate() {
        assert!(a == b, "{what}: packet {n} ({} bytes) differs from what was sent ({})", a.len(), b.len());
    }
}

pub fn assert_counted(stats: &SourceStats, packets: usize, bytes: usize, what: &str) {
    let counted = (stats.packets, stats.bytes, stats.truncated, stats.malformed, stats.socket_drops);
    assert_eq!(counted, (packets as u64, bytes as u64, 0, 0, 0), "{what}: {stats:?}");
}

/// Two networks joined by a veth pair, made as the lab makes its ends; nothing is left of them, however a test ends.
pub struct Pair {
    pub near: Network,
    pub far: Network,
}

impl Pair {
    /// None, with a visible reason, where that is not allowed.
    pub fn new(mtu: u32) -> Option<Self> {
        match Self::join(mtu) {
            Ok(pair) => Some(pair),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
            {
                println!("SKIPPED: {error} (run as root)");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn join(mtu: u32) -> io::Result<Self> {
        let pair = Self { near: Network::new()?, far: Network::new()? };
        pair.near.inside(|| Routes::open()?.veth("va", ("vb", pair.far.as_fd()), mtu))??;
        pair.near.inside(|| furnish("va", "10.77.0.1", "fd77::1"))??;
        pair.far.inside(|| furnish("vb", "10.77.0.2", "fd77::2"))??;
        // Until a new link has proved its own addresses unique, the kernel takes in no group packets on it.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !(is_ready(&pair.near) && is_ready(&pair.far)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(pair)
    }

    /// Run `work` in a thread of its own in a network.
    pub fn inside<T: Send>(network: &Network, work: impl FnOnce() -> T + Send) -> T {
        network.inside(work).unwrap()
    }

    /// Set the far end's interface down.
    pub fn cut(&self) {
        Self::inside(&self.far, || {
            let mut routes = Routes::open().unwrap();
            let index = routes.index("vb").unwrap();
            routes.down(index).unwrap();
        });
    }
}

fn furnish(name: &str, ip: &str, ip6: &str) -> io::Result<()> {
    let mut routes = Routes::open()?;
    let (lo, index) = (routes.index("lo")?, routes.index(name)?);
    routes.address(index, ip.parse().unwrap(), 24)?;
    routes.address(index, ip6.parse().unwrap(), 64)?;
    routes.up(index)?;
    routes.up(lo)
}

/// Whether its address of the link may be used.
fn is_ready(network: &Network) -> bool {
    const TENTATIVE: u32 = 0x40;
    let list = Pair::inside(network, || std::fs::read_to_string("/proc/thread-self/net/if_inet6"));
    // Address, number, prefix, scope, flags, name.
    list.unwrap_or_default().lines().any(|line| {
        let flags = line.split_whitespace().nth(4).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        line.starts_with("fe80") && flags.is_some_and(|flags| flags & TENTATIVE == 0)
    })
}

/// Whether this host has IPv6 on the loopback.
pub fn has_ipv6() -> bool {
    let has = std::net::UdpSocket::bind("[::1]:0").is_ok();
    if !has {
        eprintln!("SKIPPED: no IPv6 on this host");
    }
    has
}
