//! Properties of a network card and its driver, read by ioctl: `ethtool` is not needed, and reading needs no root.
//!
//! | asked | answer |
//! |---|---|
//! | [`driver`](Card::driver) | driver, its version, firmware, bus address |
//! | [`ring`](Card::ring), [`channels`](Card::channels), [`coalescing`](Card::coalescing), [`pause`](Card::pause) | numbers by name |
//! | [`features`](Card::features), [`private_flags`](Card::private_flags) | on or off by name, and whether that can change |
//! | [`statistics`](Card::statistics) | counters of the driver by name |
//! | [`hash_fields`](Card::hash_fields), [`indirection`](Card::indirection), [`rules`](Card::rules) | how packets are spread over queues |
//! | [`timestamps`](Card::timestamps), [`link`](Card::link), [`fec`](Card::fec) | its time stamps; its link |
//!
//! Names are those that `ethtool` prints or accepts. Requests and replies are 32-bit words in the order of
//! `linux/ethtool.h`. [`set`](Card::set) writes settings that can be changed without interrupting the link.
//!
//! Limits: a reply has at most 16384 words; a driver that claims more is refused with `EMSGSIZE`.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Words of an answer, at most.
const MOST: usize = 1 << 14;
const NAME: usize = 32;

const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const GET_RING: u32 = 0x10;
const GET_PAUSE: u32 = 0x12;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
const GET_PRIVATE_FLAGS: u32 = 0x27;
const GET_HASH: u32 = 0x29;
const GET_RULE_COUNT: u32 = 0x2e;
const GET_STRING_COUNT: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
const GET_TIMESTAMPS: u32 = 0x41;
const GET_INDIRECTION: u32 = 0x46;
const GET_LINK: u32 = 0x4c;
const GET_FEC: u32 = 0x50;

/// Sets of names.
const STATISTICS: u32 = 1;
const PRIVATE_FLAGS: u32 = 2;
const FEATURES: u32 = 4;

/// Words of a request about rules, and where it says their number.
const RULE_WORDS: usize = 48;
const RULE_COUNT: usize = 46;

/// Names of words, in order after the command; an empty name is not reported.
const RING: [&str; 8] = ["rx-max", "", "", "tx-max", "rx", "", "", "tx"];
const PAUSE: [&str; 3] = ["autoneg", "rx", "tx"];
const CHANNELS: [&str; 8] =
    ["rx-max", "tx-max", "other-max", "combined-max", "rx", "tx", "other", "combined"];
const COALESCE: [&str; 11] =
    ["rx-usecs", "rx-frames", "", "", "tx-usecs", "tx-frames", "", "", "", "adaptive-rx", "adaptive-tx"];
const COALESCE_WORDS: usize = 23;

/// Header fields that the hash covers, by bit, as `ethtool -N` writes them.
const HASHED: [(u64, char); 7] = [(1, 'm'), (2, 'v'), (3, 't'), (4, 's'), (5, 'd'), (6, 'f'), (7, 'n')];
const FEC: [(u32, &str); 6] = [(0, "none"), (1, "auto"), (2, "off"), (3, "rs"), (4, "baser"), (5, "llrs")];

/// Numbers by name.
pub type Numbers = BTreeMap<&'static str, u32>;

/// The driver of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Its name.
    pub driver: String,
    /// Its version, which for drivers of the kernel is the kernel's.
    pub version: String,
    /// Version of the card's firmware.
    pub firmware: String,
    /// Address on its bus.
    pub bus: String,
}

/// One offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Whether it is on.
    pub on: bool,
    /// Whether it can be switched.
    pub changeable: bool,
}

/// Packets for which a card provides time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// It stamps packets that it sends.
    pub sends: bool,
    /// It stamps packets that it receives.
    pub receives: bool,
    /// Number of its clock, `/dev/ptpN`.
    pub clock: Option<u32>,
}

/// The link of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Speed in Mb/s; `None` if there is no link, or it is unknown.
    pub speed: Option<u32>,
    /// Whether it is full duplex; `None` if unknown.
    pub full: Option<bool>,
    /// Whether both ends agreed on it.
    pub negotiated: bool,
}

