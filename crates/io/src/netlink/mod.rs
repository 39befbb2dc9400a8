//! Netlink: queries and changes of the kernel's network configuration.
//!
//! ```text
//!   message     length kind flags sequence port │ fixed part │ attributes
//!   attribute   length kind │ value, or attributes again │ up to a multiple of 4
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`Attributes`] | attributes, read within their bounds |
//! | [`Request`], [`Messages`] | requests, and the messages of a reply |
//! | [`Netlink`] | a socket: queries, commands, lists |
//! | [`route`] | interfaces, addresses, routes, neighbours, queues |
//!
//! ```no_run
//! use skyhaul_io::netlink::{Netlink, Request};
//! const GET_LINK: u16 = 18;
//! let mut route = Netlink::route()?;
//! route.dump(&Request::new(GET_LINK).fixed(&[0; 16]), &mut |_kind, body| println!("{} octets", body.len()))?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: a reply of at most 64 KiB for each read, which is twice what the kernel uses.

pub mod discipline;
pub mod route;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

/// Two bits of a kind are flags.
const KIND: u16 = 0x3FFF;

/// Attributes, one after another. A truncated attribute, or one with an impossible length, ends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes in these bytes.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// The attributes after the fixed part of a message; none if the message is shorter.
    #[must_use]
    pub fn after(body: &'a [u8], fixed: usize) -> Self {
        Self(body.get(fixed..).unwrap_or(&[]))
    }

    /// The value of the first one of this kind.
    #[must_use]
    pub fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        Iterator::find(&mut self, |&(of, _)| of == kind).map(|(_, value)| value)
    }

    /// The attributes inside the one of this kind; empty if there is none.
    #[must_use]
    pub fn nested(self, kind: u16) -> Attributes<'a> {
        Attributes(self.find(kind).unwrap_or(&[]))
    }

    /// A number of 8, 16, 32 or 64 bits.
    #[must_use]
    pub fn number(self, kind: u16) -> Option<u64> {
        number(self.find(kind)?)
    }

    /// Text, without the zero at its end.
    #[must_use]
    pub fn text(self, kind: u16) -> Option<&'a str> {
        let value = self.find(kind)?;
        let end = value.iter().position(|&octet| octet == 0).unwrap_or(value.len());
        std::str::from_utf8(&value[..end]).ok()
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & KIND;
        let Some(value) = self.0.get(4..length) else {
            self.0 = &[];
            return None;
        };
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

/// A number of 8, 16, 32 or 64 bits in the byte order of this machine.
#[must_use]
pub fn number(octets: &[u8]) -> Option<u64> {
    match octets.len() {
        1 => Some(octets[0].into()),
        2 => Some(u16::from_ne_bytes(octets.try_into().ok()?).into()),
        4 => Some(u32::from_ne_bytes(octets.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(octets.try_into().ok()?)),
        _ => None,
    }
}

/// Bytes of a message's head.
const HEAD: usize = 16;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// The whole list.
const DUMP: u16 = 0x300;
/// There must not be one yet; there may be none yet.
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
/// What there is, is changed.
const REPLACE: u16 = 0x100;
/// Set in an attribute that holds attributes.
const NESTED: u16 = 0x8000;

/// Bytes of an attribute's value: numbers as the kernel of this machine reads them.
pub trait Value {
    /// Write them.
    fn write(self, to: &mut Vec<u8>);
}

macro_rules! values {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn write(self, to: &mut Vec<u8>) {
                to.extend(self.to_ne_bytes());
            }
        }
    )*};
}
values!(u8, u16, u32, u64, i32);

/// A message to the kernel, before it is numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    octets: Vec<u8>,
}

impl Request {
    /// A request of this kind.
    #[must_use]
    pub fn new(kind: u16) -> Self {
        let mut octets = vec![0; HEAD];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        Self { octets }
    }

    /// Adds these flags.
    #[must_use]
    pub fn flags(mut self, flags: u16) -> Self {
        let [low, high] = flags.to_ne_bytes();
        self.octets[6] |= low;
        self.octets[7] |= high;
        self
    }

    /// The fixed part, before the attributes.
    #[must_use]
    pub fn fixed(mut self, octets: &[u8]) -> Self {
        self.octets.extend(octets);
        self.pad();
        self
    }

    /// An attribute.
    #[must_use]
    pub fn attribute(self, kind: u16, value: &[u8]) -> Self {
        self.with(kind, |inner| inner.octets.extend(value))
    }

    /// A number.
    #[must_use]
    pub fn number(self, kind: u16, value: impl Value) -> Self {
        self.with(kind, |inner| value.write(&mut inner.octets))
    }

