//! The client against a control plane that refuses, hangs, dies and lies.
#![allow(clippy::unwrap_used)]

mod plane;

use plane::{Api, Plane, TOKEN, wait_for};
use skyhaul_daemon::Uri;
use skyhaul_daemon::client::{ClientOptions, ControlPlane, Trust, Why};
use skyhaul_daemon::ejfat::proto::token_selector::TokenSelector;
use skyhaul_daemon::ejfat::proto::{
    ChainLoadBalancerRequest, RegisterRequest, ReserveLoadBalancerRequest, ResetLoadBalancerRequest,
    SendStateRequest,
};
use std::net::TcpListener;
use std::time::Duration;
use tonic::Code;
use tonic::transport::Identity;

fn options(deadline: u64, patience: u64) -> ClientOptions {
    let (deadline, patience) = (Duration::from_millis(deadline), Duration::from_millis(patience));
    ClientOptions { deadline, patience, trust: Trust::System }
}

fn client(uri: &str) -> ControlPlane {
    ControlPlane::new(&uri.parse().unwrap(), &options(20_000, 0)).unwrap()
}

#[test]
fn every_call_is_made_and_answered() {
    let api = Api::default();
    let plane = Plane::start(&api);
    let admin = client(&format!("ejfat://{TOKEN}@{}/", plane.at));
    let ask = ReserveLoadBalancerRequest {
        name: "run".into(),
        sender_addresses: vec!["10.0.0.1".into()],
        ..ReserveLoadBalancerRequest::default()
    };
    let uri = admin.uri_of(&admin.reserve(ask).unwrap());
    // The control plane as it was reached, and not as it calls itself.
    let expected: Uri =
        format!("ejfat://{TOKEN}@{}/lb/1?data=127.0.0.1:19522-19529&sync=127.0.0.1:19010", plane.at)
            .parse()
            .unwrap();
    assert_eq!(uri, expected);
    let lb = ControlPlane::new(&uri, &ClientOptions::default()).unwrap();
    assert_eq!(lb.uri_of(&lb.get().unwrap()), uri, "the token is that of who asks");
    lb.add_senders(vec!["10.0.0.2".into(), "10.0.0.3".into()]).unwrap();
    lb.remove_senders(vec!["10.0.0.1".into()]).unwrap();
    let reply = lb.register(RegisterRequest { name: "w".into(), ..RegisterRequest::default() }).unwrap();
    let state = SendStateRequest { session_id: reply.session_id.clone(), ..SendStateRequest::default() };
    lb.send_state(state, Some(&reply.token)).unwrap();
    let status = lb.status().unwrap();
    assert_eq!((status.workers.len(), status.current_epoch), (1, 7));
    assert_eq!(status.sender_addresses, ["10.0.0.2", "10.0.0.3"]);
    lb.demand_slots(Vec::new()).unwrap();
    lb.deregister(&reply.session_id, Some(&reply.token)).unwrap();
    let until = prost_types::Timestamp { seconds: 2_000_000_000, nanos: 0 };
    assert_eq!(lb.extend(until).unwrap(), Some(until));
    let parts = ResetLoadBalancerRequest { epochs: true, ..ResetLoadBalancerRequest::default() };
    assert!(lb.reset(&parts).unwrap().epochs);
    assert_eq!(admin.overview().unwrap()[0].name, "test");
    let series = lb.timeseries(vec!["/lb/1/*".into()], Some(until)).unwrap();
    assert_eq!((series.timeseries.len(), series.since), (1, Some(until)));
    assert_eq!(lb.version().unwrap().compat_tag, "t");
    assert_eq!(lb.create_token("x", Vec::new()).unwrap().token, "child-x");
    assert_eq!(lb.token_permissions(TokenSelector::Id(3)).unwrap().unwrap().id, 3);
    assert_eq!(lb.child_tokens(TokenSelector::Id(3)).unwrap()[0].name, "below");
    lb.revoke_token(TokenSelector::Token("y".into())).unwrap();
    assert_eq!(lb.chain(ChainLoadBalancerRequest::default()).unwrap(), "9");
    assert!(!lb.chain_graph(Vec::new()).unwrap().cycle_detected);
    let why = lb.unchain("9").unwrap_err();
    assert!(why.to_string().contains("this control plane does not have this call"), "{why}");
    lb.free().unwrap();
    assert!(api.known().freed);
}