/// Error correction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fec {
    /// The mode in use.
    pub active: Vec<&'static str>,
    /// The configured modes.
    pub configured: Vec<&'static str>,
}

/// An interface whose properties can be read.
#[derive(Debug)]
pub struct Card {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Card {
    /// Open the interface of this name, in the network namespace of this thread.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface; a system error.
    pub fn open(name: &str) -> io::Result<Self> {
        let mut octets = [0; libc::IFNAMSIZ];
        if name.is_empty() || name.len() >= octets.len() || name.contains('\0') {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in octets.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, name: octets })
    }

    /// Ask, in words; the answer replaces them.
    fn ask(&self, words: &mut [u32]) -> io::Result<()> {
        let data = words.as_mut_ptr().cast();
        let mut request =
            libc::ifreq { ifr_name: self.name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: data } };
        // SAFETY: the kernel reads and writes the request, and the words that it points to: as many as the command in the
        // first of them has, for which every caller makes room. Both outlive the call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn asked(&self, command: u32, words: usize) -> io::Result<Vec<u32>> {
        if words > MOST {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let mut all = vec![0; words];
        all[0] = command;
        self.ask(&mut all)?;
        Ok(all)
    }

    fn named(&self, command: u32, names: &[&'static str]) -> io::Result<Numbers> {
        let words = self.asked(command, names.len() + 1)?;
        let all = names.iter().copied().zip(words[1..].iter().copied());
        Ok(all.filter(|(name, _)| !name.is_empty()).collect())
    }

    /// Its driver.
    ///
    /// # Errors
    /// A system error; `EOPNOTSUPP` if the driver does not provide it, as for all of the following functions.
    pub fn driver(&self) -> io::Result<Driver> {
        let octets = octets(&self.asked(GET_DRIVER, 49)?[1..]);
        let at = |number: usize| text(&octets[number * NAME..][..NAME]);
        Ok(Driver { driver: at(0), version: at(1), firmware: at(2), bus: at(3) })
    }

    /// Descriptors of its rings: `rx`, `tx`, and the most, `rx-max`, `tx-max`.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn ring(&self) -> io::Result<Numbers> {
        self.named(GET_RING, &RING)
    }

