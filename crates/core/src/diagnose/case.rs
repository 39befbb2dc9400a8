//! Input and result of a diagnosis.

use super::point::Point;

crate::named! {
    /// A cause of loss, delay, reordering or duplication, or of a slow transfer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Cause {
        /// A token bucket drops packets that exceed a rate.
        Policer = "policer",
        /// A queue before a slower line is full.
        FullQueue = "full-queue",
        /// A short queue overflows during bursts, although the mean rate is not too high.
        Microburst = "microburst",
        /// The socket buffer overflows: the reader pauses for longer than the buffer can hold.
        SocketBuffer = "socket-buffer",
        /// The kernel's memory for UDP is used up.
        UdpMemory = "udp-memory",
        /// The ring of the network interface overflows.
        NicRing = "nic-ring",
        /// The kernel's backlog overflows, before IP.
        Backlog = "backlog",
        /// Packets do not leave the sending host.
        Sender = "sender",
        /// Single packets are damaged on the way.
        BitErrors = "bit-errors",
        /// Many packets in a row are lost, at any rate: outages, or a link that fails for a moment.
        BurstLoss = "burst-loss",
        /// Packets above a size do not pass.
        Mtu = "mtu",
        /// A firewall or address translation forgets the flow.
        Firewall = "firewall",
        /// A limit in packets per second.
        PacketRate = "packet-rate",
        /// Packets of one flow take several paths.
        Spraying = "spraying",
        /// One of several parallel links is full, others are not.
        Polarisation = "polarisation",
        /// The route changed.
        RouteChange = "route-change",
        /// Packets arrive twice.
        Duplication = "duplication",
        /// A CPU sleeps too deeply between bursts.
        IdleStates = "idle-states",
        /// Interrupt moderation: the interface collects packets before it interrupts.
        Moderation = "moderation",
        /// Pause frames (IEEE 802.3x) stop the sender.
        Pause = "pause",
        /// A clock stepped: the delay only seems to change.
        ClockStep = "clock-step",
        /// The reader needs all of a CPU.
        Reader = "reader",
        /// TCP: the receiver's window.
        ReceiverWindow = "receiver-window",
        /// TCP: the send buffer.
        SendBuffer = "send-buffer",
        /// TCP: an application does not write or read data fast enough.
        SlowApplication = "slow-application",
        /// TCP: the disk of one end is too slow.
        SlowDisk = "slow-disk",
        /// TCP: loss that does not depend on the flow's rate.
        Loss = "loss",
        /// TCP: the buffer of the bottleneck is too short for the congestion control.
        ShallowBuffer = "shallow-buffer",
        /// TCP: the receiving application stops reading for a while, again and again.
        PausingReader = "pausing-reader",
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Cause {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Cause::ALL.into_iter().find(|cause| cause.name() == name);
        found.ok_or_else(|| format!("unknown cause {name:?}"))
    }
}

/// Packets of the measurement, as counted at each place on the path. `None` where no counter can be read: loss there is
/// attributed to the next place that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Given to the kernel by the sender.
    pub sent: u64,
    /// Sent by the sender's interface.
    pub nic_out: Option<u64>,
    /// Arrived at the receiver's interface, including packets for which its ring had no room.
    pub nic_in: Option<u64>,
    /// Given to IP.
    pub ip_in: Option<u64>,
    /// Given to the socket.
    pub udp_in: Option<u64>,
    /// Received by the reader, without duplicates.
    pub received: u64,
}

/// Increase of the hosts' counters during the measurement; 0 where a counter cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sender: dropped by a queueing discipline or the interface, or refused for lack of a buffer.
    pub send_drops: u64,
    /// Receiver: no room in the ring (`rx_missed_errors`, `rx_out_of_buffer`).
    pub ring_drops: u64,
    /// Receiver: `softnet_stat`, dropped.
    pub backlog_drops: u64,
    /// Receiver: `Udp: RcvbufErrors`, or `SO_RXQ_OVFL`.
    pub rcvbuf_errors: u64,
    /// Receiver: `Udp: MemErrors`.
    pub mem_errors: u64,
    /// Either end: damaged frames (CRC, FEC, symbols).
    pub damaged: u64,
    /// Either end: pause frames.
    pub pauses: u64,
    /// Packets dropped because the connection-tracking table was full.
    pub conntrack_drops: u64,
}

