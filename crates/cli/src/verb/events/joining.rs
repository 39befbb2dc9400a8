//! `send --join`: a sender that has itself admitted, and learns what the balancer refused.
//!
//! Packets that a balancer refuses vanish without an answer. So the control plane is asked once a second whether this host may
//! send, and how many packets of the reservation were refused; they may be those of other senders of it, too.

use crate::args::SendArgs;
use anyhow::{Context, Result};
use skyhaul::core::balance::{AllowList, Prefix};
use skyhaul::send::SendReport;
use skyhaul::wire::BalancerUri;
use skyhaul_daemon::balancer::proto::timeseries::Timeseries as Samples;
use skyhaul_daemon::client::{ClientOptions, ControlPlane, Trust};
use skyhaul_daemon::worker::address_towards;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the control plane is asked.
const LOOK: Duration = Duration::from_secs(1);
/// A balancer admits a sender after this time.
const ADMITTED: Duration = Duration::from_millis(200);
/// Counters of the last packets are there after this time.
const SETTLED: Duration = Duration::from_millis(2200);

/// What is known of refusals.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Packets of the reservation that were refused since this sender joined; `None` if the server does not say.
    refused: Option<u64>,
    /// This host may not send any more.
    is_out: bool,
    /// The last call that failed.
    error: Option<String>,
}

/// A balancer that was joined.
pub(crate) struct Joined {
    plane: ControlPlane,
    own: IpAddr,
    before: Option<u64>,
    seen: Arc<Mutex<Seen>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Join all balancers that the arguments name.
///
/// # Errors
/// Why a control plane does not admit this host.
pub(crate) fn join(args: &SendArgs) -> Result<Vec<Joined>> {
    if !args.of_events.join {
        return Ok(Vec::new());
    }
    args.balancers.iter().map(|uri| Joined::new(args, uri)).collect()
}

/// The senders have ended. Returns whether anything was refused, and notes it in the reports.
pub(crate) fn leave(joined: Vec<Joined>, reports: &mut [SendReport]) -> bool {
    let all: Vec<Seen> = joined.into_iter().map(Joined::end).collect();
    let Some(report) = reports.first_mut().filter(|_| !all.is_empty()) else { return false };
    let refused: u64 = all.iter().filter_map(|seen| seen.refused).sum();
    report.refused_by_balancer = all.iter().any(|seen| seen.refused.is_some()).then_some(refused);
    if refused > 0 {
        report.notes.push(format!(
            "the balancer refused {} meanwhile, of all senders of the reservation together; hint: `skyhaul balancer status`, or its /metrics, have the reasons",
            crate::print::counted(refused, "packet")
        ));
    }
    let out = all.iter().any(|seen| seen.is_out);
    if out {
        let text = "this host is not among the senders of the reservation any more: its packets are refused; hint: skyhaul balancer senders add";
        report.notes.push(text.to_owned());
    }
    report.notes.extend(
        all.iter().filter_map(|seen| Some(format!("refusals are unknown: {}", seen.error.as_ref()?))),
    );
    out || refused > 0
}

impl Joined {
    fn new(args: &SendArgs, uri: &BalancerUri) -> Result<Self> {
        let trust = match &args.of_events.certificate {
            _ if args.of_events.any_certificate => Trust::Anyone,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        crate::verb::doors::warn_of_token_to(uri);
        let plane = ControlPlane::new(uri, &ClientOptions { trust, ..ClientOptions::default() })?;
        let ipv6 = args.of_events.ipv6 || uri.data.iter().all(|data| data.ip.is_ipv6());
        let any: IpAddr = if ipv6 { [0; 16].into() } else { [0; 4].into() };
        let own = address_towards(&plane, any)?;
        if !admits(&plane.status()?.sender_addresses, own) {
            plane.add_senders(vec![own.to_string()]).with_context(|| format!("admit {own} as a sender"))?;
        }
        let before = settled(&plane);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = mpsc::channel();
        let (to, of) = (Arc::clone(&seen), plane.clone());
        let watch = move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                let now = look(&of, own, before);
                *to.lock().unwrap_or_else(PoisonError::into_inner) = now;
            }
        };
        let thread = Some(std::thread::Builder::new().name("joined".into()).spawn(watch)?);
        if !args.output.quiet {
            say!("joined balancer {} of {} as sender {own}", plane.balancer()?, plane.at());
        }
        Ok(Self { plane, own, before, seen, stop: Some(stop), thread })
    }

    /// What was refused, once the last packets are counted.
    fn end(mut self) -> Seen {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let before = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        std::thread::sleep(SETTLED);
        let now = look(&self.plane, self.own, self.before);
        // A server that is gone by now has said before what it refused.
        if now.error.is_some() && before.error.is_none() { before } else { now }
    }
}

/// Ask.
fn look(plane: &ControlPlane, own: IpAddr, before: Option<u64>) -> Seen {
    match plane.status() {
        Ok(status) => {
            let refused = refused(plane).zip(before).map(|(now, before)| now.saturating_sub(before));
            Seen { refused, is_out: !admits(&status.sender_addresses, own), error: None }
        }
        // One that may not even look is out, too: the reservation has ended, or its token.
        Err(error) => Seen { refused: None, is_out: !error.is_away(), error: Some(error.to_string()) },
    }
}

/// Whether a host is among these.
fn admits(senders: &[String], ip: IpAddr) -> bool {
    let networks: Vec<Prefix> = senders.iter().filter_map(|text| text.parse().ok()).collect();
    AllowList::of(&networks).admits(ip)
}

/// Packets of the reservation that were refused so far.
fn refused(plane: &ControlPlane) -> Option<u64> {
    sample(plane).map(|(_, value)| value)
}

/// The same, with all that were refused until now; by then the balancer admits this host, too.
fn settled(plane: &ControlPlane) -> Option<u64> {
    let begun = Instant::now();
    let first = sample(plane);
    loop {
        std::thread::sleep(ADMITTED);
        let now = sample(plane);
        if now.map(|(at, _)| at) != first.map(|(at, _)| at) || now.is_none() || begun.elapsed() > SETTLED {
            return now.map(|(_, value)| value);
        }
    }
}

/// The last sample of that: when it was taken, and what it was.
fn sample(plane: &ControlPlane) -> Option<(i64, u64)> {
    let path = format!("/lb/{}/refused", plane.balancer().ok()?);
    let reply = plane.timeseries(vec![path.clone()], None).ok()?;
    let found = reply.timeseries.into_iter().find(|series| series.name == path)?;
    match found.timeseries? {
        Samples::IntegerSamples(samples) => {
            let last = samples.data.last();
            Some(last.map_or((0, 0), |last| (last.timestamp, u64::try_from(last.value).unwrap_or(0))))
        }
        Samples::FloatSamples(_) => None,
    }
}
