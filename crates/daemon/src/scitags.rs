//! Whose traffic a connection carries, said to the networks in between (scitags.org): in datagrams to collectors, called fireflies, at its start,
//! while it lasts and at its end; and, of connections that this host opens over IPv6, in the flow label of each packet.
//!
//! ```text
//!   request with SciTag ─▶ FlowSocket::begin ─▶ firefly "start" ─┐
//!                              │ each interval     "ongoing" ────┼─▶ queue ─▶ thread ─▶ collectors, the other end
//!                              ▼ connection closed "end" ────────┘
//!                          bytes and round trip by TCP_INFO
//! ```
//!
//! A firefly never delays what it tells of: what does not fit into the queue, or cannot be sent, is counted. One flow is one TCP connection; it has
//! the tag of the first tagged request on it.
//!
//! Limits: 1024 datagrams wait; a name of a collector is resolved again after 5 min.

mod firefly;
mod flow;
mod label;
mod tag;

pub(crate) use flow::{FlowMark, FlowSocket, FlowWay};
pub use tag::SciTag;

use firefly::Firefly;
use label::flow_label;
use skyhaul::io::host::tree::host_name;
use skyhaul::io::lock::{lock, wait};
use skyhaul::io::say;
use skyhaul::metrics::{Kind, Metric};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Port of collectors.
pub const COLLECTOR_PORT: u16 = 10_514;
/// Datagrams that wait for the thread that sends them.
const MAX_WAITING: usize = 1024;
/// How long addresses of a collector are used.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(300);
/// How long the end of a server waits for the last datagrams.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How traffic is marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SciTagOptions {
    /// Collectors of fireflies, as HOST or HOST:PORT; the port is [`COLLECTOR_PORT`] otherwise.
    pub collectors: Vec<String>,
    /// Whether the other end of a connection gets them, too, at [`COLLECTOR_PORT`].
    pub to_peer: bool,
    /// Whether connections that this host opens over IPv6 have a flow label.
    pub flow_label: bool,
    /// Time between those that say a connection lasts; without it, there are only those of its start and its end.
    pub interval: Option<Duration>,
    /// The tag of copies with other servers whose client gives none.
    pub default: Option<SciTag>,
}

/// Marks connections. Its last datagrams are sent when it is dropped.
pub(crate) struct FlowMarker {
    options: SciTagOptions,
    host: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    counts: Counts,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(String, Option<IpAddr>)>,
    is_closing: bool,
    is_over: bool,
}