    /// Its queues: `rx`, `tx`, `combined`, and the most of each.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn channels(&self) -> io::Result<Numbers> {
        self.named(GET_CHANNELS, &CHANNELS)
    }

    /// Whether it sends and obeys pause frames: `rx`, `tx`, `autoneg`.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn pause(&self) -> io::Result<Numbers> {
        self.named(GET_PAUSE, &PAUSE)
    }

    /// How interrupts are gathered: `rx-usecs`, `rx-frames`, `adaptive-rx` and so on.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn coalescing(&self) -> io::Result<Numbers> {
        let words = self.asked(GET_COALESCE, COALESCE_WORDS)?;
        let all = COALESCE.iter().copied().zip(words[1..].iter().copied());
        Ok(all.filter(|(name, _)| !name.is_empty()).collect())
    }

    /// Names of a set.
    fn names(&self, set: u32) -> io::Result<Vec<String>> {
        let [first, second] = halves(1 << set);
        let mut count = [GET_STRING_COUNT, 0, first, second, 0];
        self.ask(&mut count)?;
        // The kernel returns a mask of the sets that exist.
        let count = if long(&count[2..4]) == 0 { 0 } else { count[4] };
        let words = 3 + count as usize * NAME / 4;
        if words > MOST {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let mut all = vec![0; words];
        (all[0], all[1], all[2]) = (GET_STRINGS, set, count);
        if count > 0 {
            self.ask(&mut all)?;
        }
        Ok(octets(&all[3..]).chunks_exact(NAME).map(text).collect())
    }

    /// Counters of the driver; of several with one name, the sum.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn statistics(&self) -> io::Result<BTreeMap<String, u64>> {
        let names = self.names(STATISTICS)?;
        let mut words = vec![0; 2 + 2 * names.len()];
        (words[0], words[1]) = (GET_STATS, names.len() as u32);
        if !names.is_empty() {
            self.ask(&mut words)?;
        }
        let mut all = BTreeMap::new();
        for (name, value) in names.into_iter().zip(words[2..].chunks_exact(2)) {
            let sum: &mut u64 = all.entry(name).or_default();
            *sum = sum.wrapping_add(long(value));
        }
        Ok(all)
    }

    /// Its offloads, by the names that the kernel has for them.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn features(&self) -> io::Result<BTreeMap<String, Feature>> {
        let names = self.names(FEATURES)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0; 2 + 4 * blocks];
        (words[0], words[1]) = (GET_FEATURES, blocks as u32);
        self.ask(&mut words)?;
        let one = |(number, name): (usize, String)| {
            let block = &words[2 + number / 32 * 4..][..4];
            let has = |word: u32| word >> (number % 32) & 1 == 1;
            (name, Feature { on: has(block[2]), changeable: has(block[0]) && !has(block[3]) })
        };
        Ok(names.into_iter().enumerate().filter(|(_, name)| !name.is_empty()).map(one).collect())
    }

    /// Switches that only this driver has.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn private_flags(&self) -> io::Result<BTreeMap<String, bool>> {
        let names = self.names(PRIVATE_FLAGS)?;
        let flags = if names.is_empty() { 0 } else { self.asked(GET_PRIVATE_FLAGS, 2)?[1] };
        let on = |number: usize| number < 32 && flags >> number & 1 == 1;
        Ok(names.into_iter().enumerate().map(|(number, name)| (name, on(number))).collect())
    }

    /// What chooses the queue of a packet of `flow` (`tcp4`, `udp4`, `tcp6`, `udp6`), as `ethtool` writes it: `sd` is the
    /// addresses, `sdfn` the ports as well.
    ///
    /// # Errors
    /// See [`driver`](Self::driver); `EINVAL` for another flow.
    pub fn hash_fields(&self, flow: &str) -> io::Result<String> {
        let mut words = vec![0; RULE_WORDS];
        (words[0], words[1]) = (GET_HASH, flow_number(flow)?);
        self.ask(&mut words)?;
        let fields = long(&words[2..4]);
        Ok(HASHED.iter().filter(|(bit, _)| fields >> bit & 1 == 1).map(|(_, name)| *name).collect())
    }

    /// Number of rules that lead flows to queues.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn rules(&self) -> io::Result<u32> {
        Ok(self.asked(GET_RULE_COUNT, RULE_WORDS)?[RULE_COUNT])
    }

    /// The queue of each hash value.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn indirection(&self) -> io::Result<Vec<u32>> {
        let sizes = self.asked(GET_INDIRECTION, 6)?;
        let (entries, key) = (sizes[2] as usize, sizes[3] as usize);
        let total = 6usize.saturating_add(entries).saturating_add(key.div_ceil(4));
        if total > MOST {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let mut words = vec![0; total];
        words[..4].copy_from_slice(&[GET_INDIRECTION, 0, sizes[2], sizes[3]]);
        self.ask(&mut words)?;
        Ok(words[6..6 + entries].to_vec())
    }

    /// What it can stamp.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn timestamps(&self) -> io::Result<Timestamps> {
        let words = self.asked(GET_TIMESTAMPS, 11)?;
        let clock = words[2] as i32;
        Ok(Timestamps {
            sends: words[1] & 1 == 1,
            receives: words[1] >> 2 & 1 == 1,
            clock: u32::try_from(clock).ok(),
        })
    }

    /// Its link.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn link(&self) -> io::Result<Link> {
        // The kernel first returns the number of words of its masks, as a negative number.
        let sizes = self.asked(GET_LINK, 12)?;
        let masks = (octets(&sizes[4..5])[2] as i8).unsigned_abs();
        let mut words = vec![0; 12 + 3 * usize::from(masks)];
        words[0] = GET_LINK;
        let mut fourth = [0; 4];
        fourth[2] = masks;
        words[4] = u32::from_ne_bytes(fourth);
        self.ask(&mut words)?;
        let kind = octets(&words[2..4]);
        let full = match kind[0] {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let speed = Some(words[1]).filter(|speed| *speed != 0 && *speed != u32::MAX);
        Ok(Link { speed, full, negotiated: kind[3] == 1 })
    }

    /// Error correction of its link.
    ///
    /// # Errors
    /// See [`driver`](Self::driver).
    pub fn fec(&self) -> io::Result<Fec> {
        let words = self.asked(GET_FEC, 4)?;
        let names = |bits: u32| FEC.iter().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, n)| *n).collect();
        Ok(Fec { active: names(words[1]), configured: names(words[2]) })
    }

    /// Changes one setting: `coalesce/rx-usecs`, `feature/rx-gro`, `hash/udp4`, `ring/rx`. Its value has the form that
    /// the readers return: a number, `on` or `off`, letters of fields.
    ///
    /// # Errors
    /// `EINVAL` for an unknown setting or value; a system error, `EPERM` without `CAP_NET_ADMIN`.
    pub fn set(&self, setting: &str, value: &str) -> io::Result<()> {
        let refused = || io::Error::from_raw_os_error(libc::EINVAL);
        match setting.split_once('/').ok_or_else(refused)? {
            ("coalesce", name) => {
                let at = COALESCE.iter().position(|known| !known.is_empty() && *known == name);
                self.set_coalescing(at.ok_or_else(refused)? + 1, number(value).ok_or_else(refused)?)
            }
            ("feature", name) => self.set_feature(name, switch(value).ok_or_else(refused)?),
            ("ring", name) => {
                let value = number(value).ok_or_else(refused)?;
                let at = ring_word(name).ok_or_else(refused)?;
                let mut words = self.asked(GET_RING, RING.len() + 1)?;
                (words[0], words[at]) = (SET_RING, value);
                self.ask(&mut words)
            }
            ("hash", flow) => self.set_hash(flow, value),
            _ => Err(refused()),
        }
    }

    fn set_coalescing(&self, word: usize, value: u32) -> io::Result<()> {
        let mut words = self.asked(GET_COALESCE, COALESCE_WORDS)?;
        words[0] = SET_COALESCE;
        words[word] = value;
        self.ask(&mut words)
    }

    fn set_feature(&self, name: &str, on: bool) -> io::Result<()> {
        let names = self.names(FEATURES)?;
        let at = names.iter().position(|known| known == name);
        let at = at.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0; 2 + 2 * blocks];
        (words[0], words[1]) = (SET_FEATURES, blocks as u32);
        let bit = 1 << (at % 32);
        words[2 + at / 32 * 2] = bit;
        words[3 + at / 32 * 2] = if on { bit } else { 0 };
        self.ask(&mut words)
    }

    fn set_hash(&self, flow: &str, fields: &str) -> io::Result<()> {
        let mut bits = 0u64;
        for letter in fields.chars() {
            let known = HASHED.iter().find(|(_, name)| *name == letter);
            bits |= 1 << known.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?.0;
        }
        let mut words = vec![0; RULE_WORDS];
        (words[0], words[1]) = (SET_HASH, flow_number(flow)?);
        words[2..4].copy_from_slice(&halves(bits));
        self.ask(&mut words)
    }
}

