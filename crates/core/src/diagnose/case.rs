//! What is known of a measurement, and what is found.

use super::point::Point;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A token bucket drops what exceeds a rate.
    Policer,
    /// A queue before a slower line is full.
    FullQueue,
    /// A short queue overflows in bursts, at a mean rate that is no problem.
    Microburst,
    /// The socket's buffer is full: the reader pauses for longer than it holds.
    SocketBuffer,
    /// The kernel's memory for UDP is used up.
    UdpMemory,
    /// The ring of the network interface overflows.
    NicRing,
    /// The kernel's backlog overflows, before IP.
    Backlog,
    /// Packets do not leave the sending host.
    Sender,
    /// Single packets are damaged on the way.
    BitErrors,
    /// Packets are lost many in a row, at any rate: outages, or a link that fails for moments.
    BurstLoss,
    /// Packets above a size do not pass.
    Mtu,
    /// A firewall or address translation forgets the flow.
    Firewall,
    /// A limit of packets per second.
    PacketRate,
    /// Packets of one flow take several paths.
    Spraying,
    /// One of several parallel links is full, others are not.
    Polarisation,
    /// The route changed.
    RouteChange,
    /// Packets arrive twice.
    Duplication,
    /// A CPU sleeps too deeply between bursts.
    IdleStates,
    /// The interface gathers packets before it interrupts.
    Moderation,
    /// The other side asks the line to pause.
    Pause,
    /// A clock stepped: the delay only seems to change.
    ClockStep,
    /// The reader needs all of a CPU.
    Reader,
    /// TCP: the receiver's window.
    ReceiverWindow,
    /// TCP: the send buffer.
    SendBuffer,
    /// TCP: the application does not give data, or does not take it.
    SlowApplication,
    /// TCP: a disk of one end.
    SlowDisk,
    /// TCP: loss that has nothing to do with its rate.
    Loss,
    /// TCP: the buffer of the bottleneck is too short for the congestion control.
    ShallowBuffer,
}

impl Cause {
    /// All, in the order of tables.
    pub const ALL: [Cause; 28] = [
        Cause::Policer,
        Cause::FullQueue,
        Cause::Microburst,
        Cause::SocketBuffer,
        Cause::UdpMemory,
        Cause::NicRing,
        Cause::Backlog,
        Cause::Sender,
        Cause::BitErrors,
        Cause::BurstLoss,
        Cause::Mtu,
        Cause::Firewall,
        Cause::PacketRate,
        Cause::Spraying,
        Cause::Polarisation,
        Cause::RouteChange,
        Cause::Duplication,
        Cause::IdleStates,
        Cause::Moderation,
        Cause::Pause,
        Cause::ClockStep,
        Cause::Reader,
        Cause::ReceiverWindow,
        Cause::SendBuffer,
        Cause::SlowApplication,
        Cause::SlowDisk,
        Cause::Loss,
        Cause::ShallowBuffer,
    ];

    /// Its name, for reports and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Policer => "policer",
            Cause::FullQueue => "full-queue",
            Cause::Microburst => "microburst",
            Cause::SocketBuffer => "socket-buffer",
            Cause::UdpMemory => "udp-memory",
            Cause::NicRing => "nic-ring",
            Cause::Backlog => "backlog",
            Cause::Sender => "sender",
            Cause::BitErrors => "bit-errors",
            Cause::BurstLoss => "burst-loss",
            Cause::Mtu => "mtu",
            Cause::Firewall => "firewall",
            Cause::PacketRate => "packet-rate",
            Cause::Spraying => "spraying",
            Cause::Polarisation => "polarisation",
            Cause::RouteChange => "route-change",
            Cause::Duplication => "duplication",
            Cause::IdleStates => "idle-states",
            Cause::Moderation => "moderation",
            Cause::Pause => "pause",
            Cause::ClockStep => "clock-step",
            Cause::Reader => "reader",
            Cause::ReceiverWindow => "receiver-window",
            Cause::SendBuffer => "send-buffer",
            Cause::SlowApplication => "slow-application",
            Cause::SlowDisk => "slow-disk",
            Cause::Loss => "loss",
            Cause::ShallowBuffer => "shallow-buffer",
        }
    }
}

/// Packets of the measurement that each place on the way counted. `None` where nothing could be read: what is lost there goes
/// to the next place that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Given to the kernel by the sender.
    pub sent: u64,
    /// Sent by the sender's interface.
    pub nic_out: Option<u64>,
    /// Arrived at the receiver's interface, those included that its ring had no room for.
    pub nic_in: Option<u64>,
    /// Given to IP.
    pub ip_in: Option<u64>,
    /// Given to the socket.
    pub udp_in: Option<u64>,
    /// Received by the reader, without duplicates.
    pub received: u64,
}

/// By how much counters of the hosts rose during the measurement; 0 where one cannot be read.
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
    /// Packets that a firewall's table had no place for.
    pub conntrack_drops: u64,
}

/// All that is known of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Its points.
    pub points: Vec<Point>,
    /// The account of all points together.
    pub account: Account,
    /// Counters of both ends.
    pub counters: Counters,
    /// Steps of a clock that exchanges of time stamps found, ns ([`crate::measure::clock`]).
    pub clock_steps: Vec<i64>,
    /// What a host like these needs to wake up in any case, ns: its scheduler's time, and its hypervisor's.
    pub wakes: f64,
}

impl Case {
    /// The same, as if every packet had arrived: what is said of order and delay holds though nothing may be said of loss.
    #[must_use]
    pub fn without_loss(&self) -> Case {
        let account =
            Account { sent: self.account.received, received: self.account.received, ..Account::default() };
        Case { account, ..self.clone() }
    }
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
    /// Between IP and the socket's queue, or in it.
    pub socket: u64,
    /// After that.
    pub reader: u64,
    /// What arrived and no place counted, or was counted twice: how far the account is wrong.
    pub residual: u64,
}

impl Shares {
    /// The differences of an account. What counters say moves loss to where it happened if a place does not count.
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
        // The last place that counted carries what the ones after it did not: give it to those that have counters of drops.
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

/// A cause, and why it is believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// 0 to 1: a weight that orders findings, chosen by hand. It is no measured probability.
    pub confidence: f64,
    /// What speaks for it, as sentences with figures.
    pub evidence: Vec<String>,
}

impl Finding {
    pub(super) fn new(cause: Cause, confidence: f64, evidence: String) -> Finding {
        Finding { cause, confidence: confidence.clamp(0.0, 1.0), evidence: vec![evidence] }
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// Where packets were lost.
    pub shares: Shares,
    /// Causes, the most certain first.
    pub findings: Vec<Finding>,
    /// Packets whose loss no cause explains.
    pub unexplained: u64,
}
