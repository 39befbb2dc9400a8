//! The suite every UDP tier passes: the same packets in, the same packets out.

#![allow(clippy::unwrap_used)]
mod changing;
#[path = "../common/mod.rs"]
mod common;
mod placed;

use common::*;
use skyhaul_io::{
    address::Endpoint,
    gathered::{Extent, Gathered},
    source::Source,
    udp::{
        Tier, UdpOptions, UdpSource,
        send::{SendMode, SendOptions, Sent, UdpSender},
    },
};
use std::{
    io::IoSlice,
    net::{SocketAddr, UdpSocket},
    sync::LazyLock,
    time::Duration,
};

/// The tiers this process may use.
static TIERS: LazyLock<Vec<Tier>> = LazyLock::new(|| {
    let mut tiers = vec![Tier::Stage, Tier::Plain, Tier::Auto];
    let options = UdpOptions { tier: Tier::Ring, ..UdpOptions::default() };
    match UdpSource::open(&"udp://127.0.0.1:0".parse().unwrap(), &options) {
        Ok(_) => tiers.push(Tier::Ring),
        Err(why) => eprintln!("SKIPPED: tier ring: {why}"),
    }
    tiers
});
const MODES: [SendMode; 4] = [SendMode::Auto, SendMode::Gso, SendMode::Mmsg, SendMode::Plain];

fn open(at: &str, tier: Tier) -> UdpSource {
    let options = UdpOptions { tier, ..UdpOptions::default() };
    UdpSource::open(&at.parse().unwrap(), &options).unwrap()
}

fn sender(to: &Endpoint, mode: SendMode) -> UdpSender {
    UdpSender::open(to, &SendOptions { mode, ..SendOptions::default() }).unwrap()
}

