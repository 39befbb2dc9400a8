//! Prints the octets of SPEAD heaps and descriptors, to be compared with another program's.
//!
//! A line of input is one of
//!
//! ```text
//!   heap        flavour counter payload packet repeat split pointer,pointer,…     payload counts up; pointers in hex
//!   descriptor  flavour bug_compat id name description shape format numpy         text in hex; shape 3,?  format u8,i16
//! ```
//!
//! with `-` for what is empty; a line of output its packets in hex, or `error: …`.

use skyhaul_core::wire::spead::{
    BugCompat, Descriptor, Flavour,
    packets::{HeapPackets, HeapShape, Split},
};
use std::fmt::Write as _;

fn hex(octets: impl Iterator<Item = u8>) -> String {
    octets.fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn text(hex: &str) -> Result<String, String> {
    let pairs = hex.as_bytes().chunks_exact(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    let octets: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
    String::from_utf8(octets.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|e| format!("{word}: {e}"))
}

fn list(word: &str) -> impl Iterator<Item = &str> {
    word.split(',').filter(|part| !["", "-"].contains(part))
}

fn heap(words: &[&str]) -> Result<String, String> {
    let [flavour, counter, payload, packet, repeat, split, pointers] = *words else {
        return Err("a heap has 7 words".into());
    };
    let pointers: Result<Vec<u64>, _> = list(pointers).map(|p| u64::from_str_radix(p, 16)).collect();
    let pointers = pointers.map_err(|e| e.to_string())?;
    let shape = HeapShape {
        flavour: Flavour::new(number(flavour)? as u8).ok_or("no such flavour")?,
        counter: number(counter)?,
        pointers: &pointers,
        payload_bytes: number(payload)?,
        packet_bytes: number(packet)? as usize,
        repeat_pointers: repeat == "1",
        split: if split == "even" { Split::Even } else { Split::Full },
    };
    let packets = HeapPackets::new(shape).map_err(|e| e.to_string())?;
    let mut head = vec![0; packets.head_bytes_max()];
    let one = |n| {
        let part = packets.packet(n, &mut head);
        let payload = part.payload.map(|at| at as u8).chain(std::iter::repeat_n(0, part.dummy));
        hex(head[..part.head].iter().copied().chain(payload))
    };
    Ok((0..packets.count()).map(one).collect::<Vec<_>>().join(","))
}

fn descriptor(words: &[&str]) -> Result<String, String> {
    let [flavour, bug_compat, id, name, description, shape, format, numpy] = *words else {
        return Err("a descriptor has 8 words".into());
    };
    let size = |size: &str| if size == "?" { Ok(None) } else { number(size).map(Some) };
    let field = |field: &str| Ok((field.chars().next().unwrap_or('-'), number(&field[1..])? as u32));
    let descriptor = Descriptor {
        id: number(id)?,
        name: text(name.trim_matches('-'))?,
        description: text(description.trim_matches('-'))?,
        shape: list(shape).map(size).collect::<Result<_, String>>()?,
        format: list(format).map(field).collect::<Result<_, String>>()?,
        numpy: if numpy == "-" { None } else { Some(text(numpy)?) },
    };
    let flavour = Flavour::new(number(flavour)? as u8).ok_or("no such flavour")?;
    let bug_compat = BugCompat(number(bug_compat)? as u8);
    let nested = descriptor.write(flavour, bug_compat).map_err(|e| e.to_string())?;
    match Descriptor::read(&nested, bug_compat) {
        Ok(read) if read == descriptor => Ok(hex(nested.into_iter())),
        read => Err(format!("read as {read:?}")),
    }
}

fn main() {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = match words.split_first() {
            Some((&"heap", words)) => heap(words),
            Some((&"descriptor", words)) => descriptor(words),
            _ => Err("neither heap nor descriptor".into()),
        };
        println!("{}", done.unwrap_or_else(|error| format!("error: {error}")));
    }
}
