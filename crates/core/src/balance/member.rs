//! Members: receivers with an address and a range of ports, each in a seat of the table.

use core::net::{IpAddr, SocketAddr};

/// Number of seats of a table, as in ESnet's data plane.
pub const MEMBERS: usize = 1024;

/// A seat of the table. A member keeps its seat for as long as it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub(super) u16);

impl Seat {
    /// The seat with this number, if there is one.
    #[must_use]
    pub fn new(number: usize) -> Option<Seat> {
        (number < MEMBERS).then_some(Seat(number as u16))
    }

    /// Its number, less than [`MEMBERS`].
    #[must_use]
    pub fn number(self) -> usize {
        self.0.into()
    }
}

/// Number of ports of a member: a power of two, from 1 to 16384.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange(u8);

impl PortRange {
    /// 2 to the power of `bits` ports (`PortRange` of the control plane's protocol); `None` for more than 14.
    #[must_use]
    pub fn new(bits: u8) -> Option<PortRange> {
        (bits <= 14).then_some(PortRange(bits))
    }

    /// The range with this [`mask`](Self::mask), if there is one.
    pub(super) fn of_mask(mask: u16) -> Option<PortRange> {
        (0..=14).map(PortRange).find(|range| range.mask() == mask)
    }

    /// Mask of the bits of a label's port that select one of them.
    #[must_use]
    pub fn mask(self) -> u16 {
        (1 << self.0) - 1
    }
}

/// Where the packets of a member are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) mask: u16,
    pub(super) keep_label: bool,
}

impl Member {
    /// The member at `ip` with ports from `port`. `None` if the last port would exceed 65535, or the first is 0.
    #[must_use]
    pub fn new(ip: IpAddr, port: u16, ports: PortRange, keep_label: bool) -> Option<Member> {
        let mask = ports.mask();
        (port != 0 && port.checked_add(mask).is_some()).then_some(Member { ip, port, mask, keep_label })
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_stay_below_the_last() {
        let member =
            |port, bits| Member::new([10, 0, 0, 1].into(), port, PortRange::new(bits).unwrap(), false);
        assert_eq!(member(49152, 14).unwrap().mask, 16383);
        assert_eq!(member(49153, 14), None);
        assert_eq!(member(65535, 0).unwrap().address().to_string(), "10.0.0.1:65535");
        assert_eq!(member(65535, 1), None);
        assert_eq!(member(0, 0), None);
        assert_eq!(PortRange::new(15), None);
        assert_eq!((Seat::new(1023).map(Seat::number), Seat::new(1024)), (Some(1023), None));
    }
}
