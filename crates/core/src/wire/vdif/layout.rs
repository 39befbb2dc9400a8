//! Places VDIF frames by the sequence number before them, or by time and thread; how a stream of them is described, timed
//! and predicted.

mod rules;

use super::Header;
use crate::placement::{Geometry, Layout, Placement, Reject};
use crate::wire::family::{Particulars, StreamFormat};
use crate::wire::frame::{Ahead, FrameTime, step};
use crate::wire::header::{Field, Order};
use crate::wire::layout::{Blocks, Rate, wrong_size};
use crate::wire::vdif::Vdif;
use crate::wire::vtp::{self, Vtp};

/// Threads that ten bits can number.
pub const THREADS: usize = 1024;
/// Frame numbers that 24 bits can hold.
pub(super) const FRAMES: u32 = 1 << 24;
/// Rank of threads that are not of this stream.
const NONE: u16 = u16::MAX;
/// Maximum correction of a clock: more than a header can represent.
const SHIFT: i64 = 1 << 32;

/// The source of a frame's position.
#[derive(Clone, Debug)]
enum By {
    Sequence(Order),
    Time { rate: Rate, threads: Box<Ranks> },
}

/// The rank of each thread in the stream, and the seconds to add to its clock.
#[derive(Clone, Debug)]
struct Ranks {
    count: u64,
    rank: [u16; THREADS],
    /// By rank; empty if all clocks agree.
    shift: Vec<i64>,
}

/// The layout of a VDIF stream. All frames have one size.
#[derive(Clone, Debug)]
pub struct VdifLayout {
    blocks: Blocks,
    network: usize,
    length8: u32,
    legacy: u32,
    by: By,
}

impl VdifLayout {
    /// Placed by the sequence number before each frame. A wrong field in the frame header cannot misplace a frame; only
    /// length and legacy bit are checked, on which readers of the frames depend.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] if `blocks` are not of such frames.
    pub fn by_sequence(blocks: Blocks, frame: &Vdif, order: Order) -> Result<VdifLayout, Reject> {
        Self::new(blocks, frame, By::Sequence(order)).and_then(|layout| match layout.network {
            Vtp::LEN.. => Ok(layout),
            _ => Err(Reject::WrongSize),
        })
    }

    /// Placed by second, frame number and thread. `threads` are in the order of their ranks, each with the seconds to add
    /// to its clock (0 except for boards with a wrong clock). If `fps`, the frames of one thread per second, is unknown,
    /// every second starts a new object and [`short_objects`](Self::short_objects) is true.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] if `blocks` are not of such frames; [`Reject::BadField`] for an invalid rate or shift;
    /// [`Reject::UnknownThread`] if there are no threads, one is above 1023, or one is repeated.
    pub fn by_time(
        blocks: Blocks,
        frame: &Vdif,
        threads: &[(u16, i64)],
        fps: Option<u32>,
    ) -> Result<VdifLayout, Reject> {
        let mut ranks = Ranks { count: threads.len() as u64, rank: [NONE; THREADS], shift: Vec::new() };
        for (at, &(thread, _)) in threads.iter().enumerate() {
            match ranks.rank.get_mut(usize::from(thread)) {
                Some(rank) if *rank == NONE => *rank = at as u16,
                _ => return Err(Reject::UnknownThread),
            }
        }
        if threads.is_empty() || !blocks.units.is_multiple_of(ranks.count) {
            return Err(Reject::UnknownThread);
        }
        if threads.iter().any(|&(_, shift)| shift.unsigned_abs() > SHIFT.unsigned_abs()) {
            return Err(Reject::BadField);
        }
        if threads.iter().any(|&(_, shift)| shift != 0) {
            ranks.shift = threads.iter().map(|&(_, shift)| shift).collect();
        }
        let rate = Rate::new(fps, FRAMES, threads.len(), &blocks)?;
        Self::new(blocks, frame, By::Time { rate, threads: Box::new(ranks) })
    }

    fn new(blocks: Blocks, frame: &Vdif, by: By) -> Result<VdifLayout, Reject> {
        let network =
            (blocks.packet_bytes as usize).checked_sub(frame.frame_bytes()).ok_or(Reject::WrongSize)?;
        Ok(VdifLayout { blocks, network, length8: frame.length8, legacy: frame.legacy, by })
    }

