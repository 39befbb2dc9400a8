//! `skyhaul inspect`.

use super::receiving;
use crate::args::InspectArgs;
use crate::outcome::Outcome;
use crate::print;
use anyhow::{Result, bail, ensure};
use serde::Serialize;
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::file::MappedFile;
use skyhaul::io::pcap::PcapSource;
use skyhaul::io::say::escaped_name;
use skyhaul::io::source::Source;
use skyhaul::io::udp::{UdpOptions, UdpSource};
use skyhaul::wire::inspect::{Inspection, inspect};
use skyhaul::wire::{Format, Framing, rdma};
use std::path::Path;
use std::time::{Duration, Instant};

/// A packet to show.
struct Packet {
    origin: String,
    bytes: Vec<u8>,
}

/// As JSON.
#[derive(Serialize)]
struct Shown<'a> {
    from: &'a str,
    bytes: usize,
    format: String,
    payload_at: usize,
    fields: Vec<Field<'a>>,
    problem: Option<String>,
}

#[derive(Serialize)]
struct Field<'a> {
    section: &'a str,
    name: &'a str,
    byte: usize,
    lsb: u32,
    bits: u32,
    value: u64,
    meaning: &'a str,
}

pub(crate) fn run(args: &InspectArgs) -> Result<Outcome> {
    let (packets, broken) = if args.what.contains("://") {
        live(&args.what.parse()?, args)?
    } else {
        let path = Path::new(&args.what);
        let file = MappedFile::open(path)?;
        if file.first_chunk().is_some_and(|magic| is_capture(*magic)) {
            from_capture(path, args)?
        } else {
            (from_file(&file, args), None)
        }
    };
    let read = |packet: &Packet| match args.rdma {
        Some(profile) => rdma::inspect(profile, &packet.bytes),
        None => inspect(args.format, &packet.bytes),
    };
    let inspected: Vec<(Packet, Inspection)> =
        packets.into_iter().map(|p| (read(&p), p)).map(|(i, p)| (p, i)).collect();
    let format = |seen: &Inspection| match args.rdma {
        Some(profile) => format!("rdma {}", profile.name()),
        None => seen.format.to_string(),
    };
    if args.output.json {
        receiving::print_json(&inspected.iter().map(|(p, i)| shown(p, i, format(i))).collect::<Vec<_>>())?;
    } else {
        print::page(&inspected.iter().map(|(p, i)| text(p, i, &format(i))).collect::<String>())?;
    }
    if inspected.is_empty() {
        bail!("{}: no packet{}", args.what, Hint(elsewhere(args)));
    }
    if let Some(error) = &broken {
        print::error(error);
    }
    let good = broken.is_none() && inspected.iter().all(|(_, i)| i.problem.is_none());
    Ok(if good { Outcome::Done } else { Outcome::Failed })
}

/// What to try instead.
fn elsewhere(args: &InspectArgs) -> &'static str {
    if args.skip > 0 {
        "use a smaller --skip; there are fewer packets"
    } else if args.what.contains("://") {
        "check that the sender is running and sends to this address; --wait waits longer"
    } else {
        "name another file; this one is empty"
    }
}

/// pcap in both byte orders and time resolutions, and pcapng.
fn is_capture(magic: [u8; 4]) -> bool {
    matches!(u32::from_le_bytes(magic), 0xA1B2_C3D4 | 0xD4C3_B2A1 | 0xA1B2_3C4D | 0x4D3C_B2A1 | 0x0A0D_0D0A)
}

/// Packets, and the error that ended the source early.
type Taken = (Vec<Packet>, Option<anyhow::Error>);

fn live(endpoint: &Endpoint, args: &InspectArgs) -> Result<Taken> {
    ensure!(
        endpoint.transport == Transport::Udp,
        "{endpoint}: TCP connections cannot be inspected live{}",
        Hint("listen on udp://, or capture the connection with tcpdump -w FILE")
    );
    from_source(&mut UdpSource::open(endpoint, &UdpOptions::default())?, args)
}

