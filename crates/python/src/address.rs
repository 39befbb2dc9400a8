//! Addresses from Python: numeric ones as everywhere, and names of hosts.
//!
//! A name is looked up once, when a reader or sender is made; of several addresses the first is used. Senders that a balancer
//! admits are known by all of theirs.

use crate::config::unknown;
use crate::{errors, wait};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, NotAnEndpoint};
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::{Tier, UdpOptions};
use skyhaul::spead::receive::TcpReaderOptions;
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

fn wrong(error: &NotAnEndpoint) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Whether this is a host's name: digits and dots alone are a wrong address.
fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    text.chars().all(letters) && text.chars().any(|c| c.is_ascii_alphabetic())
}

/// All addresses of a host, at least one, in the resolver's order.
fn look_up(name: &str, port: u16) -> PyResult<Vec<SocketAddr>> {
    let found = Python::attach(|py| py.detach(|| (name, port).to_socket_addrs()));
    let all: Vec<_> = found.map_err(|error| errors::unresolved(name, &error))?.collect();
    if all.is_empty() {
        let none = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        return Err(errors::unresolved(name, &none));
    }
    Ok(all)
}

/// The address of a host, given by it or by name: of several, the first one of the same family as `like`.
pub(crate) fn host(given: &str, like: IpAddr) -> PyResult<IpAddr> {
    if let Ok(address) = given.parse() {
        return Ok(address);
    }
    if !is_name(given) {
        return Err(unknown("address", given, "an IP address or the name of a host, without a port"));
    }
    let all = look_up(given, 0)?;
    let alike = all.iter().find(|found| found.is_ipv4() == like.is_ipv4());
    alike.map(SocketAddr::ip).ok_or_else(|| {
        let family = if like.is_ipv4() { "IPv4" } else { "IPv6" };
        let none = format!("it has no {family} address, and the worker listens on {like}");
        errors::unresolved(given, &io::Error::new(io::ErrorKind::NotFound, none))
    })
}

/// Hosts, with all addresses of a name in its place; networks as they are.
pub(crate) fn hosts(given: Vec<String>) -> PyResult<Vec<String>> {
    let mut all = Vec::new();
    for one in given {
        match is_name(&one) {
            true => all.extend(look_up(&one, 0)?.iter().map(|found| found.ip().to_string())),
            false => all.push(one),
        }
    }
    let mut seen = HashSet::new();
    all.retain(|one| seen.insert(one.clone()));
    Ok(all)
}

/// The same with the host's address in place of its name; `None` if there is no name.
pub(crate) fn named(text: &str) -> PyResult<Option<String>> {
    let Some((transport, rest)) = text.split_once("://") else { return Ok(None) };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, options) = rest.split_at(end);
    let Some((name, port)) = host.rsplit_once(':') else { return Ok(None) };
    let Ok(port) = port.parse::<u16>() else { return Ok(None) };
    if !is_name(name) {
        return Ok(None);
    }
    let address = look_up(name, port)?[0];
    Ok(Some(format!("{transport}://{address}{options}")))
}

/// An address: `10.0.0.1:7148`, `localhost:7148`, or with transport and options, `udp://239.1.2.3:7148?iface=eth1`.
/// `transport` is that of an address without one.
pub(crate) fn any_endpoint(transport: &str, address: &str) -> PyResult<Endpoint> {
    let text = if address.contains("://") { address.to_owned() } else { format!("{transport}://{address}") };
    match text.parse() {
        Ok(at) => Ok(at),
        Err(error) => match named(&text)? {
            Some(numeric) => numeric.parse().map_err(|error: NotAnEndpoint| wrong(&error)),
            None => Err(wrong(&error)),
        },
    }
}

/// The same of this transport only.
pub(crate) fn endpoint(transport: &str, address: &str) -> PyResult<Endpoint> {
    let at = any_endpoint(transport, address)?;
    if at.transport.scheme() != transport {
        return Err(unknown("address", address, &format!("{transport}://…")));
    }
    Ok(at)
}

/// Who receives: a name of [`Tier`].
pub(crate) fn tier(name: &str) -> PyResult<Tier> {
    match name {
        "auto" => Ok(Tier::Auto),
        "stage" => Ok(Tier::Stage),
        "plain" => Ok(Tier::Plain),
        "ring" => Ok(Tier::Ring),
        "bpf" => Ok(Tier::Bpf),
        _ => Err(unknown("tier", name, "'auto', 'stage', 'plain', 'ring' or 'bpf'")),
    }
}

/// The settings of `add_udp` of any stream.
pub(crate) fn udp(
    address: &str,
    interface: Option<String>,
    source: Option<&str>,
    buffer: Option<u64>,
    reuse_port: bool,
    feedback: bool,
) -> PyResult<(Endpoint, UdpOptions)> {
    let mut at = endpoint("udp", address)?;
    route(&mut at, interface, source)?;
    at.rcvbuf = buffer.map(Size::from_bytes).or(at.rcvbuf);
    if feedback {
        one_receiver(&at, "leave out feedback")?;
    }
    Ok((at, UdpOptions { reuse_port, ..UdpOptions::default() }))
}

pub(crate) fn route(at: &mut Endpoint, interface: Option<String>, source: Option<&str>) -> PyResult<()> {
    at.iface = interface.or(at.iface.take());
    if let Some(source) = source {
        at.source = Some(source.parse().map_err(|_| unknown("source", source, "an address without a port"))?);
    }
    Ok(())
}

/// Feedback is between one sender and one receiver, so not for a group.
pub(crate) fn one_receiver(at: &Endpoint, instead: &str) -> PyResult<()> {
    if !at.address.ip().is_multicast() {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} has many receivers, which cannot all control the rate{}",
        at.address,
        Hint(format_args!("send to one, or {instead}"))
    )))
}

pub(crate) fn tcp_options(
    connections: Option<u64>,
    end_with_last: bool,
    keepalive: f64,
) -> PyResult<TcpReaderOptions> {
    if connections == Some(0) {
        return Err(PyValueError::new_err(format!(
            "connections is 0{}",
            Hint("connections=1 or more, or None")
        )));
    }
    let keepalive = wait::duration(Some(keepalive))?.unwrap_or(Duration::MAX);
    Ok(TcpReaderOptions { connections, end_with_last, keepalive, ..TcpReaderOptions::default() })
}
