//! Serialised tables, so that forwarding and control can run in separate processes.
//!
//! ```text
//!   "SKYTAB" version │ anyone? │ n, n × (from, to) IPv4 │ n, n × (from, to) IPv6
//!                    │ n, n × (first tick, mask, xor, 512 × seat) │ n, n × (seat, occupant)
//! ```
//!
//! Big-endian; numbers of elements have 32 bits. Input is not trusted: [`Table::from_bytes`] only returns tables that
//! the constructors in the neighbouring modules could have made, and serialising such a table gives the same bytes.

use super::super::{
    allow::AllowList,
    calendar::{Calendar, SLOTS},
    member::{MEMBERS, Member, PortRange, Seat},
};
use super::{EPOCHS, Epoch, Occupant, SlotSelect, Table};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, sync::Arc};

const MAGIC: &[u8; 7] = b"SKYTAB\x01";
/// Maximum number of networks in an allow-list: more than anyone types, and few enough to fit into memory.
const RANGES: usize = 1 << 16;

/// Error: the bytes are not a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATable(&'static str);

impl fmt::Display for NotATable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a table of a balancer: {}; hint: both processes must be of the same version", self.0)
    }
}

impl std::error::Error for NotATable {}

impl Table {
    /// Serialises the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let (any, v4, v6) = self.allow.ranges();
        out.push(any.into());
        count(&mut out, v4.len());
        v4.iter().for_each(|(from, to)| [from, to].iter().for_each(|ip| out.extend(ip.octets())));
        count(&mut out, v6.len());
        v6.iter().for_each(|(from, to)| [from, to].iter().for_each(|ip| out.extend(ip.octets())));
        count(&mut out, self.epochs.len());
        for Epoch { first, calendar, select } in &self.epochs {
            out.extend(first.to_be_bytes());
            [select.mask, select.xor].iter().for_each(|half| out.extend(half.to_be_bytes()));
            calendar.owners().for_each(|owner| out.extend(owner.to_be_bytes()));
        }
        let seats = self.members.iter().enumerate();
        let taken: Vec<_> = seats.filter(|(_, occupant)| **occupant != Occupant::None).collect();
        count(&mut out, taken.len());
        for (seat, occupant) in taken {
            out.extend((seat as u16).to_be_bytes());
            let Occupant::Member(member) = occupant else {
                out.push(0);
                continue;
            };
            match member.ip {
                IpAddr::V4(ip) => (out.push(4), out.extend(ip.octets())),
                IpAddr::V6(ip) => (out.push(6), out.extend(ip.octets())),
            };
            [member.port, member.mask].iter().for_each(|half| out.extend(half.to_be_bytes()));
            out.push(member.keep_label.into());
        }
        out
    }

    /// Reads a serialised table.
    ///
    /// # Errors
    /// [`NotATable`].
    pub fn from_bytes(octets: &[u8]) -> Result<Table, NotATable> {
        let mut read = Read(octets);
        if read.array::<7>()? != *MAGIC {
            return Err(NotATable("it does not begin as one, or is of another version"));
        }
        let any = read.bit()?;
        let v4 = read.ranges(|read| Ok(Ipv4Addr::from(read.array::<4>()?)))?;
        let v6 = read.ranges(|read| Ok(Ipv6Addr::from(read.array::<16>()?)))?;
        let epochs = read.list(EPOCHS, Read::epoch)?;
        if !epochs.windows(2).all(|two| two[0].first < two[1].first) {
            return Err(NotATable("its epochs are out of order"));
        }
        let members = read.list(MEMBERS, Read::occupant)?;
        if !members.windows(2).all(|two| two[0].0 < two[1].0) {
            return Err(NotATable("its members are out of order"));
        }
        if !read.0.is_empty() {
            return Err(NotATable("octets are left over"));
        }
        Ok(Table::new(AllowList::of_ranges(any, v4, v6), epochs, &members))
    }
}

fn count(out: &mut Vec<u8>, n: usize) {
    // Fits into 32 bits because of the limits above.
    out.extend((n as u32).to_be_bytes());
}

struct Read<'a>(&'a [u8]);