fn from_capture(path: &Path, args: &InspectArgs) -> Result<Taken> {
    let mut source = PcapSource::open(path, None)?;
    if let Some(end) = args.format.packet_end().filter(|_| args.rdma.is_none()) {
        source = source.cut(end);
    }
    let taken = from_source(&mut source, args)?;
    let cut = source.stats().cut_trains;
    if cut > 0 {
        let records = crate::print::counted(cut, "record");
        say!("note: {records} with several packets (GSO, GRO), which are shown one by one");
    }
    Ok(taken)
}

fn from_source(source: &mut dyn Source, args: &InspectArgs) -> Result<Taken> {
    let mut packets = Vec::new();
    let mut seen = 0;
    let start = Instant::now();
    while packets.len() < args.count && !source.is_finished() && start.elapsed() < args.wait.duration() {
        let polled = source.poll(Duration::from_millis(50), &mut |train| {
            for bytes in train.packets() {
                if seen >= args.skip && packets.len() < args.count {
                    packets.push(Packet {
                        origin: format!("packet {seen} from {}", train.sender),
                        bytes: bytes.to_vec(),
                    });
                }
                seen += 1;
            }
        });
        match polled {
            Err(error) if packets.is_empty() => return Err(error.into()),
            // Packets before the damage are shown.
            Err(error) => return Ok((packets, Some(error.into()))),
            Ok(_) => {}
        }
    }
    Ok((packets, None))
}

/// Frames or packets of a file, one after another.
fn from_file(file: &[u8], args: &InspectArgs) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut at = 0;
    for number in 0.. {
        let rest = &file[at..];
        if rest.is_empty() || packets.len() >= args.count {
            break;
        }
        let length = match (args.rdma, args.format.framing(rest)) {
            (Some(profile), _) => rdma::length(profile, rest),
            (None, Framing::Length(length)) => length.clamp(1, rest.len()),
            (None, Framing::Incomplete | Framing::Unknown) => stored(args.format, rest).unwrap_or(rest.len()),
        };
        if number >= args.skip {
            packets.push(Packet {
                origin: format!("frame {number} at byte {at}"),
                bytes: rest[..length].to_vec(),
            });
        }
        at += length;
    }
    packets
}

/// Length of the packet at the front of `bytes`, as one of the families stores it.
fn stored(format: Format, bytes: &[u8]) -> Option<usize> {
    let mut places = format.families().filter_map(|family| family.packets()?.place(bytes).ok()?);
    let place = places.next()?;
    let length = usize::try_from(place.length).ok()?.checked_add(place.start as usize)?;
    Some(length.clamp(1, bytes.len()))
}

fn shown<'a>(packet: &'a Packet, inspection: &'a Inspection, format: String) -> Shown<'a> {
    let field = |row: &'a skyhaul::wire::inspect::Row| Field {
        section: row.section,
        name: row.name,
        byte: row.byte,
        lsb: row.lsb,
        bits: row.bits,
        value: row.value,
        meaning: &row.meaning,
    };
    Shown {
        from: &packet.origin,
        bytes: packet.bytes.len(),
        format,
        payload_at: inspection.payload,
        fields: inspection.rows.iter().map(field).collect(),
        problem: inspection.problem.as_ref().map(ToString::to_string),
    }
}

fn text(packet: &Packet, inspection: &Inspection, format: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let _ = writeln!(out, "{}, {} bytes, {format}", packet.origin, packet.bytes.len());
    let mut section = "";
    for row in &inspection.rows {
        if row.section != section {
            section = row.section;
            let _ = writeln!(out, "  {section}");
        }
        let place = format!("{}.{}..{}", row.byte, row.lsb, row.lsb + row.bits);
        let _ = writeln!(
            out,
            "    {place:>12}  {:<16} {:>20}  {}",
            row.name,
            row.value,
            escaped_name(&row.meaning)
        );
    }
    match &inspection.problem {
        Some(problem) => {
            let _ = writeln!(out, "  {problem}");
        }
        None => {
            let _ = writeln!(
                out,
                "  {} bytes of payload from byte {}",
                inspection.payload_end.saturating_sub(inspection.payload),
                inspection.payload
            );
        }
    }
    out
}
