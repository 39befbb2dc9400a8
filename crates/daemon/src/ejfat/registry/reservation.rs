//! A reservation, and a session of it.

use skyhaul_core::balance::{Prefix, Strategy};
use std::net::IpAddr;

/// Unix time in milliseconds.
pub type Millis = i64;

/// A load balancer in use.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Its number.
    pub id: i64,
    /// Which load balancer, from 1.
    pub instance: i64,
    /// What it is called.
    pub name: String,
    /// The requested version of IP: 0 both, 1 IPv4, 2 IPv6.
    pub family: i32,
    /// How shares are determined.
    pub strategy: Strategy,
    /// When it was made.
    pub created: Millis,
    /// When it ends; `None`: never.
    pub until: Option<Millis>,
    /// The allowed senders; if there are none, nobody may send.
    pub senders: Vec<Prefix>,
}

/// A worker of a reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number.
    pub id: i64,
    /// Its reservation.
    pub reservation: i64,
    /// The number of its session at the balancer.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// Where it receives.
    pub ip: IpAddr,
    /// Its first port.
    pub port: u16,
    /// 2 to the power of this many ports.
    pub bits: u8,
    /// Whether packets keep their label.
    pub keep_label: bool,
    /// Its initial share, relative to the other workers.
    pub weight: f64,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f64,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f64,
    /// Slots that it demands: first slot and length.
    pub demands: Vec<(u16, u16)>,
}
