//! The fast path: a program in the kernel that sends on what it can, and the thread that tells it how.
//!
//! ```text
//!   table, ways ─ image ─▶ kernel: a packet sees one image       every 20 ms: the newest table, a lease of 250 ms
//!   counters, highest tick ◀─┘                                   every 50 ms
//! ```
//!
//! The thread is one more plane: it uses the newest table, asks for ticks before they come, and publishes counters. Ticks that it did
//! not get in time are passed to sockets. The lease counts from when it looked for that table,
//! so the program never uses one that is older than the lease. When the process ends, the kernel takes the program away.
//!
//! Who is next on the way to a member is asked of the kernel every half second. Until it is known, and whenever a packet is not
//! what the program knows, sockets forward.

use super::FastPath;
use super::control::{Done, Planes, Shared};
use skyhaul_core::balance::xdp::{
    COUNTS_BYTES, Counts, Hop, Inlet, LEASE_BYTES, Lease, MapName, Step, image, program,
};
use skyhaul_core::balance::{AllowList, Table, TickRange, Ticks};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::labelled::Labelled;
use skyhaul_io::bpf::{Attached, Map, Place, Program, Words, now};
use skyhaul_io::host::interface::{interface_index, interface_of};
use skyhaul_io::host::thread;
use skyhaul_io::host::way::{Link, Ways};
use skyhaul_io::udp::forward::Forwarded;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the thread looks for a newer table.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the kernel may go on without it.
const LEASE_NANOS: u64 = 250_000_000;
/// How often the ways are asked for.
const ROUTE_INTERVAL: Duration = Duration::from_millis(500);
/// The same, while one is not known.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long another program is waited for.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(1);
/// How often counters are published.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(50);

/// The program at work, and what it shares with us.
pub(super) struct Fast {
    /// Bytes of a label.
    label: u16,
    /// Where data arrive: the source of what is sent on.
    data: Vec<SocketAddr>,
    attached: Vec<Attached>,
    mode: String,
    ways: Ways,
    /// The way to each member, as far as it is known.
    hops: BTreeMap<IpAddr, Option<Hop>>,
    table: Arc<Table>,
    known: u64,
    images: Map,
    lease: Words,
    _lease: Map,
    counts: Map,
    period: u64,
    /// The highest tick that the kernel forwarded of late, and what it may forward.
    newest: Option<u64>,
    settled: TickRange,
}

impl Fast {
    /// Attach the program where `data` come in; `Ok(Err(_))` says why there is none, or nothing if none was asked for.
    ///
    /// # Errors
    /// It must be there, and cannot: the error has a hint.
    pub(super) fn open<L: Labelled>(data: &[SocketAddr], how: FastPath) -> io::Result<Result<Fast, String>> {
        if how == FastPath::Off {
            return Ok(Err(String::new()));
        }
        match (Fast::attach::<L>(data, how), how) {
            (Ok(fast), _) => Ok(Ok(fast)),
            (Err(error), FastPath::Xdp) => {
                let text =
                    format!("{error}{}", Hint("--fast-path auto forwards by sockets where XDP cannot"));
                Err(io::Error::new(error.kind(), text))
            }
            (Err(error), _) => Ok(Err(format!("no XDP ({error})"))),
        }
    }