#[test]
fn a_refusal_says_what_and_what_to_do_and_never_the_token() {
    let api = Api::default();
    let plane = Plane::start(&api);
    let wrong = client(&format!("ejfat://wr0ng@{}/lb/1", plane.at));
    let error = wrong.status().unwrap_err();
    assert!(error.is_unknown() && !error.is_away());
    let said = format!("{error} {error:?} {wrong:?}");
    assert!(said.contains("token … is not known; hint: the token in EJFAT_URI is missing"), "{said}");
    assert!(!said.contains("wr0ng"), "{said}");
    let error = client(&format!("ejfat://{TOKEN}@{}/lb/8", plane.at)).status().unwrap_err();
    assert!(matches!(&error.why, Why::Refused { code: Code::NotFound, .. }), "{error}");
    assert!(error.to_string().contains("no balancer 8; hint: the reservation may have ended"), "{error}");
    let error = client(&format!("ejfat://{TOKEN}@{}/", plane.at)).status().unwrap_err();
    assert!(error.to_string().contains("EJFAT_URI names none; hint: reserve one"), "{error}");
    let error = client(&format!("ejfat://a%0Ab@{}/lb/1", plane.at)).status().unwrap_err();
    assert!(error.to_string().contains("the token cannot be sent; hint: "), "{error}");
    let error = client(&format!("ejfat://{}/lb/1", plane.at)).status().unwrap_err();
    assert!(error.to_string().contains("hint: the token in EJFAT_URI is missing"), "{error}");
}

