//! The queueing discipline at the root of an interface, so that it can be replaced and restored.
//!
//! | text | is |
//! |---|---|
//! | `default pfifo_fast` | the kernel's default: nobody set one |
//! | `pfifo 8001: e8030000` | one that was set: its kind, its handle, its options as returned by the kernel |
//! | `fq` | a kind, with the kernel's default options |
//!
//! ```
//! use skyhaul_io::netlink::discipline::Root;
//! let one: Root = "pfifo 8001: e8030000".parse()?;
//! assert_eq!((one.kind.as_str(), one.to_string().as_str()), ("pfifo", "pfifo 8001: e8030000"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: only disciplines without classes that accept the options that they return can be restored
//! ([`comes_back`](Root::comes_back)), and only if no other has been set below them.

use super::route::Routes;
use super::{Attributes, CREATE, REPLACE, Request};
use std::str::FromStr;
use std::{fmt, io};

const NEW_DISCIPLINE: u16 = 36;
const DELETE_DISCIPLINE: u16 = 37;
const GET_DISCIPLINE: u16 = 38;
const ROOT: u32 = 0xFFFF_FFFF;
const INGRESS: u32 = 0xFFFF_FFF1;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// Maximum length of options and of a kind, bytes, because the text may come from anywhere.
const LONGEST: usize = 1024;
const LONGEST_KIND: usize = 15;
/// Kinds that take the options that they give.
const KEPT: [&str; 4] = ["pfifo", "bfifo", "pfifo_fast", "fq"];

/// The discipline at the root of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its kind.
    pub kind: String,
    /// How it was made.
    pub made: Made,
}

/// How a discipline came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// The kernel chose it.
    ByDefault,
    /// It was set, without options.
    Plain,
    /// It has this handle and these options.
    Set(u16, Vec<u8>),
}