    /// Whether the last object of a second may be shorter than the others.
    #[must_use]
    pub fn short_objects(&self) -> bool {
        matches!(self.by, By::Time { rate: Rate::Stride(_), .. })
    }

    /// Reject a datagram of the wrong size, by the length that its header states.
    #[cold]
    fn refuse(&self, packet: &[u8]) -> Reject {
        let headers = self.network + if self.legacy == 1 { 16 } else { 32 };
        let claimed = || Some(self.network + Vdif::read(packet.get(self.network..)?)?.0.frame_bytes());
        wrong_size(headers, claimed, packet)
    }
}

impl Layout for VdifLayout {
    #[inline]
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        if packet.len() != self.blocks.packet_bytes as usize {
            return Err(self.refuse(packet));
        }
        let frame = packet.get(self.network..).ok_or(Reject::Truncated)?;
        let (vdif, _) = Vdif::read(frame).ok_or(Reject::Truncated)?;
        if vdif.length8 != self.length8 || vdif.legacy != self.legacy {
            return Err(Reject::BadField);
        }
        match &self.by {
            By::Sequence(order) => {
                let psn = vtp::psn(packet, *order).ok_or(Reject::Truncated)?;
                Ok(self.blocks.place(0, psn))
            }
            By::Time { rate, threads } => {
                let rank = threads.rank[vdif.thread as usize % THREADS];
                if rank == NONE {
                    return Err(Reject::UnknownThread);
                }
                let mut second = vdif.seconds_since_2000();
                if let Some(shift) = threads.shift.get(usize::from(rank)) {
                    second = second.checked_add_signed(*shift).ok_or(Reject::BadField)?;
                }
                rate.place(&self.blocks, second, vdif.frame, threads.count, u64::from(rank))
            }
        }
    }

    fn geometry(&self) -> Geometry {
        self.blocks.geometry()
    }

    fn units_between(&self, from: u64, to: u64) -> Option<u64> {
        match &self.by {
            By::Sequence(_) => self.blocks.between(from, to),
            By::Time { rate, .. } => rate.between(&self.blocks, from, to),
        }
    }
}

/// The variant of shapes with the short header.
pub(super) const LEGACY: u8 = 1;

/// Particulars of a VDIF stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VdifStream {
    /// Extended data version; `None` for legacy headers.
    pub edv: Option<u8>,
    /// Bits per sample, or component of a complex one; 0 if unknown.
    pub bits: u32,
    /// Channels in a thread; 0 if unknown.
    pub channels: u64,
    /// Samples are complex.
    pub complex: bool,
}

impl Particulars for VdifStream {
    fn title(&self, stream: &StreamFormat) -> String {
        match stream.sequence {
            Some(Order::Little) => "vdif over VTP (little-endian)".to_owned(),
            Some(Order::Big) => "vdif over VTP (big-endian)".to_owned(),
            None => stream.family.to_string(),
        }
    }

    fn version(&self) -> Option<String> {
        Some(self.edv.map_or("legacy".to_owned(), |edv| format!("EDV {edv:#x}")))
    }

    fn details(&self, stream: &StreamFormat) -> Vec<String> {
        let mut details = Vec::new();
        if self.bits > 0 {
            let complex = if self.complex { " complex" } else { "" };
            details.push(format!("{} bit{complex} × {} channels", self.bits, self.channels));
        }
        let ids: Vec<String> = stream.threads.iter().take(16).map(|t| t.id.to_string()).collect();
        let more = if stream.threads.len() > ids.len() { "…" } else { "" };
        details.push(format!("threads {}{more}", ids.join(",")));
        details
    }

    fn numbers(&self) -> Vec<(&'static str, Option<u64>)> {
        vec![(EDV, self.edv.map(u64::from))]
    }

    fn short_objects(&self, stream: &StreamFormat) -> bool {
        stream.placed_by().is_none() && stream.frames_per_second.is_none()
    }

