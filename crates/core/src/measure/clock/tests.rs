use super::*;

/// All of a world follows from its seed.
struct Random(u64);

impl Random {
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.part()).ln()
    }
}

/// A path and a clock: delays in ns.
struct World {
    random: Random,
    /// Least delays, there and back.
    least: [f64; 2],
    /// How often a packet waits in a queue, and the mean waiting time, in each direction.
    busy: [f64; 2],
    queue: [f64; 2],
    /// What the end hosts add.
    host: f64,
    offset: f64,
    drift: f64,
    /// A step of the remote clock: when, and by how much.
    step: Option<(f64, f64)>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let rtt = 10f64.powf(random.between(5.0, 8.3)); // 0.1 to 200 ms
        let asymmetry = random.between(-0.02, 0.02);
        let busy = [random.between(0.0, 0.9), random.between(0.0, 0.9)];
        let queue = [0, 1].map(|_| rtt * 10f64.powf(random.between(-1.5, 0.5)));
        World {
            least: [rtt / 2.0 * (1.0 + asymmetry), rtt / 2.0 * (1.0 - asymmetry)],
            busy,
            queue,
            host: random.between(500.0, 10_000.0),
            offset: random.between(-1e12, 1e12),
            drift: random.between(-100e-6, 100e-6),
            step: None,
            random,
        }
    }

    fn offset(&self, t: f64) -> f64 {
        self.offset + self.drift * t + self.step.filter(|step| t >= step.0).map_or(0.0, |step| step.1)
    }

    fn delay(&mut self, way: usize) -> f64 {
        let queued =
            if self.random.part() < self.busy[way] { self.random.exponential(self.queue[way]) } else { 0.0 };
        self.least[way] + queued + self.random.exponential(self.host)
    }

    fn exchange(&mut self, t: f64) -> Exchange {
        const START: f64 = 2e12;
        let there = t + self.delay(0);
        let answered = there + 2_000.0;
        let back = answered + self.delay(1);
        let at = |t: f64| Nanos((START + t).round() as u64);
        Exchange {
            sent: at(t),
            received: at(there + self.offset(there)),
            replied: at(answered + self.offset(answered)),
            returned: at(back),
        }
    }

    /// 100 exchanges before, 5 per second during 60 s, 100 after.
    fn exchanges(&mut self) -> Vec<Exchange> {
        let before = (0..100).map(|n| f64::from(n) * 1e6);
        let during = (0..300).map(|n| 0.1e9 + f64::from(n) * 0.2e9);
        let after = (0..100).map(|n| 60.1e9 + f64::from(n) * 1e6);
        before
            .chain(during)
            .chain(after)
            .collect::<Vec<f64>>()
            .into_iter()
            .map(|t| self.exchange(t))
            .collect()
    }
}

/// udpmon's method: a least-squares line through remote time against local send time plus half the round trip.
fn least_squares(exchanges: &[Exchange]) -> impl Fn(f64) -> f64 {
    let n = exchanges.len() as f64;
    let points: Vec<(f64, f64)> = exchanges
        .iter()
        .map(|e| {
            let middle = e.sent.0.midpoint(e.returned.0);
            let remote = e.received.0.midpoint(e.replied.0);
            (middle as f64 - 2e12, remote as f64 - middle as f64)
        })
        .collect();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let slope = mean(&|p| (p.0 - x) * (p.1 - y)) / mean(&|p| (p.0 - x).powi(2));
    move |t| y + slope * (t - x)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_thousand_worlds() {
    let (mut inside, mut even, mut ours, mut theirs) = (0, 0, Vec::new(), Vec::new());
    let mut worst: f64 = 0.0;
    for seed in 0..1000 {
        let mut world = World::new(seed);
        let exchanges = world.exchanges();
        let fit = ClockFit::new(&exchanges).unwrap();
        let line = least_squares(&exchanges);
        let mut all = true;
        for at in [0.0, 30e9, 60e9] {
            let (found, truth) = (fit.offset(Nanos(2e12 as u64 + at as u64)), world.offset(at));
            let error = (found.nanos as f64 - truth).abs();
            all &= error <= found.error as f64;
            ours.push(error);
            theirs.push((line(at) - truth).abs());
        }
        inside += i32::from(all);
        let wrong = (fit.drift_ppm() - world.drift * 1e6).abs();
        worst = worst.max(wrong);
        even += i32::from(wrong <= 0.2);
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    assert!(
        inside >= 990 && even >= 990 && ours <= theirs / 5.0,
        "truth inside the bar in {inside} of 1000 worlds; drift within 0.2 ppm in {even}, at most {worst:.2} ppm wrong; \
         median error {:.1} µs, least squares {:.1} µs, ratio {:.3}",
        ours / 1e3,
        theirs / 1e3,
        ours / theirs
    );
}

#[test]
fn steps_are_found_and_do_not_bend_the_line() {
    let (mut found, mut inside) = (0, 0);
    for seed in 0..200 {
        let mut world = World::new(seed);
        let rtt = world.least[0] + world.least[1];
        let size = rtt * world.random.between(1.5, 50.0) * if seed % 2 == 0 { 1.0 } else { -1.0 };
        let at = world.random.between(5e9, 55e9);
        world.step = Some((at, size));
        let fit = ClockFit::new(&world.exchanges()).unwrap();
        let steps: Vec<Step> = fit.steps().collect();
        let near = |step: &Step| (step.nanos as f64 - size).abs() < 0.3 * size.abs() + rtt;
        found += i32::from(steps.len() == 1 && near(&steps[0]));
        let holds = [1e9, 59e9].iter().all(|&t| {
            let offset = fit.offset(Nanos(2e12 as u64 + t as u64));
            (offset.nanos as f64 - world.offset(t)).abs() <= offset.error as f64
        });
        inside += i32::from(holds);
    }
    assert!(found >= 190 && inside >= 198, "{found} of 200 steps found, truth inside the bar in {inside}");
}

#[test]
fn what_cannot_be_is_left_out() {
    assert!(ClockFit::new(&[]).is_none());
    let one = Exchange { sent: Nanos(10), received: Nanos(1005), replied: Nanos(1006), returned: Nanos(21) };
    let fit = ClockFit::new(&[one]).unwrap();
    assert_eq!((fit.offset(Nanos(15)).nanos, fit.least_rtt(), fit.drift_ppm()), (990, Nanos(10), 0.0));
    let broken = Exchange { sent: Nanos(9), returned: Nanos(3), ..one };
    assert!(ClockFit::new(&[broken]).is_none());
    let extreme = Exchange {
        sent: Nanos(0),
        received: Nanos(u64::MAX),
        replied: Nanos(u64::MAX),
        returned: Nanos(u64::MAX),
    };
    let fit = ClockFit::new(&[one, extreme, one]).unwrap();
    let _ = (fit.offset(Nanos(u64::MAX)), fit.steps().count());
}
