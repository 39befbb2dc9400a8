//! Multicast groups.

use super::*;

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