/// Send `packets` with headers apart from payloads.
fn send(sender: &mut UdpSender, packets: &[Vec<u8>]) {
    let slices: Vec<[IoSlice<'_>; 2]> = packets
        .iter()
        .map(|p| p.split_at(p.len().min(8)))
        .map(|(header, payload)| [IoSlice::new(header), IoSlice::new(payload)])
        .collect();
    let sent = if packets.len().is_multiple_of(2) {
        sender.send_train(&slices).unwrap()
    } else {
        // The same, each packet with its own number of slices.
        let mut own = Vec::new();
        let mut extents = Vec::new();
        for (n, [header, payload]) in slices.iter().enumerate() {
            extents.push(Extent { first: own.len(), bytes: header.len() + payload.len() });
            own.push(IoSlice::new(header));
            own.extend(payload.chunks((payload.len() / (n % 4 + 1)).max(1)).map(IoSlice::new));
        }
        sender.send_gathered(Gathered::new(&own, &extents)).unwrap()
    };
    assert_eq!(sent.packets, packets.len(), "{}", sender.describe());
    assert_eq!(sent.bytes, packets.iter().map(Vec::len).sum::<usize>());
}

/// Lengths that make whole trains, trains with an odd last packet, and no trains at all.
fn workloads() -> Vec<(&'static str, Vec<usize>)> {
    let mut all: Vec<(&'static str, Vec<usize>)> = Vec::new();
    for length in [40, 41, 100, 1400, 1472, 5032, 8000, 8972, 9000, 32_000, 65_000, 65_507] {
        all.push(("equal", vec![length; 130_000usize.div_ceil(length).clamp(3, 150)]));
    }
    all.push(("odd last", [vec![1472; 20], vec![700]].concat()));
    all.push(("one longer after", [vec![1000; 5], vec![1001], vec![1000; 5]].concat()));
    all.push(("all unequal", (0..100).map(|n| 40 + n * 37 % 1400).collect()));
    all.push(("empty between", vec![100, 100, 0, 0, 100, 1, 1, 0]));
    all.push(("one", vec![1472]));
    all
}

fn conform(receive_at: &str, send_to: impl Fn(SocketAddr) -> Endpoint, tier: Tier, mode: SendMode) {
    for (name, lengths) in workloads() {
        // Over IPv6 the longest do not fit the loopback's MTU, and the ring cannot join IPv6 fragments.
        if tier == Tier::Ring && receive_at.contains("::") && lengths[0] > 65_480 {
            continue;
        }
        let mut source = open(receive_at, tier);
        let to = send_to(source.local());
        let what = format!("{name} {:?}… via {} {:?} {:?}", &lengths[..1], to, tier, mode);
        let mut sender = sender(&to, mode);
        let packets: Vec<_> = lengths.iter().enumerate().map(|(n, &l)| packet(1, n as u64, l)).collect();
        send(&mut sender, &packets);
        let arrived = collect(&mut source, packets.len());
        assert_eq!(arrived.len(), 1, "{what}: one sender");
        let (from, got) = arrived.first_key_value().unwrap();
        assert_eq!(from.port(), sender.local().unwrap().port(), "{what}");
        assert_same(got, &packets, &what);
        assert_counted(&source.stats(), packets.len(), packets.iter().map(Vec::len).sum(), &what);
    }
}

#[test]
fn every_tier_gets_what_every_mode_sends_over_ipv4() {
    for &tier in TIERS.iter() {
        for mode in MODES {
            conform("udp://127.0.0.1:0", Endpoint::udp, tier, mode);
        }
    }
}

#[test]
fn the_same_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    for &tier in TIERS.iter() {
        for mode in [SendMode::Gso, SendMode::Mmsg] {
            conform("udp://[::1]:0", Endpoint::udp, tier, mode);
        }
    }
}

#[test]
fn the_same_to_every_address_of_this_host() {
    for &tier in TIERS.iter() {
        conform("udp://:0", |a| Endpoint::udp(([127, 0, 0, 1], a.port()).into()), tier, SendMode::Auto);
    }
}

#[test]
fn several_senders_are_told_apart() {
    for &tier in TIERS.iter() {
        let mut source = open("udp://127.0.0.1:0", tier);
        let to = Endpoint::udp(source.local());
        let mut senders: Vec<_> = (0..5).map(|_| sender(&to, SendMode::Auto)).collect();
        for round in 0..20 {
            for (who, sender) in senders.iter_mut().enumerate() {
                let packets: Vec<_> =
                    (0..3).map(|n| packet(who as u8, round * 3 + n, 500 + who * 10)).collect();
                send(sender, &packets);
            }
        }
        let arrived = collect(&mut source, 5 * 60);
        assert_eq!(arrived.len(), 5);
        for (who, sender) in senders.iter().enumerate() {
            let sent: Vec<_> = (0..60).map(|n| packet(who as u8, n, 500 + who * 10)).collect();
            assert_same(&arrived[&sender.local().unwrap()], &sent, "several senders");
        }
    }
}

#[test]
fn sockets_that_share_a_port_get_everything_between_them() {
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let mut sources = vec![UdpSource::open(&"udp://127.0.0.1:0".parse().unwrap(), &options).unwrap()];
    let at = Endpoint::udp(sources[0].local());
    sources.push(UdpSource::open(&at, &options).unwrap());
    for who in 0..16 {
        send(&mut sender(&at, SendMode::Auto), &[packet(who, 0, 64)]);
    }
    let mut arrived = Arrived::new();
    let got: Vec<_> =
        sources.iter_mut().map(|s| collect_once(s, &mut arrived, Duration::from_millis(20))).collect();
    assert_eq!((got.iter().sum::<usize>(), arrived.len()), (16, 16));
    assert!(got.iter().all(|&n| n > 0), "16 senders should spread over both sockets: {got:?}");
}

#[test]
fn arrival_times_are_the_kernels() {
    let before = std::time::SystemTime::now();
    let mut source = open("udp://127.0.0.1:0", Tier::Stage);
    send(&mut sender(&Endpoint::udp(source.local()), SendMode::Auto), &vec![packet(0, 0, 100); 10]);
    let mut times = Vec::new();
    source.poll(Duration::from_secs(1), &mut |t| times.push(t.time.unwrap())).unwrap();
    let nanos = |t: std::time::SystemTime| t.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(times.iter().all(|t| (nanos(before)..=nanos(std::time::SystemTime::now())).contains(&t.0)));
    let mut source = UdpSource::open(
        &"udp://127.0.0.1:0".parse().unwrap(),
        &UdpOptions { timestamps: false, ..UdpOptions::default() },
    )
    .unwrap();
    send(&mut sender(&Endpoint::udp(source.local()), SendMode::Auto), &[packet(0, 0, 100)]);
    source.poll(Duration::from_secs(1), &mut |t| assert_eq!(t.time, None)).unwrap();
}

#[test]
fn what_the_socket_has_no_room_for_is_counted_as_its_drops() {
    for (tier, mode) in
        [(Tier::Plain, SendMode::Mmsg), (Tier::Stage, SendMode::Gso), (Tier::Stage, SendMode::Mmsg)]
    {
        let mut source = open("udp://127.0.0.1:0?rcvbuf=256KiB", tier);
        let mut to = sender(&Endpoint::udp(source.local()), mode);
        let (count, packets) = (4000, (0..40).map(|n| packet(0, n, 1000)).collect::<Vec<_>>());
        for _ in 0..count / 40 {
            send(&mut to, &packets);
        }
        let seen = collect(&mut source, count).into_values().map(|p| p.len()).sum::<usize>();
        let stats = source.stats();
        eprintln!(
            "{tier:?} from {mode:?}: {seen} of {count} packets, {} arrivals dropped",
            stats.socket_drops
        );
        assert!(seen < count && stats.socket_drops > 0);
        let per_arrival = if tier == Tier::Stage && mode == SendMode::Gso { 40 } else { 1 };
        let lost = (count - seen) as u64;
        assert!(stats.socket_drops == lost || stats.socket_drops * per_arrival == lost, "{stats:?}");
        // Between two trains the loss is told where it happened.
        send(&mut to, &packets);
        let mut told = 0;
        while source.poll(Duration::from_millis(20), &mut |t| told += u64::from(t.dropped)).unwrap() > 0 {}
        assert_eq!(told, stats.socket_drops);
    }
}

#[test]
fn an_idle_poll_returns_soon_and_a_wait_of_zero_at_once() {
    for &tier in TIERS.iter() {
        let mut source = open("udp://127.0.0.1:0", tier);
        let start = std::time::Instant::now();
        assert_eq!(source.poll(Duration::ZERO, &mut |_| ()).unwrap(), 0);
        assert!(start.elapsed() < Duration::from_millis(5));
        assert_eq!(source.poll(Duration::from_millis(10), &mut |_| ()).unwrap(), 0);
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(9) && took < Duration::from_millis(200), "{took:?}");
    }
}