    fn attach<L: Labelled>(data: &[SocketAddr], how: FastPath) -> io::Result<Fast> {
        let mut ways = Ways::open()?;
        let links = links(data, &mut ways)?;
        let label = L::LAYOUT.bytes;
        let table = Arc::new(Table::new(AllowList::default(), Vec::new(), &[]));
        let nothing = Map::of(&image(&table, label, |_| None))?;
        let (images, counts) = (Map::holder(&nothing)?, Map::per_processor(COUNTS_BYTES)?);
        let (of_lease, lease) = Map::shared(LEASE_BYTES / 8)?;
        let number = |map| match map {
            MapName::Tables => images.number(),
            MapName::Lease => of_lease.number(),
            MapName::Counts => counts.number(),
        };
        let places: &[Place] =
            if how == FastPath::Xdp { &[Place::Driver, Place::Stack] } else { &[Place::Driver] };
        let (mut attached, mut said) = (Vec::new(), Vec::new());
        for (name, link) in links {
            let mut failed = None;
            for &place in places {
                let Link { interface, mac, .. } = link;
                let inlet = Inlet { interface, mac, data: data.to_vec(), single: place == Place::Driver };
                let steps = program::<L>(&inlet).map_err(io::Error::other)?.steps(number);
                let steps: Vec<[u8; 8]> = steps.into_iter().map(Step::octets).collect();
                match attach_soon(&Program::load(&steps)?, interface, place) {
                    Ok(at) => {
                        said.push(format!("{} of {name}", place.name()));
                        attached.push(at);
                        failed = None;
                        break;
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(io::Error::new(error.kind(), format!("{name}: {error}")));
            }
        }
        Ok(Fast {
            label,
            data: data.to_vec(),
            attached,
            mode: format!("XDP in {}", said.join(", ")),
            ways,
            hops: BTreeMap::new(),
            table,
            known: 0,
            images,
            lease,
            _lease: of_lease,
            counts,
            period: 1,
            newest: None,
            settled: TickRange::NONE,
        })
    }

    /// The thread: until all planes stop.
    pub(super) fn run(mut self, number: usize, shared: &Shared) {
        let (mut asked, mut published) = (None::<Instant>, None::<Instant>);
        let due = |last: Option<Instant>, after: Duration| last.is_none_or(|last| last.elapsed() >= after);
        while !shared.stops() {
            // From before the look: however long this thread has no processor in between, no older table holds for longer.
            let looked = now();
            let newer = shared.newer(&mut self.known);
            let is_new = newer.is_some();
            if newer.as_ref().is_some_and(|newer| newer.era() != self.table.era()) {
                // It gives other calendars to ticks that were settled.
                self.settle(TickRange::NONE);
            }
            self.table = newer.unwrap_or_else(|| Arc::clone(&self.table));
            let mut changed = is_new;
            let all_known = self.hops.values().all(Option::is_some);
            if is_new || due(asked, if all_known { ROUTE_INTERVAL } else { ASK_AGAIN }) {
                asked = Some(Instant::now());
                match self.ask() {
                    Ok(other) => changed |= other,
                    Err(error) => shared.note(format!("the ways to workers cannot be asked for: {error}")),
                }
            }
            if changed && let Err(error) = self.show() {
                shared.note(format!("XDP is given up, sockets forward all: {error}"));
                break;
            }
            self.claim(shared);
            self.lease.set(Lease::PLACES.0, looked + LEASE_NANOS);
            if is_new || due(published, PUBLISH_INTERVAL) {
                published = Some(Instant::now());
                self.publish(&mut shared.of(number));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.lease.set(Lease::PLACES.0, 0);
        self.attached.clear();
        let mut done = shared.of(number);
        self.publish(&mut done);
        // It uses no table any more.
        done.table = u64::MAX;
    }

    /// Ask for the way to each member. Returns whether any has changed.
    fn ask(&mut self) -> io::Result<bool> {
        let in_driver = self.attached.iter().all(|at| at.place == Place::Driver);
        let mut hops = BTreeMap::new();
        self.ways.forget();
        for (_, member) in self.table.members() {
            let to = member.address().ip();
            let from = self.data.iter().map(SocketAddr::ip).find(|ip| ip.is_ipv4() == to.is_ipv4());
            let Some(from) = from else { continue };
            if hops.contains_key(&to) {
                continue;
            }
            let way = self.ways.to(to, from)?.filter(|way| way.link.takes.0 || !in_driver);
            let hop = way.map(|way| Hop {
                interface: way.link.interface,
                from: way.link.mac,
                to: way.next,
                mtu: u16::try_from(way.mtu).unwrap_or(u16::MAX),
                whole: in_driver && !way.link.takes.1,
            });
            hops.insert(to, hop);
        }
        let changed = hops != self.hops;
        self.hops = hops;
        Ok(changed)
    }

    /// Let the kernel forward what comes soon, or what sockets asked for last, if it forwards nothing.
    fn claim(&mut self, shared: &Shared) {
        let (number, ticks) = match self.newest {
            Some(newest) => shared.claim_ahead(newest),
            None => shared.claimed(),
        };
        // If there is a newer table, the kernel has it only after the next look.
        if number == self.known && ticks != self.settled {
            self.settle(ticks);
        }
    }

    /// Tell the kernel what it may forward. It reads the first tick twice, with the last one in between.
    fn settle(&mut self, ticks: TickRange) {
        let (first, last) = ticks.ends();
        let [at_first, at_last] = Lease::TICKS;
        self.lease.set(at_first, u64::MAX);
        self.lease.set(at_last, last);
        self.lease.set(at_first, first);
        self.settled = ticks;
    }

    /// Give the kernel the table.
    fn show(&mut self) -> io::Result<()> {
        let image = image(&self.table, self.label, |ip| self.hops.get(&ip).copied().flatten());
        self.images.hold(&Map::of(&image)?)
    }

    fn publish(&mut self, done: &mut Done) {
        let before = self.period;
        self.period += 1;
        self.lease.set(Lease::PLACES.1, self.period);
        let Ok(octets) = self.counts.read() else { return };
        let Counts { counters, bytes, newest } = Counts::read(&octets, before);
        done.forwarded = Forwarded { packets: counters.packets, bytes, ..Forwarded::default() };
        done.counters = counters;
        self.newest = newest;
        done.ticks.merge(&Ticks { newest, old: None });
        done.table = self.known;
        done.mode.clone_from(&self.mode);
        done.cpu = thread::cpu_time();
    }
}

/// Attach a program. That of a process that was killed is taken away a moment after its end, and is waited for.
fn attach_soon(program: &Program, interface: u32, place: Place) -> io::Result<Attached> {
    let begun = Instant::now();
    loop {
        let attached = program.attach(interface, place);
        let is_taken = attached.as_ref().is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists)
        });
        if !is_taken || begun.elapsed() > PROGRAM_TIMEOUT {
            return attached;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The interfaces that `data` come in by, and their names.
fn links(data: &[SocketAddr], ways: &mut Ways) -> io::Result<Vec<(String, Link)>> {
    let mut links: Vec<(String, Link)> = Vec::new();
    for at in data {
        let none = |why: String| io::Error::new(io::ErrorKind::Unsupported, why);
        let name = interface_of(at.ip()).ok_or_else(|| none(format!("no interface has {}", at.ip())))?;
        if links.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let link = ways.link(interface_index(&name)?)?;
        let link = link.ok_or_else(|| none(format!("{name} is not Ethernet")))?;
        links.push((name, link));
    }
    Ok(links)
}