fn flow_number(flow: &str) -> io::Result<u32> {
    let all = [("tcp4", 1), ("udp4", 2), ("tcp6", 5), ("udp6", 6)];
    let found = all.iter().find(|(name, _)| *name == flow);
    found.map(|(_, number)| *number).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

fn octets(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Up to the first zero.
fn text(octets: &[u8]) -> String {
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    String::from_utf8_lossy(&octets[..end]).trim().to_owned()
}

/// A number as two words, in the byte order of this machine.
fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// Two words as one number, in the byte order of this machine.
fn long(words: &[u32]) -> u64 {
    octets(&words[..2]).try_into().map_or(0, u64::from_ne_bytes)
}

const SET_COALESCE: u32 = 0x0f;
const SET_RING: u32 = 0x11;
const SET_HASH: u32 = 0x2a;
const SET_FEATURES: u32 = 0x3b;

/// The word of a ring's size; maximum sizes cannot be set.
fn ring_word(name: &str) -> Option<usize> {
    let at = RING.iter().position(|known| !known.is_empty() && *known == name)?;
    (!name.ends_with("-max")).then_some(at + 1)
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Switches of coalescing are numbers to the kernel.
fn number(value: &str) -> Option<u32> {
    switch(value).map(u32::from).or_else(|| value.parse().ok())
}

#[cfg(test)]
mod tests;
