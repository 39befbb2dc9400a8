//! A worker: a receiver of events that a balancer feeds.
//!
//! ```text
//!   balancer ── packets ──▶ receiver ── events ──▶ you
//!      ▲                       │ ObjectLoad: its queue and counts
//!   control plane ◀─ states ─ Worker          registers · reports every 100 ms · leaves
//! ```
//!
//! The worker does not handle packets. It gets the [load](Loaded) of any kind of receiver, and
//! [`Governor`](skyhaul::core::balance::Governor) computes the share to ask for.
//!
//! * While the control plane is unavailable, the receiver continues, because the balancer keeps its last calendar. The
//!   worker reports the outage once, retries at growing intervals, and reports its end.
//! * If the control plane restarted without its state, it knows no session, and the worker registers again.
//! * [`leave`](Worker::leave) reports that the worker is not ready, waits until no more packets arrive, and
//!   deregisters, so no event is lost. Dropping the worker deregisters immediately.
//!
//! Limits: one thread and one call at a time, each of at most a second.

mod session;

use super::client::{ControlError, ControlPlane, Why};
use super::proto::{PortRange, RegisterReply, RegisterRequest, SlotRange};
use core::net::{IpAddr, SocketAddr};
use session::{Order, Session, Shared};
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::receive::Loaded;
use skyhaul::report::SessionReport;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

/// A registered worker.
pub struct Worker {
    orders: mpsc::Sender<Order>,
    thread: Option<JoinHandle<()>>,
    shared: Shared,
    registered: Arc<Mutex<RegisterReply>>,
    drain: Duration,
}

impl fmt::Debug for Worker {
    /// Without its token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("session", &self.report().session).finish_non_exhaustive()
    }
}

impl Worker {
    /// Registers, and reports from then on. The receiver must already be listening.
    ///
    /// # Errors
    /// The options are invalid, or the control plane refuses the worker.
    pub fn join(
        plane: &ControlPlane,
        options: WorkerOptions,
        source: Box<dyn Loaded>,
    ) -> Result<Self, ControlError> {
        let error = |what, why| ControlError { what, at: plane.at().to_owned(), why };
        if let Some((problem, hint)) = options.wrong() {
            return Err(error("register a worker", Why::Unsent { problem, hint }));
        }
        plane.balancer()?;
        let reply = plane.register(options.registration())?;
        Self::resume(plane, options, reply, source)
    }

    /// Continues with a session that was registered before. If the control plane no longer knows it, the worker
    /// registers again.
    ///
    /// # Errors
    /// The options are invalid, the URI names no balancer, or no thread can be started.
    pub fn resume(
        plane: &ControlPlane,
        options: WorkerOptions,
        reply: RegisterReply,
        source: Box<dyn Loaded>,
    ) -> Result<Self, ControlError> {
        let error = |what, why| ControlError { what, at: plane.at().to_owned(), why };
        if let Some((problem, hint)) = options.wrong() {
            return Err(error("register a worker", Why::Unsent { problem, hint }));
        }
        let balancer = plane.balancer()?;
        let shared: Shared = Arc::new(Mutex::new(SessionReport {
            control_plane: plane.at().to_owned(),
            balancer,
            name: options.name.clone(),
            session: reply.session_id.clone(),
            address: options.address.to_string(),
            port: options.port,
            ports: options.ports,
            registrations: 1,
            ..SessionReport::default()
        }));
        let (orders, take) = mpsc::channel();
        let drain = options.drain;
        let registered = Arc::new(Mutex::new(reply));
        let session = Session::new(plane.clone(), options, source, registered.clone(), shared.clone());
        let run = move || session.run(&take);
        let thread = std::thread::Builder::new().name("worker".into()).spawn(run).map_err(|problem| {
            let hint = "fewer threads, or raise ulimit -u";
            error("start a thread", Why::Unsent { problem: problem.to_string(), hint })
        })?;
        Ok(Self { orders, thread: Some(thread), shared, registered, drain })
    }

    /// Whether it still maintains its session; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Its last session with that session's token, to continue with it later.
    #[must_use]
    pub fn registered(&self) -> RegisterReply {
        lock(&self.registered).clone()
    }

