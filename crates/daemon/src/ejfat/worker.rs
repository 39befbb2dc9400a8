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
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets whether it wants events. If not, it stays registered, and gets no share of the next calendar.
    pub fn set_ready(&self, ready: bool) {
        // If its thread has ended, nobody needs the order.
        let _ = self.orders.send(Order::Ready(ready));
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> SessionReport {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