    fn thread_field(&self) -> Option<&'static Field> {
        Some(THREAD)
    }

    fn frame_time(&self, stream: &StreamFormat, frame: &[u8]) -> Option<FrameTime> {
        let (vdif, _) = Vdif::read(frame)?;
        let thread = vdif.thread as u16;
        let shift = stream.threads.iter().find(|t| t.id == thread).map_or(0, |t| t.shift);
        let unix_seconds = vdif.unix_seconds().checked_add(shift)?;
        Some(FrameTime { unix_seconds, frame: vdif.frame, thread })
    }

    fn has_header(&self, stream: &StreamFormat, frame: &[u8]) -> bool {
        Header::read_alone(frame).is_ok_and(|header| {
            header.vdif.frame_bytes() == stream.frame_bytes
                && header.vdif.header_bytes() == stream.header_bytes
        })
    }

    fn predicted(&self, ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        let clock = Header::read_alone(ahead.clock).ok()?.vdif;
        let mut like = Header::read_alone(ahead.like).ok()?;
        like.vdif.epoch = clock.epoch;
        like.vdif.thread = ahead.thread.map_or(like.vdif.thread, u32::from);
        let shifted = u32::try_from(i64::from(clock.seconds).checked_add(ahead.shift)?).ok()?;
        let (second, frame) = step(u64::from(shifted), clock.frame, ahead.frames, ahead.fps)?;
        let seconds = u32::try_from(second).ok().filter(|second| *second < 1 << 30)?;
        let mut header = like.moved(ahead.packets, seconds, frame, ahead.fps);
        header.vdif.invalid = 1;
        (frame < 1 << 24).then(|| header.write())
    }
}

/// Name of the extended data version in an index.
pub(super) const EDV: &str = "edv";