#[test]
fn whoever_cannot_be_reached_is_tried_again_for_as_long_as_patience_lasts() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = port.local_addr().unwrap();
    drop(port);
    let uri = format!("ejfat://{TOKEN}@{at}/lb/1");
    let error = client(&uri).status().unwrap_err();
    assert!(error.is_away() && error.to_string().contains("cannot be reached"), "{error}");
    assert!(
        error.to_string().contains("refused") && error.to_string().contains("; hint: check host"),
        "{error}"
    );
    let api = Api::default();
    let patient = ControlPlane::new(&uri.parse().unwrap(), &options(20_000, 60_000)).unwrap();
    std::thread::scope(|all| {
        let asked = all.spawn(|| patient.status());
        std::thread::sleep(Duration::from_millis(200));
        let _plane = Plane::at(at, &api, None);
        asked.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_that_hangs_is_given_up_and_one_that_restarts_is_found_again() {
    let api = Api::default();
    let plane = Plane::start(&api);
    let uri = plane.uri();
    let lb = ControlPlane::new(&uri.parse().unwrap(), &options(300, 0)).unwrap();
    lb.status().unwrap();
    api.known().hangs = true;
    let error = lb.status().unwrap_err();
    assert_eq!(error.why, Why::Silent(Duration::from_millis(300)));
    assert!(error.is_away() && error.to_string().contains("no answer in 0.3 s; hint: "), "{error}");
    api.known().hangs = false;
    wait_for("an answer", || lb.status().ok());
    let at = plane.at;
    drop(plane);
    assert!(lb.status().unwrap_err().is_away());
    let _plane = Plane::at(at, &api, None);
    wait_for("an answer", || lb.status().ok());
}

#[test]
fn whoever_accepts_and_says_nothing_or_nonsense_is_away() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("ejfat://{TOKEN}@{}/lb/1", port.local_addr().unwrap());
    let lb = ControlPlane::new(&uri.parse().unwrap(), &options(300, 0)).unwrap();
    assert!(lb.status().unwrap_err().is_away());
    std::thread::scope(|all| {
        all.spawn(|| {
            for stream in port.incoming().take(2) {
                let _ = std::io::Write::write_all(&mut stream.unwrap(), b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        let lb = ControlPlane::new(&uri.parse().unwrap(), &options(20_000, 0)).unwrap();
        assert!(lb.status().unwrap_err().is_away());
        // The first one's connection was the first of the two.
    });
}

#[test]
fn certificates_are_verified_by_file_or_not_at_all() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let identity = Identity::from_pem(&pem, made.signing_key.serialize_pem());
    let plane = Plane::at("127.0.0.1:0".parse().unwrap(), &Api::default(), Some(identity));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lb.pem");
    std::fs::write(&file, &pem).unwrap();
    let uri = |scheme: &str, host: &str| {
        format!("{scheme}://{TOKEN}@{host}:{}/lb/1", plane.at.port()).parse().unwrap()
    };
    let ask = |scheme: &str, host: &str, trust: Trust| {
        ControlPlane::new(&uri(scheme, host), &ClientOptions { trust, ..options(20_000, 0) })?.status()
    };
    ask("ejfats", "localhost", Trust::File(file.clone())).unwrap();
    ask("ejfats", "localhost", Trust::Anyone).unwrap();
    ask("ejfats", "127.0.0.1", Trust::Anyone).unwrap();
    let error = ask("ejfats", "127.0.0.1", Trust::File(file)).unwrap_err().to_string();
    assert!(error.contains("certificate") && error.contains("accept any certificate"), "{error}");
    let error = ask("ejfats", "localhost", Trust::System).unwrap_err().to_string();
    assert!(error.contains("hint: "), "{error}");
    let none = Trust::File(directory.path().join("none.pem"));
    let error = ask("ejfats", "localhost", none).unwrap_err().to_string();
    assert!(error.contains("none.pem") && error.contains("hint: check the name"), "{error}");
    let error = ask("ejfat", "localhost", Trust::System).unwrap_err();
    assert!(error.is_away() && error.to_string().contains("ejfats://"), "{error}");
}

/// A certificate for localhost that is valid in these years, signed by itself or by another; the PEM of it and of its key.
fn certificate(
    (from, until): (i32, i32),
    signer: Option<&rcgen::Issuer<'_, rcgen::KeyPair>>,
) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = match signer {
        Some(signer) => params.signed_by(&key, signer),
        None => params.self_signed(&key),
    };
    (made.unwrap().pem(), key.serialize_pem())
}

/// An authority that is valid in these years, with its PEM.
fn authority((from, until): (i32, i32)) -> (String, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, rcgen::Issuer::new(params, key))
}

#[test]
fn a_certificate_of_the_file_is_accepted_only_while_it_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trusted.pem");
    // What the server has, what the file has, and what the client says.
    let ask = |(certificate, key): &(String, String), trusted: &str, trust: Option<Trust>| {
        let identity = Identity::from_pem(certificate, key);
        let plane = Plane::at("127.0.0.1:0".parse().unwrap(), &Api::default(), Some(identity));
        std::fs::write(&file, trusted).unwrap();
        let uri = format!("ejfats://{TOKEN}@localhost:{}/lb/1", plane.at.port()).parse().unwrap();
        let trust = trust.unwrap_or(Trust::File(file.clone()));
        let asked = ControlPlane::new(&uri, &ClientOptions { trust, ..options(20_000, 0) }).unwrap().status();
        asked.map(drop).map_err(|error| error.to_string())
    };
    let refused = |result: Result<(), String>, parts: &[&str]| {
        let error = result.unwrap_err();
        parts.iter().for_each(|part| assert!(error.contains(part), "no {part}: {error}"));
    };
    let (now, past, future) = ((2000, 2099), (2001, 2002), (2098, 2099));
    let expired = "certificate expired at 2002-01-01T00:00:00Z; hint: renew it and give the new file";
    let early = "certificate is not valid before 2098-01-01T00:00:00Z";
    let clocks = "hint: compare the clocks of both hosts, or accept any certificate";

    let own = certificate(now, None);
    ask(&own, &own.0, None).unwrap();
    for (times, parts) in [(past, [expired, "accept any certificate"]), (future, [early, clocks])] {
        let own = certificate(times, None);
        refused(ask(&own, &own.0, None), &parts);
        // Beside a good one in the file, too; and that one goes on.
        let good = certificate(now, None);
        let both = good.0.clone() + &own.0;
        refused(ask(&own, &both, None), &parts);
        ask(&good, &both, None).unwrap();
        ask(&own, &own.0, Some(Trust::Anyone)).unwrap();
        // The signer's time counts as well; another that signed nothing does not.
        let (pem, signer) = authority(times);
        let signed = certificate(now, Some(&signer));
        let parts = [&["the certificate that signed its "], &parts[..]].concat();
        refused(ask(&signed, &pem, None), &parts);
        let (good, signer) = authority(now);
        ask(&certificate(now, Some(&signer)), &(good + &pem), None).unwrap();
    }
    let (pem, signer) = authority(now);
    refused(ask(&certificate(past, Some(&signer)), &pem, None), &[expired]);
}
