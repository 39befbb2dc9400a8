//! Targets for what a person types: whatever was understood reads back as the same when it is shown.

use skyhaul_io::address::Endpoint;
use skyhaul_io::fault::Faults;
use skyhaul_io::fault::path::{Direction, Judge, Packet};
use skyhaul_io::netlink::discipline::Root;
use skyhaul_io::quantity::{Rate, Size, Span};
use skyhaul_measure::lab::LabText;
use std::fmt::Display;
use std::str::FromStr;

fn reads_back<T: FromStr + Display + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            assert!(shown.parse::<T>().is_ok_and(|again| again == value), "{text:?} is shown as {shown:?}");
        }
        Err(why) => drop(why),
    }
}

pub(crate) fn quantity(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    reads_back::<Rate>(&text);
    reads_back::<Size>(&text);
    reads_back::<Span>(&text);
}

pub(crate) fn quantity_seeds() -> Vec<Vec<u8>> {
    ["8Gbps", "1.25GB/s", "64MiB", "4096", "10s", "1.5min", "250µs", "18446744073709551615", "0.000001TB/s"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

pub(crate) fn address(bytes: &[u8]) {
    reads_back::<Endpoint>(&String::from_utf8_lossy(bytes));
}

pub(crate) fn address_seeds() -> Vec<Vec<u8>> {
    [
        "udp://127.0.0.1:2630",
        "udp://[ff3e::1]:2630?iface=eth0",
        "udp://239.1.2.3:2630?iface=eth0&source=10.0.0.1",
        "tcp://[::1]:2631",
        "udp://0.0.0.0:0",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(crate) fn faults(bytes: &[u8]) {
    if let Ok(faults) = String::from_utf8_lossy(bytes).parse::<Faults>() {
        let chances = [
            faults.loss,
            faults.burst_chance,
            faults.reorder_chance,
            faults.duplicate,
            faults.corrupt,
            faults.truncate,
        ];
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)), "{faults:?}");
    }
}

pub(crate) fn faults_seeds() -> Vec<Vec<u8>> {
    ["loss=0.01,burst=500@0.0001,reorder=64,duplicate=0.01,corrupt=1e-5,truncate=1e-5,seed=7", "reorder=8@1"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

/// The text of a lab reads back, and its path judges: each packet has one fate, now or when what is held back goes on.
pub(crate) fn path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    reads_back::<LabText>(&text);
    let Ok(LabText { path, .. }) = text.parse() else { return };
    let (mut judge, mut fates) = (Judge::new(&path), 0u64);
    let mut now = 0;
    for number in 0..32u64 {
        now = number * 50_000;
        judge.advance(now, &mut |_, outcome| fates += u64::from(outcome.copy == 0));
        let packet = Packet { at: now, octets: 1514, ip: 1500, ..Packet::default() };
        judge.offer(Direction::Forward, packet, number, &mut |outcome| fates += u64::from(outcome.copy == 0));
    }
    judge.flush(Direction::Forward, now, &mut |outcome| fates += u64::from(outcome.copy == 0));
    assert_eq!((fates, judge.held(Direction::Forward)), (32, 0), "{path}");
}

pub(crate) fn path_seeds() -> Vec<Vec<u8>> {
    [
        "rate=1Gbps,buffer=2MiB,delay=15ms,seed=7; rev: loss=1e-4; flow=udp/5001: police=100Mbps/256KiB; at=10s: delay=25ms,hops=3",
        "gemodel=0.01/0.1/1/0,ber=1e-6,reorder=8@0.5,duplicate=1%,jitter=1ms/reorder,pps=1000/8,paths=4/spray/1ms,comb=50us",
        "near: pfifo=10,tcp-wmem=64KiB; delay=1ms; far: tbf=400Mbps/64KiB/250KiB,rps=0-3,tcp-rmem=8KiB; near: rps=1",
        "mtu-blackhole=1400,idle-cut=10s,stall=5ms@100ms,duplex=half,overhead=24,corrupt=0.1,truncate=0.1,burst=3@0.1;at=1ms:loss=off",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(crate) fn discipline(bytes: &[u8]) {
    reads_back::<Root>(&String::from_utf8_lossy(bytes));
}

pub(crate) fn discipline_seeds() -> Vec<Vec<u8>> {
    ["default pfifo_fast", "fq", "pfifo 8001: e8030000", "pfifo_fast 1:"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