    /// Sets whether it wants events. If not, it stays registered, and gets no share of the next calendar.
    pub fn set_ready(&self, ready: bool) {
        // If its thread has ended, nobody needs the order.
        let _ = self.orders.send(Order::Ready(ready));
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> SessionReport {
        lock(&self.shared).clone()
    }

    /// Leaves: reports that it is not ready, waits until no more packets arrive, and deregisters. The receiver must
    /// continue until this returns.
    #[must_use]
    pub fn leave(mut self) -> SessionReport {
        self.end(self.drain);
        self.report()
    }

    /// The same without waiting for packets, for a receiver that has ended.
    #[must_use]
    pub fn leave_at_once(mut self) -> SessionReport {
        self.end(Duration::ZERO);
        self.report()
    }

    fn end(&mut self, drain: Duration) {
        if let Some(thread) = self.thread.take() {
            let _ = self.orders.send(Order::Leave(drain));
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Returns the address at which the balancer reaches a receiver that listens on `listen`: that address, or, if it is
/// the unspecified address, the source address of this host's packets to the balancer. On a host with several
/// interfaces, no other address is right.
///
/// # Errors
/// There is no route, or the control plane's name is unknown.
pub fn address_towards(plane: &ControlPlane, listen: IpAddr) -> io::Result<IpAddr> {
    if !listen.is_unspecified() {
        return Ok(listen);
    }
    let uri = plane.uri();
    let data = uri.data.iter().map(|data| SocketAddr::new(data.ip, *data.ports.start()));
    let mut towards: Vec<SocketAddr> = data.collect();
    if towards.is_empty() {
        towards.extend((uri.host.as_str(), uri.port).to_socket_addrs()?);
    }
    let mut why = io::Error::from(io::ErrorKind::NetworkUnreachable);
    for to in towards.into_iter().filter(|to| to.is_ipv4() == listen.is_ipv4()) {
        let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        // Nothing is sent: the kernel only looks up the route.
        let routed = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(to)?;
            socket.local_addr()
        });
        match routed {
            Ok(here) if !here.ip().is_unspecified() => return Ok(here.ip()),
            Ok(_) => {}
            Err(error) => why = error,
        }
    }
    let text = format!(
        "find this host's address towards {}: {why}{}",
        plane.at(),
        Hint("give the address at which the balancer reaches it")
    );
    Err(io::Error::new(why.kind(), text))
}

/// Prints a message for the user.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// How a worker joins a balancer.
#[derive(Clone)]
pub struct WorkerOptions {
    /// Its name in the control plane's status.
    pub name: String,
    /// The address at which it receives: see [`address_towards`].
    pub address: IpAddr,
    /// Its first port.
    pub port: u16,
    /// Number of ports from there: a power of two, up to 16384.
    pub ports: u16,
    /// Its initial share, relative to the other workers.
    pub weight: f32,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f32,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f32,
    /// Whether packets arrive with the balancer's label.
    pub keep_label: bool,
    /// Slots that it demands, whatever it reports.
    pub slot_demands: Vec<SlotRange>,
    /// Whether it is ready from the start.
    pub is_ready: bool,
    /// Interval between reports.
    pub period: Duration,
    /// Maximum time that it waits for its last packets when it leaves.
    pub drain: Duration,
    /// Called when the control plane becomes unavailable, and when it responds again.
    pub say: Say,
    /// Called when an operator has removed the worker, and its last packets have arrived.
    pub ended: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerOptions")
            .field("name", &self.name)
            .field("address", &SocketAddr::new(self.address, self.port))
            .finish_non_exhaustive()
    }
}

impl WorkerOptions {
    /// Options of a worker that receives at this address: weight 1, no bounds, a report every 100 ms, 10 s to drain, no
    /// messages.
    #[must_use]
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self {
            name: format!("skyhaul-{}", std::process::id()),
            address,
            port,
            ports: 1,
            weight: 1.0,
            min_factor: 0.0,
            max_factor: 0.0,
            keep_label: false,
            slot_demands: Vec::new(),
            is_ready: true,
            period: Duration::from_millis(100),
            drain: Duration::from_secs(10),
            say: Arc::new(|_| {}),
            ended: Arc::new(|| {}),
        }
    }

