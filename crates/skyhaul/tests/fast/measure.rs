//! What a packet costs by each way, beside each other: `cargo test --release -p skyhaul --test fast measure -- --ignored --nocapture`.
//!
//! A thread sends as fast as it can for a second; workers are a hardware address whose host throws packets away, so that they cost
//! next to nothing. CPU time is that of the sender's thread, which also does the kernel's work for the packets that it sends, of
//! the balancer's, and of the kernel's threads for what is left over.

use super::net::{Net, run, setting};
use super::{EjfatLabels, event, loaded_cost};
use skyhaul::balance::{Balance, BalanceOptions, FastPath};
use skyhaul::core::balance::{AllowList, Load, Member, PortRange, Registration, WorkerState};
use skyhaul::core::wire::labelled::Labelled;
use skyhaul::io::gathered::{Extent, Gathered};
use skyhaul::io::host::thread;
use skyhaul::io::udp::forward::Forwarder;
use skyhaul::io::udp::send::SendOptions;
use std::io::IoSlice;
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const SINK: &str = "10.79.2.99";

/// CPU time of the kernel's threads for packets, ns.
fn kernel_threads() -> u64 {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let name = |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
    let ours = all.filter(|path| name(path).starts_with("ksoftirqd"));
    let time = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    ours.filter_map(time).sum()
}

/// Packets and octets that came to the workers' link.
fn received(net: &Net) -> (u64, u64) {
    let shown =
        Command::new("ip").args(["netns", "exec", &net.worker, "cat", "/proc/net/dev"]).output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("w0:")).unwrap().to_owned();
    let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().unwrap());
    let octets = numbers.next().unwrap();
    (numbers.next().unwrap(), octets)
}

/// Packets per second at the worker, Gb/s of payload, CPU ns for each packet, and the part that went by sockets.
fn once(net: &Net, how: FastPath, packet_bytes: usize) -> (f64, f64, f64, f64) {
    let data = vec!["10.79.1.1:0".parse().unwrap()];
    let allow = AllowList::of(&["10.79.1.0/24".parse().unwrap()]);
    let options = BalanceOptions {
        data,
        threads: 1,
        cpus: vec![1],
        allow,
        fast_path: how,
        ..BalanceOptions::default()
    };
    let balance = Net::inside(&net.balancer, || Balance::start(&options)).unwrap();
    let member = Member::new(SINK.parse().unwrap(), 17750, PortRange::default(), false).unwrap();
    let like = Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 };
    let session = balance.register(like).unwrap();
    let ready = || {
        let state = WorkerState { ready: true, signal: 0.0, load: Load::default() };
        balance.handle_state(session, state).unwrap();
        balance.status()
    };
    loop {
        let status = ready();
        if status.tables.0 == status.tables.1 && status.workers.iter().any(|worker| worker.slots == 512) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let to = balance.data()[0];
    let packets = event(1, 60 * (packet_bytes as u64 - 36), packet_bytes);
    let before = (received(net), balance.status().cpu, kernel_threads(), by_sockets(&balance));
    let (seconds, cpu) = Net::inside(&net.sender, || {
        thread::pin(0).unwrap();
        let mut forwarder = Forwarder::open("10.79.1.2".parse().unwrap(), &SendOptions::default()).unwrap();
        let slices: Vec<IoSlice<'_>> = packets.iter().map(|packet| IoSlice::new(packet)).collect();
        let extents: Vec<Extent> =
            packets.iter().enumerate().map(|(first, packet)| Extent { first, bytes: packet.len() }).collect();
        let (begun, cpu) = (Instant::now(), thread::cpu_time());
        while begun.elapsed() < Duration::from_secs(1) {
            forwarder.forward(to, Gathered::new(&slices, &extents));
        }
        (begun.elapsed().as_secs_f64(), thread::cpu_time() - cpu)
    });
    std::thread::sleep(Duration::from_millis(300));
    let after = (received(net), balance.status().cpu, kernel_threads(), by_sockets(&balance));
    let came = (after.0.0 - before.0.0) as f64;
    let spent = cpu + (after.1 - before.1);
    let spent = spent.as_nanos() as f64 + (after.2 - before.2) as f64;
    let mode = balance.stop().mode;
    if how != FastPath::Off {
        assert!(mode.contains("XDP in"), "{mode}");
    }
    let gbps = (after.0.1 - before.0.1) as f64 * 8e-9 / seconds;
    (came / seconds, gbps, spent / came, (after.3 - before.3) as f64 / came)
}

fn by_sockets(balance: &Balance) -> u64 {
    super::by_sockets(&balance.status())
}

fn median(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    format!("{:.3} ({:.3} to {:.3})", all[all.len() / 2], all[0], all[all.len() - 1])
}

#[test]
#[ignore = "it measures, and asks for two processors"]
fn measure() {
    let cost = loaded_cost(EjfatLabels::LAYOUT.bytes);
    println!("a packet that is passed, in the program alone: {cost:?}");
    for (mtu, packet_bytes) in [(1500, 1472), (9000, 8972)] {
        let Some(net) = Net::new("m", mtu) else { return };
        let Net { balancer, worker, .. } = &net;
        assert!(run(&setting(balancer, "b0", 0x2C, 1)), "trains are joined for sockets");
        let shown =
            Command::new("ip").args(["netns", "exec", worker, "cat", "/sys/class/net/w0/address"]).output();
        let mac = String::from_utf8_lossy(&shown.unwrap().stdout).trim().to_owned();
        assert!(run(&format!("ip -n {balancer} neigh add {SINK} lladdr {mac} dev b1")));
        let mut all = [FastPath::Auto, FastPath::Off].map(|how| (how, [(); 4].map(|()| Vec::new())));
        for _ in 0..ROUNDS {
            for (how, figures) in &mut all {
                let (packets, gbps, nanos, sockets) = once(&net, *how, packet_bytes);
                [packets / 1e6, gbps, nanos, sockets]
                    .iter()
                    .zip(figures)
                    .for_each(|(one, all)| all.push(*one));
            }
        }
        for (how, [packets, gbps, nanos, sockets]) in all {
            println!(
                "{packet_bytes} bytes, {how:?}: {} million packets/s, {} Gb/s, {} ns CPU for each, by sockets {}",
                median(packets),
                median(gbps),
                median(nanos),
                median(sockets)
            );
        }
    }
}