/// The field with the thread.
const THREAD: &Field = {
    let mut at = 0;
    while !matches!(Vdif::FIELDS[at].name.as_bytes(), b"thread") {
        at += 1;
    }
    &Vdif::FIELDS[at]
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPE: usize = 40; // one word of samples behind a full header

    fn shape() -> Vdif {
        Vdif::shape(8, 1, 2, false, false).unwrap()
    }

    fn packet(psn: Option<u64>, vdif: Vdif) -> Vec<u8> {
        let mut packet = psn.map_or(Vec::new(), |n| vtp::write(n, Order::Little).to_vec());
        packet.extend(vdif.write());
        packet.resize(packet.len() + SHAPE - 16, 0);
        packet
    }

    fn at(second: i64, frame: u32, thread: u32) -> Vdif {
        Vdif { thread, ..shape().at(1_767_225_600 + second, frame).unwrap() }
    }

    fn timed(fps: Option<u32>, threads: &[(u16, i64)]) -> VdifLayout {
        let blocks = Blocks::new(SHAPE, 0, threads.len(), 40 * 10).unwrap();
        VdifLayout::by_time(blocks, &shape(), threads, fps).unwrap()
    }

    #[test]
    fn by_sequence_ignores_time_and_thread() {
        let blocks = Blocks::new(48, 8, 1, 400).unwrap();
        let layout = VdifLayout::by_sequence(blocks, &shape(), Order::Little).unwrap();
        let place = layout.place(&packet(Some(23), at(9, 9, 9))).unwrap();
        let want = Placement {
            key: crate::placement::Key::of(2),
            offset: 120,
            start: 8,
            length: 40,
            size: Some(400),
            ..Placement::default()
        };
        assert_eq!(place, want);
        assert_eq!(layout.units_between(2, 4), Some(20));
        assert_eq!(layout.units_between(4, 2), None);
        let bare = Blocks::new(40, 0, 1, 400).unwrap();
        assert_eq!(VdifLayout::by_sequence(bare, &shape(), Order::Big).unwrap_err(), Reject::WrongSize);
    }

    #[test]
    fn by_time_counts_frames_of_all_threads_across_seconds_and_epochs() {
        let layout = timed(Some(5), &[(3, 0), (700, 0)]);
        let linear = |vdif| {
            let place = layout.place(&packet(None, vdif)).unwrap();
            place.key.number * 10 + place.offset / 40
        };
        let first = linear(at(0, 0, 3));
        assert_eq!(linear(at(0, 0, 700)), first + 1);
        assert_eq!(linear(at(0, 4, 700)) + 1, linear(at(1, 0, 3)));
        assert_eq!(linear(at(-1, 4, 700)) + 1, first, "epoch 51 ends where epoch 52 starts");
    }

    #[test]
    fn with_no_rate_each_second_starts_an_object() {
        let layout = timed(None, &[(0, 0), (1, 0)]);
        let place = |s, f, t| layout.place(&packet(None, at(s, f, t))).unwrap();
        assert!(layout.short_objects());
        assert_eq!(place(0, 7, 1).key.number, place(0, 0, 0).key.number + 1);
        assert_eq!((place(1, 0, 0).offset, place(0, 7, 1).offset), (0, 200));
        assert!(place(1, 0, 0).key.number > place(0, 0xFF_FFFF, 1).key.number, "numbers ascend");
        let same = layout.units_between(place(0, 0, 0).key.number, place(0, 20, 0).key.number);
        assert_eq!(
            (same, layout.units_between(place(0, 0, 0).key.number, place(1, 0, 0).key.number)),
            (Some(40), None)
        );
    }

    #[test]
    fn a_thread_whose_clock_is_wrong_is_set_right() {
        let layout = timed(Some(5), &[(0, 0), (1, 1000)]);
        let even = layout.place(&packet(None, at(2000, 3, 0))).unwrap();
        let odd = layout.place(&packet(None, at(1000, 3, 1))).unwrap();
        assert_eq!((even.key, even.offset + 40), (odd.key, odd.offset));
        let hopeless = timed(Some(5), &[(0, -SHIFT)]);
        assert_eq!(hopeless.place(&packet(None, at(0, 0, 0))), Err(Reject::BadField));
    }

    #[test]
    fn each_refusal() {
        let layout = timed(Some(5), &[(0, 0)]);
        let good = packet(None, at(0, 0, 0));
        let place = layout.place(&good).unwrap();
        assert_eq!((place.start, place.length), (0, SHAPE as u64));
        let refusal = |p: &[u8]| layout.place(p).unwrap_err();
        assert_eq!(refusal(&good[..31]), Reject::Truncated, "no whole header");
        assert_eq!(refusal(&good[..39]), Reject::Truncated, "less than it claims");
        assert_eq!(refusal(&[&good[..], &[0]].concat()), Reject::WrongSize);
        let mut smaller = packet(None, Vdif { length8: 4, ..at(0, 0, 0) });
        assert_eq!(refusal(&smaller), Reject::BadField, "another length in the header");
        smaller.truncate(32);
        assert_eq!(refusal(&smaller), Reject::WrongSize, "a legal frame of another size");
        assert_eq!(refusal(&packet(None, Vdif { legacy: 1, ..at(0, 0, 0) })), Reject::BadField);
        assert_eq!(refusal(&packet(None, at(0, 5, 0))), Reject::BadField, "frame number beyond the rate");
        assert_eq!(refusal(&packet(None, at(0, 0, 1))), Reject::UnknownThread);

        let blocks = Blocks::new(SHAPE, 0, 1, 400).unwrap();
        let make =
            |threads: &[(u16, i64)], fps| VdifLayout::by_time(blocks, &shape(), threads, fps).unwrap_err();
        assert_eq!(make(&[(1024, 0)], None), Reject::UnknownThread);
        assert_eq!(make(&[(7, 0), (7, 0)], None), Reject::UnknownThread);
        assert_eq!(make(&[], None), Reject::UnknownThread);
        assert_eq!(make(&[(0, 0)], Some(0)), Reject::BadField);
        assert_eq!(make(&[(0, i64::MAX)], None), Reject::BadField);
        let latest = timed(Some(1 << 30), &[(0, SHIFT)]);
        let last = latest.place(&packet(None, Vdif { seconds: u32::MAX, epoch: 63, ..shape() })).unwrap();
        assert!(last.key > latest.place(&packet(None, at(0, 0, 0))).unwrap().key, "{last:?}");
    }

    proptest! {
        #[test]
        fn any_octets_are_placed_inside_their_object_or_refused(
            raw in proptest::collection::vec(any::<u8>(), 0..60), head in any::<bool>(), fps in proptest::option::of(1u32..100),
        ) {
            let layout = timed(fps, &[(0, 0), (1, -7)]);
            let mut raw = raw;
            if head && raw.len() >= 16 {
                let legal = Vdif { length8: 5, legacy: 0, ..Vdif::read(&raw).unwrap().0 };
                raw[..16].copy_from_slice(&legal.write());
                raw.resize(SHAPE, 0);
            }
            if let Ok(place) = layout.place(&raw) {
                prop_assert!(place.offset + place.length <= place.size.unwrap());
                prop_assert!(u64::from(place.start) + place.length <= raw.len() as u64);
            }
        }
    }
}
