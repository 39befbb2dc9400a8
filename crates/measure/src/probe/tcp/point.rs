//! One measurement between two hosts, and what they say to each other about it.

use super::options::{Amount, FLOWS, RunOptions};
use super::report::TcpReport;
use super::{Direction, Flow, Run};
use serde::{Deserialize, Serialize};
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::bulk::{Put, Take};
use skyhaul_io::tcp::setup::Setup;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// Longest block.
const LONGEST_BLOCK: u64 = 64 << 20;
/// Longest measurement.
const LONGEST: f64 = 7.0 * 86_400.0;
/// CPUs in a list.
const CPUS: usize = 1024;
/// After the end, receivers read on until nothing came for so long.
const QUIET: Duration = Duration::from_millis(60);

/// Which way data go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the client to the server.
    #[default]
    Forward,
    /// From the server to the client.
    Reverse,
    /// Both at once, with as many flows each way.
    Both,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpPoint {
    /// Which way.
    pub way: Way,
    /// Flows in each direction.
    pub flows: usize,
    /// Bytes of a write and of a read.
    pub block: u64,
    /// Send and receive buffer in bytes; none: the kernel tunes both.
    pub window: Option<u64>,
    /// Congestion control; none: the sender's own.
    pub congestion: Option<String>,
    /// Bits per second of each flow, below which the kernel spaces segments; 0: no limit.
    pub pacing: u64,
    /// Largest segment in bytes.
    pub segment: Option<u32>,
    /// Seconds that are counted.
    pub seconds: f64,
    /// Seconds before, which are not.
    pub omit: f64,
    /// Bytes of all flows after which it ends earlier.
    pub bytes: Option<u64>,
    /// Seconds between the beginnings of two flows.
    pub stagger: f64,
    /// Send without copying.
    pub zero_copy: bool,
    /// Receive without copying.
    pub discard: bool,
    /// CPUs of the client's flows, in turn.
    pub cpus_here: Vec<usize>,
    /// CPUs of the server's flows, in turn.
    pub cpus_there: Vec<usize>,
}

impl Default for TcpPoint {
    /// One flow to the server for ten seconds.
    fn default() -> Self {
        Self {
            way: Way::Forward,
            flows: 1,
            block: 1 << 20,
            window: None,
            congestion: None,
            pacing: 0,
            segment: None,
            seconds: 10.0,
            omit: 0.0,
            bytes: None,
            stagger: 0.0,
            zero_copy: false,
            discard: false,
            cpus_here: Vec::new(),
            cpus_there: Vec::new(),
        }
    }
}

/// What a client asks for, before its turn.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Seconds that all points take, about.
    pub seconds: f64,
    /// Highest rate of all flows together, in bits per second; none: unlimited.
    pub rate: Option<f64>,
}

/// What a client says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Measure this.
    Point(Box<TcpPoint>),
    /// The client has ended; send the report.
    Stop,
    /// Nothing more is to be measured.
    End,
}

/// What a server says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// Connect the flows here; each begins with the cookie.
    Open {
        /// TCP port.
        port: u16,
        /// 32 characters.
        cookie: String,
    },
    /// All flows are there.
    Ready,
    /// What the server saw.
    Report(Box<TcpReport>),
    /// It cannot be measured.
    Failed {
        /// Why.
        why: String,
    },
}

impl TcpPoint {
    /// Whether it can be measured.
    ///
    /// # Errors
    /// A value is outside its limits, in a sentence for the user.
    pub fn check(&self) -> Result<(), String> {
        let time = |seconds: f64| (0.0..=LONGEST).contains(&seconds);
        if !(1..=FLOWS).contains(&self.flows) {
            return Err(format!("{} flows: 1 to {FLOWS} are possible", self.flows));
        }
        if !(1..=LONGEST_BLOCK).contains(&self.block) {
            return Err(format!("writes of {} bytes: 1 byte to 64 MiB are possible", self.block));
        }
        if !(time(self.seconds) && time(self.omit) && time(self.stagger)) || self.seconds <= 0.0 {
            return Err("a time of more than 0 s and at most a week is possible".to_owned());
        }
        if self.cpus_here.len().max(self.cpus_there.len()) > CPUS {
            return Err(format!("at most {CPUS} CPUs are possible"));
        }
        Ok(())
    }

    /// Seconds that it takes.
    #[must_use]
    pub fn takes(&self) -> f64 {
        self.omit + self.seconds + self.stagger * self.flows as f64
    }

    /// Bits per second of all flows, if they are limited.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.pacing > 0).then(|| self.pacing as f64 * self.connections() as f64)
    }

    /// Connections, in both directions together.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.flows * if self.way == Way::Both { 2 } else { 1 }
    }

    /// What is set on its sockets.
    #[must_use]
    pub fn setup(&self) -> Setup {
        Setup {
            window: self.window.map(Size::from_bytes),
            congestion: self.congestion.clone(),
            largest_segment: self.segment,
            no_delay: false,
            tos: 0,
            pacing: Rate::from_bits_per_second(self.pacing),
            source: None,
        }
    }

    /// Start one end of it.
    pub(super) fn start(&self, streams: Vec<TcpStream>, client: bool) -> io::Result<Run> {
        let sends = |n: usize| match self.way {
            Way::Forward => client,
            Way::Reverse => !client,
            // The client's own come first.
            Way::Both => (n < self.flows) == client,
        };
        let direction = |n| if sends(n) { Direction::Send } else { Direction::Receive };
        let flows = streams.into_iter().enumerate().map(|(n, stream)| Flow::new(stream, direction(n)));
        let time = Duration::from_secs_f64(self.seconds);
        let any_sends = (0..self.connections()).any(sends);
        let options = RunOptions {
            block: Size::from_bytes(self.block),
            put: if self.zero_copy { Put::File } else { Put::Copy },
            take: if self.discard { Take::Drop } else { Take::Copy },
            amount: match self.bytes {
                Some(bytes) => Amount::Bytes(bytes),
                // A server that only receives is told when to end.
                None if any_sends || client => Amount::Time(time),
                None => Amount::Open,
            },
            omit: Duration::from_secs_f64(self.omit),
            stagger: Duration::from_secs_f64(self.stagger),
            cpus: if client { self.cpus_here.clone() } else { self.cpus_there.clone() },
            drain: QUIET,
            ..RunOptions::default()
        };
        Run::start(flows.collect(), options)
    }
}