/// Few long packets are asked for in a call, and many short ones: where one follows the other the socket is not empty,
/// and a receiver that takes it for that sleeps while its buffer runs full.
#[test]
fn a_socket_is_emptied_though_lengths_change() {
    let mut source = open("udp://127.0.0.1:0?rcvbuf=16MiB", Tier::Stage);
    let granted = source.stats().buffer.unwrap().granted;
    if granted < 4 << 20 {
        println!("SKIPPED: a socket buffer of {granted} bytes (sysctl -w net.core.rmem_max=16777216)");
        return;
    }
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in 0..44 {
        sender.send_to(&packet(1, n, if n < 32 { 60_000 } else { 800 }), source.local()).unwrap();
    }
    let mut arrived = Arrived::new();
    assert_eq!(collect_once(&mut source, &mut arrived, Duration::from_secs(2)), 44);
}

#[test]
fn a_poll_is_bounded() {
    for &tier in TIERS.iter() {
        let mut source = open("udp://127.0.0.1:0", tier);
        let mut to = sender(&Endpoint::udp(source.local()), SendMode::Mmsg);
        for _ in 0..20 {
            send(&mut to, &vec![packet(0, 0, 64); 100]);
        }
        let mut trains = 0;
        // The ring's kernel hands a block over some milliseconds later.
        source.poll(Duration::from_secs(60), &mut |_| trains += 1).unwrap();
        assert!((1..=512).contains(&trains), "{trains}");
    }
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _held = UdpSocket::bind(taken).unwrap();
    let said = |text: &str| match UdpSource::open(&text.parse().unwrap(), &UdpOptions::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{text} opened"),
    };
    let text = said(&format!("udp://{taken}"));
    assert!(text.starts_with(&format!("bind udp://{taken}: Address already in use; hint: ")), "{text}");
    assert!(said("udp://192.0.2.1:0").contains("no interface of this host"));
    assert!(
        said("udp://239.1.1.1:0?iface=nosuch")
            .starts_with("join udp://239.1.1.1:0?iface=nosuch: No such device")
    );
    assert!(said("udp://127.0.0.1:0?source=127.0.0.1").contains("needs a multicast group"));
}

