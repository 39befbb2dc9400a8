//! Addresses and ports of a control plane's load balancers, and how each is started.
//!
//! ```text
//!   instance   1       2       3              from the first ports that are given
//!   data     19522   19523   19524            packets
//!   sync     19531   19532   19533            synchronisation messages
//! ```
//!
//! A balancer may have its own addresses, with the first ports. Those without share `listen`. If several share it, none
//! of them has [`DATA_PORT`], because clients that ignore the port in the URI send to it: their packets would reach the
//! workers of another reservation. [`StrayCounter`] counts them instead.
//!
//! Data planes may run in processes of their own, which continue with their last table when this process is killed:
//!
//! ```text
//!   state.db               this process, and the next
//!   state.db.plane-1  ◀──  Unix socket of the process that forwards for load balancer 1
//! ```
//!
//! A starting control plane finds the data planes that still run and continues with them; those of load balancers that
//! are not reserved end.
//!
//! A data plane outlives the process that started it, and inherits no descriptor from it.
//!
//! If a data plane dies while this process runs, [`Balance`] immediately starts another on the same ports.
//!
//! Limits: with port 0, any free port is used; the path of a Unix socket has at most 107 bytes.

use super::client::Trust;
use super::registry::{Reservation, Session};
use skyhaul::balance::{Balance, BalanceError, BalanceOptions, BalanceStatus, Restart, WorkerStatus};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::Endpoint;
use skyhaul::io::host::program::alone;
use skyhaul::io::lock::lock;
use skyhaul::io::source::{Source, Train};
use skyhaul::io::udp::{UdpOptions, UdpSource};
use skyhaul_core::balance::{
    AllowList, BalancerConfig, Member, PortRange, Registration, Session as Seated, SlotRange, Standing,
};
pub use skyhaul_core::wire::ejfat::{DATA_PORT, SYNC_PORT};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Addresses and options of the balancers.
#[derive(Clone, Debug)]
pub struct Instances {
    /// Addresses for packets and messages, as senders use them.
    pub listen: Vec<IpAddr>,
    /// Addresses of the first balancers, which have their own; the others use `listen`.
    pub own: Vec<Vec<IpAddr>>,
    /// Whether several balancers share `listen`.
    pub shared: bool,
    /// Port for packets of the first balancer.
    pub data_port: u16,
    /// Port for messages of the first balancer.
    pub sync_port: u16,
    /// Options of each balancer; addresses, senders and strategy in it are ignored.
    pub balance: BalanceOptions,
    /// Which certificates are accepted from load balancers that are to feed one of these.
    pub upstream: Trust,
    /// Forward in processes that outlive this one; `None`: in this process.
    pub apart: Option<PlaneProcesses>,
}

impl Instances {
    /// Starts the balancer of a reservation with its sessions, or continues with one that still forwards.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn open<'a>(
        &self,
        reservation: &Reservation,
        sessions: impl Iterator<Item = &'a Session>,
    ) -> Result<Balance, BalanceError> {
        let (mut workers, mut demands) = (Vec::new(), Vec::new());
        for session in sessions {
            workers.extend(registration(session).map(|like| (seated(session.number), like)));
            demands.push((seated(session.number), ranges(&session.demands)));
        }
        let options = self.options(reservation);
        let balance = match &self.apart {
            Some(apart) => apart.open(reservation.instance, &options, &workers)?,
            None => Balance::resume(&options, &workers)?,
        };
        // They fitted a calendar of this length before.
        let _ = balance.demand_all(&demands);
        Ok(balance)
    }

    /// Ends a process that still forwards for a load balancer that is not reserved.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn clear(&self, instance: i64) -> Result<(), BalanceError> {
        self.apart.as_ref().map_or(Ok(()), |apart| apart.end(instance, &self.balance))
    }

    /// Every address on which a balancer listens.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = self.own.iter().flatten().copied().collect();
        if self.own.is_empty() || self.shared {
            all.extend(&self.listen);
        }
        all
    }

    /// Checks that this host has all of these addresses.
    ///
    /// # Errors
    /// The first address that it does not have.
    pub fn check(&self) -> io::Result<()> {
        for ip in self.addresses() {
            UdpSocket::bind((ip, 0)).map_err(|error| {
                let text = format!(
                    "listen on {ip}: {error}{}",
                    Hint("use an address of this host, as `ip -brief address` shows them")
                );
                io::Error::new(error.kind(), text)
            })?;
        }
        Ok(())
    }

    /// Returns a counter of packets from clients that ignore the port, at addresses that several balancers share;
    /// `None` if none are shared, or if ports are chosen freely.
    #[must_use]
    pub fn guard(&self) -> Option<StrayCounter> {
        (self.shared && self.data_port != 0).then(|| StrayCounter::start(&self.listen))
    }

    /// The addresses for packets and for messages of a balancer.
    fn places(&self, instance: i64) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let index = usize::try_from(instance - 1).unwrap_or(usize::MAX);
        let at = |ips: &[IpAddr], port: u16| ips.iter().map(|&ip| SocketAddr::new(ip, port)).collect();
        if let Some(own) = self.own.get(index) {
            return (at(own, self.data_port), at(own, self.sync_port));
        }
        let nth = u16::try_from(index - self.own.len()).unwrap_or(u16::MAX);
        let port = |first: u16| if first == 0 { 0 } else { first.saturating_add(nth) };
        (
            at(&self.listen, data_port(self.data_port, nth, self.shared)),
            at(&self.listen, port(self.sync_port)),
        )
    }

    fn options(&self, reservation: &Reservation) -> BalanceOptions {
        let (data, sync) = self.places(reservation.instance);
        let strategy = reservation.strategy;
        BalanceOptions {
            data,
            sync,
            allow: AllowList::of(&reservation.senders),
            config: BalancerConfig { strategy, ..self.balance.config },
            ..self.balance.clone()
        }
    }
}