    /// What is wrong with the options, if anything.
    pub(super) fn wrong(&self) -> Option<(String, &'static str)> {
        let Self { address, port, ports, weight, min_factor: min, max_factor: max, .. } = self;
        let bad = |factor: f32| !(0.0..=512.0).contains(&factor);
        if address.is_unspecified() {
            return Some((format!("nobody can send to {address}"), "give this host's address"));
        }
        if !ports.is_power_of_two() || *ports > 16_384 {
            return Some((format!("{ports} ports"), "1, 2, 4 … 16384: a power of two"));
        }
        if *port == 0 || port.checked_add(ports - 1).is_none() {
            return Some((format!("{ports} ports from {port}"), "the last port is 65535 at most"));
        }
        if !(*weight > 0.0 && *weight <= 1e6) {
            return Some((format!("weight {weight}"), "a number above 0, like 1"));
        }
        if bad(*min) || bad(*max) || (*max > 0.0 && max < min) {
            return Some((
                format!("factors {min} to {max}"),
                "0 is no bound; 0.5 to 2 is half to twice an even share",
            ));
        }
        None
    }

    pub(super) fn registration(&self) -> RegisterRequest {
        let range = PortRange::try_from(self.ports.trailing_zeros() as i32).unwrap_or(PortRange::PortRange1);
        RegisterRequest {
            name: self.name.clone(),
            weight: self.weight,
            ip_address: self.address.to_string(),
            udp_port: self.port.into(),
            port_range: range.into(),
            min_factor: self.min_factor,
            max_factor: self.max_factor,
            keep_lb_header: self.keep_label,
            slot_demands: self.slot_demands.clone(),
            ..RegisterRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ejfat::client::ClientOptions;

    #[test]
    fn the_route_gives_the_address() {
        let plane = |uri: &str| ControlPlane::new(&uri.parse().unwrap(), &ClientOptions::default()).unwrap();
        let any: IpAddr = [0; 4].into();
        let with_data = plane("ejfat://t@192.0.2.1:18008/lb/1?data=127.0.0.1:19522");
        assert_eq!(address_towards(&with_data, any).unwrap(), IpAddr::from([127, 0, 0, 1]));
        let without = plane("ejfat://t@127.0.0.1:18008/lb/1");
        assert_eq!(address_towards(&without, any).unwrap(), IpAddr::from([127, 0, 0, 1]));
        assert!(address_towards(&without, [0; 16].into()).is_err(), "[::] receives no IPv4");
        let given: IpAddr = [192, 0, 2, 9].into();
        assert_eq!(address_towards(&without, given).unwrap(), given);
        let none = address_towards(&plane("ejfat://t@127.0.0.1:1/lb/1?data=[::1]"), any).unwrap_err();
        assert!(none.to_string().contains("; hint: "), "{none}");
    }

    #[test]
    fn what_no_worker_can_be() {
        let right = WorkerOptions::new([10, 0, 0, 1].into(), 17750);
        assert_eq!(right.wrong(), None);
        let wrong = |change: &dyn Fn(&mut WorkerOptions)| {
            let mut options = right.clone();
            change(&mut options);
            options.wrong().unwrap_or_default().0
        };
        assert_eq!(wrong(&|o| o.address = [0; 4].into()), "nobody can send to 0.0.0.0");
        assert_eq!(wrong(&|o| o.ports = 3), "3 ports");
        assert_eq!(wrong(&|o| o.ports = 0), "0 ports");
        assert_eq!(wrong(&|o| o.ports = 32_768), "32768 ports");
        assert_eq!(wrong(&|o| (o.port, o.ports) = (65_535, 2)), "2 ports from 65535");
        assert_eq!(wrong(&|o| o.port = 0), "1 ports from 0");
        assert_eq!(wrong(&|o| o.weight = f32::NAN), "weight NaN");
        assert_eq!(wrong(&|o| (o.min_factor, o.max_factor) = (2.0, 1.0)), "factors 2 to 1");
        assert_eq!(wrong(&|o| o.min_factor = -1.0), "factors -1 to 0");
        let widest = WorkerOptions { ports: 16_384, ..right };
        assert_eq!((widest.wrong(), widest.registration().port_range), (None, 14));
    }
}
