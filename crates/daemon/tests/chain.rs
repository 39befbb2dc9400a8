//! Load balancers in a row: real control planes, real packets, each event whole at one worker.
#![allow(clippy::unwrap_used)]

mod common;

use common::{OPERATOR, serve, wait_for};
use skyhaul_core::packetize::Divided;
use skyhaul_core::wire::ejfat::{Addressing, EventPackets, EventShape, Reassembly};
use skyhaul_daemon::balancer::{Api, Server};
use skyhaul_daemon::client::{ClientOptions, ControlPlane};
use skyhaul_daemon::ejfat::proto::*;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// A facility with one reservation.
struct Place {
    api: Arc<Api>,
    _server: Server,
    plane: ControlPlane,
    uri: String,
    data: String,
}

/// It listens on this address, and lets these send.
fn place(ip: &str, senders: &[&str]) -> Place {
    let (api, server) = serve(ip, None);
    let operator = format!("ejfat://{OPERATOR}@{}/", server.address()).parse().unwrap();
    let operator = ControlPlane::new(&operator, &ClientOptions::default()).unwrap();
    let sender_addresses = senders.iter().map(|&sender| sender.to_owned()).collect();
    let ask = ReserveLoadBalancerRequest { name: "r".into(), sender_addresses, ..Default::default() };
    let reply = operator.reserve(ask).unwrap();
    let uri = operator.uri_of(&reply);
    let data = format!("{}:{}", reply.data_ipv4_address, reply.data_min_port);
    let plane = ControlPlane::new(&uri, &ClientOptions::default()).unwrap();
    Place { api, _server: server, plane, uri: uri.to_string(), data }
}

impl Place {
    fn chain(&self, to: &str) -> Result<String, String> {
        let ask = ChainLoadBalancerRequest {
            ejfat_uri: to.to_owned(),
            ip_family: IpFamily::Ipv4.into(),
            ..Default::default()
        };
        self.plane.chain(ask).map_err(|error| error.to_string())
    }

    fn slots(&self, name: &str) -> u32 {
        let status = self.plane.status().unwrap();
        status.workers.iter().filter(|one| one.name == name).map(|one| one.slots_assigned).sum()
    }

    fn knows(&self, name: &str) -> bool {
        self.plane.status().unwrap().workers.iter().any(|one| one.name == name)
    }

    /// All threads that forward use the newest table.
    fn is_current(&self) -> bool {
        self.api.statuses().iter().all(|(_, status, _)| status.tables.0 == status.tables.1)
    }

    fn refused(&self, why: &str) -> u64 {
        let all = self.api.statuses();
        all.iter()
            .flat_map(|(_, status, _)| &status.refused)
            .filter(|(of, _)| *of == why)
            .map(|(_, n)| n)
            .sum()
    }
}

struct Worker {
    socket: UdpSocket,
    plane: ControlPlane,
    reply: RegisterReply,
    /// Octets by tick.
    events: BTreeMap<u64, usize>,
}

impl Worker {
    fn join(at: &Place, name: &str) -> Worker {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let reply = at.plane.register(RegisterRequest {
            name: name.to_owned(),
            ip_address: "127.0.0.1".to_owned(),
            udp_port: socket.local_addr().unwrap().port().into(),
            ..Default::default()
        });
        Worker { socket, plane: at.plane.clone(), reply: reply.unwrap(), events: BTreeMap::new() }
    }

    /// Take what came, and report.
    fn work(&mut self) {
        let mut octets = [0; 2000];
        while let Ok(n) = self.socket.recv(&mut octets) {
            let (head, payload) = Reassembly::read(&octets[..n]).unwrap();
            *self.events.entry(head.tick).or_default() += payload.len();
        }
        let events = self.events.len() as i64;
        let state = SendStateRequest {
            session_id: self.reply.session_id.clone(),
            is_ready: true,
            fill_percent: 0.0,
            total_events_recv: events,
            total_events_reassembled: events,
            total_events_dequeued: events,
            total_packets_recv: events * 3,
            ..Default::default()
        };
        self.plane.send_state(state, Some(&self.reply.token)).unwrap();
    }
}

/// An event of 2500 octets in three packets.
fn send(from: &UdpSocket, to: &str, tick: u64) {
    let shape = EventShape {
        tick,
        data_id: 7,
        event_bytes: 2500,
        packet_bytes: 1000,
        addressing: Some(Addressing::default()),
        ..EventShape::default()
    };
    let packets = EventPackets::new(&shape).unwrap();
    for n in 0..packets.count() {
        from.send_to(&packets.datagram(n, &[tick as u8; 2500]), to).unwrap();
    }
}