    /// Text, with a zero at its end.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.with(kind, |inner| {
            inner.octets.extend(value.as_bytes());
            inner.octets.push(0);
        })
    }

    /// An attribute that holds what `fill` adds.
    #[must_use]
    pub fn nested(self, kind: u16, fill: impl FnOnce(Request) -> Request) -> Self {
        self.with(kind | NESTED, |inner| {
            let octets = std::mem::take(&mut inner.octets);
            *inner = fill(Request { octets });
        })
    }

    fn with(mut self, kind: u16, fill: impl FnOnce(&mut Request)) -> Self {
        let at = self.octets.len();
        self.octets.extend([0; 2]);
        self.octets.extend(kind.to_ne_bytes());
        fill(&mut self);
        // Attributes that are too long do not occur; the kernel would refuse them.
        let length = u16::try_from(self.octets.len() - at).unwrap_or(u16::MAX);
        self.octets[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }

    /// What follows the head.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.octets[HEAD..]
    }

    /// The message with this number.
    fn numbered(&self, sequence: u32, flags: u16) -> Vec<u8> {
        let mut octets = self.clone().flags(flags | REQUEST).octets;
        let length = octets.len() as u32;
        octets[..4].copy_from_slice(&length.to_ne_bytes());
        octets[8..12].copy_from_slice(&sequence.to_ne_bytes());
        octets
    }
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its kind.
    pub kind: u16,
    /// Its flags.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows the head.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Its attributes, after a fixed part of this length.
    #[must_use]
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes::after(self.body, fixed)
    }
}

/// The messages of one read. A truncated message, or one with an impossible length, ends them.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// The messages in these bytes.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let head = *self.0.first_chunk::<HEAD>()?;
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let length = word(0) as usize;
        let Some(body) = self.0.get(HEAD..length) else {
            self.0 = &[];
            return None;
        };
        self.0 = length.checked_next_multiple_of(4).and_then(|next| self.0.get(next..)).unwrap_or(&[]);
        Some(Message { kind: half(4), flags: half(6), sequence: word(8), body })
    }
}

const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The list changed while it was read.
const INTERRUPTED: u16 = 0x10;
/// Maximum number of attempts to read such a list.
const TRIES: u32 = 5;
/// The kernel fills at most 32 KiB.
const READ: usize = 1 << 16;

