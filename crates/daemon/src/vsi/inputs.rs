//! The input of the configuration that `net_port` means.

use skyhaul::io::address::Endpoint;
use skyhaul_core::station::InputStatus;
use skyhaul_core::vsi::{VsiCode, VsiPort};

/// The ports on which an input receives packets.
pub(super) fn ports(input: &InputStatus) -> Vec<VsiPort> {
    let addresses = input.listen.iter().filter_map(|text| text.parse::<Endpoint>().ok());
    let port = |endpoint: Endpoint| {
        let ip = endpoint.address.ip();
        let host = if ip.is_unspecified() { String::new() } else { ip.to_string() };
        VsiPort { host, port: endpoint.address.port(), suffix: String::new() }
    };
    addresses.map(port).collect()
}

/// Returns the input that listens on these ports, the first one if none are given; or an idle one, and the ports on which it is to listen.
pub(super) fn input<'a>(
    inputs: &'a [InputStatus],
    wanted: &[VsiPort],
    by_tcp: bool,
) -> Result<(&'a str, Vec<u16>), (VsiCode, String)> {
    if wanted.is_empty() {
        return Ok(("", Vec::new()));
    }
    if wanted.iter().any(|port| !port.suffix.is_empty()) {
        let why = "suffixes of ports are not implemented here, record each port by a runtime of its own";
        return Err((VsiCode::NotImplemented, why.into()));
    }
    let is_among = |ports: &[VsiPort], wanted: &VsiPort| {
        let same = |port: &VsiPort| {
            let any = wanted.host.is_empty() || port.host.is_empty() || wanted.host == port.host;
            port.port == wanted.port && any
        };
        ports.iter().any(same)
    };
    let is_meant = |input: &&InputStatus| {
        let ports = ports(input);
        ports.len() == wanted.len() && wanted.iter().all(|wanted| is_among(&ports, wanted))
    };
    if let Some(input) = inputs.iter().find(|input| !by_tcp && is_meant(input)) {
        return Ok((input.name.as_str(), Vec::new()));
    }
    let all: Vec<VsiPort> = inputs.iter().flat_map(ports).collect();
    let is_free = by_tcp || wanted.iter().all(|wanted| !all.iter().any(|port| port.port == wanted.port));
    // An address is that of the configuration: its interface and its group.
    let is_possible = is_free && wanted.iter().all(|wanted| wanted.host.is_empty());
    if let Some(idle) = inputs.iter().find(|input| is_possible && input.recording.is_none()) {
        return Ok((idle.name.as_str(), wanted.iter().map(|wanted| wanted.port).collect()));
    }
    let all: Vec<String> = all.iter().map(|port| format!("{}@{}", port.host, port.port)).collect();
    let why = if is_possible {
        "all inputs are recording, none can listen on net_port".to_owned()
    } else {
        let listed = all.join(", ").replace(" @", " ");
        format!(
            "no input of the configuration listens on net_port, there are {}",
            listed.trim_start_matches('@')
        )
    };
    Err((VsiCode::Conflict, why))
}