impl Read<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotATable> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(NotATable("it is cut short"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, NotATable> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn bit(&mut self) -> Result<bool, NotATable> {
        match self.array::<1>()? {
            [octet @ 0..=1] => Ok(octet == 1),
            _ => Err(NotATable("a yes or no is neither")),
        }
    }

    fn list<T>(
        &mut self,
        most: usize,
        one: impl Fn(&mut Self) -> Result<T, NotATable>,
    ) -> Result<Vec<T>, NotATable> {
        let n = u32::from_be_bytes(self.array()?) as usize;
        if n > most {
            return Err(NotATable("it has more elements than a table holds"));
        }
        (0..n).map(|_| one(self)).collect()
    }

    /// Ranges in ascending order that do not touch, as a look-up needs them.
    fn ranges<T: Ord + Copy>(
        &mut self,
        ip: impl Fn(&mut Self) -> Result<T, NotATable>,
    ) -> Result<Vec<(T, T)>, NotATable> {
        let all = self.list(RANGES, |read| Ok((ip(read)?, ip(read)?)))?;
        let ordered =
            all.iter().all(|(from, to)| from <= to) && all.windows(2).all(|two| two[0].1 < two[1].0);
        ordered.then_some(all).ok_or(NotATable("its ranges of senders are out of order"))
    }

    fn epoch(&mut self) -> Result<Epoch, NotATable> {
        let first = u64::from_be_bytes(self.array()?);
        let (mask, xor) = (self.u16()?, self.u16()?);
        if usize::from(mask) >= SLOTS || mask & mask.wrapping_add(1) != 0 {
            return Err(NotATable("it chooses slots that do not exist"));
        }
        let mut calendar = Calendar::default();
        for slot in 0..SLOTS as u16 {
            let owner = self.u16()?;
            let seat = Seat::new(owner.into());
            if seat.is_none() && owner != u16::MAX {
                return Err(NotATable("a slot is of a seat that does not exist"));
            }
            calendar.set(slot, seat);
        }
        Ok(Epoch { first, calendar: Arc::new(calendar), select: SlotSelect { mask, xor } })
    }

    fn occupant(&mut self) -> Result<(Seat, Occupant), NotATable> {
        let seat =
            Seat::new(self.u16()?.into()).ok_or(NotATable("a member has a seat that does not exist"))?;
        let ip: IpAddr = match self.array::<1>()? {
            [0] => return Ok((seat, Occupant::Evicted)),
            [4] => self.array::<4>()?.into(),
            [6] => self.array::<16>()?.into(),
            _ => return Err(NotATable("a member has an unknown kind of address")),
        };
        let (port, mask) = (self.u16()?, self.u16()?);
        let ports = PortRange::of_mask(mask);
        let keep_label = self.bit()?;
        let member = ports.and_then(|ports| Member::new(ip, port, ports, keep_label));
        let member = member.ok_or(NotATable("a member has ports that do not exist"))?;
        Ok((seat, Occupant::Member(member)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(networks: &[(u32, u8)], epochs: &[(u64, u16)], members: &[(u16, u16, u8, bool)]) -> Table {
        let prefix = |&(ip, bits): &(u32, u8)| {
            super::super::super::allow::Prefix::new(Ipv4Addr::from(ip).into(), bits).unwrap()
        };
        let mut prefixes: Vec<_> = networks.iter().map(prefix).collect();
        prefixes.push("fd00::/64".parse().unwrap());
        let mut firsts: Vec<_> = epochs.to_vec();
        firsts.sort_unstable();
        firsts.dedup_by_key(|epoch| epoch.0);
        let epoch = |&(first, owner): &(u64, u16)| {
            let mut calendar = Calendar::default();
            (0..SLOTS as u16)
                .filter(|slot| slot % 3 != 0)
                .for_each(|slot| calendar.set(slot, Seat::new((owner ^ slot).into())));
            Epoch {
                first,
                calendar: Arc::new(calendar),
                select: SlotSelect::new((owner % 10) as u8, owner).unwrap(),
            }
        };
        let member = |&(seat, port, bits, keep): &(u16, u16, u8, bool)| {
            let ip: IpAddr = if keep {
                Ipv6Addr::from(u128::from(port) << 90).into()
            } else {
                Ipv4Addr::from(u32::from(port)).into()
            };
            let member = Member::new(ip, port, PortRange::new(bits % 15).unwrap(), keep);
            (
                Seat::new(usize::from(seat) % MEMBERS).unwrap(),
                member.map_or(Occupant::Evicted, Occupant::Member),
            )
        };
        let members: Vec<_> = members.iter().map(member).collect();
        Table::new(AllowList::of(&prefixes), firsts.iter().map(epoch).collect(), &members)
    }

    proptest! {
        #[test]
        fn every_table_comes_back(networks in proptest::collection::vec((any::<u32>(), 0u8..=32), 0..9), epochs in proptest::collection::vec(any::<(u64, u16)>(), 0..9), members in proptest::collection::vec(any::<(u16, u16, u8, bool)>(), 0..9), flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>()) {
            let table = table(&networks, &epochs, &members);
            let octets = table.to_bytes();
            let again = Table::from_bytes(&octets).unwrap();
            prop_assert_eq!(&again.allow, &table.allow);
            prop_assert_eq!(&again.members, &table.members);
            prop_assert_eq!(again.epochs.len(), table.epochs.len());
            prop_assert_eq!(again.to_bytes(), octets.clone());
            prop_assert!(Table::from_bytes(&octets[..cut.index(octets.len())]).is_err());
            // Damaged bytes are another table, or none.
            let mut damaged = octets;
            for (at, with) in flips {
                let at = at.index(damaged.len());
                damaged[at] ^= with;
            }
            if let Ok(other) = Table::from_bytes(&damaged) {
                prop_assert_eq!(other.to_bytes(), damaged);
            }
        }
    }

    #[test]
    fn what_is_no_table() {
        let good = table(&[], &[(5, 7)], &[(3, 17750, 2, false)]).to_bytes();
        let error = |at: usize, with: u8| {
            let mut octets = good.clone();
            octets[at] = with;
            Table::from_bytes(&octets).unwrap_err().to_string()
        };
        // 7 magic, anyone, 4 (no IPv4), 4 + 32 (one of IPv6), 4 epochs, 8 + 4 + 1024, 4 members, 2 + 1 + 4 + 4 + 1.
        assert_eq!(good.len(), 7 + 1 + 4 + 36 + 4 + 1036 + 4 + 12);
        assert!(error(6, 2).contains("another version"));
        assert!(error(7, 2).contains("neither"));
        assert!(error(8, 255).contains("more elements"));
        assert!(error(16, 255).contains("out of order"), "from beyond to");
        assert!(error(52 + 8, 4).contains("slots that do not exist"));
        assert!(error(52 + 12 + 2, 200).contains("a slot is of a seat"));
        assert!(error(1092, 200).contains("a member has a seat"));
        assert!(error(1094, 9).contains("kind of address"));
        assert!(error(1101, 9).contains("ports that do not exist"));
        assert!(error(1103, 9).contains("neither"));
        let left_over = [&good[..], &[0]].concat();
        assert!(Table::from_bytes(&left_over).unwrap_err().to_string().contains("left over"));
    }
}