/// The controller of generic netlink, which knows the other families, and its requests.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// A netlink socket, in the network in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// For interfaces, addresses, routes, neighbours and queues.
    ///
    /// # Errors
    /// A system error.
    pub fn route() -> io::Result<Self> {
        Self::open(None)
    }

    /// For families with names: [`family`](Self::family) returns their numbers.
    ///
    /// # Errors
    /// A system error.
    pub fn generic() -> io::Result<Self> {
        Self::open(Some(netlink::GENERIC))
    }

    /// For the firewall; its lists need `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// A system error.
    pub fn firewall() -> io::Result<Self> {
        Self::open(Some(netlink::NETFILTER))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; READ] })
    }

    /// The number of a family of generic netlink; `None` if this kernel does not have it.
    ///
    /// # Errors
    /// A system error.
    pub fn family(&mut self, name: &str) -> io::Result<Option<u16>> {
        let request = Request::new(CONTROLLER).fixed(&[GET_FAMILY, 1, 0, 0]).text(FAMILY_NAME, name);
        match self.ask(&request) {
            Ok(body) => Ok(Attributes::after(&body, 4).number(FAMILY_ID).map(|id| id as u16)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a request for one object; returns the body of the reply.
    ///
    /// # Errors
    /// What the kernel answered, or a system error.
    pub fn ask(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        self.send(request, 0)?;
        self.receive(|message| ControlFlow::Break(Ok(message.body.to_vec())))
    }

    /// Tell the kernel to do something, and wait until it is done.
    ///
    /// # Errors
    /// What the kernel answered, or a system error.
    pub fn tell(&mut self, request: &Request) -> io::Result<()> {
        self.send(request, ACKNOWLEDGE)?;
        self.receive(|_| ControlFlow::Continue(()))
    }

    /// Requests a list; `each` gets the kind and the body of every message. The request is repeated if the list changed
    /// while it was read, so `each` gets one consistent list.
    ///
    /// # Errors
    /// The error of the kernel, a system error, or a list that changed in every attempt.
    pub fn dump(&mut self, request: &Request, each: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        let mut found: Vec<(u16, Vec<u8>)> = Vec::new();
        for _ in 0..TRIES {
            found.clear();
            let mut changed = false;
            self.send(request, DUMP)?;
            self.receive::<()>(|message| {
                changed |= message.flags & INTERRUPTED != 0;
                found.push((message.kind, message.body.to_vec()));
                ControlFlow::Continue(())
            })?;
            if !changed {
                found.iter().for_each(|(kind, body)| each(*kind, body));
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "a list of the kernel changed each time it was read"))
    }

    fn send(&mut self, request: &Request, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        send(&self.socket, &request.numbered(self.sequence, flags), SendFlags::empty())?;
        Ok(())
    }

    /// Read messages until `each` has its answer, or the kernel says that there are no more.
    fn receive<T: Default>(
        &mut self,
        mut each: impl FnMut(Message<'_>) -> ControlFlow<io::Result<T>>,
    ) -> io::Result<T> {
        loop {
            let (_, came) = match recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let Some(octets) = self.buffer.get(..came) else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "an answer of the kernel is too long",
                ));
            };
            for message in Messages::new(octets).filter(|message| message.sequence == self.sequence) {
                match message.kind {
                    ERROR | DONE => {
                        let code =
                            message.body.first_chunk::<4>().map_or(0, |word| i32::from_ne_bytes(*word));
                        return if code < 0 {
                            Err(io::Error::from_raw_os_error(-code))
                        } else {
                            Ok(T::default())
                        };
                    }
                    _ => {
                        if let ControlFlow::Break(answer) = each(message) {
                            return answer;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, *};
    use proptest::prelude::*;

    #[test]
    fn attributes_are_found_within_their_bounds() {
        let all =
            [&8u16.to_ne_bytes()[..], &[3, 0], &[1, 2, 3, 4], &6u16.to_ne_bytes(), &[4, 0], &[9, 9]].concat();
        let find = |octets: &[u8], kind| Attributes::new(octets).find(kind).map(<[u8]>::to_vec);
        assert_eq!(find(&all, 3), Some(vec![1, 2, 3, 4]));
        assert_eq!(find(&all, 4), Some(vec![9, 9]));
        assert_eq!(find(&all, 5), None);
        for cut in 0..all.len() {
            assert_eq!(find(&all[..cut], 4), None, "{cut}");
        }
        assert_eq!(Attributes::new(&[0; 8]).count(), 0, "a length of nothing is no attribute");
    }

    #[test]
    fn what_is_nested_is_read_as_it_was_written() {
        let request = Request::new(1)
            .fixed(&[7; 4])
            .nested(18, |inner| inner.text(1, "veth").nested(2, |inner| inner.number(5, 9u32)))
            .number(3, 1u8)
            .number(4, 70_000u64);
        let all = Attributes::after(request.body(), 4);
        assert_eq!(all.nested(18).text(1), Some("veth"));
        assert_eq!(all.nested(18).nested(2).number(5), Some(9));
        assert_eq!((all.number(3), all.number(4), all.number(5)), (Some(1), Some(70_000), None));
        assert_eq!(Attributes::after(request.body(), 4096).count(), 0);
    }

    proptest! {
        #[test]
        fn no_octets_lead_outside_or_on_for_ever(octets: Vec<u8>) {
            let all = Attributes::new(&octets);
            prop_assert!(all.count() <= octets.len() / 4);
            let inside: usize = all.map(|(_, value)| 4 + value.len()).sum();
            prop_assert!(inside <= octets.len());
            for (kind, _) in all {
                let _ = (all.number(kind), all.text(kind), all.nested(kind).count());
            }
        }
    }

    #[test]
    fn a_request_reads_back_as_a_message() {
        let request = Request::new(16).flags(CREATE).fixed(&[1, 2, 3]).text(3, "lab0");
        let octets = [request.numbered(7, ACKNOWLEDGE), Request::new(3).numbered(8, 0)].concat();
        let all: Vec<Message<'_>> = Messages::new(&octets).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].kind, all[0].sequence, all[0].flags), (16, 7, REQUEST | ACKNOWLEDGE | CREATE));
        assert_eq!((&all[0].body[..4], all[0].attributes(4).text(3)), (&[1, 2, 3, 0][..], Some("lab0")));
        assert_eq!((all[1].kind, all[1].sequence, all[1].body), (3, 8, &[][..]));
        assert_eq!(Messages::new(&octets[..octets.len() - 1]).count(), 1, "one cut short is none");
    }

    proptest! {
        #[test]
        fn no_message_leads_outside_or_on_for_ever(octets: Vec<u8>) {
            let inside: usize = Messages::new(&octets).map(|message| HEAD + message.body.len()).sum();
            prop_assert!(inside <= octets.len());
        }
    }

    const GET_LINK: u16 = 18;
    const IFNAME: u16 = 3;

    #[test]
    fn the_loopback_is_asked_for_and_listed() {
        let mut route = Netlink::route().unwrap();
        let mut names = Vec::new();
        route
            .dump(&Request::new(GET_LINK).fixed(&[0; 16]), &mut |_, body| {
                names.extend(Attributes::after(body, 16).text(IFNAME).map(str::to_owned));
            })
            .unwrap();
        assert!(names.iter().any(|name| name == "lo"), "{names:?}");
        let mut fixed = [0; 16];
        fixed[4] = 1;
        let body = route.ask(&Request::new(GET_LINK).fixed(&fixed)).unwrap();
        assert_eq!(Attributes::after(&body, 16).text(IFNAME), Some("lo"));
        fixed[7] = 0x7F;
        let refused = route.ask(&Request::new(GET_LINK).fixed(&fixed)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn families_have_numbers() {
        let mut generic = Netlink::generic().unwrap();
        assert!(generic.family("nlctrl").unwrap().is_some());
        assert_eq!(generic.family("no_such_one").unwrap(), None);
    }
}