/// Data port of the `nth` balancer, from 0; `shared`: whether it shares its addresses with others.
#[must_use]
pub fn data_port(first: u16, nth: u16, shared: bool) -> u16 {
    let port = first.saturating_add(nth);
    match first {
        0 => 0,
        first if shared && first <= DATA_PORT && port >= DATA_PORT => port.saturating_add(1),
        _ => port,
    }
}

/// The registration of a session; `None` if its ports exceed the last one.
#[must_use]
pub fn registration(session: &Session) -> Option<Registration> {
    let &Session { ip, port, bits, keep_label, weight, min_factor, max_factor, .. } = session;
    let member = Member::new(ip, port, PortRange::new(bits)?, keep_label)?;
    Some(Registration { member, weight, min_factor, max_factor })
}

/// Converts first slots and lengths to ranges.
#[must_use]
pub fn ranges(demands: &[(u16, u16)]) -> Vec<SlotRange> {
    demands.iter().map(|&(first, length)| SlotRange { first: Some(first), length }).collect()
}

/// The session number of the balancer.
#[must_use]
pub fn seated(number: u64) -> Seated {
    Seated::new(number)
}

/// The workers of a balancer, by session.
pub type BySession<'a> = HashMap<Seated, &'a WorkerStatus>;

/// See [`BySession`].
#[must_use]
pub fn by_session(status: &BalanceStatus) -> BySession<'_> {
    status.workers.iter().map(|worker| (worker.session, worker)).collect()
}

/// Whether the balancer still has this session.
#[must_use]
pub fn stays(workers: &BySession<'_>, number: u64) -> bool {
    let known = workers.get(&seated(number));
    known.is_some_and(|worker| matches!(worker.standing, Standing::Ready | Standing::Waiting))
}

/// Number of slots of a session, if it is ready.
#[must_use]
pub fn served(workers: &BySession<'_>, number: u64) -> u16 {
    let ready = workers.get(&seated(number)).filter(|worker| worker.standing == Standing::Ready);
    ready.map_or(0, |worker| worker.slots)
}

/// How often it checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    stop: AtomicBool,
    /// Why packets of an address are not counted at the moment.
    faults: Mutex<BTreeMap<IpAddr, String>>,
}

impl Shared {
    fn faults(&self) -> MutexGuard<'_, BTreeMap<IpAddr, String>> {
        lock(&self.faults)
    }
}

/// Counts such packets. It ends when dropped.
pub struct StrayCounter {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for StrayCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("packets", &self.packets()).finish_non_exhaustive()
    }
}

