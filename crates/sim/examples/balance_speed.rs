//! How fast packets are routed on one core: `cargo run --release -p skyhaul-sim --example balance_speed`.

use skyhaul_core::{
    balance::{
        AllowList, Calendar, Counters, Epoch, Member, Occupant, PortRange, Refusal, Seat, SlotSelect, Table,
    },
    wire::{
        Addressing, FAMILIES,
        labelled::{Labelled, VisitLabelled},
    },
};
use std::{sync::Arc, time::Instant};

const PACKETS: usize = 1 << 16;

fn table() -> Table {
    let numbers: Vec<_> = (0..16).filter_map(Seat::new).map(|seat| (seat, 32)).collect();
    let calendar = Arc::new(Calendar::default().with(&numbers, &Calendar::default()));
    let epoch =
        |n: u64| Epoch { first: n * 1000, calendar: Arc::clone(&calendar), select: SlotSelect::default() };
    let member = |&(seat, _): &(Seat, u16)| {
        let member = Member::new([10, 1, 0, 1].into(), 17750, PortRange::default(), false)?;
        Some((seat, Occupant::Member(member)))
    };
    let members: Vec<_> = numbers.iter().filter_map(member).collect();
    let networks: Vec<_> = (0..100).filter_map(|n| format!("10.{n}.0.0/24").parse().ok()).collect();
    Table::new(AllowList::of(&networks), (0..8).map(epoch).collect(), &members)
}

/// Trains of `train` packets, of `same` packets in a row with one label.
struct Speed {
    train: usize,
    same: usize,
}

impl VisitLabelled for Speed {
    type Out = f64;
    fn visit<L: Labelled>(self) -> f64 {
        let packet = |n: usize| {
            let tick = 7000 + (n / self.same) as u64;
            [&Addressing::default().header(tick, 0)[..], &[0; 64]].concat()
        };
        let packets: Vec<Vec<u8>> = (0..PACKETS).map(packet).collect();
        let (table, mut counters) = (table(), Counters::default());
        let mut routes = vec![Err(Refusal::NoEpoch); self.train];
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < 1.0 {
            for train in packets.chunks(self.train) {
                let octets = train.iter().map(Vec::as_slice);
                table.route_train::<L>([10, 50, 0, 1].into(), octets, &mut routes, &mut counters);
            }
        }
        assert_eq!(counters.refused_total(), 0, "{counters:?}");
        counters.packets as f64 / began.elapsed().as_secs_f64()
    }
}

fn main() {
    for (train, same) in [(1, 1), (64, 1), (64, 10), (64, 64)] {
        let speeds = FAMILIES.iter().filter_map(|family| family.visit_labelled(Speed { train, same }));
        speeds.for_each(|speed| {
            println!("trains of {train}, {same} packets of each tick: {:.0} M packets/s", speed / 1e6);
        });
    }
}
