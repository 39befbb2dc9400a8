//! The packets for all candidates: an endless stream of VDIF frames, numbered by VTP.

use super::options::wrong;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::vdif::Vdif;
use skyhaul_core::wire::vtp;
use std::io;

/// Sequence number, and full VDIF header.
const NUMBER: usize = 8;
const HEADERS: usize = NUMBER + 32;
/// Bytes of prepared packets: more than an L2 cache, as from a telescope.
const READY: usize = 8 << 20;
/// Frames per second: so many that a second outlasts a benchmark at most sizes.
const FRAMES_PER_SECOND: u64 = 4_000_000;
/// The reference epoch, and with it the first second: 2026-01-01.
const EPOCH: u32 = 52;

/// A datagram of about `size` bytes.
pub(super) fn size(size: usize) -> io::Result<usize> {
    let payload = size.saturating_sub(HEADERS) / 8 * 8;
    if payload == 0 || size > 65_507 {
        return Err(wrong(&format!("datagrams of {size} bytes are not possible; hint: use 48 to 65507")));
    }
    Ok(payload + HEADERS)
}

/// Contiguous packets, numbered when they are requested.
#[derive(Debug)]
pub(super) struct Packets {
    bytes: Vec<u8>,
    size: usize,
    at: usize,
    next: u64,
}

impl Packets {
    pub(super) fn new(size: usize) -> io::Result<Self> {
        let vdif =
            Vdif::shape(size - HEADERS, 1, 2, false, false).ok_or_else(|| wrong("impossible VDIF frame"))?;
        let mut packet = vec![0; NUMBER];
        packet.extend(vdif.write());
        packet.resize(HEADERS, 0);
        packet.extend((HEADERS..size).map(|i| (i * 31 / 8) as u8));
        Ok(Self { bytes: packet.repeat((READY / size).max(1)), size, at: 0, next: 0 })
    }

    /// The next `count` packets, or fewer at the end of the prepared ones.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let most = self.bytes.len() / self.size;
        if self.at == most {
            self.at = 0;
        }
        let count = count.min(most - self.at);
        let range = self.at * self.size..(self.at + count) * self.size;
        for packet in self.bytes[range.clone()].chunks_exact_mut(self.size) {
            packet[..NUMBER].copy_from_slice(&vtp::write(self.next, Order::Little));
            let (second, frame) = (self.next / FRAMES_PER_SECOND, self.next % FRAMES_PER_SECOND);
            // Word 0 holds seconds since the epoch, all flags zero.
            packet[NUMBER..NUMBER + 4].copy_from_slice(&(second as u32).to_le_bytes());
            packet[NUMBER + 4..NUMBER + 8].copy_from_slice(&(EPOCH << 24 | frame as u32).to_le_bytes());
            self.next += 1;
        }
        self.at += count;
        &self.bytes[range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_numbered_frames_of_their_time() {
        let mut packets = Packets::new(size(1479).unwrap()).unwrap();
        packets.next = FRAMES_PER_SECOND - 1;
        packets.at = packets.bytes.len() / 1472 - 1;
        for (number, second, frame) in [(3_999_999, 0, 3_999_999), (4_000_000, 1, 0)] {
            let packet = packets.take(5);
            assert_eq!(packet.len() % 1472, 0);
            assert_eq!(vtp::psn(packet, Order::Little), Some(number));
            let (vdif, _) = Vdif::read(&packet[NUMBER..]).unwrap();
            assert_eq!(
                (vdif.unix_seconds(), vdif.frame, vdif.frame_bytes()),
                (1_767_225_600 + second, frame, 1464)
            );
        }
        assert!(size(47).is_err() && size(65_508).is_err());
        assert_eq!(size(8972).unwrap(), 8968);
    }
}
