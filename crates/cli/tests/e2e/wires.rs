//! Packets made by the tests themselves, from the library's wire module.

use skyhaul::core::pattern;
use skyhaul::wire::vdif::{Header, Vdif};
use skyhaul::wire::{Order, fila10g, mark5b, vtp};

/// A VDIF frame of the pattern.
pub(crate) fn vdif(second: i64, frame: u32, thread: u16, payload: usize) -> Vec<u8> {
    let shape = Vdif::shape(payload, 1, 2, false, false).unwrap();
    let vdif = Vdif { thread: u32::from(thread), ..shape.at(second, frame).unwrap() };
    let header = Header { vdif, extended: skyhaul::wire::vdif::Extended::Plain(Default::default()) };
    let (bytes, length) = header.write();
    let mut out = bytes[..length].to_vec();
    out.extend_from_slice(pattern::slice(pattern::frame_object(second, frame, thread), 0, payload));
    out
}

/// A sequence number and a frame.
pub(crate) fn numbered(number: u64, order: Order, frame: &[u8]) -> Vec<u8> {
    let mut out = vtp::write(number, order).to_vec();
    out.extend_from_slice(frame);
    out
}

/// A Mark 5B frame, its payload told by `second` and `frame`.
pub(crate) fn mark5b(day: u32, second: u32, frame: u32, rate: u32) -> Vec<u8> {
    let fraction = frame * 10_000 / rate;
    let header = mark5b::Mark5b::new(mark5b::Time { day, second, frame }, fraction);
    let mut out = header.write().to_vec();
    let object = u64::from(second) << 32 | u64::from(frame);
    out.extend_from_slice(pattern::slice(object, 0, mark5b::PAYLOAD));
    out
}

/// The two datagrams of a frame as a FILA10G sends them.
pub(crate) fn halves(counter: u32, frame: &[u8]) -> [Vec<u8>; 2] {
    let (first, second) = frame.split_at(fila10g::HALF);
    [(counter, first), (counter + 1, second)].map(|(counter, half)| {
        let mut out = fila10g::Fila10g { counter, ..Default::default() }.write().to_vec();
        out.extend_from_slice(half);
        out
    })
}

/// What a run of VDIF frames is: each must be legal, and either the pattern or marked invalid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) good: u64,
    pub(crate) invalid: u64,
    /// Second, frame and thread of each valid one.
    pub(crate) times: Vec<(i64, u32, u16)>,
}

#[track_caller]
pub(crate) fn see(bytes: &[u8], frame_bytes: usize) -> Seen {
    assert_eq!(bytes.len() % frame_bytes, 0, "whole frames");
    let mut seen = Seen::default();
    for (at, frame) in bytes.chunks(frame_bytes).enumerate() {
        let vdif = Header::read(frame).unwrap_or_else(|e| panic!("frame {at}: {e:?}")).vdif;
        assert_eq!(vdif.frame_bytes(), frame_bytes, "frame {at}");
        let payload = &frame[vdif.header_bytes()..];
        if vdif.invalid == 1 {
            assert!(payload.chunks(4).all(|word| word == skyhaul::wire::FILL), "fill of frame {at}");
            seen.invalid += 1;
            continue;
        }
        let time = (vdif.unix_seconds(), vdif.frame, vdif.thread as u16);
        let object = pattern::frame_object(time.0, time.1, time.2);
        assert_eq!(pattern::first_error(object, 0, payload), None, "frame {at}");
        seen.good += 1;
        seen.times.push(time);
    }
    seen
}