/// Fireflies and labels; each firefly counts once for each place it goes to.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
    /// Those for which the queue had no room.
    dropped: AtomicU64,
    labels: AtomicU64,
    label_failures: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl FlowMarker {
    /// Starts the thread that sends.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(options: &SciTagOptions) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let (of, collectors, to_peer) = (Arc::clone(&shared), options.collectors.clone(), options.to_peer);
        let sender = std::thread::Builder::new().name("scitags".into());
        sender.spawn(move || of.run(Targets::new(&collectors, to_peer)))?;
        Ok(Arc::new(Self { options: options.clone(), host: host_name(), shared }))
    }

    /// The tag of a copy whose client gives this one.
    fn tag_of_copy(&self, given: Option<SciTag>) -> Option<SciTag> {
        given.or(self.options.default)
    }

    /// The flow label of a connection with this tag, if it is to have one.
    fn label(&self, tag: SciTag) -> Option<u32> {
        self.options.flow_label.then(|| flow_label(tag, rand_bits())).flatten()
    }

    /// Notes whether the kernel took a label. The first that it did not take is said.
    fn note_label(&self, set: &io::Result<u32>) {
        let counts = &self.shared.counts;
        match set {
            Ok(_) => count(&counts.labels),
            Err(error) if counts.label_failures.fetch_add(1, Ordering::Relaxed) == 0 => {
                say!("a connection has no flow label: {error}");
            }
            Err(_) => {}
        }
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn interval(&self) -> Option<Duration> {
        self.options.interval
    }

    /// Sends a firefly of a connection with `peer`.
    fn send(&self, firefly: &Firefly<'_>, peer: IpAddr) {
        let places = self.options.collectors.len() + usize::from(self.options.to_peer);
        if places == 0 {
            return;
        }
        let text = firefly.text();
        let mut queue = lock(&self.shared.queue);
        if queue.is_over || queue.waiting.len() >= MAX_WAITING {
            self.shared.counts.dropped.fetch_add(places as u64, Ordering::Relaxed);
            return;
        }
        queue.waiting.push_back((text, Some(peer).filter(|_| self.options.to_peer)));
        self.shared.changed.notify_all();
    }

    /// Sends what waits; later ones are dropped.
    pub(crate) fn close(&self) {
        let shared = &self.shared;
        let mut queue = lock(&shared.queue);
        queue.is_closing = true;
        shared.changed.notify_all();
        drop(skyhaul::io::lock::wait_while(&shared.changed, queue, CLOSE_TIMEOUT, |queue| !queue.is_over));
    }

    /// Its counts for `/metrics`.
    pub(crate) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        let counts = &self.shared.counts;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut fireflies = metric(
            "fireflies_total",
            Kind::Counter,
            "Fireflies, one for each place each goes to, by their result.",
        );
        for (result, counter) in
            [("sent", &counts.sent), ("failed", &counts.failed), ("dropped", &counts.dropped)]
        {
            fireflies.add(&[("result", &result)], value(counter));
        }
        let mut labels = metric(
            "flow_labels_total",
            Kind::Counter,
            "Connections that were to have an IPv6 flow label, by the result.",
        );
        for (result, counter) in [("set", &counts.labels), ("failed", &counts.label_failures)] {
            labels.add(&[("result", &result)], value(counter));
        }
        vec![fireflies, labels]
    }
}

impl Drop for FlowMarker {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bits that differ between connections.
fn rand_bits() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0u8) as u32
}

impl Shared {
    fn next(&self) -> Option<(String, Option<IpAddr>)> {
        let mut queue = lock(&self.queue);
        loop {
            match queue.waiting.pop_front() {
                Some(next) => return Some(next),
                None if queue.is_closing => return None,
                None => queue = wait(&self.changed, queue),
            }
        }
    }

    /// Sends until the end.
    fn run(&self, mut targets: Targets) {
        while let Some((text, peer)) = self.next() {
            targets.send(&text, peer, &self.counts);
        }
        lock(&self.queue).is_over = true;
        self.changed.notify_all();
    }
}

/// Where fireflies go.
struct Targets {
    collectors: Vec<Collector>,
    /// Without them, and with IPv4 alone, where a host has none of IPv6.
    sockets: (Option<UdpSocket>, Option<UdpSocket>),
    has_failed: bool,
}

struct Collector {
    name: String,
    address: Option<SocketAddr>,
    resolved: Option<Instant>,
}