impl StrayCounter {
    /// Listens on these addresses, except where another program has the port.
    #[must_use]
    pub fn start(listen: &[IpAddr]) -> StrayCounter {
        let mut guard = StrayCounter { shared: Arc::default(), threads: Vec::new() };
        for &ip in listen {
            let options = UdpOptions { timestamps: false, ..UdpOptions::default() };
            let opened = UdpSource::open(&Endpoint::udp(SocketAddr::new(ip, DATA_PORT)), &options);
            // Another program has the port, or the address cannot be used.
            let started = opened.and_then(|source| {
                let shared = Arc::clone(&guard.shared);
                let thread = std::thread::Builder::new().name("balance-guard".to_owned());
                thread.spawn(move || count_strays(source, ip, &shared))
            });
            match started {
                Ok(thread) => guard.threads.push(thread),
                Err(error) => drop(guard.shared.faults().insert(ip, error.to_string())),
            }
        }
        guard
    }

    /// Packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.shared.packets.load(Ordering::Relaxed)
    }

    /// What people should know of it.
    pub(crate) fn said(&self) -> Vec<String> {
        let faults = self.shared.faults();
        let mut said: Vec<String> = faults
            .iter()
            .map(|(ip, why)| {
                format!(
                    "cannot count packets to {ip} port {DATA_PORT} from clients that ignore the port in EJFAT_URI: {why}"
                )
            })
            .collect();
        if self.packets() > 0 {
            let hint = "the sender ignores the port in EJFAT_URI; --instance-address gives each load balancer an address of its own";
            said.push(format!(
                "packets arrive at port {DATA_PORT}, which no load balancer here uses, and are dropped (wrong_instance){}",
                Hint(hint)
            ));
        }
        said
    }
}

impl Drop for StrayCounter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn count_strays(mut source: impl Source, ip: IpAddr, shared: &Shared) {
    let (mut dropped, mut counted) = (0, Instant::now());
    while !shared.stop.load(Ordering::Acquire) {
        let mut count = |train: Train<'_>| {
            shared.packets.fetch_add(train.count() as u64, Ordering::Relaxed);
        };
        match source.poll(POLL_INTERVAL, &mut count) {
            Ok(_) => drop(shared.faults().remove(&ip)),
            // The interface may be back soon.
            Err(error) => {
                shared.faults().insert(ip, error.to_string());
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        if counted.elapsed() >= POLL_INTERVAL {
            // What found no room in the socket came, too.
            let now = source.stats().socket_drops;
            shared.packets.fetch_add(now.saturating_sub(dropped), Ordering::Relaxed);
            (dropped, counted) = (now, Instant::now());
        }
    }
}

/// Deadline for a data plane to start, or to notice the end of its previous controller.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks for it.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// How data planes are started and found.
#[derive(Clone, Debug)]
pub struct PlaneProcesses {
    /// The program and its first arguments. `--socket`, `--listen` and more are added.
    pub command: Vec<OsString>,
    /// Prefix of the paths of their sockets.
    pub sockets: PathBuf,
}

impl PlaneProcesses {
    /// The balancer of `instance`, with the running data plane, or with a new one.
    pub(super) fn open(
        &self,
        instance: i64,
        options: &BalanceOptions,
        workers: &[(Seated, Registration)],
    ) -> Result<Balance, BalanceError> {
        match self.attach(instance, options, workers, None) {
            Err(BalanceError::Io(error)) if is_nobody(&error) => {
                let child = self.spawn(instance, options)?;
                self.attach(instance, options, workers, Some(child))
            }
            attached => attached,
        }
    }

    /// Starts another data plane of `instance`, in place of one that died.
    fn restart(&self, instance: i64, options: &BalanceOptions) -> Restart {
        let (apart, options) = (self.clone(), options.clone());
        Box::new(move |data: &[SocketAddr]| {
            // On the ports that senders use.
            let options = BalanceOptions { data: data.to_vec(), ..options.clone() };
            let mut plane = Plane(Some(apart.spawn(instance, &options)?));
            Ok(Box::new(move || plane.ended()))
        })
    }