/// A measurement to be diagnosed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Its points.
    pub points: Vec<Point>,
    /// The account of all points together.
    pub account: Account,
    /// Counters of both ends.
    pub counters: Counters,
    /// Clock steps found by exchanging time stamps, ns ([`crate::measure::clock`]).
    pub clock_steps: Vec<i64>,
    /// Wake-up latency that is normal for these hosts (scheduler and hypervisor), ns.
    pub wakes: f64,
    /// By how much more the clocks' offset may have changed from one point to another than their comparisons show, ns: points far from
    /// any comparison rest on a drift that was not measured.
    pub clock_drift: f64,
}

impl Case {
    /// The same case as if no packet had been lost, to diagnose only order and delay.
    #[must_use]
    pub fn without_loss(&self) -> Case {
        let account =
            Account { sent: self.account.received, received: self.account.received, ..Account::default() };
        Case { account, ..self.clone() }
    }
}

/// Points of the first flow without a silence before them.
pub(super) fn plain<'a>(case: &'a Case, more: impl Fn(&&'a Point) -> bool) -> Vec<&'a Point> {
    case.points.iter().filter(|p| p.idle == 0.0 && p.flow == 0).filter(more).collect()
}

/// Where packets were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Between the sender and its interface.
    pub sender: u64,
    /// Between the interfaces.
    pub network: u64,
    /// Between the interface and IP.
    pub ring: u64,
    /// Between IP and the socket's queue, or in the queue.
    pub socket: u64,
    /// Between the socket's queue and the reader.
    pub reader: u64,
    /// Packets that a place counted in excess of the place before it: the error of the account.
    pub residual: u64,
}

impl Shares {
    /// Computes the differences of an account. Where a place does not count packets, the counters of drops locate the
    /// loss.
    #[must_use]
    pub fn of(account: &Account, counters: &Counters) -> Shares {
        let mut shares = Shares::default();
        let mut at = account.sent;
        let mut step = |next: Option<u64>, share: &mut u64| {
            let Some(next) = next else { return };
            *share = at.saturating_sub(next);
            shares.residual += next.saturating_sub(at);
            at = next;
        };
        step(account.nic_out, &mut shares.sender);
        step(account.nic_in, &mut shares.network);
        step(account.ip_in, &mut shares.ring);
        step(account.udp_in, &mut shares.socket);
        step(Some(account.received), &mut shares.reader);
        if account.udp_in.is_some() {
            return shares;
        }
        // Loss after the last place that counts packets ends up in the reader's share: move it to the places whose
        // counters show drops.
        let last = &mut shares.reader;
        let drops = [
            (account.nic_out.is_none(), counters.send_drops, 0),
            (account.ip_in.is_none(), counters.ring_drops.saturating_add(counters.backlog_drops), 1),
            (true, counters.rcvbuf_errors.saturating_add(counters.mem_errors), 2),
        ];
        let mut moved = [0; 3];
        for (applies, count, to) in drops {
            if applies {
                moved[to] = count.min(*last);
                *last -= moved[to];
            }
        }
        if account.nic_in.is_none() {
            (shares.network, shares.reader) = (shares.network + shares.reader, 0);
        }
        shares.sender += moved[0];
        shares.ring += moved[1];
        shares.socket += moved[2];
        shares
    }

    /// Packets lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sender + self.network + self.ring + self.socket + self.reader
    }
}

/// A cause and the evidence for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// Weight from 0 to 1 that orders the findings. It was chosen by hand and is not a measured probability.
    pub confidence: f64,
    /// The evidence, as sentences with figures.
    pub evidence: Vec<String>,
}

impl Finding {
    pub(super) fn new(cause: Cause, confidence: f64, evidence: String) -> Finding {
        Finding { cause, confidence: confidence.clamp(0.0, 1.0), evidence: vec![evidence] }
    }
}

/// The result of a diagnosis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// Where packets were lost.
    pub shares: Shares,
    /// Causes, most certain first.
    pub findings: Vec<Finding>,
    /// Packets whose loss no cause explains.
    pub unexplained: u64,
}
