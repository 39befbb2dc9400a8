//! `send --join`: a sender that has itself admitted, and learns what the balancer refused.
//!
//! Packets that a balancer refuses vanish without an answer. So the control plane is asked once a second whether this host may
//! send, and how many packets of the reservation were refused; they may be those of other senders of it, too.

use crate::args::SendArgs;
use anyhow::{Context, Result};
use skyhaul::core::balance::{AllowList, Prefix};
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::send::SendReport;
use skyhaul::wire::BalancerUri;
use skyhaul_daemon::balancer::proto::timeseries::Timeseries as Samples;
use skyhaul_daemon::client::{ClientOptions, ControlPlane, Trust};
use skyhaul_daemon::worker::address_towards;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the control plane is asked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A balancer admits a sender after this time.
const ADMITTED: Duration = Duration::from_millis(200);
/// Counters of the last packets are there after this time.
const SETTLED: Duration = Duration::from_millis(2200);

/// What one look shows.
#[derive(Debug, Default)]
struct Look {
    /// Packets of the reservation that were refused since its counters began.
    total: Option<u64>,
    /// This host may not send.
    is_out: bool,
    /// The call that failed.
    error: Option<String>,
}

/// What is known of refusals.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Packets of the reservation that were refused since this sender joined; `None` if the server does not say.
    refused: Option<u64>,
    /// The counter when it was last read.
    last: Option<u64>,
    /// This host may not send any more.
    is_out: bool,
    /// It might not for a time.
    was_out: bool,
    /// The last call that failed.
    error: Option<String>,
}

impl Seen {
    fn add(&mut self, look: Look) {
        if let Some(now) = look.total {
            // Lower than before: the server was started again, and counts from 0.
            let more = self.last.map_or(0, |last| now.checked_sub(last).unwrap_or(now));
            self.refused = Some(self.refused.unwrap_or(0).saturating_add(more));
            self.last = Some(now);
        }
        self.was_out |= look.is_out && look.error.is_none();
        (self.is_out, self.error) = (look.is_out, look.error);
    }
}

/// A balancer that was joined.
pub(crate) struct Joined {
    plane: ControlPlane,
    own: IpAddr,
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
            "the balancer refused {} meanwhile, of all senders of the reservation together{}",
            crate::print::counted(refused, "packet"),
            Hint("`skyhaul balancer status`, or its /metrics, have the reasons")
        ));
    }
    let out = all.iter().any(|seen| seen.is_out);
    if out {
        let text = format!(
            "this host is not among the senders of the reservation any more: its packets are refused{}",
            Hint("skyhaul balancer senders add")
        );
        report.notes.push(text.to_owned());
    }
    let was_out = all.iter().any(|seen| seen.was_out && !seen.is_out);
    if was_out {
        let text =
            "this host was not among the senders of the reservation for a time: its packets were refused";
        report.notes.push(text.to_owned());
    }
    report.notes.extend(
        all.iter().filter_map(|seen| Some(format!("refusals are unknown: {}", seen.error.as_ref()?))),
    );
    out || was_out || refused > 0
}

impl Joined {
    fn new(args: &SendArgs, uri: &BalancerUri) -> Result<Self> {
        let trust = match &args.of_events.certificate {
            _ if args.of_events.any_certificate => Trust::Anyone,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        crate::verb::listener::warn_of_token_to(uri);
        let plane = ControlPlane::new(uri, &ClientOptions { trust, ..ClientOptions::default() })?;
        let ipv6 = args.of_events.ipv6 || uri.data.iter().all(|data| data.ip.is_ipv6());
        let any: IpAddr = if ipv6 { [0; 16].into() } else { [0; 4].into() };
        let own = address_towards(&plane, any)?;
        if !admits(&plane.status()?.sender_addresses, own) {
            plane.add_senders(vec![own.to_string()]).with_context(|| format!("admit {own} as a sender"))?;
        }
        let seen = Seen { last: settled(&plane), ..Seen::default() };
        let seen = Arc::new(Mutex::new(seen));
        let (stop, stopped) = mpsc::channel();
        let (to, of) = (Arc::clone(&seen), plane.clone());
        let watch = move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(POLL_INTERVAL) {
                let now = look(&of, own);
                lock(&to).add(now);
            }
        };
        let thread = Some(std::thread::Builder::new().name("joined".into()).spawn(watch)?);
        if !args.output.quiet {
            say!("joined balancer {} of {} as sender {own}", plane.balancer()?, plane.at());
        }
        Ok(Self { plane, own, seen, stop: Some(stop), thread })
    }

    /// What was refused, once the last packets are counted.
    fn end(mut self) -> Seen {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut seen = lock(&self.seen).clone();
        std::thread::sleep(SETTLED);
        let now = look(&self.plane, self.own);
        // A server that is gone by now has said before what it refused.
        if now.error.is_none() || seen.error.is_some() {
            seen.add(now);
        }
        seen
    }
}

/// Ask.
fn look(plane: &ControlPlane, own: IpAddr) -> Look {
    match plane.status() {
        Ok(status) => Look {
            // One without a time is none: the server has just been started, and its counters may go on.
            total: sample(plane).filter(|(at, _)| *at > 0).map(|(_, value)| value),
            is_out: !admits(&status.sender_addresses, own),
            error: None,
        },
        // One that may not even look is out, too: the reservation has ended, or its token.
        Err(error) => Look { total: None, is_out: !error.is_away(), error: Some(error.to_string()) },
    }
}

/// Whether a host is among these.
fn admits(senders: &[String], ip: IpAddr) -> bool {
    let networks: Vec<Prefix> = senders.iter().filter_map(|text| text.parse().ok()).collect();
    AllowList::of(&networks).admits(ip)
}

/// Packets of the reservation that were refused until now; by then the balancer admits this host, too.
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

/// The last sample of packets that were refused: when it was taken, and what it was.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_add_up_whatever_becomes_of_the_server() {
        let mut seen = Seen { last: Some(600), ..Seen::default() };
        let counted = |total| Look { total, ..Look::default() };
        seen.add(counted(Some(1100)));
        // Started again: it counts from 0.
        seen.add(counted(Some(10)));
        seen.add(counted(Some(12)));
        seen.add(Look { error: Some("away".to_owned()), ..Look::default() });
        assert_eq!((seen.refused, seen.error.as_deref()), (Some(512), Some("away")));
        // What it did not say this time was said before.
        seen.add(counted(None));
        assert_eq!(
            (seen.refused, seen.error.as_deref(), seen.is_out, seen.was_out),
            (Some(512), None, false, false)
        );
        seen.add(Look { is_out: true, ..Look::default() });
        seen.add(counted(Some(12)));
        assert_eq!((seen.refused, seen.is_out, seen.was_out), (Some(512), false, true));
    }
}
