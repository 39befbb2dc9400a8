//! Where experiments are made: a lab with a server at its far end, or loopback.

use super::report::LabTraffic;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use skyhaul::peer::{Server, ServerOptions, Service, Token};
use skyhaul_measure::lab::{FAR, Lab, LabOptions, LabReport, RunningLab};
use skyhaul_measure::probe::tcp::{self, TcpClient, TcpPoint, TcpService};
use skyhaul_measure::probe::udp::{self, TestDirection, UdpClient, UdpClientOptions, UdpPoint, UdpService};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Packets of a point that are reported one by one.
const SAMPLES: u32 = 8192;
/// Time without arrival after which nothing more is awaited: more than a busy machine holds a thread up.
const SETTLE: Duration = Duration::from_millis(200);

/// An experiment cannot be made on this machine: not an error, but a reason.
#[derive(Debug)]
pub(super) struct NotHere(pub(super) String);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// How experiments are run.
#[derive(Clone, Copy)]
pub struct CampaignOptions<'a> {
    /// Ends the experiment early.
    pub interrupt: &'a Arc<AtomicBool>,
    /// Shows progress.
    pub say: &'a (dyn Fn(&str) + Sync),
    /// Measure less of everything.
    pub quick: bool,
    /// A directory on the disk that is measured.
    pub directory: &'a Path,
    /// Why no lab can be made here.
    pub no_lab: Option<&'a str>,
}

/// What an experiment may use.
pub(super) struct Context<'a> {
    pub(super) options: CampaignOptions<'a>,
    /// The path that is declared.
    pub(super) path: &'static str,
    /// What labs did so far.
    pub(super) labs: Vec<LabTraffic>,
    /// What they could not keep up with.
    pub(super) notes: Vec<String>,
}

impl Context<'_> {
    /// One or the other.
    pub(super) fn or<T>(&self, whole: T, quick: T) -> T {
        if self.options.quick { quick } else { whole }
    }

    /// Measure in a lab with this path; what it did is kept.
    pub(super) fn lab<T>(&mut self, path: &str, work: impl FnOnce(&Bench<'_>) -> Result<T>) -> Result<T> {
        if let Some(why) = self.options.no_lab {
            bail!(NotHere(why.to_owned()));
        }
        let bench = Bench::lab(path, &self.options)?;
        let done = work(&bench);
        if let Some(report) = bench.finish()? {
            self.labs.push(LabTraffic::from(&report));
            self.notes.extend(report.failures);
        }
        done
    }

    /// Packets that the last lab lost for a reason.
    pub(super) fn lost(&self, cause: &str) -> u64 {
        self.labs.last().and_then(|lab| lab.lost.get(cause)).copied().unwrap_or(0)
    }

    /// Measure on loopback.
    pub(super) fn loopback<T>(&self, work: impl FnOnce(&Bench<'_>) -> Result<T>) -> Result<T> {
        work(&Bench::loopback(&self.options)?)
    }
}

/// A client and a server, and what is between.
pub(super) struct Bench<'a> {
    // Its threads end before the networks that they are in.
    server: Server,
    token: Token,
    lab: Option<(Lab, RunningLab)>,
    /// UNIX nanoseconds at which the path began.
    pub(super) begun: u64,
    options: CampaignOptions<'a>,
}

impl<'a> Bench<'a> {
    fn lab(path: &str, options: &CampaignOptions<'a>) -> Result<Self> {
        let lab = Lab::new(&LabOptions::default()).map_err(|error| {
            NotHere(format!("needs networks of its own, and they cannot be made: {error}"))
        })?;
        let path = path.parse().map_err(|error| anyhow!("{path}: {error}"))?;
        let running = lab.forward(&path, None).context("forward packets")?;
        let begun = unix();
        let token = token()?;
        let server = lab.far().inside(|| serve(FAR, &token))??;
        Ok(Self { server, token, lab: Some((lab, running)), begun, options: *options })
    }

    fn loopback(options: &CampaignOptions<'a>) -> Result<Self> {
        let token = token()?;
        let server = serve(Ipv4Addr::LOCALHOST, &token)?;
        Ok(Self { server, token, lab: None, begun: unix(), options: *options })
    }

    /// Points of datagrams, one after the other.
    pub(super) fn udp(&self, points: &[UdpPoint]) -> Result<Vec<udp::UdpPointReport>> {
        let work = || -> Result<Vec<udp::UdpPointReport>> {
            let seconds: f64 = points.iter().map(|point| point.takes().as_secs_f64() + 0.2).sum();
            let options = UdpClientOptions {
                seconds: seconds + 1.0,
                samples: SAMPLES,
                settle: SETTLE,
                ..UdpClientOptions::default()
            };
            let mut client = UdpClient::open(&[self.server.local()], &self.token, options, &mut |_| true)?;
            let mut reports = Vec::with_capacity(points.len());
            for (n, point) in points.iter().enumerate() {
                self.go_on()?;
                (self.options.say)(&format!("point {} of {}", n + 1, points.len()));
                reports.push(client.point(point, TestDirection::Forward, self.options.interrupt)?);
            }
            self.go_on()?;
            client.end()?;
            Ok(reports)
        };
        self.near(work)
    }

    /// A measurement with TCP.
    pub(super) fn tcp(&self, point: &TcpPoint) -> Result<tcp::TcpPointReport> {
        let work = || -> Result<tcp::TcpPointReport> {
            self.go_on()?;
            (self.options.say)(&format!("{:.1} s", point.takes()));
            point.check().map_err(|why| anyhow!(why))?;
            let points = std::slice::from_ref(point);
            let mut client = TcpClient::open(&[self.server.local()], &self.token, points, &mut |_| true)?;
            let report = client.point(point, self.options.interrupt)?;
            client.end()?;
            self.go_on()?;
            Ok(report)
        };
        self.near(work)
    }

    fn near<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        match &self.lab {
            Some((lab, running)) => {
                ensure!(running.is_running(), "the router ended");
                lab.near().inside(work)?
            }
            None => work(),
        }
    }

    fn go_on(&self) -> Result<()> {
        ensure!(!self.options.interrupt.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// What the lab did.
    fn finish(self) -> Result<Option<LabReport>> {
        drop(self.server);
        self.lab.map(|(_lab, running)| running.finish().context("forward packets")).transpose()
    }
}

fn serve(at: Ipv4Addr, token: &Token) -> Result<Server> {
    let services: Vec<Box<dyn Service>> = vec![Box::new(UdpService::new()?), Box::new(TcpService::default())];
    Ok(Server::start(SocketAddr::new(IpAddr::V4(at), 0), token.clone(), ServerOptions::default(), services)?)
}

/// One that nobody else knows.
fn token() -> Result<Token> {
    Ok(Token::new(&skyhaul::auth::new_token()?)?)
}

fn unix() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
