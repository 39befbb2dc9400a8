//! Writes settings that can be changed while packets flow, and the size of rings, which interrupts the link for a
//! moment.

use super::{
    COALESCE, COALESCE_WORDS, Card, FEATURES, GET_COALESCE, GET_RING, HASHED, RING, RULE_WORDS, flow_number,
    halves,
};
use std::io;

const SET_COALESCE: u32 = 0x0f;
const SET_RING: u32 = 0x11;
const SET_HASH: u32 = 0x2a;
const SET_FEATURES: u32 = 0x3b;

impl Card {
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

/// The word of a ring's size; maximum sizes cannot be set.
pub(super) fn ring_word(name: &str) -> Option<usize> {
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
