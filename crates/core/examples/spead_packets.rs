//! Prints the packets of heaps whose payload counts up, to be compared with another program's.
//!
//! A line of input is a heap: `flavour counter payload packet repeat split pointer,pointer,…`, the last in hex
//! (`48 7 100 1472 0 full 100000000000`); a line of output its packets in hex, or `error: …`.

use skyhaul_core::wire::spead::{
    Flavour,
    packets::{HeapPackets, HeapShape, Split},
};
use std::fmt::Write as _;

fn packets(line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let mut number = || words.next().unwrap_or_default().parse::<u64>().map_err(|e| e.to_string());
    let flavour = Flavour::new(number()? as u8).ok_or("no such flavour")?;
    let (counter, payload_bytes, packet_bytes) = (number()?, number()?, number()? as usize);
    let repeat_pointers = number()? != 0;
    let split = if words.next() == Some("even") { Split::Even } else { Split::Full };
    let pointers = words.next().unwrap_or_default().split(',').filter(|p| !p.is_empty());
    let pointers: Result<Vec<u64>, _> = pointers.map(|p| u64::from_str_radix(p, 16)).collect();
    let pointers = pointers.map_err(|e| e.to_string())?;
    let shape = HeapShape {
        flavour,
        counter,
        pointers: &pointers,
        payload_bytes,
        packet_bytes,
        repeat_pointers,
        split,
    };
    let packets = HeapPackets::new(shape).map_err(|e| e.to_string())?;
    let mut head = vec![0; packets.head_bytes_max()];
    let mut out = String::new();
    for n in 0..packets.count() {
        let part = packets.packet(n, &mut head);
        let payload = part.payload.map(|at| at as u8).chain(std::iter::repeat_n(0, part.dummy));
        let comma = if n > 0 { "," } else { "" };
        out.push_str(comma);
        for octet in head[..part.head].iter().copied().chain(payload) {
            let _ = write!(out, "{octet:02x}");
        }
    }
    Ok(out)
}

fn main() {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        println!("{}", packets(&line).unwrap_or_else(|error| format!("error: {error}")));
    }
}
