//! Whether a program in a network listens.

use skyhaul_io::namespace::Network;
use std::fs;
use std::io;

/// Whether a socket of TCP listens in this network, or one of UDP is bound there.
///
/// # Errors
/// The network cannot be entered.
pub fn listens(network: &Network) -> io::Result<bool> {
    network.inside(|| {
        ["tcp", "tcp6", "udp", "udp6"].iter().any(|name| {
            let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
            has_listener(&table, name.starts_with("udp"))
        })
    })
}

/// `sl local_address rem_address st …`: state 0A listens; a socket of UDP has no such state, but a port.
fn has_listener(table: &str, udp: bool) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let port = fields.next().and_then(|local| local.rsplit(':').next());
        let state = fields.nth(1);
        if udp { port.is_some_and(|port| port != "0000") } else { state == Some("0A") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_ports_say_who_listens() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let line =
            |port: &str, state: &str| format!("{head}   0: 0100007F:{port} 00000000:0000 {state} 0:0\n");
        assert!(has_listener(&line("0CEA", "0A"), false));
        assert!(!has_listener(&line("0CEA", "01"), false));
        assert!(has_listener(&line("0CEA", "07"), true) && !has_listener(head, true));
    }
}
