//! Addresses from Python: numeric ones as everywhere, and names of hosts.
//!
//! A name is looked up once, when a reader or sender is made; of several addresses the first is used.

use crate::config::unknown;
use crate::errors;
use crate::wait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::io::address::{Endpoint, NotAnEndpoint};
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::UdpOptions;
use skyhaul::spead::receive::TcpReaderOptions;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

fn wrong(error: &NotAnEndpoint) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The same with the host's address in place of its name; `None` if there is no name.
fn named(text: &str) -> PyResult<Option<String>> {
    let Some((transport, rest)) = text.split_once("://") else { return Ok(None) };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, options) = rest.split_at(end);
    let Some((name, port)) = host.rsplit_once(':') else { return Ok(None) };
    let Ok(port) = port.parse::<u16>() else { return Ok(None) };
    // Digits and colons alone are a wrong address, not a name.
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if !name.chars().all(letters) || !name.chars().any(|c| c.is_ascii_alphabetic()) {
        return Ok(None);
    }
    let found = Python::attach(|py| py.detach(|| (name, port).to_socket_addrs()));
    let first = found.and_then(|mut all| {
        all.next().ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, "it has no address"))
    });
    let address: SocketAddr = first.map_err(|error| errors::unresolved(name, &error))?;
    Ok(Some(format!("{transport}://{address}{options}")))
}

/// An address: `10.0.0.1:7148`, `localhost:7148`, or with transport and options, `udp://239.1.2.3:7148?iface=eth1`.
pub(crate) fn endpoint(transport: &str, address: &str) -> PyResult<Endpoint> {
    let text = if address.contains("://") { address.to_owned() } else { format!("{transport}://{address}") };
    let at: Endpoint = match text.parse() {
        Ok(at) => at,
        Err(error) => match named(&text)? {
            Some(numeric) => numeric.parse().map_err(|error: NotAnEndpoint| wrong(&error))?,
            None => return Err(wrong(&error)),
        },
    };
    if at.transport.scheme() != transport {
        return Err(unknown("address", address, &format!("{transport}://…")));
    }
    Ok(at)
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
    let why = "has many receivers, which cannot all control the rate; hint: send to one, or";
    Err(PyValueError::new_err(format!("{} {why} {instead}", at.address)))
}

pub(crate) fn tcp_options(
    connections: Option<u64>,
    end_with_last: bool,
    keepalive: f64,
) -> PyResult<TcpReaderOptions> {
    if connections == Some(0) {
        return Err(PyValueError::new_err("connections is 0; hint: connections=1 or more, or None"));
    }
    let keepalive = wait::duration(Some(keepalive))?.unwrap_or(Duration::MAX);
    Ok(TcpReaderOptions { connections, end_with_last, keepalive, ..TcpReaderOptions::default() })
}
