//! A netlink socket: one request at a time, and its answer.

use super::message::{ACKNOWLEDGE, DUMP, Messages, Request};
use super::{Attributes, Message};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::{io, ops::ControlFlow, os::fd::OwnedFd};

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
    use super::*;

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
