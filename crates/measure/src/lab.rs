//! A path between two hosts on one machine: two ends and a router between them, in networks of their own.
//!
//! ```text
//!   near                        router                         far
//!   10.77.0.1  fd77::1          10.77.0.254                    10.77.0.2  fd77::2
//!   command ── path0 ══ veth ══ near ─ forwarder ─ far ══ veth ══ path0 ── command
//!              own queue                 Judge: rate, delay, loss, …
//! ```
//!
//! ```no_run
//! use skyhaul_measure::lab::{Lab, LabOptions};
//! let lab = Lab::new(&LabOptions::default())?;
//! let running = lab.forward(&"rate=1Gbps,delay=15ms,loss=1e-4,seed=7".parse()?, None)?;
//! lab.near().command("ping").args(["-c", "3", "10.77.0.2"]).status()?;
//! println!("{}", running.finish()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The ends are ordinary hosts to what runs in them: the kernel's TCP, its counters, its queues. Whose packets they lose is
//! known, because the forwarder decides each packet's fate by [`Path`], from a seed, and logs it.
//!
//! Limits: one path; packets and trains of one thread's worth; neighbours are known for ever, so that no question for one is
//! lost; what the router cannot keep up with fails the run, and the report says why.

mod end;
mod forward;
mod frame;
mod queue;
mod report;

pub use end::{EndSettings, LabText, listens};
pub use report::{DirectionReport, LabReport, Lateness};

use forward::{Forwarder, Pace};
use report::ForwardReport;
use skyhaul_io::fault::path::Path;
use skyhaul_io::host::thread::{cpu_time, real_time};
use skyhaul_io::namespace::Network;
use skyhaul_io::netlink::route::{Interface, Routes};
use skyhaul_io::packet::{Port, bare, wake_on_time};
use skyhaul_io::quantity::{Size, Span};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Address of the near end.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the far end.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Address of the router, which answers without the path between.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
/// Address of the near end, IPv6.
pub const NEAR6: Ipv6Addr = Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 0, 1);
/// Address of the far end, IPv6.
pub const FAR6: Ipv6Addr = Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 0, 2);
/// Interface of each end.
const INTERFACE: &str = "path0";
/// The least priority that runs before ordinary threads.
const PRIORITY: u8 = 1;

/// Lines for `/etc/hosts`.
#[must_use]
pub fn hosts() -> String {
    format!("{NEAR} near\n{FAR} far\n{ROUTER} router\n{NEAR6} near\n{FAR6} far\n")
}

/// Settings of a lab.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Octets of an IP packet, at most.
    pub mtu: u32,
    /// What the kernel of the near end does: what it drops, it counts.
    pub near: EndSettings,
    /// What the kernel of the far end does.
    pub far: EndSettings,
    /// Memory for frames that wait.
    pub memory: Size,
    /// Room of the packet sockets.
    pub room: Size,
    /// How long before a packet is due the forwarder stops sleeping.
    pub spin: Span,
    /// On a busy path, how long after it looked the forwarder looks again, at the earliest: what is due until then leaves
    /// together.
    pub grain: Span,
    /// How much later than it was due a packet may leave.
    pub tolerance: Span,
    /// Run before all ordinary threads, where that is permitted.
    pub real_time: bool,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            mtu: 1500,
            near: EndSettings::default(),
            far: EndSettings::default(),
            memory: Size::from_bytes(256 << 20),
            room: Size::from_bytes(64 << 20),
            spin: Span::from_nanos(0),
            grain: Span::from_nanos(40_000),
            tolerance: Span::from_nanos(1_000_000),
            real_time: true,
        }
    }
}

/// Two ends and a router.
#[derive(Debug)]
pub struct Lab {
    near: Network,
    far: Network,
    router: Network,
    options: LabOptions,
}

impl Lab {
    /// Make the networks. Nothing passes before [`forward`](Self::forward).
    ///
    /// # Errors
    /// The privilege is missing, or the kernel knows no veth; or it does not what is asked of an end.
    pub fn new(options: &LabOptions) -> io::Result<Self> {
        let [near, far, router] = [Network::new()?, Network::new()?, Network::new()?];
        let lab = Self { near, far, router, options: options.clone() };
        lab.near.inside(|| options.near.prepare())??;
        lab.far.inside(|| options.far.prepare())??;
        lab.router.inside(|| lab.join())??;
        let (near, far) =
            (lab.near.inside(|| interface(INTERFACE))??, lab.far.inside(|| interface(INTERFACE))??);
        lab.near.inside(|| furnish(&near, (NEAR, NEAR6), (FAR, FAR6, &far), &options.near))??;
        lab.far.inside(|| furnish(&far, (FAR, FAR6), (NEAR, NEAR6, &near), &options.far))??;
        Ok(lab)
    }

    /// The near end.
    #[must_use]
    pub fn near(&self) -> &Network {
        &self.near
    }

    /// The far end.
    #[must_use]
    pub fn far(&self) -> &Network {
        &self.far
    }

    /// Inside the router: its two interfaces.
    fn join(&self) -> io::Result<()> {
        let mut routes = Routes::open()?;
        routes.veth("near", (INTERFACE, self.near.as_fd()), self.options.mtu)?;
        routes.veth("far", (INTERFACE, self.far.as_fd()), self.options.mtu)?;
        let lo = routes.index("lo")?;
        routes.up(lo)?;
        routes.address(lo, ROUTER.into(), 32)?;
        for (name, end) in [("near", NEAR), ("far", FAR)] {
            let index = routes.index(name)?;
            routes.up(index)?;
            routes.route(index, (end.into(), 32), None, Some(ROUTER.into()))?;
        }
        Ok(())
    }