    /// End the data plane of a load balancer that is not reserved, if there is one.
    pub(super) fn end(&self, instance: i64, options: &BalanceOptions) -> Result<(), BalanceError> {
        match self.attach(instance, options, &[], None) {
            Ok(balance) => drop(balance.stop()),
            Err(BalanceError::Io(error)) if is_nobody(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn path(&self, instance: i64) -> PathBuf {
        let mut path = self.sockets.clone().into_os_string();
        path.push(instance.to_string());
        path.into()
    }

    /// Connect to a data plane; wait for one that was just started.
    fn attach(
        &self,
        instance: i64,
        options: &BalanceOptions,
        workers: &[(Seated, Registration)],
        mut started: Option<Child>,
    ) -> Result<Balance, BalanceError> {
        let (path, begun) = (self.path(instance), Instant::now());
        loop {
            let restart = self.restart(instance, options);
            let error = match Balance::attach(options, &path, workers, Some(restart)) {
                Ok(balance) => {
                    drop(Plane(started));
                    return Ok(balance);
                }
                Err(BalanceError::Io(error)) => error,
                Err(error) => return Err(error),
            };
            if let Some(child) = &mut started
                && child.try_wait()?.is_some()
            {
                return Err(reason(child).into());
            }
            let (nobody, taken) = (is_nobody(&error), error.kind() == ErrorKind::UnexpectedEof);
            // A data plane notices the end of its previous controller within a moment.
            let may_change = if started.is_some() { nobody } else { taken };
            if !may_change || begun.elapsed() > START_TIMEOUT {
                if let Some(mut child) = started {
                    let _ = child.kill().and_then(|()| child.wait());
                }
                return Err(error.into());
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    fn spawn(&self, instance: i64, options: &BalanceOptions) -> io::Result<Child> {
        let (program, first) =
            self.command.split_first().ok_or_else(|| io::Error::other("no program for the data plane"))?;
        let mut command = Command::new(program);
        command.args(first).arg("--socket").arg(self.path(instance));
        for at in &options.data {
            command.arg("--listen").arg(at.to_string());
        }
        command.arg("--threads").arg(options.threads.to_string());
        for cpu in &options.cpus {
            command.arg("--cpus").arg(cpu.to_string());
        }
        command.arg("--fast-path").arg(options.fast_path.name());
        command.arg("--socket-buffer").arg(options.receive_buffer.bytes().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C in a terminal must reach only this process, which then ends the data plane.
        command.process_group(0);
        alone(&mut command);
        command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("start the data plane: {error}")))
    }
}

/// A data plane that was started. It continues when this is dropped.
struct Plane(Option<Child>);

impl Plane {
    /// The reason why it has ended, if it has.
    fn ended(&mut self) -> Option<io::Error> {
        let child = self.0.as_mut()?;
        let ended = child.try_wait().ok().flatten().is_some();
        ended.then(|| reason(child))
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // Reap it when it ends. Without a thread, it stays a zombie until this process ends.
            let wait = std::thread::Builder::new().name("balance-child".to_owned());
            let _ = wait.spawn(move || child.wait());
        }
    }
}

/// Whether nothing listens at the socket.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// The reason why a data plane ended immediately.
fn reason(child: &mut Child) -> io::Error {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.take(4096).read_to_string(&mut text);
    }
    let text = text.trim().trim_start_matches("error: ");
    io::Error::other(if text.is_empty() { "the data plane ended immediately" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::io::source::SourceStats;
    use std::io;

    /// Fails, then has a packet, then is stopped; five packets found no room in it.
    struct Flaky(Arc<Shared>, Vec<Vec<String>>);

    impl Source for Flaky {
        fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
            let known: Vec<String> = self.0.faults().values().cloned().collect();
            self.1.push(known);
            match self.1.len() {
                1 => return Err(io::Error::other("the interface is down")),
                2 => each(Train::single(&[0; 8], &([127, 0, 0, 1], 9).into())),
                _ => {
                    assert_eq!(self.1, [vec![], vec!["the interface is down".to_owned()], vec![]]);
                    self.0.stop.store(true, Ordering::Release);
                }
            }
            Ok(1)
        }
        fn stats(&self) -> SourceStats {
            SourceStats { socket_drops: 5, ..SourceStats::default() }
        }
        fn describe(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn an_error_is_told_and_counting_goes_on() {
        let shared = Arc::<Shared>::default();
        count_strays(Flaky(Arc::clone(&shared), Vec::new()), [127, 0, 0, 1].into(), &shared);
        assert_eq!(shared.packets.load(Ordering::Relaxed), 6);
        let guard = StrayCounter { shared, threads: Vec::new() };
        assert_eq!(guard.said().len(), 1, "packets came");
        guard.shared.faults().insert([127, 0, 0, 2].into(), "in use".to_owned());
        let said = guard.said();
        assert!(said.len() == 2 && said[0].contains("127.0.0.2") && said[0].contains("in use"), "{said:?}");
    }
}
