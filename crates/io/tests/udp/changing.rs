//! Traffic that changes, and packets in fragments: the tier follows.

use super::*;

/// A source under traffic that goes on while its tier changes.
struct Trial {
    source: UdpSource,
    tiers: Vec<&'static str>,
    arrived: Arrived,
    sent: u64,
    seen: u64,
}

impl Trial {
    fn look(&mut self) {
        let mut quiet = 0;
        while self.seen < self.sent && quiet < 3 {
            let seen = collect_once(&mut self.source, &mut self.arrived, Duration::from_millis(1)) as u64;
            self.seen += seen;
            quiet = if seen == 0 { quiet + 1 } else { 0 };
        }
        let tier = self.source.stats().tier;
        if self.tiers.last() != Some(&tier) {
            self.tiers.push(tier);
        }
    }

    /// Send numbered packets until the source has been in `tiers` tiers, and some more.
    fn run(&mut self, sender: &mut UdpSender, length: usize, tiers: usize) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let mut more = 10;
        while more > 0 {
            let packets: Vec<_> = (self.sent..self.sent + 1000).map(|n| packet(0, n, length)).collect();
            send(sender, &packets);
            self.sent += 1000;
            self.look();
            more -= usize::from(self.tiers.len() >= tiers);
            assert!(
                std::time::Instant::now() < deadline,
                "{:?}, {} {:?}",
                self.tiers,
                self.source.describe(),
                self.source.stats()
            );
        }
    }
}

#[test]
fn the_tier_follows_the_traffic_and_no_packet_is_lost_or_doubled() {
    if !TIERS.contains(&Tier::Ring) {
        eprintln!("SKIPPED: tier ring is not allowed here");
        return;
    }
    let source = open("udp://127.0.0.1:0", Tier::Auto);
    let to = Endpoint::udp(source.local());
    let mut trial = Trial { source, tiers: vec!["stage"], arrived: Arrived::new(), sent: 0, seen: 0 };
    let (mut single, mut grouped) = (sender(&to, SendMode::Mmsg), sender(&to, SendMode::Gso));
    trial.run(&mut single, 200, 2);
    trial.run(&mut grouped, 200, 3);
    trial.run(&mut single, 200, 4);
    assert_eq!(trial.tiers, ["stage", "ring", "stage", "ring"]);
    let deadline = std::time::Instant::now() + Duration::from_secs(2);
    while trial.seen < trial.sent && std::time::Instant::now() < deadline {
        trial.look();
    }
    collect_once(&mut trial.source, &mut trial.arrived, Duration::from_millis(20));
    let mut numbers = Vec::new();
    for sender in [&single, &grouped] {
        let of = &trial.arrived[&sender.local().unwrap()];
        let first = numbers.len();
        numbers.extend(of.iter().map(|p| u64::from_be_bytes(*p.first_chunk().unwrap())));
        assert!(numbers[first..].is_sorted(), "in order");
    }
    numbers.sort_unstable();
    assert!(
        numbers.iter().copied().eq(0..trial.sent),
        "none lost, none twice: {} of {}",
        numbers.len(),
        trial.sent
    );
    assert_counted(&trial.source.stats(), trial.sent as usize, trial.sent as usize * 200, "auto");
}

#[test]
fn a_ring_that_meets_fragments_it_cannot_join_gives_way() {
    let (true, Some(pair)) = (TIERS.contains(&Tier::Ring), Pair::new(1500)) else {
        eprintln!("SKIPPED: tier ring is not allowed here");
        return;
    };
    Pair::inside(&pair.far, || {
        let source = open("udp://[fd77::2]:0", Tier::Auto);
        let to = Endpoint::udp(source.local());
        let mut trial = Trial { source, tiers: vec!["stage"], arrived: Arrived::new(), sent: 0, seen: 0 };
        let mut sender = Pair::inside(&pair.near, || sender(&to, SendMode::Mmsg));
        trial.run(&mut sender, 200, 2);
        trial.run(&mut sender, 3000, 3);
        assert_eq!(trial.tiers, ["stage", "ring", "stage"]);
        assert!(trial.source.describe().contains("fragments"), "{}", trial.source.describe());
        let before = trial.sent;
        trial.run(&mut sender, 3000, 3);
        (0..20).for_each(|_| trial.look());
        let last = trial.arrived.values().next().unwrap().iter().rev();
        let numbers: Vec<_> = last
            .map(|p| u64::from_be_bytes(*p.first_chunk().unwrap()))
            .take((trial.sent - before) as usize)
            .collect();
        assert!(
            numbers.iter().rev().copied().eq(before..trial.sent),
            "whole again since it gave way: {:?} of {before}..{}, {:?}",
            &numbers[..20],
            trial.sent,
            trial.source.stats()
        );
    });
}

#[test]
fn packets_longer_than_the_path_takes_are_sent_in_fragments_and_joined() {
    let Some(pair) = Pair::new(1500) else { return };
    for &tier in TIERS.iter() {
        let mut source = Pair::inside(&pair.far, || open("udp://10.77.0.2:0", tier));
        let to = Endpoint::udp(source.local());
        let packets: Vec<_> = (0..20).map(|n| packet(0, n, 5000)).collect();
        Pair::inside(&pair.near, || {
            let mut sender = sender(&to, SendMode::Gso);
            send(&mut sender, &packets);
            assert_eq!(sender.stats().mode, SendMode::Mmsg, "{}", sender.describe());
        });
        let arrived = collect(&mut source, packets.len());
        assert_same(arrived.values().next().unwrap(), &packets, &format!("in fragments, {tier:?}"));
        assert_counted(&source.stats(), 20, 100_000, "in fragments");
    }
}

#[test]
fn ipv6_fragments_are_joined_by_sockets_and_counted_by_the_ring() {
    let Some(pair) = Pair::new(1500) else { return };
    for &tier in TIERS.iter() {
        let mut source = Pair::inside(&pair.far, || open("udp://[fd77::2]:0", tier));
        let to = Endpoint::udp(source.local());
        Pair::inside(&pair.near, || send(&mut sender(&to, SendMode::Auto), &[packet(0, 0, 5000)]));
        let came = collect(&mut source, 1).len();
        let stats = source.stats();
        if tier == Tier::Ring {
            assert_eq!((came, stats.fragments), (0, 1), "{stats:?}");
            assert!(stats.remedies.iter().any(|r| r.contains("fragments")));
        } else {
            assert_eq!((came, stats.fragments), (1, 0), "{tier:?}");
        }
    }
}
