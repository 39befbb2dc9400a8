//! The server over real sockets: gRPC with the generated client, REST and metrics as bytes.

use super::super::api::Api;
use super::super::instances::Instances;
use super::super::proto::load_balancer_client::LoadBalancerClient;
use super::super::registry::{Limits, Registry};
use super::*;
use serde_json::{Value, json};
use skyhaul::balance::BalanceOptions;
use std::io::{Read, Write};
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

const OPERATOR: &str = "the operator's token";

fn serve(tls: Option<&TlsFiles>) -> io::Result<Server> {
    let registry = Registry::open(None, OPERATOR, Limits::default(), 0).unwrap();
    let balance = BalanceOptions { threads: 1, ..BalanceOptions::default() };
    let instances = Instances {
        listen: vec!["127.0.0.1".parse().unwrap()],
        own: Vec::new(),
        shared: false,
        data_port: 0,
        sync_port: 0,
        balance,
        upstream: Default::default(),
        apart: None,
    };
    let api = Arc::new(Api::open(registry, instances).unwrap());
    Server::start(api, "127.0.0.1:0".parse().unwrap(), tls, |wrong| panic!("{wrong}"))
}

async fn client(server: &Server) -> LoadBalancerClient<Channel> {
    LoadBalancerClient::connect(format!("http://{}", server.address())).await.unwrap()
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

/// A request as HTTP/1.1: status and body.
fn http(server: &Server, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, String) {
    let (head, body) = exchange(server, method, path, token, body);
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// The same: head and body.
fn exchange(server: &Server, method: &str, path: &str, token: Option<&str>, body: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let (at, length) = (server.address(), body.len());
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{token}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn rest(server: &Server, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, body) = http(server, method, path, Some(token), &body);
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_joins_by_grpc() {
    let server = serve(None).unwrap();
    let mut client = client(&server).await;
    let request = ReserveLoadBalancerRequest { name: "run".to_owned(), ..Default::default() };
    for (token, code) in [(None, Code::Unauthenticated), (Some("wrong"), Code::Unauthenticated)] {
        let request = match token {
            None => Request::new(request.clone()),
            Some(token) => with(token, request.clone()),
        };
        assert_eq!(client.reserve_load_balancer(request).await.unwrap_err().code(), code);
    }
    let reserved = client.reserve_load_balancer(with(OPERATOR, request)).await.unwrap().into_inner();
    assert!(reserved.ejfat_uri.starts_with(&format!(
        "ejfat://{}@{}/lb/1?data=",
        reserved.token,
        server.address()
    )));
    let worker = RegisterRequest {
        lb_id: "1".to_owned(),
        ip_address: "127.0.0.1".to_owned(),
        udp_port: 17750,
        ..Default::default()
    };
    let registered = client.register(with(&reserved.token, worker)).await.unwrap().into_inner();
    let state = || SendStateRequest {
        session_id: registered.session_id.clone(),
        is_ready: true,
        ..Default::default()
    };
    let since = std::time::Instant::now();
    loop {
        client.send_state(with(&registered.token, state())).await.unwrap();
        let request = LoadBalancerStatusRequest { lb_id: "1".to_owned() };
        let status = client.load_balancer_status(with(&reserved.token, request)).await.unwrap().into_inner();
        if status.workers[0].slots_assigned == 512 {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let denied = client.overview(with("other", OverviewRequest {})).await.unwrap_err();
    assert_eq!(denied.code(), Code::Unauthenticated);
    let chain = client.get_chain_graph(with(OPERATOR, GetChainGraphRequest::default())).await.unwrap_err();
    assert_eq!(chain.code(), Code::InvalidArgument);
    let huge = ReserveLoadBalancerRequest { name: "n".repeat(MAX_BODY_BYTES + 1), ..Default::default() };
    let huge = client.reserve_load_balancer(with(OPERATOR, huge)).await.unwrap_err();
    assert_eq!(huge.code(), Code::OutOfRange);
    let free = FreeLoadBalancerRequest { lb_id: "1".to_owned() };
    client.free_load_balancer(with(&reserved.token, free.clone())).await.unwrap();
    let replayed = client.free_load_balancer(with(&reserved.token, free)).await.unwrap_err();
    assert_eq!(replayed.code(), Code::Unauthenticated);
    server.stop();
    client.version(with(OPERATOR, VersionRequest {})).await.unwrap_err();
}

#[test]
fn the_same_by_rest() {
    let server = serve(None).unwrap();
    let asked =
        |method: &str, path: &str, token: &str, body: Value| rest(&server, method, path, token, &body);
    let (status, reserved) = asked(
        "POST",
        "/lb",
        OPERATOR,
        json!({"name": "run", "sender_addresses": ["127.0.0.1"], "ipFamily": "IPV4"}),
    );
    assert_eq!(
        (status, &reserved["lbId"], &reserved["fpgaLbId"]),
        (200, &json!("1"), &json!(0)),
        "{reserved}"
    );
    let token = reserved["token"].as_str().unwrap();
    let worker =
        json!({"name": "w", "ipAddress": "127.0.0.1", "udpPort": 17750, "portRange": "PORT_RANGE_16"});
    let (status, registered) = asked("POST", "/lb/1/sessions", token, worker);
    assert_eq!((status, &registered["sessionId"]), (200, &json!("1")), "{registered}");
    let session = registered["token"].as_str().unwrap();
    let state = json!({"isReady": true, "fillPercent": 0.5, "totalEventsRecv": "7", "timestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(asked("POST", "/sessions/1/state", session, state), (200, json!({})));
    let (_, said) = asked("GET", "/lb/1/status", token, Value::Null);
    let one = &said["workers"][0];
    assert_eq!(
        (&one["name"], &one["totalEventsRecv"], &one["portRange"], &one["fillPercent"]),
        (&json!("w"), &json!("7"), &json!("PORT_RANGE_16"), &json!(0.5))
    );
    assert_eq!((&said["senderAddresses"], &said["slotResolution"]), (&json!(["127.0.0.1"]), &json!(512)));
    let more = json!({"senderAddresses": ["10.0.0.0/8"]});
    assert_eq!(asked("POST", "/lb/1/senders", token, more.clone()), (200, json!({})));
    assert_eq!(asked("DELETE", "/lb/1/senders", token, more), (200, json!({})));
    let until = json!({"until": "2999-01-01T00:00:00Z"});
    assert_eq!(asked("POST", "/lb/1/extend", token, until.clone()), (200, until));
    let reset = asked("POST", "/lb/1/reset", token, json!({"epochs": true}));
    assert_eq!(reset, (200, json!({"sync": true, "epochs": true, "senders": false, "workers": false})));
    let permission = json!({"resourceType": "RESERVATION", "resourceId": "1", "permission": "READ_ONLY"});
    let (status, made) =
        asked("POST", "/tokens", token, json!({"name": "look", "permissions": [permission.clone()]}));
    assert_eq!(status, 200);
    let looking = made["token"].as_str().unwrap();
    let (_, own) = asked("GET", "/tokens/self/permissions", looking, Value::Null);
    assert_eq!(own["token"]["permissions"], json!([permission]));
    let id = own["token"]["id"].as_u64().unwrap();
    let (_, children) = asked("GET", "/tokens/self/children", token, Value::Null);
    assert_eq!(children["tokens"].as_array().unwrap().len(), 2);
    assert_eq!(asked("DELETE", &format!("/tokens/{id}"), token, Value::Null), (200, json!({})));
    assert_eq!(asked("GET", "/overview", looking, Value::Null).0, 401);
    let (_, overview) = asked("GET", "/overview", token, Value::Null);
    assert_eq!(overview["loadBalancers"][0]["reservation"]["lbId"], "1");
    assert_eq!(asked("GET", "/version", token, Value::Null).0, 200);
    for path in [
        "/timeseries/lb/1/packets",
        "/timeseries?seriesSelector=%2Flb%2F1%2Fpackets&since=2026-01-01T00:00:00Z",
    ] {
        let (status, series) = asked("GET", path, token, Value::Null);
        assert_eq!((status, &series["timeseries"][0]["name"]), (200, &json!("/lb/1/packets")), "{series}");
    }
    assert_eq!(asked("DELETE", "/sessions/1", session, Value::Null), (200, json!({})));
    assert_eq!(asked("DELETE", "/lb/1", token, Value::Null), (200, json!({})));
}

/// A worker learns by each form of its report whether packets for it may still be sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_learns_that_it_is_awaited_by_every_form_of_its_report() {
    let server = serve(None).unwrap();
    let request = json!({"name": "run", "senderAddresses": ["127.0.0.1"]});
    let (_, reserved) = rest(&server, "POST", "/lb", OPERATOR, &request);
    let token = reserved["token"].as_str().unwrap();
    let worker = json!({"name": "w", "ipAddress": "127.0.0.1", "udpPort": 17750});
    assert_eq!(rest(&server, "POST", "/lb/1/sessions", token, &worker).0, 200);
    let state = json!({"sessionId": "1", "isReady": true}).to_string();
    let by_rest = |prefix: &str| {
        let path = format!("{prefix}/sessions/1/state");
        let (head, _) = exchange(&server, "POST", &path, Some(token), &state);
        assert!(head.starts_with("HTTP/1.1 20"), "{head}");
        head.to_ascii_lowercase().lines().any(|line| line == "skyhaul-awaited: 1")
    };
    let mut client = client(&server).await;
    let message = SendStateRequest { session_id: "1".to_owned(), is_ready: true, ..Default::default() };
    let reply = client.send_state(with(token, message.clone())).await.unwrap();
    assert_eq!(
        (reply.metadata().get(AWAITED), by_rest(""), by_rest("/api/v1")),
        (None, false, false),
        "no sender"
    );
    // A sender is heard of: synchronisation messages.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sync = ("127.0.0.1", reserved["syncUdpPort"].as_u64().unwrap() as u16);
    let since = std::time::Instant::now();
    loop {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let mut said = b"LC\x02\0\0\0\0\x01".to_vec();
        said.extend((now.as_micros() as u64).to_be_bytes());
        said.extend(1_000_000u32.to_be_bytes());
        said.extend((now.as_nanos() as u64).to_be_bytes());
        socket.send_to(&said, sync).unwrap();
        let reply = client.send_state(with(token, message.clone())).await.unwrap();
        if reply.metadata().get(AWAITED).is_some() {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((by_rest(""), by_rest("/api/v1")), (true, true));
}

/// The calls as udplbd's own clients and its web page make them.
#[test]
fn the_calls_of_udplbd() {
    let server = serve(None).unwrap();
    let asked = |method: &str, path: &str, token: &str, body: Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, said) = http(&server, method, &format!("/api/v1{path}"), Some(token), &body);
        (status, serde_json::from_str(&said).unwrap_or(Value::Null))
    };
    let request = json!({"name": "run", "sender_addresses": ["127.0.0.1"], "ip_family": "ipv4"});
    let (status, reserved) = asked("POST", "/lb", OPERATOR, request);
    assert_eq!(
        (status, &reserved["lb_id"], &reserved["fpga_lb_id"]),
        (200, &json!("1"), &json!(0)),
        "{reserved}"
    );
    let token = reserved["token"].as_str().unwrap();
    assert!(reserved["ejfat_uri"].as_str().unwrap().contains("/lb/1?data=127.0.0.1:"));
    let worker = json!({"name": "w", "weight": 1.0, "ip_address": "127.0.0.1", "udp_port": 17750, "port_range": 4,
        "min_factor": 0.0, "max_factor": 0.0, "keep_lb_header": false});
    let (status, registered) = asked("POST", "/lb/1/sessions", token, worker);
    assert_eq!((status, &registered["session_id"]), (200, &json!("1")), "{registered}");
    let session = registered["token"].as_str().unwrap();
    let state = json!({"lb_id": "1", "is_ready": true, "fill_percent": 0.5, "control_signal": 0.0, "total_events_recv": 7,
        "timestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(asked("POST", "/sessions/1/state", session, state), (204, Value::Null));
    let (_, said) = asked("GET", "/lb/1/status", token, Value::Null);
    let one = &said["workers"][0];
    assert_eq!(
        (&one["total_events_recv"], &one["port_range"], &said["slot_resolution"]),
        (&json!(7), &json!(4), &json!(512)),
        "{said}"
    );
    let more = json!({"sender_addresses": ["10.0.0.1"]});
    assert_eq!(asked("POST", "/lb/1/senders", token, more.clone()).0, 204);
    assert_eq!(asked("DELETE", "/lb/1/senders", token, more).0, 204);
    let permission = json!({"resource_type": 2, "resource_id": "1", "permission": 0});
    let (_, made) = asked("POST", "/tokens", token, json!({"name": "look", "permissions": [permission]}));
    let looking = made["token"].as_str().unwrap();
    let (_, own) = asked("GET", "/tokens/self/permissions", looking, Value::Null);
    assert_eq!(own["token"]["permissions"], json!([permission]));
    assert_eq!(asked("GET", "/tokens/0/permissions", looking, Value::Null).1, own, "0 is the caller's");
    let (_, overview) = asked("GET", "/overview", token, Value::Null);
    assert_eq!(overview["load_balancers"][0]["reservation"]["lb_id"], "1");
    let (status, series) = asked("GET", "/timeseries?series=/lb/1/packets", token, Value::Null);
    assert_eq!((status, &series["timeseries"][0]["name"]), (200, &json!("/lb/1/packets")), "{series}");
    assert!(series["timeseries"][0]["timeseries"]["IntegerSamples"]["data"].is_array(), "{series}");
    assert_eq!(asked("GET", "/overview", "wrong", Value::Null).0, 403);
    assert_eq!(http(&server, "GET", "/api/v1/overview", None, "").0, 401);
    assert_eq!(asked("DELETE", &format!("/tokens/{looking}"), token, Value::Null).0, 204);
    assert_eq!(asked("DELETE", "/sessions/1", session, Value::Null).0, 204);
    assert_eq!(asked("DELETE", "/lb/1", token, Value::Null).0, 204);
}

#[test]
fn what_rest_refuses() {
    let server = serve(None).unwrap();
    rest(&server, "POST", "/lb", OPERATOR, &json!({}));
    for (method, path, token, body, status) in [
        ("POST", "/lb", None, "{}", 401),
        ("POST", "/lb", Some("wrong"), "{}", 401),
        ("POST", "/lb", Some(OPERATOR), "{", 400),
        ("POST", "/lb", Some(OPERATOR), "[]", 400),
        ("POST", "/lb", Some(OPERATOR), "{\"no\": 1}", 400),
        ("POST", "/lb", Some(OPERATOR), "{\"name\": 1}", 400),
        ("POST", "/lb", Some(OPERATOR), "{\"strategy\": \"best\"}", 400),
        ("GET", "/lb/x", Some(OPERATOR), "", 400),
        ("GET", "/lb/7", Some(OPERATOR), "", 404),
        ("GET", "/tokens/x/permissions", Some(OPERATOR), "", 400),
        ("GET", "/tokens/77/permissions", Some(OPERATOR), "", 404),
        ("DELETE", "/tokens/1", Some(OPERATOR), "", 400),
    ] {
        let (said, text) = http(&server, method, path, token, body);
        assert_eq!(said, status, "{method} {path} {body}: {text}");
        let error: Value = serde_json::from_str(&text).unwrap();
        assert!(error["code"] == status && error["error"].is_string(), "{error}");
    }
    assert_eq!(http(&server, "PUT", "/lb", Some(OPERATOR), "{}").0, 405);
    assert_eq!(http(&server, "GET", "/no/such/page", None, "").0, 404);
    assert_eq!(http(&server, "POST", "/lb", Some(OPERATOR), &" ".repeat(MAX_BODY_BYTES + 1)).0, 413);
    let (status, text) = http(&server, "GET", "/metrics", None, "");
    assert_eq!(status, 200);
    for line in [
        "skyhaul_balance_calls_refused_total{kind=\"unauthenticated\"} 2",
        "skyhaul_balance_calls_refused_total{kind=\"not_found\"} 2",
        "skyhaul_balance_packets_refused_total{lb=\"1\",reason=\"blocked_source\"} 0",
        "skyhaul_balance_sessions 0",
    ] {
        assert!(text.lines().any(|said| said == line), "{line}\n{text}");
    }
    assert!(!text.contains(OPERATOR));
}

#[test]
fn metrics_count_each_member() {
    let server = serve(None).unwrap();
    rest(&server, "POST", "/lb", OPERATOR, &json!({}));
    let worker = json!({"name": "a\"b\\c", "ipAddress": "127.0.0.1", "udpPort": 17750});
    rest(&server, "POST", "/lb/1/sessions", OPERATOR, &worker);
    let (_, text) = http(&server, "GET", "/metrics", None, "");
    let line = "skyhaul_balance_member_packets_total{lb=\"1\",session=\"1\",name=\"a\\\"b\\\\c\"} 0";
    assert!(text.lines().any(|said| said == line), "{text}");
    let names = text.lines().filter(|line| line.starts_with("# TYPE ")).map(|line| line.split(' ').nth(2));
    assert_eq!(names.clone().count(), names.collect::<std::collections::BTreeSet<_>>().len());
}

/// A self-signed certificate for this host, in files.
fn certificate(directory: &std::path::Path) -> (TlsFiles, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: directory.join("cert.pem"), key: directory.join("key.pem") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_only_those_who_trust_it_get_in() {
    let directory = tempfile::tempdir().unwrap();
    let (files, pem) = certificate(directory.path());
    let server = serve(Some(&files)).unwrap();
    let at = |scheme: &str| {
        Endpoint::from_shared(format!("{scheme}://localhost:{}", server.address().port())).unwrap()
    };
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)).domain_name("localhost");
    let channel = at("https").tls_config(tls).unwrap().connect().await.unwrap();
    let mut trusting = LoadBalancerClient::new(channel);
    let reserve = with(OPERATOR, ReserveLoadBalancerRequest::default());
    let reserved = trusting.reserve_load_balancer(reserve).await.unwrap().into_inner();
    assert!(reserved.ejfat_uri.starts_with("ejfats://"), "{}", reserved.ejfat_uri);
    let strange = at("https").tls_config(ClientTlsConfig::new()).unwrap().connect().await;
    assert!(strange.is_err(), "the certificate is nobody's that it knows");
    let plain = match at("http").connect().await {
        Ok(channel) => {
            LoadBalancerClient::new(channel).version(with(OPERATOR, VersionRequest {})).await.is_err()
        }
        Err(_) => true,
    };
    assert!(plain, "not without TLS");
    trusting.version(with(OPERATOR, VersionRequest {})).await.expect("they did not disturb it");
}

#[test]
fn what_cannot_be_served() {
    let directory = tempfile::tempdir().unwrap();
    let (files, _) = certificate(directory.path());
    let refused = |files: &TlsFiles| {
        let error = serve(Some(files)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("; hint: "), "{error}");
        error
    };
    let missing = TlsFiles { certificate: directory.path().join("none"), ..files.clone() };
    let said = refused(&missing);
    assert!(said.starts_with("read ") && said.contains("/none: "), "{said}");
    let swapped = TlsFiles { certificate: files.key.clone(), key: files.certificate.clone() };
    assert!(refused(&swapped).contains("is not a valid certificate"));
    let other = tempfile::tempdir().unwrap();
    let (others, _) = certificate(other.path());
    let mixed = TlsFiles { key: others.key, ..files.clone() };
    assert!(refused(&mixed).contains("is not a valid key for the certificate"));
    let nonsense = TlsFiles { key: files.certificate.clone(), ..files };
    assert!(refused(&nonsense).contains("is not a valid private key"));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let registry = Registry::open(None, OPERATOR, Limits::default(), 0).unwrap();
    let instances = Instances {
        listen: Vec::new(),
        own: Vec::new(),
        shared: false,
        data_port: 0,
        sync_port: 0,
        balance: BalanceOptions::default(),
        upstream: Default::default(),
        apart: None,
    };
    let api = Arc::new(Api::open(registry, instances).unwrap());
    let error = Server::start(api, taken.local_addr().unwrap(), None, |_| ()).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("listen on {}: ", taken.local_addr().unwrap())));
}
