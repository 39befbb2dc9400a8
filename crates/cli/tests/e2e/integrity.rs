//! Events through a balancer while its workers join, leave, die and change weight, and the network loses, reorders and
//! doubles packets. Every process is the command; every event is accounted for, packet by packet.
//!
//! ```text
//!   sender of source 1 ─ faults ─┐                ┌─▶ worker, joins and leaves
//!                                ├─▶ balance ─────┼─▶ worker, slow
//!   sender of source 2 ─ faults ─┘                └─▶ worker, killed
//! ```
//!
//! `SKYHAUL_EVENTS=1000000` sends a million; `SKYHAUL_SEED=7` plays another schedule with other faults;
//! `SKYHAUL_BINARY=target/release/skyhaul` plays it with another build of the command.

mod account;
mod cast;

use crate::site::number;
use account::{Account, Told};
use cast::{Cast, Random, Source};
use std::time::{Duration, Instant};

/// Events of both sources, if nothing else is asked for.
const EVENTS: u64 = 100_000;
/// Between two steps of the schedule.
const STEP: Duration = Duration::from_secs(2);

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What may happen to workers, each as often as the others.
const STEPS: [fn(&mut Cast, &mut Random); 7] =
    [Cast::join, Cast::leave, Cast::join, Cast::kill, Cast::demand, Cast::join_and_leave, Cast::weigh];

#[test]
fn no_event_is_split_doubled_or_lost_unseen_whatever_becomes_of_workers() {
    let (events, seed) = (asked("SKYHAUL_EVENTS", EVENTS), asked("SKYHAUL_SEED", 11));
    // Small events in small packets, larger ones in large packets; a million within two minutes.
    let ticks = events / 2;
    let per_second = (ticks / 100).max(2500);
    let sources = [
        Source { id: 1, sizes: (1, 3000), mtu: 1500, ticks, per_second, seed },
        Source { id: 2, sizes: (1000, 24_000), mtu: 9000, ticks, per_second, seed: seed + 1 },
    ];
    let mut random = Random::new(seed);
    let mut cast = Cast::start(per_second * 2);
    (0..3).for_each(|_| cast.join(&mut random));
    cast.shared();

    let mut senders = sources.each_ref().map(|source| source.start(&cast));
    let begun = Instant::now();
    let mut order: Vec<usize> = Vec::new();
    let mut next = STEP;
    while senders.iter_mut().any(|sender| sender.is_running()) {
        cast.look();
        if begun.elapsed() >= next {
            next += STEP;
            // Each kind of step once, in another order every time.
            if order.is_empty() {
                order = random.order(STEPS.len());
            }
            let step = order.pop().unwrap_or(0);
            STEPS[step](&mut cast, &mut random);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = senders.map(|sender| sender.finish().expect(0).json());
    eprintln!("seed {seed}: sent after {:.1} s", begun.elapsed().as_secs_f64());
    let (workers, balance, _place) = cast.end();
    for (source, report) in sources.iter().zip(&sent) {
        assert_eq!(number(&report["events"]), source.ticks, "{report}");
    }
    let account = Account::of(&Told { sources: &sources, sent: &sent, workers: &workers, balance: &balance });
    eprintln!("{account}");
    account.hold();
}
