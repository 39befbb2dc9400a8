//! What was found, as data and in words, and what to type next.

use super::super::bottleneck::Bottleneck;
use super::case::Identity;
use serde::{Deserialize, Serialize};
use skyhaul_core::diagnose::{Cause, Diagnosis, Finding};

/// The result of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosed {
    /// Where packets went.
    pub identity: Identity,
    /// Causes, the most certain first; empty if nothing is wrong, or nothing can be named.
    pub causes: Vec<Named>,
    /// Packets whose loss no cause explains.
    pub unexplained: u64,
    /// The limit that a test showed.
    pub limit: Option<Bottleneck>,
    /// Why the campaign ended before it was complete, where it did: causes that are not named were not excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

/// A cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// Its name, as in `docs/reference/diagnosis.md`.
    pub cause: String,
    /// In a sentence.
    pub title: String,
    /// 0 to 1: a weight that orders causes, no measured probability.
    pub confidence: f64,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// What to type next.
    pub next: Vec<String>,
}

impl Named {
    /// What the core found; what to type next is not known yet.
    #[must_use]
    pub fn of(finding: Finding) -> Self {
        Self {
            cause: finding.cause.name().to_owned(),
            title: title(finding.cause).to_owned(),
            confidence: finding.confidence,
            evidence: finding.evidence,
            next: Vec::new(),
        }
    }
}

impl Diagnosed {
    pub(super) fn new(identity: Identity, judged: Diagnosis, limit: Option<Bottleneck>) -> Self {
        let unexplained = if identity.unknown.is_some() { identity.lost } else { judged.unexplained };
        let named = judged.findings.into_iter().map(Named::of);
        Self { causes: named.collect(), identity, unexplained, limit, cut_short: None }
    }

    /// What is said of what was not named; `None` where causes say it all.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let what = match &self.identity.unknown {
            Some(why) => format!("unknown: {why}"),
            None if self.unexplained > 0 => {
                format!("unknown: the loss of {} packets fits no cause", self.unexplained)
            }
            None if !self.causes.is_empty() => String::new(),
            None if self.identity.sent == 0 => "unknown: nothing was measured".to_owned(),
            None if self.cut_short.is_some() => "nothing wrong was found until then".to_owned(),
            None => "nothing wrong was found at this load".to_owned(),
        };
        let early =
            self.cut_short.as_ref().map_or(String::new(), |why| format!("the campaign ended early: {why}"));
        let parts: Vec<String> = [early, what].into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    /// Say what to type next for each cause.
    pub fn advise(&mut self, hosts: &Hosts) {
        for named in &mut self.causes {
            named.next = next(&named.cause, hosts, self.limit.as_ref());
        }
    }
}

/// Names that commands need.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// The command of a probe to this server, without a test.
    pub probe: String,
    /// The sender's interface.
    pub sender: String,
    /// The receiver's interface.
    pub receiver: String,
    /// Octets of each datagram's payload.
    pub size: u32,
    /// Octets of receive buffer that the receiver has.
    pub buffer: u64,
}

/// A cause in a sentence.
#[must_use]
fn title(cause: Cause) -> &'static str {
    match cause {
        Cause::Policer => "a policer drops what exceeds a rate",
        Cause::FullQueue => "a queue before a slower line is full",
        Cause::Microburst => "a short queue overflows in bursts",
        Cause::SocketBuffer => "the receiver's socket buffer overflows while its reader pauses",
        Cause::UdpMemory => "the receiver's kernel has no more memory for UDP",
        Cause::NicRing => "the ring of the receiver's interface overflows",
        Cause::Backlog => "the receiver's backlog overflows, before IP",
        Cause::Sender => "packets do not leave the sending host",
        Cause::BitErrors => "single packets are lost at random, at any rate: bit errors, or a lossy link",
        Cause::BurstLoss => {
            "packets are lost many in a row, at any rate: outages, or a link that fails for moments"
        }
        Cause::Mtu => "packets above a size do not pass",
        Cause::Firewall => "a firewall or address translation forgets the flow",
        Cause::PacketRate => "something on the way limits packets per second",
        Cause::Spraying => "packets of one flow take several paths",
        Cause::Polarisation => "one of several parallel links is full",
        Cause::RouteChange => "the route changed",
        Cause::Duplication => "packets arrive twice",
        Cause::IdleStates => "a processor sleeps too deeply between bursts",
        Cause::Moderation => "an interface gathers packets before it interrupts",
        Cause::Pause => "the other side asks the line to pause",
        Cause::ClockStep => "a clock stepped",
        Cause::Reader => "the receiving program needs all of a processor",
        Cause::ReceiverWindow => "the receiver's window is too small",
        Cause::SendBuffer => "the send buffer is too small",
        Cause::SlowApplication => "an application is slow",
        Cause::SlowDisk => "a disk is slow",
        Cause::Loss => "segments are lost, whatever the rate",
        Cause::ShallowBuffer => "the buffer of the bottleneck is too short",
    }
}