#[test]
fn events_go_through_two_in_a_row_and_none_is_split() {
    let (up, down) = (place("127.0.0.2", &["127.0.0.1"]), place("127.0.0.3", &[]));
    let mut workers = [Worker::join(&up, "a"), Worker::join(&down, "b"), Worker::join(&down, "c")];
    let work = |workers: &mut [Worker; 3]| workers.iter_mut().for_each(Worker::work);
    let chain = down.chain(&up.uri).unwrap();
    until("the first has a share", || {
        work(&mut workers);
        up.slots("a") == 512 && up.is_current()
    });
    // Shares change at a tick that is to come: so events flow from now on, a few at a time, which sockets of any size hold.
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    let mut flow = || {
        (sent..sent + 8).for_each(|tick| send(&sender, &up.data, tick));
        sent += 8;
        sent
    };
    until("all have a share", || {
        flow();
        work(&mut workers);
        let shares = [up.slots("a"), up.slots("chain-1"), down.slots("b"), down.slots("c")];
        shares.iter().all(|slots| *slots > 0) && up.is_current() && down.is_current()
    });
    let chained = up.plane.status().unwrap().workers.into_iter().find(|one| one.name == "chain-1").unwrap();
    assert!(chained.keep_lb_header && down.data == format!("{}:{}", chained.ip_address, chained.udp_port));

    // Only what comes through the other one: nobody else may send.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    send(&stranger, &down.data, 1);
    until("it is refused", || down.refused("blocked_source") == 3);
    until("all have had some", || {
        flow();
        work(&mut workers);
        workers.iter().all(|one| one.events.len() > 100)
    });
    let all = 0..flow();
    let sum = |workers: &[Worker; 3]| workers.iter().flat_map(|one| one.events.values()).sum::<usize>();
    until("all has come", || {
        work(&mut workers);
        sum(&workers) >= 2500 * all.clone().count()
    });
    for tick in all {
        let parts: Vec<_> = workers.iter().filter_map(|one| one.events.get(&tick)).collect();
        assert_eq!(parts, [&2500], "event {tick}, whole at one worker");
    }
    let behind = (workers[1].events.len() + workers[2].events.len()) as i64;
    until("the other one is told what they did together", || {
        work(&mut workers);
        let status = up.plane.status().unwrap();
        status.workers.iter().any(|one| {
            one.name == "chain-1" && one.total_events_recv == behind && one.total_packets_recv == behind * 3
        })
    });

    let graph = down.plane.chain_graph(Vec::new()).unwrap();
    assert_eq!((graph.edges.len(), graph.cycle_detected), (1, false));
    let edge = &graph.edges[0];
    assert_eq!(
        (edge.upstream_data_ipv4.as_str(), edge.downstream_data_ipv4.as_str(), &edge.chain_id),
        ("127.0.0.2", "127.0.0.3", &chain)
    );
    for (one, other) in [(&up, &down), (&up, &up), (&down, &down)] {
        let why = one.chain(&other.uri).unwrap_err();
        assert!(why.contains("events would circulate; hint: "), "{why}");
    }
    assert!(!down.knows("chain-1"), "what was refused has not stayed");

    down.plane.unchain(&chain).unwrap();
    assert!(down.plane.chain_graph(Vec::new()).unwrap().edges.is_empty());
    assert!(down.plane.unchain(&chain).unwrap_err().to_string().contains("has no chain"));
    until("it has left, and the others go on", || {
        work(&mut workers);
        !up.knows("chain-1") && up.slots("a") == 512
    });
}

#[test]
fn without_workers_it_gets_nothing_and_what_cannot_be_chained_says_why() {
    let (up, down) = (place("127.0.0.2", &["127.0.0.1"]), place("127.0.0.3", &[]));
    let chain = down.chain(&up.uri).unwrap();
    let mut worker = Worker::join(&up, "a");
    until("all slots are the worker's", || {
        worker.work();
        up.slots("a") == 512
    });
    assert_eq!(up.slots("chain-1"), 0);
    let token = up.uri.split(['/', '@']).nth(2).unwrap().to_owned();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (uri, why) in [
        (up.uri.replace(&token, "wr0ng"), "the other load balancer: "),
        (up.uri.replace("/lb/1", "/lb/7"), "the other load balancer: "),
        (up.uri.replace(&format!("{token}@"), ""), "has no token"),
        (format!("ejfat://{token}@{nobody}/lb/1"), "cannot be reached"),
        (format!("ejfat://{token}@{nobody}/"), "has no load balancer"),
        (format!("http://{token}@{nobody}/lb/1"), "`http` is no scheme"),
        (String::new(), "ejfatUri"),
    ] {
        let said = down.chain(&uri).unwrap_err();
        assert!(said.contains(why) && said.contains("hint: "), "{uri}: {said}");
        assert!(!said.contains(&token) && !said.contains("wr0ng"), "{said}");
    }
    let both = ChainLoadBalancerRequest { ejfat_uri: up.uri.clone(), ..Default::default() };
    let said = down.plane.chain(both).unwrap_err().to_string();
    assert!(said.contains("one IP version"), "{said}");
    let six = ChainLoadBalancerRequest {
        ejfat_uri: up.uri.clone(),
        ip_family: IpFamily::Ipv6.into(),
        ..Default::default()
    };
    assert!(down.plane.chain(six).unwrap_err().to_string().contains("no address of that IP version"));
    assert_eq!(down.plane.chain_graph(Vec::new()).unwrap().edges.len(), 1, "only the first");
    // The end of a reservation is the end of its chains.
    down.plane.free().unwrap();
    until("it has left", || !up.knows("chain-1"));
    assert_eq!(chain, "1");
}
