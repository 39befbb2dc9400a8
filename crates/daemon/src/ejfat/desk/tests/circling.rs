//! Workers that lead back to the load balancer with which they register.

use super::*;

/// Where a reservation receives.
fn data(desk: &Desk, lb_id: &str) -> u32 {
    let asked = GetLoadBalancerRequest { lb_id: lb_id.to_owned() };
    desk.get_load_balancer(&by(OPERATOR), asked).unwrap().data_min_port
}

fn at_port(lb_id: &str, udp_port: u32) -> RegisterRequest {
    RegisterRequest { udp_port, keep_lb_header: true, ..worker(lb_id) }
}

#[test]
fn a_worker_that_leads_back_is_refused_directly_and_through_others() {
    let desk = desk();
    let all: Vec<String> = (0..3).map(|_| reserve(&desk).lb_id).collect();
    let ports: Vec<u32> = all.iter().map(|id| data(&desk, id)).collect();
    let register = |of: usize, to: usize| desk.register(&by(OPERATOR), at_port(&all[of], ports[to]));
    let error = register(0, 0).unwrap_err();
    assert_eq!(error.kind, Kind::Invalid);
    assert!(error.text.contains(&format!("itself receives on 127.0.0.1:{}", ports[0])), "{error}");
    // Balancers in a row. The last one would close the circle.
    register(0, 1).unwrap();
    register(1, 2).unwrap();
    for to in [0, 1] {
        let error = register(2, to).unwrap_err();
        assert_eq!(error.kind, Kind::Unfit, "{error}");
        assert!(error.text.contains("packets would circulate; hint: "), "{error}");
    }
    register(0, 2).unwrap();
    // A range of ports that includes the balancer's own port.
    let wide = RegisterRequest { port_range: 1, ..at_port(&all[2], ports[2] & !1) };
    assert_eq!(kind(desk.register(&by(OPERATOR), wide)), Kind::Invalid);
}

#[test]
fn addresses_of_no_single_host_are_refused() {
    let desk = desk();
    let id = reserve(&desk).lb_id;
    for ip in [
        "255.255.255.255",
        "127.255.255.255",
        "0.0.0.0",
        "0.0.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "::ffff:255.255.255.255",
    ] {
        let asked = RegisterRequest { ip_address: ip.to_owned(), ..worker(&id) };
        let error = desk.register(&by(OPERATOR), asked).unwrap_err();
        assert_eq!(error.kind, Kind::Invalid, "{ip}: {error}");
    }
    assert_eq!(status(&desk, &by(OPERATOR), &id).unwrap().workers.len(), 0);
}
