use super::*;
use proptest::prelude::*;

fn uri(text: &str) -> Uri {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> (UriPart, String) {
    let error = text.parse::<Uri>().expect_err(text);
    assert!(error.to_string().starts_with("EJFAT_URI: ") && error.to_string().contains("; hint: "));
    (error.part, error.found)
}

#[test]
fn as_each_program_writes_it() {
    let e2sar = uri(
        "ejfats://89f9af@lb.example.net:18008/lb/17?sync=192.0.2.6:19010&data=192.0.2.10&data=[2001:db8::10]:10000&sessionid=s1",
    );
    assert!(e2sar.tls);
    assert_eq!((e2sar.token.as_deref(), e2sar.session.as_deref()), (Some("89f9af"), Some("s1")));
    assert_eq!(
        (e2sar.host.as_str(), e2sar.port, e2sar.balancer.as_deref()),
        ("lb.example.net", 18008, Some("17"))
    );
    let v4 = DataAddress { ip: "192.0.2.10".parse().unwrap(), ports: 19522..=19522 };
    let v6 = DataAddress { ip: "2001:db8::10".parse().unwrap(), ports: 10000..=10000 };
    assert_eq!(e2sar.data, [v4.clone(), v6]);
    assert_eq!(e2sar.sync, ["192.0.2.6:19010".parse().unwrap()]);
    let jlab = uri("ejfat://192.0.2.1:18347/lb/36?data=192.0.2.10:19522&sync=192.0.2.6:19010");
    assert_eq!((jlab.data, jlab.sync, jlab.token), (vec![v4], e2sar.sync, None));
    let udplbd = uri(
        "ejfat://t@[2001:db8::1]:19523/lb/1?sync=192.0.2.6:19531&sync=[2001:db8::6]:19531&data=192.0.2.10:16384-32767&data=[2001:db8::10]:16384-32767",
    );
    assert_eq!((udplbd.host.as_str(), udplbd.sync.len()), ("2001:db8::1", 2));
    assert!(udplbd.data.iter().all(|data| data.ports == (16384..=32767)));
    for admin in
        ["ejfat://t@h:1", "EJFAT://t@h:1/", "ejfat://t@h:1/lb/", "ejfat://t@h:1/lb", "ejfat://t@h:1?"]
    {
        assert_eq!(uri(admin), uri("ejfat://t@h:1/"));
    }
    assert_eq!(uri("ejfat://a%40b%3A@h:1/lb/x%2Fy/").token.as_deref(), Some("a@b:"));
}

#[test]
fn for_each_program() {
    let full = uri(
        "ejfat://a%2Fb@192.0.2.1:18008/lb/1?data=[2001:db8::10]:9-10&data=192.0.2.10:16384-32767&data=192.0.2.11&sync=[2001:db8::6]:5&sync=192.0.2.6:19010&sessionid=9",
    );
    assert_eq!(full.to_string().parse(), Ok(full.clone()));
    assert!(full.to_string().contains("&data=192.0.2.11:19522&"), "the usual port is written, too");
    let to = |dialect| full.to(dialect).unwrap();
    assert_eq!(
        to(Dialect::E2sar),
        "ejfat://a%2Fb@192.0.2.1:18008/lb/1?sync=[2001:db8::6]:5&data=192.0.2.10:16384&data=[2001:db8::10]:9&sessionid=9"
    );
    assert_eq!(
        to(Dialect::Jlab),
        "ejfat://a%2Fb@192.0.2.1:18008/lb/1?data=192.0.2.10:16384&sync=192.0.2.6:19010"
    );
    assert_eq!(
        to(Dialect::Udplbd),
        "ejfat://a%2Fb@192.0.2.1:18008/lb/1?sync=192.0.2.6:19010&sync=[2001:db8::6]:5&data=192.0.2.10:16384-32767&data=[2001:db8::10]:9-10"
    );
    let refused = |uri: &Uri| uri.to(Dialect::Jlab).unwrap_err();
    assert_eq!(refused(&Uri { tls: true, ..full.clone() }).part, UriPart::Scheme);
    let named = refused(&Uri { host: "lb.example.net".to_owned(), ..full.clone() });
    assert_eq!((named.part, named.found.as_str()), (UriPart::Host, "lb.example.net"));
    assert!(
        named.to_string().ends_with("hint: the JLab tools know no names and no IPv6: write the IPv4 address")
    );
}

#[test]
fn each_malformed_part_is_named() {
    let found = |part, text: &str| (part, text.to_owned());
    assert_eq!(error(""), found(UriPart::Scheme, ""));
    assert_eq!(error("http://h:1/"), found(UriPart::Scheme, "http"));
    assert_eq!(error("ejfat://@h:1/"), found(UriPart::Token, ""));
    assert_eq!(error("ejfat://secret%zz@h:1/"), found(UriPart::Token, ""), "a secret is not shown");
    assert_eq!(error("ejfat://t@:1/"), found(UriPart::Host, ""));
    assert_eq!(error("ejfat://h%:1/"), found(UriPart::Host, "h%"));
    assert_eq!(error("ejfat://[::1:1/"), found(UriPart::Host, "[::1:1"));
    assert_eq!(error("ejfat://[1.2.3.4]:1/"), found(UriPart::Host, "1.2.3.4"));
    assert_eq!(error("ejfat://h/"), found(UriPart::Port, ""));
    assert_eq!(error("ejfat://h:/"), found(UriPart::Port, ":"));
    assert_eq!(error("ejfat://h:0/"), found(UriPart::Port, "0"));
    assert_eq!(error("ejfat://h:65536/"), found(UriPart::Port, "65536"));
    assert_eq!(error("ejfat://h:+1/"), found(UriPart::Port, "+1"));
    assert_eq!(error("ejfat://[::1]x:1/"), found(UriPart::Port, "x:1"));
    assert_eq!(error("ejfat://h:1/lb/1/2"), found(UriPart::Balancer, "/lb/1/2"));
    assert_eq!(error("ejfat://h:1/xx"), found(UriPart::Balancer, "/xx"));
    assert_eq!(error("ejfat://h:1/?port=1"), found(UriPart::Parameter, "port=1"));
    for data in [
        "",
        "h",
        "1.2.3.4:",
        "1.2.3.4:0",
        "1.2.3.4:9-8",
        "1.2.3.4:1-2-3",
        "::1",
        "[::1",
        "[::1]5",
        "1.2.3.4.5",
    ] {
        assert_eq!(error(&format!("ejfat://h:1/?data={data}")), found(UriPart::Data, data));
    }
    for sync in ["", "1.2.3.4", "1.2.3.4:", "fe80::1:5678", "[::1]", "[::1]:70000", "1.2.3.4:1-2"] {
        assert_eq!(error(&format!("ejfat://h:1/?sync={sync}")), found(UriPart::Sync, sync));
    }
    assert_eq!(error("ejfat://h:1/?sessionid="), found(UriPart::Session, ""));
    assert_eq!(error("ejfat://h:1/?sessionid=1&sessionid=2"), found(UriPart::Session, "2"));
    let shown = "ejfat://h:1/?sync=1.2.3.4".parse::<Uri>().unwrap_err().to_string();
    assert_eq!(
        shown,
        "EJFAT_URI: `1.2.3.4` is no sync address; hint: write sync=10.0.0.1:19010 or sync=[fd00::1]:19010"
    );
}

#[test]
fn a_token_is_in_no_error() {
    for text in [
        "ejfat:/secret@h:1/",
        "secret@h:1",
        "ejfat://secret@h/",
        "ejfat://sec/ret@h:1/",
        "ejfat://h:1/sec/ret@h:1/",
        "ejfat://h:1?sec=ret@h:1/",
        "ejfat://%zzsecret@h:1/",
        "ejfat://secret@h:1/xx",
    ] {
        let error = text.parse::<Uri>().expect_err(text).to_string();
        assert!(!error.contains("sec") && !error.contains("ret@"), "{error}");
    }
}

#[test]
fn a_token_is_not_in_what_is_logged() {
    let secret = uri("ejfat://secret@h:1/lb/1");
    assert_eq!(format!("{secret:?}"), "ejfat://…@h:1/lb/1");
}

prop_compose! {
    fn any_uri()(tls: bool, token in proptest::option::of("\\PC{1,9}"), host in prop_oneof!["[a-z][a-z0-9.-]{0,9}", "1\\.2\\.3\\.[1-9]", "fd00::[1-9]"],
            port in 1u16.., balancer in proptest::option::of("\\PC{1,5}"), session in proptest::option::of("\\PC{1,5}"),
            data in proptest::collection::vec((any::<IpAddr>(), 1u16.., 1u16..), 0..4),
            sync in proptest::collection::vec((any::<IpAddr>(), 1u16..), 0..4)) -> Uri {
        let data = data.into_iter().map(|(ip, a, b)| DataAddress { ip, ports: a.min(b)..=a.max(b) }).collect();
        let sync = sync.into_iter().map(|(ip, port)| SocketAddr::new(ip, port)).collect();
        Uri { tls, token, host, port, balancer, data, sync, session }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(uri in any_uri()) {
        prop_assert_eq!(uri.to_string().parse::<Uri>(), Ok(uri.clone()));
        for dialect in [Dialect::E2sar, Dialect::Jlab, Dialect::Udplbd] {
            let Ok(text) = uri.to(dialect) else { prop_assert_eq!(dialect, Dialect::Jlab); continue };
            let back: Uri = text.parse().unwrap();
            prop_assert_eq!((back.tls, &back.token, &back.host, back.port, &back.balancer), (uri.tls, &uri.token, &uri.host, uri.port, &uri.balancer));
            prop_assert!(back.sync.iter().all(|sync| uri.sync.contains(sync)));
            prop_assert!(back.data.iter().all(|data| uri.data.iter().any(|all| all.ip == data.ip && all.ports.start() == data.ports.start())));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(ejfats?://)?[a-z@:/?&=%0-9.\\[\\]-]{0,40}|\\PC{0,40}") {
        if let Ok(uri) = text.parse::<Uri>() {
            prop_assert_eq!(uri.to_string().parse::<Uri>(), Ok(uri));
        }
    }
}
