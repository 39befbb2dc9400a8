//! What every transport must do, and places to try it.
#![allow(dead_code, unreachable_pub)]

use skyhaul_io::source::{Source, SourceStats};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
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

/// Two network namespaces joined by a veth pair, taken down again at the end.
pub struct Pair {
    pub near: String,
    pub far: String,
}

impl Pair {
    /// None, with a visible reason, where that is not allowed.
    pub fn new(mtu: u32) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let pair = Self { near: format!("skyn{tag}"), far: format!("skyf{tag}") };
        let (near, far) = (&pair.near, &pair.far);
        let steps = [
            format!("ip netns add {near}"),
            format!("ip netns add {far}"),
            format!("ip link add va netns {near} mtu {mtu} type veth peer name vb netns {far} mtu {mtu}"),
            format!("ip -n {near} addr add 10.77.0.1/24 dev va"),
            format!("ip -n {far} addr add 10.77.0.2/24 dev vb"),
            format!("ip -n {near} addr add fd77::1/64 dev va nodad"),
            format!("ip -n {far} addr add fd77::2/64 dev vb nodad"),
            format!("ip -n {near} link set va up"),
            format!("ip -n {far} link set vb up"),
            format!("ip -n {near} link set lo up"),
            format!("ip -n {far} link set lo up"),
        ];
        for step in &steps {
            if !run(step) {
                eprintln!("SKIPPED: no network namespaces here ({step})");
                return None;
            }
        }
        // Until a new link has proved its own addresses unique, the kernel takes in no group packets on it.
        let ready = |name: &str| {
            let list = Command::new("ip").args(["-n", name, "-6", "addr", "show", "scope", "link"]).output();
            let list = list.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            list.contains("fe80") && !list.contains("tentative")
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while !(ready(near) && ready(far)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(pair)
    }

    /// Run `work` in a thread of its own inside namespace `name`.
    pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter(name);
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            run(&format!("ip netns del {name}"));
        }
    }
}

/// Move this thread into the network namespace `name`.
pub fn enter(name: &str) {
    use std::os::fd::AsFd;
    let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
    let kind = Some(rustix::thread::LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(file.as_fd(), kind).unwrap();
}

pub fn run(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output();
    output.is_ok_and(|o| o.status.success())
}

/// Whether this host has IPv6 on the loopback.
pub fn has_ipv6() -> bool {
    let has = std::net::UdpSocket::bind("[::1]:0").is_ok();
    if !has {
        eprintln!("SKIPPED: no IPv6 on this host");
    }
    has
}
