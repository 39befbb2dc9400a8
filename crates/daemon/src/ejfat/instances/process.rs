//! Data planes in processes of their own, which continue with their last table when this process is killed.
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
//! Limits: the path of a Unix socket has at most 107 bytes.

use skyhaul::balance::{Balance, BalanceError, BalanceOptions, Restart};
use skyhaul::io::host::program::alone;
use skyhaul_core::balance::{Registration, Session};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Deadline for a data plane to start, or to notice the end of its previous controller.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks for it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

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
        workers: &[(Session, Registration)],
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
        workers: &[(Session, Registration)],
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
            std::thread::sleep(POLL_INTERVAL);
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
