//! Step 12: a format of your own.
//!
//! Packets that say which object they belong to need no registration: implement [`Keyed`] for them, and every part of the
//! receiver works: sockets, memory, deadlines, counters. The format is compiled into the receiver; nothing is looked up while
//! packets arrive.
//!
//! ```text
//!   octets  0 ─ 3   4 ─────── 11   12 ── 15   16 ──── 19   20 …
//!           "VISI"  integration    size       offset       visibilities      big-endian
//! ```

use skyhaul::core::placement::{Key, Placement, Reject};
use skyhaul::io::udp::UdpOptions;
use skyhaul::receive::keyed::{ObjectStream, StreamConfig};
use skyhaul::wire::keyed::Keyed;
use std::error::Error;
use std::net::UdpSocket;
use std::ops::Range;
use std::time::Duration;

/// The format.
#[derive(Debug)]
struct Visibilities;

/// The fields of a packet.
#[derive(Clone, Copy, PartialEq)]
struct Fields {
    integration: u64,
    size: u64,
    offset: u64,
    length: u64,
}

const HEAD: usize = 20;

impl Keyed for Visibilities {
    type Head<'a> = Fields;
    type Kept = ();
    const MAGIC: &'static [u8] = b"VISI";
    const LONGEST_HEAD: usize = HEAD;
    const STATES_SIZE: bool = true;

    fn read(packet: &[u8]) -> Result<Fields, Reject> {
        let (head, payload) = packet.split_first_chunk::<HEAD>().ok_or(Reject::Truncated)?;
        if !head.starts_with(Self::MAGIC) {
            return Err(Reject::BadMagic);
        }
        let number = |at: Range<usize>| head[at].iter().fold(0, |sum, &octet| sum << 8 | u64::from(octet));
        let [integration, size, offset] = [4..12, 12..16, 16..20].map(number);
        let length = payload.len() as u64;
        if offset + length > size {
            Err(Reject::Outside)
        } else {
            Ok(Fields { integration, size, offset, length })
        }
    }

    /// Packets do not state their length, so they cannot follow each other in a byte stream.
    fn peek(_: &[u8]) -> Result<Option<Fields>, Reject> {
        Err(Reject::Unrecognised)
    }

    fn placement(&Fields { integration, size, offset, length }: &Fields, sender: u64) -> Placement {
        let key = Key { source: sender, number: integration };
        Placement { key, offset, start: HEAD as u32, length, size: Some(size), number_bits: 64 }
    }

    /// Packet `n` after this one, which is as long, continues the object: one copy for the whole run.
    fn following<'a>(head: &Fields, _: &'a [u8]) -> Option<impl Fn(u64, &[u8]) -> bool> {
        let first = *head;
        Some(move |n, packet: &[u8]| {
            let expected = Fields { offset: first.offset + n * first.length, ..first };
            Self::read(packet).is_ok_and(|fields| fields == expected)
        })
    }

    fn describe((): &()) -> String {
        "visibilities".into()
    }

    fn begin(_: &Fields) {}

    fn keep((): &mut (), _: &Fields) -> Result<u64, Reject> {
        Ok(0)
    }

    fn join((): &mut (), (): &()) -> Result<u64, Reject> {
        Ok(0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let stream = ObjectStream::<Visibilities>::new(&StreamConfig::default());
    let address = stream.add_udp(&"udp://127.0.0.1:0".parse()?, &UdpOptions::default())?;

    let correlator = UdpSocket::bind("127.0.0.1:0")?;
    // Something else, which is refused.
    correlator.send_to(&[0; 100], address)?;
    // Two integrations of 4000 bytes in packets of 1000, in disorder.
    for offset in [2000u32, 0, 3000, 1000] {
        for integration in [1u64, 2] {
            let mut packet = b"VISI".to_vec();
            packet.extend(integration.to_be_bytes());
            packet.extend([4000, offset].map(u32::to_be_bytes).concat());
            packet.resize(HEAD + 1000, integration as u8);
            correlator.send_to(&packet, address)?;
        }
    }

    for integration in [1, 2] {
        let object = stream.get(Some(Duration::from_secs(10)))?;
        println!(
            "integration {}: {} bytes, complete: {}",
            object.number,
            object.payload().len(),
            object.complete
        );
        assert_eq!((object.number, object.payload()), (integration, &[integration as u8; 4000][..]));
    }
    stream.stop();
    stream.join();
    assert_eq!(stream.stats().total.rejects.get(Reject::BadMagic), 1);
    Ok(())
}