#[test]
fn a_buffer_the_kernel_caps_has_its_remedy() {
    let source = open("udp://127.0.0.1:0?rcvbuf=2GiB", Tier::Auto);
    let stats = source.stats();
    let buffer = stats.buffer.unwrap();
    assert!(buffer.granted < buffer.asked, "{buffer:?}");
    assert!(stats.remedies.iter().any(|r| r.contains("sysctl -w net.core.rmem_max=2147483648")), "{stats:?}");
}

/// Send packets without waiting.
fn try_send<'p>(to: &mut UdpSender, packets: impl Iterator<Item = &'p [u8]>) -> std::io::Result<Sent> {
    let slices: Vec<_> = packets.map(IoSlice::new).collect();
    let extents: Vec<_> =
        slices.iter().enumerate().map(|(first, slice)| Extent { first, bytes: slice.len() }).collect();
    to.try_send_gathered(Gathered::new(&slices, &extents))
}

#[test]
fn a_mirror_never_waits_and_counts_what_is_refused() {
    // Nobody listens: the kernel answers each packet with an error on the next call.
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut mirror = sender(&Endpoint::udp(gone), SendMode::Auto);
    let bytes = packet(0, 0, 5000);
    for _ in 0..50 {
        let sent = try_send(&mut mirror, bytes.chunks(1000)).unwrap();
        assert_eq!(sent.packets + sent.refused, 5);
    }
    assert!(mirror.stats().unreachable > 0);
}

#[test]
fn a_forwarded_train_arrives_as_it_was() {
    let mut first = open("udp://127.0.0.1:0", Tier::Auto);
    let mut second = open("udp://127.0.0.1:0", Tier::Auto);
    let mut mirror = sender(&Endpoint::udp(second.local()), SendMode::Auto);
    let packets: Vec<_> = (0..200).map(|n| packet(0, n, if n % 50 == 49 { 30 } else { 1472 })).collect();
    send(&mut sender(&Endpoint::udp(first.local()), SendMode::Auto), &packets);
    while first
        .poll(Duration::from_millis(20), &mut |t| {
            assert_eq!(try_send(&mut mirror, t.packets()).unwrap().refused, 0);
        })
        .unwrap()
        > 0
    {}
    let arrived = collect(&mut second, 200);
    assert_same(arrived.values().next().unwrap(), &packets, "forwarded");
}

#[test]
fn between_namespaces_every_tier_gets_what_every_mode_sends() {
    let Some(pair) = Pair::new(9000) else { return };
    for (at, tier, mode) in ["udp://10.77.0.2:0", "udp://[fd77::2]:0", "udp://10.77.0.2:0?iface=vb"]
        .into_iter()
        .flat_map(|at| TIERS.iter().flat_map(move |&t| [SendMode::Gso, SendMode::Mmsg].map(|m| (at, t, m))))
    {
        Pair::inside(&pair.far, || {
            let packets: Vec<_> =
                (0..100).map(|n| packet(0, n, if n % 25 == 24 { 77 } else { 1472 })).collect();
            let mut source = open(at, tier);
            let to = Endpoint::udp(source.local());
            Pair::inside(&pair.near, || send(&mut sender(&to, mode), &packets));
            let arrived = collect(&mut source, packets.len());
            assert_same(arrived.values().next().unwrap(), &packets, &format!("{at} {tier:?} {mode:?}"));
            let stats = source.stats();
            assert_counted(&stats, 100, packets.iter().map(Vec::len).sum(), at);
            let watch = stats.interface.unwrap();
            assert_eq!(watch.name, "vb");
            assert!(watch.difference().packets > 0);
        });
    }
}

// Multicast groups.

#[test]
fn groups_are_joined_on_the_interface_named() {
    for &tier in TIERS.iter() {
        for text in [
            "udp://239.192.77.1:0?iface=lo",
            "udp://239.192.77.1:0?iface=127.0.0.1",
            "udp://232.1.77.1:0?iface=lo&source=127.0.0.1",
        ] {
            let at: Endpoint = text.parse().unwrap();
            conform(text, |a| at.at(a), tier, SendMode::Auto);
        }
    }
}

