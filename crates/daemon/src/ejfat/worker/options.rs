//! How a worker joins a balancer.

use super::super::proto::{PortRange, RegisterRequest, SlotRange};
use core::net::{IpAddr, SocketAddr};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Prints a message for the user.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// How a worker joins a balancer.
#[derive(Clone)]
pub struct WorkerOptions {
    /// Its name in the control plane's status.
    pub name: String,
    /// The address at which it receives: see [`address_towards`](super::address_towards).
    pub address: IpAddr,
    /// Its first port.
    pub port: u16,
    /// Number of ports from there: a power of two, up to 16384.
    pub ports: u16,
    /// Its initial share, relative to the other workers.
    pub weight: f32,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f32,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f32,
    /// Whether packets arrive with the balancer's label.
    pub keep_label: bool,
    /// Slots that it demands, whatever it reports.
    pub slot_demands: Vec<SlotRange>,
    /// Whether it is ready from the start.
    pub is_ready: bool,
    /// Interval between reports.
    pub period: Duration,
    /// Maximum time that it waits for its last packets when it leaves.
    pub drain: Duration,
    /// Called when the control plane becomes unavailable, and when it responds again.
    pub say: Say,
    /// Called when an operator has removed the worker, and its last packets have arrived.
    pub ended: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerOptions")
            .field("name", &self.name)
            .field("address", &SocketAddr::new(self.address, self.port))
            .finish_non_exhaustive()
    }
}

impl WorkerOptions {
    /// Options of a worker that receives at this address: weight 1, no bounds, a report every 100 ms, 10 s to drain, no
    /// messages.
    #[must_use]
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self {
            name: format!("skyhaul-{}", std::process::id()),
            address,
            port,
            ports: 1,
            weight: 1.0,
            min_factor: 0.0,
            max_factor: 0.0,
            keep_label: false,
            slot_demands: Vec::new(),
            is_ready: true,
            period: Duration::from_millis(100),
            drain: Duration::from_secs(10),
            say: Arc::new(|_| {}),
            ended: Arc::new(|| {}),
        }
    }

    /// What is wrong with the options, if anything.
    pub(super) fn wrong(&self) -> Option<(String, &'static str)> {
        let Self { address, port, ports, weight, min_factor: min, max_factor: max, .. } = self;
        let bad = |factor: f32| !(0.0..=512.0).contains(&factor);
        if address.is_unspecified() {
            return Some((format!("nobody can send to {address}"), "give this host's address"));
        }
        if !ports.is_power_of_two() || *ports > 16_384 {
            return Some((format!("{ports} ports"), "1, 2, 4 … 16384: a power of two"));
        }
        if *port == 0 || port.checked_add(ports - 1).is_none() {
            return Some((format!("{ports} ports from {port}"), "the last port is 65535 at most"));
        }
        if !(*weight > 0.0 && *weight <= 1e6) {
            return Some((format!("weight {weight}"), "a number above 0, like 1"));
        }
        if bad(*min) || bad(*max) || (*max > 0.0 && max < min) {
            return Some((
                format!("factors {min} to {max}"),
                "0 is no bound; 0.5 to 2 is half to twice an even share",
            ));
        }
        None
    }

    pub(super) fn registration(&self) -> RegisterRequest {
        let range = PortRange::try_from(self.ports.trailing_zeros() as i32).unwrap_or(PortRange::PortRange1);
        RegisterRequest {
            name: self.name.clone(),
            weight: self.weight,
            ip_address: self.address.to_string(),
            udp_port: self.port.into(),
            port_range: range.into(),
            min_factor: self.min_factor,
            max_factor: self.max_factor,
            keep_lb_header: self.keep_label,
            slot_demands: self.slot_demands.clone(),
            ..RegisterRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_worker_can_be() {
        let right = WorkerOptions::new([10, 0, 0, 1].into(), 17750);
        assert_eq!(right.wrong(), None);
        let wrong = |change: &dyn Fn(&mut WorkerOptions)| {
            let mut options = right.clone();
            change(&mut options);
            options.wrong().unwrap_or_default().0
        };
        assert_eq!(wrong(&|o| o.address = [0; 4].into()), "nobody can send to 0.0.0.0");
        assert_eq!(wrong(&|o| o.ports = 3), "3 ports");
        assert_eq!(wrong(&|o| o.ports = 0), "0 ports");
        assert_eq!(wrong(&|o| o.ports = 32_768), "32768 ports");
        assert_eq!(wrong(&|o| (o.port, o.ports) = (65_535, 2)), "2 ports from 65535");
        assert_eq!(wrong(&|o| o.port = 0), "1 ports from 0");
        assert_eq!(wrong(&|o| o.weight = f32::NAN), "weight NaN");
        assert_eq!(wrong(&|o| (o.min_factor, o.max_factor) = (2.0, 1.0)), "factors 2 to 1");
        assert_eq!(wrong(&|o| o.min_factor = -1.0), "factors -1 to 0");
        let widest = WorkerOptions { ports: 16_384, ..right };
        assert_eq!((widest.wrong(), widest.registration().port_range), (None, 14));
    }
}
