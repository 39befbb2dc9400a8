//! `receive --join`: a receiver as a worker of a load balancer.
//!
//! The balancer is found before anything is opened, and joined when the sockets are open, so no packet comes too early.

use crate::args::{JoinArgs, ReceiveCommon};
use anyhow::{Context, Result, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::host::tree::host_name;
use skyhaul::receive::{ReceiverOptions, Running};
use skyhaul::report::SessionReport;
use skyhaul::wire::labelled::{Labelled, VisitLabelled};
use skyhaul_daemon::client::{ClientOptions, ControlPlane, Trust};
use skyhaul_daemon::worker::{Worker, WorkerOptions, address_towards};
use std::net::IpAddr;
use std::sync::Arc;

/// A balancer to join.
pub(crate) struct Joining<'a> {
    args: &'a JoinArgs,
    plane: ControlPlane,
    at: Endpoint,
    is_quiet: bool,
}

impl<'a> Joining<'a> {
    /// The balancer that the arguments ask for, if any.
    ///
    /// # Errors
    /// No balancer, a format that is not balanced, or an address at which no worker can be.
    pub(crate) fn prepare(
        args: &'a JoinArgs,
        common: &ReceiveCommon,
        is_quiet: bool,
    ) -> Result<Option<Self>> {
        if !args.join {
            return Ok(None);
        }
        let is_balanced =
            common.stream.format.family().is_some_and(|f| f.visit_labelled(IsLabelled).is_some());
        ensure!(
            is_balanced,
            "--join is for formats that a load balancer distributes{}",
            Hint("add --format ejfat")
        );
        let at = match &common.listen[..] {
            [at] if at.transport == Transport::Udp && !at.is_multicast() => at.clone(),
            _ => {
                bail!("--join needs one --listen udp://address:port{}", Hint("for several ports use --ports"))
            }
        };
        ensure!(
            args.ports.is_power_of_two(),
            "--ports {} is not a power of two{}",
            args.ports,
            Hint("1, 2, 4, 8 …")
        );
        let last = at.address.port().checked_add(args.ports - 1);
        ensure!(
            args.ports == 1 || at.address.port() != 0 && last.is_some(),
            "--ports {} from port {} on exceed 65535, or the first port is unset{}",
            args.ports,
            at.address.port(),
            Hint(format_args!("use --listen udp://:17750 --ports {}", args.ports))
        );
        let text = args.balancer.clone().or_else(|| std::env::var("EJFAT_URI").ok());
        let text = text.filter(|text| !text.is_empty()).context(format!(
            "--join: no balancer given{}",
            Hint("set EJFAT_URI to the URI printed by `skyhaul balancer reserve`, or use --balancer URI")
        ))?;
        let trust = match &args.certificate {
            _ if args.any_certificate => Trust::Anyone,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        let uri = text.parse()?;
        super::listener::warn_of_token_to(&uri);
        let plane = ControlPlane::new(&uri, &ClientOptions { trust, ..ClientOptions::default() })?;
        plane.balancer()?;
        Ok(Some(Self { args, plane, at, is_quiet }))
    }

    /// Listen on every port; other workers get what is missing here.
    pub(crate) fn adapt(&self, options: &mut ReceiverOptions) {
        let each = |n| {
            let mut at = self.at.clone();
            at.address.set_port(at.address.port() + n);
            at
        };
        options.listen = (0..self.args.ports).map(each).collect();
        if let Some(objects) = &mut options.objects {
            objects.stream.shared = true;
        }
    }

    /// Register this receiver, which listens on `addresses`.
    ///
    /// # Errors
    /// Why the control plane does not take it.
    pub(crate) fn join(&self, addresses: &[String], running: &Running) -> Result<Worker> {
        let args = self.args;
        let first: Endpoint = addresses.first().context("no address to listen on")?.parse()?;
        let address: IpAddr = match args.address {
            Some(address) => address,
            None => address_towards(&self.plane, first.address.ip())?,
        };
        let mut options = WorkerOptions {
            ports: args.ports,
            weight: args.weight,
            min_factor: args.min_factor,
            max_factor: args.max_factor,
            keep_label: args.keep_label,
            drain: args.drain.duration(),
            ..WorkerOptions::new(address, first.address.port())
        };
        options.name = args.name.clone().unwrap_or_else(|| format!("{}-{}", host_name(), std::process::id()));
        if !self.is_quiet {
            options.say = Arc::new(|text| say!("{text}"));
        }
        let worker = Worker::join(&self.plane, options, Box::new(running.load()))?;
        if !self.is_quiet {
            let SessionReport { balancer, session, address, port, ports, .. } = worker.report();
            let last = port + (ports - 1);
            let range = if ports == 1 { String::new() } else { format!("-{last}") };
            say!(
                "joined balancer {balancer} of {} as session {session}: events come to {address} port {port}{range}",
                self.plane.at()
            );
        }
        Ok(worker)
    }
}

/// Leave: gracefully if the receiver still runs.
pub(crate) fn leave(worker: Worker, running: &Running, is_quiet: bool) -> SessionReport {
    if running.is_over() {
        return worker.leave_at_once();
    }
    if !is_quiet {
        say!("leaving the balancer: waiting for the last packets (Ctrl-C again after a second: immediately)");
    }
    worker.leave()
}

/// Whether a family's packets are labelled.
struct IsLabelled;

impl VisitLabelled for IsLabelled {
    type Out = ();

    fn visit<L: Labelled>(self) {}
}
