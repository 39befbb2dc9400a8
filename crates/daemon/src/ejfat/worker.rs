//! A worker: a receiver of events that a balancer feeds.
//!
//! ```text
//!   balancer ── packets ──▶ receiver ── events ──▶ you
//!      ▲                       │ ObjectLoad: how far behind it is
//!   control plane ◀─ states ─ Worker          registers · reports every 100 ms · leaves
//! ```
//!
//! The worker touches no packet. It asks its receiver for its [load](Loaded), whichever receiver that is, and lets
//! [`Governor`](skyhaul::core::balance::Governor) compute what share to ask for.
//!
//! * While the control plane is away the receiver goes on: the balancer keeps its last calendar. The worker says so once,
//!   tries again at growing intervals, and says when it is back.
//! * A control plane that restarted without its state knows no session: the worker registers again.
//! * [`leave`](Worker::leave) says that the worker is not ready, waits until its packets have ceased, and deregisters, so
//!   no event is lost. Dropping it deregisters at once.
//!
//! Limits: one thread, one call at a time, each of at most a second.

mod options;
mod session;
mod state;

pub use options::{Say, WorkerOptions, address_towards};

use super::client::{ControlError, ControlPlane, Why};
use super::proto::RegisterReply;
use session::{Order, Session, Shared};
use skyhaul::receive::Loaded;
use skyhaul::report::SessionReport;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

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
    /// Register, and report from then on. The receiver must be listening already.
    ///
    /// # Errors
    /// Options that make no worker, or why the control plane does not take it.
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

    /// Go on with a session that was registered before. If the control plane does not know it any more, the worker registers
    /// again.
    ///
    /// # Errors
    /// Options that make no worker, a URI without a balancer, or no thread.
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

    /// Whether it still keeps its session: it ends by itself only by a fault in this program.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Its last session, with that session's token: to go on with.
    #[must_use]
    pub fn registered(&self) -> RegisterReply {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it wants events; without, it stays registered, and gets no share of the next calendar.
    pub fn set_ready(&self, ready: bool) {
        // If its thread has ended, there is nothing to be told.
        let _ = self.orders.send(Order::Ready(ready));
    }

    /// What became of it so far.
    #[must_use]
    pub fn report(&self) -> SessionReport {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leave: say that it is not ready, wait until no packets arrive any more, deregister. The receiver must go on until this
    /// returns.
    #[must_use]
    pub fn leave(mut self) -> SessionReport {
        self.end(self.drain);
        self.report()
    }

    /// The same without waiting for packets: for a receiver that has ended.
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
