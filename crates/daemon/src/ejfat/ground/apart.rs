//! Data planes in processes of their own, which go on with their last table when this one is killed.
//!
//! ```text
//!   state.db               this process, and the next
//!   state.db.plane-1  ◀──  Unix socket of the process that forwards for load balancer 1
//! ```
//!
//! Who starts finds the planes that still run, and goes on with them; those of load balancers that nobody has reserved end.
//!
//! A plane has no descriptor of the process that started it, which it outlives.
//!
//! A plane that dies while this process runs is started again at once, on the same ports, by [`Balance`].
//!
//! Limits: the path of a Unix socket has at most 107 octets.

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

/// How long a plane may take to start, or to let go of its former controller.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// How planes are started, and where they are found.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The program, and its first words. It is given `--socket`, `--listen` and more.
    pub command: Vec<OsString>,
    /// The start of the paths of their sockets.
    pub sockets: PathBuf,
}

impl Apart {
    /// The balancer of `instance`: with the plane that is there, or with a new one.
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

    /// Starts another plane of `instance`, for one that died.
    fn restart(&self, instance: i64, options: &BalanceOptions) -> Restart {
        let (apart, options) = (self.clone(), options.clone());
        Box::new(move |data: &[SocketAddr]| {
            // The ports that senders know.
            let options = BalanceOptions { data: data.to_vec(), ..options.clone() };
            let mut plane = Plane(Some(apart.spawn(instance, &options)?));
            Ok(Box::new(move || plane.ended()))
        })
    }

    /// End the plane of a load balancer that nobody has reserved, if there is one.
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

    /// Connect to a plane; one that was just started is waited for.
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
            // A former controller's end is noticed within a moment.
            let may_change = if started.is_some() { nobody } else { taken };
            if !may_change || begun.elapsed() > PATIENCE {
                if let Some(mut child) = started {
                    let _ = child.kill().and_then(|()| child.wait());
                }
                return Err(error.into());
            }
            std::thread::sleep(LOOK);
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
        // Ctrl-C in a terminal is for this process, which then ends the plane.
        command.process_group(0);
        alone(&mut command);
        command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("start the data plane: {error}")))
    }
}

/// A plane that was started. It goes on when this is dropped.
struct Plane(Option<Child>);

impl Plane {
    /// Why it has ended, if it has.
    fn ended(&mut self) -> Option<io::Error> {
        let child = self.0.as_mut()?;
        let ended = child.try_wait().ok().flatten().is_some();
        ended.then(|| reason(child))
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It stays a zombie otherwise, when it ends. Without a thread it does until this process ends, too.
            let wait = std::thread::Builder::new().name("balance-child".to_owned());
            let _ = wait.spawn(move || child.wait());
        }
    }
}

/// Nobody serves there.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// Why a plane ended at once.
fn reason(child: &mut Child) -> io::Error {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.take(4096).read_to_string(&mut text);
    }
    let text = text.trim().trim_start_matches("error: ");
    io::Error::other(if text.is_empty() { "the data plane ended at once" } else { text })
}