    /// The router's two ports, and its hardware addresses.
    fn ports(&self) -> io::Result<([Port; 2], [[u8; 6]; 2])> {
        self.router.inside(|| {
            let (near, far) = (interface("near")?, interface("far")?);
            let ports =
                [Port::open(near.index, self.options.room)?, Port::open(far.index, self.options.room)?];
            ports.iter().try_for_each(Port::bypass_queue)?;
            Ok((ports, [near.mac.unwrap_or_default(), far.mac.unwrap_or_default()]))
        })?
    }

    /// Forward packets by this path, from now on; the fate of each goes to the file `log`.
    ///
    /// # Errors
    /// A system error, or the log cannot be created.
    pub fn forward(&self, path: &Path, log: Option<&std::path::Path>) -> io::Result<RunningLab> {
        let (ports, own) = self.ports()?;
        let log = log.map(report::Log::create).transpose()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, path_of) = (stop.clone(), path.clone());
        let LabOptions { spin, grain, tolerance, memory, real_time: wanted, .. } = self.options;
        let pace = Pace { spin: spin.nanos(), grain: grain.nanos(), tolerance: tolerance.nanos() };
        let forward = move || {
            wake_on_time()?;
            let first = wanted && real_time(PRIORITY).is_ok();
            let memory = usize::try_from(memory.bytes()).unwrap_or(usize::MAX);
            let forwarder = Forwarder::new(ports, own, &path_of, memory, log, pace);
            forwarder.run(&stopped).map(|report| (report, first))
        };
        let thread = std::thread::Builder::new().name("lab-forward".into()).spawn(forward)?;
        let networks = [self.near.clone(), self.router.clone(), self.far.clone()];
        let before = dropped(&networks)?;
        let (near, far) = (self.options.near.clone(), self.options.far.clone());
        let text = LabText { path: path.clone(), near, far }.to_string();
        Ok(RunningLab { text, stop, thread, networks, before })
    }
}

/// A path that forwards.
#[derive(Debug)]
pub struct RunningLab {
    text: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(ForwardReport, bool)>>,
    networks: [Network; 3],
    before: u64,
}

impl RunningLab {
    /// Whether it still forwards: it ends by itself only if the system refuses something.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// End it; what still waits is counted, and not delivered.
    ///
    /// # Errors
    /// What ended it before, or the log could not be written.
    pub fn finish(self) -> io::Result<LabReport> {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.join().map_err(|_| io::Error::other("the thread that forwards failed"))?;
        let (report, first) = done?;
        let lost = dropped(&self.networks)?.saturating_sub(self.before);
        Ok(LabReport::new(self.text, first, &report, lost))
    }
}

fn interface(name: &str) -> io::Result<Interface> {
    Routes::open()?.interface(name)
}

/// Inside an end: its address, and who its neighbour is.
fn furnish(
    own: &Interface,
    (ip, ip6): (Ipv4Addr, Ipv6Addr),
    (peer, peer6, other): (Ipv4Addr, Ipv6Addr, &Interface),
    end: &EndSettings,
) -> io::Result<()> {
    let mut routes = Routes::open()?;
    let lo = routes.index("lo")?;
    routes.up(lo)?;
    routes.address(own.index, ip.into(), 24)?;
    routes.up(own.index)?;
    let mac = other.mac.unwrap_or_default();
    routes.neighbour(own.index, peer.into(), mac)?;
    // A kernel without IPv6 has a path without it.
    let mut six = || {
        routes.address(own.index, IpAddr::V6(ip6), 64)?;
        routes.neighbour(own.index, IpAddr::V6(peer6), mac)
    };
    let _: io::Result<()> = six();
    end.furnish(own.index)
}

/// Packets that interfaces dropped, in all networks: no path said so. What an end sends to itself takes no path.
fn dropped(networks: &[Network]) -> io::Result<u64> {
    let mut sum = 0;
    for network in networks {
        let all = network.inside(|| Routes::open()?.interfaces())??;
        let outer = all.iter().filter(|one| one.name != "lo");
        sum += outer.map(|one| one.send_dropped + one.receive_dropped).sum::<u64>();
    }
    Ok(sum)
}

/// Frames of a system call: as many as the forwarder takes.
const BATCH: usize = forward::BATCH;

/// A loop that copies.
#[derive(Debug)]
pub struct BareForwarder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(u64, Duration)>>,
}

impl Lab {
    /// Copy every frame from each end to the other, unread: the same sockets, and no path.
    ///
    /// # Errors
    /// A system error.
    pub fn copy(&self) -> io::Result<BareForwarder> {
        let (ports, _) = self.ports()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, wanted) = (stop.clone(), self.options.real_time);
        let work = move || {
            wake_on_time()?;
            let _ = wanted && real_time(PRIORITY).is_ok();
            let refused = bare::copy(&ports, BATCH, &stopped)?;
            Ok((refused, cpu_time()))
        };
        Ok(BareForwarder { stop, thread: std::thread::Builder::new().name("lab-copy".into()).spawn(work)? })
    }
}

impl BareForwarder {
    /// End it; returns the frames that the kernel refused, and the CPU time of the loop.
    ///
    /// # Errors
    /// What ended it before.
    pub fn finish(self) -> io::Result<(u64, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the thread that copies failed"))?
    }
}