#[test]
fn ipv6_groups_are_joined() {
    let Some(pair) = Pair::new(1500) else { return };
    for (at, from) in [
        ("udp://[ff12::77:1]:0?iface=vb", None),
        ("udp://[ff15::77:1]:0?iface=vb", None),
        ("udp://[ff35::77:1]:0?iface=vb&source=fd77::1", Some("fd77::1")),
    ] {
        for &tier in TIERS.iter() {
            let mut source = Pair::inside(&pair.far, || open(at, tier));
            let to = Endpoint::udp(source.local());
            let to = Endpoint { source: from.map(|f| f.parse().unwrap()), iface: Some("va".into()), ..to };
            let packets: Vec<_> = (0..50).map(|n| packet(0, n, 1000)).collect();
            Pair::inside(&pair.near, || send(&mut sender(&to, SendMode::Auto), &packets));
            let arrived = collect(&mut source, packets.len());
            assert_eq!(arrived.len(), 1, "{to} {tier:?}");
            assert_same(arrived.values().next().unwrap(), &packets, at);
        }
    }
}

#[test]
fn of_a_source_specific_group_other_senders_are_not_heard() {
    let mut source = open("udp://232.1.77.2:0?iface=lo&source=127.0.0.1", Tier::Auto);
    let to = Endpoint { iface: Some("lo".into()), ..Endpoint::udp(source.local()) };
    let mut wrong =
        sender(&Endpoint { source: Some("127.0.0.2".parse().unwrap()), ..to.clone() }, SendMode::Auto);
    let mut right = sender(&Endpoint { source: Some("127.0.0.1".parse().unwrap()), ..to }, SendMode::Auto);
    send(&mut wrong, &[packet(1, 0, 100)]);
    send(&mut right, &[packet(2, 0, 100)]);
    let arrived = collect(&mut source, 1);
    assert_eq!(arrived.into_values().collect::<Vec<_>>(), [[packet(2, 0, 100)]]);
}

/// An ICMP message about a datagram that was never sent, from anyone who knows both addresses.
fn forged_unreachable(code: u8, from: u16, to: u16) -> Vec<u8> {
    let mut message = vec![3, code, 0, 0, 0, 0, 0, 0];
    // The datagram: its header of IP, without checksum, and that of UDP.
    message.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    message.extend([from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat());
    let sum: u32 = message.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    let folded = !(((sum >> 16) + (sum & 0xFFFF)) as u16);
    message[2..4].copy_from_slice(&folded.to_be_bytes());
    message
}

/// A socket that is connected to its sender outlives what strangers and routers say of that sender, and receives. In a network of its own:
/// one of the messages says that the path's MTU is the least there is, and the kernel believes it for ten minutes.
#[test]
fn forged_messages_of_routers_end_no_source() {
    let Some(pair) = Pair::new(1500) else { return };
    Pair::inside(&pair.near, outlives_forged_messages);
}

fn outlives_forged_messages() {
    use skyhaul_io::udp::peer::beside;
    use socket2::{Domain, Protocol, Socket, Type};
    let raw = match Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)) {
        Ok(raw) => raw,
        Err(why) => return eprintln!("SKIPPED: raw sockets are not allowed here: {why}"),
    };
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let socket = beside(free, sender.local_addr().unwrap(), 1 << 20, |_| Ok(())).unwrap();
    let options = UdpOptions { tier: Tier::Stage, ..UdpOptions::default() };
    let mut source = UdpSource::from_fd(socket.into(), &options).unwrap();
    let ports = (free.port(), sender.local_addr().unwrap().port());
    for code in 0..16u8 {
        let message = forged_unreachable(code, ports.0, ports.1);
        raw.send_to(&message, &SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        sender.send_to(&[code], free).unwrap();
        let (mut got, began) = (Vec::new(), std::time::Instant::now());
        while got.is_empty() && began.elapsed() < Duration::from_secs(10) {
            source
                .poll(Duration::from_millis(20), &mut |train| got.extend_from_slice(train.bytes))
                .unwrap_or_else(|why| panic!("code {code}: {why}"));
        }
        assert_eq!(got, [code]);
    }
}