/// What to type next for a cause, by its name.
#[must_use]
fn next(cause: &str, hosts: &Hosts, limit: Option<&Bottleneck>) -> Vec<String> {
    let Hosts { probe, sender, receiver, size, buffer } = hosts;
    let line = match cause {
        "policer" | "full-queue" => match limit {
            Some(limit) => {
                // Payload of what is 5 % below it.
                let part = f64::from(*size) / f64::from(size + 42);
                let rate = limit.bits_per_second * part * 0.95 / 1e6;
                format!("{probe} --udp --rates {rate:.1}Mbps --sizes {size}")
            }
            None => format!("{probe} --udp --limit --sizes {size}"),
        },
        "microburst" => format!("{probe} --udp --bursts --sizes {size}"),
        "socket-buffer" => {
            let wanted = buffer.saturating_mul(4).clamp(1 << 22, 1 << 30).next_power_of_two();
            format!("sysctl -w net.core.rmem_max={wanted}   # on the receiver, then start its program again")
        }
        "udp-memory" => "sysctl net.ipv4.udp_mem   # on the receiver: double the last two numbers".to_owned(),
        "nic-ring" => {
            format!("ethtool -g {receiver}   # on the receiver; then ethtool -G {receiver} rx MAXIMUM")
        }
        "backlog" => "sysctl -w net.core.netdev_max_backlog=30000   # on the receiver".to_owned(),
        "sender" => format!("tc -s qdisc show dev {sender}   # on the sender: which queue drops"),
        "bit-errors" => format!(
            "ethtool -S {receiver}   # on the receiver, and of each switch on the way: CRC and symbol errors"
        ),
        "burst-loss" => {
            format!("{probe} --udp --trace trace.csv --sizes {size} --time 10s   # when, and for how long")
        }
        "mtu" => format!("{probe} --udp --mtu"),
        "firewall" => "conntrack -S   # on each firewall on the way".to_owned(),
        "packet-rate" => format!("{probe} --udp --search --sizes 8972   # larger packets, if the MTU allows"),
        "spraying" | "duplication" | "route-change" => {
            format!("{probe} --udp --trace trace.csv --sizes {size}")
        }
        "polarisation" => format!("{probe} --udp --flows 8 --sizes {size}"),
        "idle-states" => "skyhaul host   # at both ends: C-states and governor".to_owned(),
        "moderation" => {
            format!("ethtool -c {receiver}   # on the receiver; then ethtool -C {receiver} rx-usecs 8")
        }
        "pause" => format!("ethtool -a {receiver}   # at both ends"),
        "clock-step" => "chronyc tracking   # at both ends".to_owned(),
        "reader" => "skyhaul host --role receive   # on the receiver".to_owned(),
        _ => return Vec::new(),
    };
    vec![line]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_that_udp_can_show_has_a_sentence_and_a_next_command() {
        let of_tcp = [
            Cause::ReceiverWindow,
            Cause::SendBuffer,
            Cause::SlowApplication,
            Cause::SlowDisk,
            Cause::Loss,
            Cause::ShallowBuffer,
        ];
        for cause in Cause::ALL {
            assert!(!title(cause).is_empty());
            assert_eq!(
                next(cause.name(), &Hosts::default(), None).is_empty(),
                of_tcp.contains(&cause),
                "{cause:?}"
            );
        }
    }
}
