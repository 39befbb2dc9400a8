use super::*;
use proptest::prelude::*;

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

#[test]
fn the_forms_people_write() {
    let e = endpoint("udp://127.0.0.1:2630");
    assert_eq!((e.transport, e.address), (Transport::Udp, "127.0.0.1:2630".parse().unwrap()));
    assert_eq!(endpoint("tcp://[::1]:0").address, "[::1]:0".parse().unwrap());
    assert_eq!(endpoint("udp://:2630/").address, "0.0.0.0:2630".parse().unwrap());
    let e = endpoint("udp://232.1.2.3:50000?iface=eth0&source=10.0.0.1&rcvbuf=64MiB&sndbuf=8MB&ttl=4");
    assert_eq!(e.iface.as_deref(), Some("eth0"));
    assert_eq!(e.source, Some("10.0.0.1".parse().unwrap()));
    assert_eq!(e.rcvbuf, Some(Size::from_bytes(64 << 20)));
    assert_eq!((e.sndbuf, e.ttl), (Some(Size::from_bytes(8_000_000)), Some(4)));
    assert!(e.is_multicast());
}

#[test]
fn shown_and_read_back_is_the_same() {
    for text in [
        "udp://127.0.0.1:2630",
        "tcp://[2001:db8::1]:1",
        "udp://232.1.2.3:50000?iface=eth0&source=10.0.0.1&rcvbuf=64MiB&sndbuf=8MB&ttl=4",
        "udp://[ff02::5%3]:9?iface=fe80::1",
        "tcp://127.0.0.1:8888?rcvbuf=64MiB&cc=cubic",
    ] {
        assert_eq!(endpoint(text).to_string(), text);
    }
}

#[test]
fn each_mistake_has_its_own_message_and_hint() {
    for (text, wrong, hint) in [
        ("127.0.0.1:2630", "transport missing", "write udp://"),
        ("http://127.0.0.1:80", "unknown transport 'http'", "udp:// or tcp://"),
        ("udp://127.0.0.1", "'127.0.0.1' is not an address and port", "the port is missing"),
        ("udp://::1:2630", "'::1:2630' is not an address", "in brackets"),
        ("udp://host:2630", "'host:2630' is not an address", "getent hosts"),
        ("udp://127.0.0.1:66000", "not an address", "65535"),
        ("udp://127.0.0.1:1?iface=", "invalid interface ''", "ip -br addr"),
        ("udp://127.0.0.1:1?source=x", "source 'x'", "source=10.0.0.7"),
        ("udp://127.0.0.1:1?rcvbuf=64M", "'64M' is not a size", "rcvbuf=256MiB"),
        ("udp://127.0.0.1:1?ttl=0", "ttl '0'", "use 1 to 255"),
        ("tcp://127.0.0.1:1?cc=a/b", "congestion control 'a/b'", "tcp_available_congestion_control"),
        ("udp://127.0.0.1:1?cc=bbr", "UDP has no congestion control", "tcp://"),
        ("udp://127.0.0.1:1?mtu=9000", "unknown option 'mtu'", "iface, source"),
        ("udp://127.0.0.1:1?source=::1", "different address families", "IPv4 for both"),
        ("udp://232.0.0.1:1?source=239.0.0.1", "multicast group", "one sender"),
        ("tcp://239.0.0.1:1", "TCP has no multicast", "udp://"),
    ] {
        let said = text.parse::<Endpoint>().unwrap_err().to_string();
        assert!(said.contains(wrong), "{text}: {said}");
        assert!(said.split_once("hint: ").unwrap().1.contains(hint), "{text}: {said}");
    }
}

#[test]
fn a_failed_call_names_operation_address_and_remedy() {
    let at = endpoint("udp://127.0.0.1:2630");
    let said = at.failed("bind", &io::Error::from_raw_os_error(libc::EADDRINUSE));
    assert_eq!(said.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(
        said.to_string(),
        "bind udp://127.0.0.1:2630: Address already in use; hint: find the process that uses the port with: \
         ss -ulnp 'sport = :2630'; or use another port"
    );
}

#[test]
fn the_remedy_is_that_of_the_operation_and_the_address() {
    let link = libc::EINVAL;
    for (text, operation, code, hint) in [
        ("udp://127.0.0.1:99", "bind", libc::EACCES, Some("CAP_NET_BIND_SERVICE")),
        ("udp://10.255.255.255:99", "connect", libc::EACCES, Some("broadcast address")),
        ("udp://[2001:db8::1]:99", "connect", libc::EACCES, Some("nft list ruleset")),
        ("udp://10.0.0.1:99", "send to", libc::EPERM, Some("nft list ruleset")),
        ("udp://[ff02::1]:9", "bind", link, Some("?iface=")),
        ("udp://[fe80::1]:9", "connect", link, Some("?iface=")),
        ("udp://[fe80::1%2]:9", "connect", link, None),
        ("udp://[ff02::1]:9?iface=eth0", "bind", link, None),
        ("udp://[ff05::1]:9", "bind", link, None),
        ("udp://239.1.1.1:9?iface=eth0", "connect", libc::ENETUNREACH, Some("239.1.1.1 oif eth0`")),
        ("udp://127.0.0.1:9", "connect", libc::ENETUNREACH, Some("ip link set lo up")),
        ("tcp://127.0.0.1:0", "connect", libc::ECONNREFUSED, Some("port 0 cannot be connected to")),
    ] {
        let said = endpoint(text).failed(operation, &io::Error::from_raw_os_error(code)).to_string();
        match (hint, said.split_once("; hint: ")) {
            (Some(hint), Some((_, told))) => assert!(told.contains(hint), "{text}: {said}"),
            (hint, told) => assert_eq!((hint, told), (None, None), "{text}: {said}"),
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(udp://|tcp://)?\\PC*") {
        let _ = text.parse::<Endpoint>();
    }
}