impl Targets {
    fn new(collectors: &[String], to_peer: bool) -> Self {
        let of = |name: &String| Collector { name: name.clone(), address: None, resolved: None };
        let open = |ip: IpAddr| {
            let socket = UdpSocket::bind((ip, 0)).ok()?;
            // A queue of the kernel that is full holds nothing up.
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        let is_needed = to_peer || !collectors.is_empty();
        let both = |ip: IpAddr| is_needed.then(|| open(ip)).flatten();
        Self {
            collectors: collectors.iter().map(of).collect(),
            sockets: (both(Ipv4Addr::UNSPECIFIED.into()), both(Ipv6Addr::UNSPECIFIED.into())),
            has_failed: false,
        }
    }

    fn send(&mut self, text: &str, peer: Option<IpAddr>, counts: &Counts) {
        let peer = peer.map(|ip| SocketAddr::new(ip.to_canonical(), COLLECTOR_PORT));
        let collectors = self.collectors.iter_mut().map(Collector::address);
        let all: Vec<_> = collectors.chain(peer.map(Ok)).collect();
        for to in all {
            let sent = to.and_then(|to| {
                let socket = if to.is_ipv4() { &self.sockets.0 } else { &self.sockets.1 };
                let none = || io::Error::from(io::ErrorKind::AddrNotAvailable);
                let sent = socket.as_ref().ok_or_else(none)?.send_to(text.as_bytes(), to);
                sent.map_err(|error| io::Error::new(error.kind(), format!("{to}: {error}")))
            });
            match sent {
                Ok(_) => count(&counts.sent),
                Err(error) => {
                    count(&counts.failed);
                    if !std::mem::replace(&mut self.has_failed, true) {
                        say!("a firefly could not be sent: {error}; others are counted");
                    }
                }
            }
        }
    }
}

impl Collector {
    fn address(&mut self) -> io::Result<SocketAddr> {
        if self.resolved.is_none_or(|at| at.elapsed() >= RESOLVE_INTERVAL) {
            self.resolved = Some(Instant::now());
            self.address = resolve(&self.name);
        }
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("{}: Name or service not known", self.name));
        self.address.ok_or_else(unknown)
    }
}

/// HOST, HOST:PORT, an address of IPv6 with or without brackets.
fn resolve(name: &str) -> Option<SocketAddr> {
    if let Ok(ip) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some((ip, COLLECTOR_PORT).into());
    }
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    let (host, port) = match name.rsplit_once(':') {
        None => (name, COLLECTOR_PORT),
        Some((host, port)) => (host, port.parse().ok()?),
    };
    (host, port).to_socket_addrs().ok()?.next()
}

impl SciTagOptions {
    /// What of it cannot be.
    ///
    /// # Errors
    /// A collector is not HOST or HOST:PORT.
    pub fn check(&self) -> Result<(), String> {
        for name in &self.collectors {
            let is_address =
                name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || name.parse::<SocketAddr>().is_ok();
            let (host, port) = name.rsplit_once(':').unwrap_or((name, "1"));
            let is_host = !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
            let is_collector = is_address || is_host && is_port;
            if !is_collector {
                return Err(format!("`{name}` is not a collector: expected HOST or HOST:PORT"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_hosts_with_or_without_a_port() {
        let check = |name: &str| {
            SciTagOptions { collectors: vec![name.to_owned()], ..SciTagOptions::default() }.check()
        };
        for (name, address) in [
            ("192.0.2.7", Some("192.0.2.7:10514")),
            ("192.0.2.7:99", Some("192.0.2.7:99")),
            ("2001:db8::7", Some("[2001:db8::7]:10514")),
            ("[2001:db8::7]", Some("[2001:db8::7]:10514")),
            ("[2001:db8::7]:99", Some("[2001:db8::7]:99")),
            ("collector.example", None),
            ("collector.example:99", None),
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
            if let Some(address) = address {
                assert_eq!(resolve(name), address.parse().ok(), "{name}");
            }
        }
        for name in ["", ":99", "a b", "a:0", "a:x", "a:65536", "udp://a"] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    /// A queue that nobody empties costs fireflies, which are counted, and no time.
    #[test]
    fn what_does_not_fit_is_counted() {
        let shared = Arc::new(Shared::default());
        let collectors = vec!["192.0.2.7".to_owned(), "192.0.2.8".to_owned()];
        let options = SciTagOptions { collectors, to_peer: true, ..SciTagOptions::default() };
        let host = String::new();
        let marker = FlowMarker { options, host, shared };
        let firefly = firefly::example();
        (0..MAX_WAITING + 5).for_each(|_| marker.send(&firefly, Ipv4Addr::LOCALHOST.into()));
        assert_eq!(marker.shared.counts.dropped.load(Ordering::Relaxed), 15, "each for three places");
        assert_eq!(lock(&marker.shared.queue).waiting.len(), MAX_WAITING);
        lock(&marker.shared.queue).is_over = true;
    }
}
