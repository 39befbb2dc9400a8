//! The processes of the demo: this command, started as a user would, each in a process that ends with the demo.

use anyhow::{Context, Result, bail, ensure};
use skyhaul::io::file::failed;
use skyhaul::io::host::limit::Limit;
use skyhaul::io::host::program::{Place, Program};
use skyhaul::io::quantity::{Rate, Size, Span};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take to begin or to end.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Ports of 127.0.0.1 that nobody has.
pub(super) struct Ports {
    pub(super) api: u16,
    pub(super) data: u16,
    pub(super) sync: u16,
    pub(super) workers: Vec<u16>,
}

/// Ports for packets, of which any balancer takes each.
const DATA: std::ops::Range<u16> = 19522..20522;

impl Ports {
    pub(super) fn find(workers: usize) -> Result<Ports> {
        let udp = |port| UdpSocket::bind(("127.0.0.1", port));
        // All are held until all are found.
        let api = TcpListener::bind(("127.0.0.1", 0)).context("find a port")?;
        let data = DATA.clone().find_map(|port| udp(port).ok()).context("find a port for packets")?;
        let others = (0..=workers).map(|_| udp(0)).collect::<Result<Vec<_>, _>>().context("find a port")?;
        let mut ports = others.iter().map(|at| Ok(at.local_addr()?.port())).collect::<Result<Vec<_>>>()?;
        let sync = ports.pop().context("find a port")?;
        Ok(Ports { api: api.local_addr()?.port(), data: data.local_addr()?.port(), sync, workers: ports })
    }
}

/// The list of events of worker `n`.
pub(super) fn list(directory: &Path, n: usize) -> PathBuf {
    directory.join(format!("worker-{}.csv", n + 1))
}

/// A balancer with a reservation for this host, and its URI.
pub(super) fn balancer(directory: &Path, ports: &Ports) -> Result<(Child, String)> {
    let path = directory.join("uri");
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove", &path, &error).into());
        }
        _ => {}
    }
    let mut command = command(&["balance", "--in-process", "--instances", "1", "--reserve", "demo"])?;
    command.args(["--api", &format!("127.0.0.1:{}", ports.api)]);
    command.args(["--data-port", &ports.data.to_string(), "--sync-port", &ports.sync.to_string()]);
    command.arg("--token-file").arg(directory.join("token")).arg("--uri-file").arg(&path);
    let mut child = Child::start("balance", command)?;
    let mut uri = String::new();
    wait("the balancer has not begun", || {
        child.expect_running()?;
        uri = std::fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
        Ok(!uri.is_empty())
    })?;
    Ok((child, uri))
}

/// A worker that takes `work` over each event.
pub(super) fn worker(directory: &Path, n: usize, port: u16, uri: &str, work: Duration) -> Result<Child> {
    let name = format!("worker-{}", n + 1);
    let mut command = command(&["receive", "--format", "ejfat", "--join", "--verify", "--memory", "256MiB"])?;
    command.env("EJFAT_URI", uri).args(["--name", &name, "--listen", &format!("udp://127.0.0.1:{port}")]);
    if work > Duration::ZERO {
        command.args(["--work", &format!("{}us", work.as_micros())]);
    }
    command.arg("--list").arg(list(directory, n));
    Child::start(&name, command)
}

/// A sender of events that verify themselves, with ticks from 1 on.
pub(super) fn sender(uri: &str, rate: Rate, event: Size, duration: Span) -> Result<Child> {
    let mut command = command(&["send", "--format", "ejfat", "--pattern", "--mtu", "9000", "--tick", "1"])?;
    command.env("EJFAT_URI", uri).args(["--event", &event.to_string(), "--rate", &rate.to_string()]);
    command.args(["--duration", &duration.to_string()]);
    Child::start("send", command)
}

/// This command, with a report, and without the reader's configuration.
fn command(words: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args(words).args(["--json", "--quiet"]).env("SKYHAUL_CONFIG", "/dev/null");
    Ok(command)
}

/// One process; it is killed when this is dropped.
pub(super) struct Child {
    name: String,
    program: Program,
}

impl Child {
    fn start(name: &str, command: Command) -> Result<Child> {
        let program = Program::start(command, &Place::default(), Limit::none())?;
        Ok(Child { name: name.to_owned(), program })
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.program.ended().with_context(|| format!("wait for {}", self.name))?.is_some())
    }

    /// # Errors
    /// If it has ended, with what it said last.
    pub(super) fn expect_running(&mut self) -> Result<()> {
        match self.program.ended().with_context(|| format!("wait for {}", self.name))? {
            Some(how) => bail!("{} ended: {how}", self.name),
            None => Ok(()),
        }
    }

    /// End it as Ctrl-C does, and read its report.
    pub(super) fn end(self, patience: Duration) -> Result<serde_json::Value> {
        let Child { name, program } = self;
        let ended = program.finish(patience).with_context(|| format!("end {name}"))?;
        if ended.status.is_none() {
            bail!("{name} does not end after {} s", patience.as_secs());
        }
        serde_json::from_slice(&ended.stdout).with_context(|| format!("read the report of {name}"))
    }
}

/// Until something is so.
pub(super) fn wait(problem: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    let since = Instant::now();
    while !is()? {
        ensure!(since.elapsed() < SOON, "{problem} after {} s", SOON.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
