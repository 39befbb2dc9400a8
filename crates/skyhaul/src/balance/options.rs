//! How a balancer works, and why it cannot start.

use skyhaul_core::balance::{AllowList, BalancerConfig};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use skyhaul_core::wire::{FAMILIES, FamilyRef};
use skyhaul_io::quantity::Size;
use skyhaul_io::udp::send::SendOptions;
use std::io;
use std::net::SocketAddr;

/// How a balancer works.
#[derive(Clone, Debug)]
pub struct BalanceOptions {
    /// The family of its packets, which must be labelled.
    pub family: FamilyRef,
    /// Where packets arrive. Port 0: any that is free.
    pub data: Vec<SocketAddr>,
    /// Addresses of synchronisation messages.
    pub sync: Vec<SocketAddr>,
    /// Threads for each address of `data`; 0: one for each CPU.
    pub threads: usize,
    /// CPUs for these threads, one each, as far as there are any.
    pub cpus: Vec<usize>,
    /// Who may send packets and messages.
    pub allow: AllowList,
    /// Limits and times of the controller.
    pub config: BalancerConfig,
    /// Receive buffer of each thread.
    pub receive_buffer: Size,
    /// How packets are sent on.
    pub send: SendOptions,
    /// Whether a program in the kernel sends on what it can, before sockets see it.
    pub fast_path: FastPath,
}

/// Whether a program in the kernel (XDP) sends on what it can, before sockets see it: see [`skyhaul_core::balance::xdp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastPath {
    /// If the driver of an interface of the data has a place for it; else sockets forward all packets.
    Auto,
    /// In the driver, or in the stack behind it, or it is an error.
    Xdp,
    /// Sockets forward all packets.
    #[default]
    Off,
}

impl FastPath {
    /// Its name in command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FastPath::Auto => "auto",
            FastPath::Xdp => "xdp",
            FastPath::Off => "off",
        }
    }
}

impl Default for BalanceOptions {
    /// For the first family that is labelled; nowhere, from nobody.
    fn default() -> BalanceOptions {
        struct Any;
        impl VisitLabelled for Any {
            type Out = ();
            fn visit<L: Labelled>(self) {}
        }
        let labelled = |family: &&FamilyRef| family.visit_labelled(Any).is_some();
        BalanceOptions {
            family: *FAMILIES.iter().find(labelled).unwrap_or(&FAMILIES[0]),
            data: Vec::new(),
            sync: Vec::new(),
            threads: 0,
            cpus: Vec::new(),
            allow: AllowList::default(),
            config: BalancerConfig::default(),
            receive_buffer: Size::from_bytes(64 << 20),
            send: SendOptions::default(),
            fast_path: FastPath::default(),
        }
    }
}

/// Why a balancer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BalanceError {
    /// Packets of this family have no label.
    #[error("packets of {0} have no label that a balancer could read")]
    NotLabelled(&'static str),
    /// There is no address for packets.
    #[error("no address for packets{}", Hint("name one, with a port"))]
    NoData,
    /// A socket or a thread cannot be opened.
    #[error("{0}")]
    Io(#[from] io::Error),
}
