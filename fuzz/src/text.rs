//! Targets for what a person types: whatever was understood reads back as the same when it is shown.

use skyhaul_io::address::Endpoint;
use skyhaul_io::fault::Faults;
use skyhaul_io::quantity::{Rate, Size, Span};
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