impl Root {
    /// Whether it is exactly as before when it is set again.
    #[must_use]
    pub fn comes_back(&self) -> bool {
        self.made == Made::ByDefault || KEPT.contains(&self.kind.as_str())
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.kind;
        match &self.made {
            Made::ByDefault => write!(f, "default {kind}"),
            Made::Plain => f.write_str(kind),
            Made::Set(handle, options) => {
                write!(f, "{kind} {handle:x}:")?;
                if !options.is_empty() {
                    f.write_str(" ")?;
                }
                options.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
        }
    }
}

impl FromStr for Root {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let none =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("'{text}' is no queueing discipline"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let (kind, made) = match words[..] {
            ["default", kind] => (kind, Made::ByDefault),
            [kind] => (kind, Made::Plain),
            [kind, handle, ref options @ ..] if options.len() < 2 => {
                let handle = handle.strip_suffix(':').and_then(|handle| u16::from_str_radix(handle, 16).ok());
                let options = octets(options.first().unwrap_or(&"")).ok_or_else(none)?;
                (kind, Made::Set(handle.filter(|handle| *handle > 0).ok_or_else(none)?, options))
            }
            _ => return Err(none()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if kind == "default" || kind.len() > LONGEST_KIND || !kind.chars().all(is_name) {
            return Err(none());
        }
        Ok(Self { kind: kind.to_owned(), made })
    }
}

/// Bytes in hexadecimal digits.
fn octets(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || digits.len() > 2 * LONGEST {
        return None;
    }
    let octet = |two: &[u8]| {
        let [high, low] = [two[0], two[1]].map(|digit| (digit as char).to_digit(16));
        Some((high? << 4 | low?) as u8)
    };
    digits.chunks_exact(2).map(octet).collect()
}

impl Routes {
    /// Returns the discipline at the root of an interface, and whether another has been set below it.
    ///
    /// # Errors
    /// A system error; there is none.
    pub fn root(&mut self, index: u32) -> io::Result<(Root, bool)> {
        let (mut root, mut below) = (None, false);
        self.0.dump(&Request::new(GET_DISCIPLINE).fixed(&fixed(index, 0, 0)), &mut |_, body| match read(
            body, index,
        ) {
            Some((ROOT, found)) => root = Some(found),
            Some((INGRESS, _)) | None => {}
            Some((_, found)) => below |= found.made != Made::ByDefault,
        })?;
        root.map(|root| (root, below)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Sets the discipline at the root of an interface.
    ///
    /// # Errors
    /// The error of the kernel, including that the kind is unknown.
    pub fn set_root(&mut self, index: u32, to: &Root) -> io::Result<()> {
        let new = |handle: u16| {
            let handle = u32::from(handle) << 16;
            Request::new(NEW_DISCIPLINE)
                .flags(CREATE | REPLACE)
                .fixed(&fixed(index, handle, ROOT))
                .text(KIND, &to.kind)
        };
        match &to.made {
            Made::Plain => self.0.tell(&new(0)),
            Made::Set(handle, options) => self.0.tell(&new(*handle).attribute(OPTIONS, options)),
            Made::ByDefault => {
                let gone = self.0.tell(&Request::new(DELETE_DISCIPLINE).fixed(&fixed(index, 0, ROOT)));
                // There was none but the kernel's own.
                gone.or_else(
                    |error| if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) },
                )
            }
        }
    }
}

/// `struct tcmsg`.
fn fixed(index: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut fixed = [0; 20];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&handle.to_ne_bytes());
    fixed[12..16].copy_from_slice(&parent.to_ne_bytes());
    fixed
}

/// Parent and discipline of a message, if it is of this interface.
fn read(body: &[u8], index: u32) -> Option<(u32, Root)> {
    let word = |at: usize| Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?));
    if word(4)? != index {
        return None;
    }
    let (handle, parent, all) = ((word(8)? >> 16) as u16, word(12)?, Attributes::after(body, 20));
    let kind = all.text(KIND)?.to_owned();
    let options = || all.find(OPTIONS).unwrap_or_default().to_vec();
    let made = if handle == 0 { Made::ByDefault } else { Made::Set(handle, options()) };
    Some((parent, Root { kind, made }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Network;
    use crate::netlink::route::Queue;
    use proptest::prelude::*;
    use std::os::fd::AsFd;

    #[test]
    fn text_is_read_and_written() {
        for text in ["default noqueue", "fq", "pfifo 8001: e8030000", "pfifo_fast 1:", "fq a: 08000100"] {
            assert_eq!(text.parse::<Root>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "default",
            "fq 1",
            "fq 0:",
            "fq 1: 0",
            "fq 1: 0g",
            "fq 1: 00 00",
            "a-b",
            "aaaaaaaaaaaaaaaaaaaa",
            "fq 10000:",
        ] {
            assert!(wrong.parse::<Root>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_one_comes_back_octet_for_octet() {
        let network = match Network::new() {
            Ok(network) => network,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: {error} (run as root)");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let other = Network::new().unwrap();
        let inside = move || {
            let mut routes = Routes::open().unwrap();
            routes.veth("one", ("two", other.as_fd()), 1500).unwrap();
            let index = routes.index("one").unwrap();
            routes.up(index).unwrap();
            let default = routes.root(index).unwrap();
            assert_eq!((default.0.to_string().as_str(), default.1), ("default noqueue", false));
            routes.queue(index, Queue::Packets(77)).unwrap();
            let set = routes.root(index).unwrap().0;
            assert!(set.comes_back() && matches!(set.made, Made::Set(..)), "{set}");
            routes.set_root(index, &"bfifo".parse().unwrap()).unwrap();
            assert_eq!(routes.root(index).unwrap().0.kind, "bfifo");
            routes.set_root(index, &set.to_string().parse().unwrap()).unwrap();
            assert_eq!(routes.root(index).unwrap().0, set);
            routes.set_root(index, &default.0).unwrap();
            assert_eq!(routes.root(index).unwrap(), default);
            routes.set_root(index, &default.0).unwrap();
            let unknown = routes.set_root(index, &"no_such_one".parse().unwrap()).unwrap_err();
            assert_eq!(unknown.raw_os_error(), Some(libc::ENOENT), "{unknown}");
            assert_eq!(routes.root(index).unwrap(), default);
        };
        network.inside(inside).unwrap();
    }

    proptest! {
        #[test]
        fn no_text_and_no_octets_do_harm(text in ".{0,80}", body: Vec<u8>) {
            if let Ok(root) = text.parse::<Root>() {
                prop_assert_eq!(root.to_string().parse::<Root>().unwrap(), root);
            }
            let _ = read(&body, 1);
        }
    }
}
