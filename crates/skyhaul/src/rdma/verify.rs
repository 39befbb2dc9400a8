//! Compares memory with the patterns of the messages that were written to it.
//!
//! A message that lacks a segment ends when the window or its deadline says so. By then later messages may have been written to the
//! same bytes, rightly. So each byte's last writer is kept, as ranges, and only bytes that are still of the message are compared:
//!
//! ```text
//!   region   │ message 7 │ 9 (newer) │ message 7 │ nobody │
//!   7 ends    compared    overwritten  compared    different, if 7 claims it and no message that is not noted yet has it
//! ```
//!
//! What the kernel's program places is noted in the order in which slots are closed, and of two messages that were open together nobody
//! knows whose packets came last. Each is kept as a *rival* of the other, and bytes that have the pattern of a rival are overwritten. A
//! message is newer than another for certain if nothing of it was there when that one was noted ([`Turns`]).

use super::memory::pattern_object;
use super::placing::without;
use super::report::VerifyReport;
use skyhaul_core::pattern;
use skyhaul_io::memory::remote::RemoteMemory;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Which parts of a range were written meanwhile by writers that are not noted yet.
type Newer<'a> = &'a dyn Fn(Range<u64>) -> Vec<Range<u64>>;

/// Differences that are listed.
const MAX_LISTED: usize = 100;
/// Bytes copied at a time.
const STEP: u64 = 64 << 10;

/// Who wrote: the connection, and the message of it.
pub(super) type Writer = (u32, u64);

/// Rivals that are kept of a range; with more, bytes that differ are taken to be overwritten.
const MAX_RIVALS: usize = 8;

/// What is known of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    writer: Writer,
    /// The turn in which it was noted.
    turn: u64,
    /// Messages whose bytes may have come behind those of the writer.
    rivals: Vec<Writer>,
}

/// The last writer of each byte of a region: by its start, the end of a range and what is known of it.
#[derive(Debug, Default)]
pub(super) struct Writers(BTreeMap<u64, (u64, Written)>);

impl Writers {
    /// `writer` has written these bytes, as was found in `turn`. What was noted up to turn `since` is older for certain.
    pub(super) fn note(&mut self, range: Range<u64>, writer: Writer, (turn, since): (u64, u64)) {
        if range.is_empty() {
            return;
        }
        let below = self.take_out(range.clone());
        let mut at = range.start;
        for (part, of) in below {
            self.insert(at..part.start, Written { writer, turn, rivals: Vec::new() });
            let mut rivals = Vec::new();
            if of.turn > since && of.writer != writer {
                rivals = of.rivals;
                rivals.retain(|rival| *rival != writer);
                // One more than are kept shows that there are more.
                if rivals.len() <= MAX_RIVALS && !rivals.contains(&of.writer) {
                    rivals.push(of.writer);
                }
            } else if of.writer == writer {
                rivals = of.rivals;
            }
            self.insert(part.clone(), Written { writer, turn, rivals });
            at = part.end;
        }
        self.insert(at..range.end, Written { writer, turn, rivals: Vec::new() });
    }

    /// Takes what is known of `range` out of the map.
    fn take_out(&mut self, range: Range<u64>) -> Vec<(Range<u64>, Written)> {
        let first = self.0.range(..range.start).next_back().filter(|(_, (end, _))| *end > range.start);
        let first = first.map(|(start, _)| *start);
        let starts: Vec<u64> =
            first.into_iter().chain(self.0.range(range.clone()).map(|(at, _)| *at)).collect();
        let mut taken = Vec::new();
        for start in starts {
            let Some((end, of)) = self.0.remove(&start) else { continue };
            if start < range.start {
                self.0.insert(start, (range.start, of.clone()));
            }
            if end > range.end {
                self.0.insert(range.end, (end, of.clone()));
            }
            taken.push((start.max(range.start)..end.min(range.end), of));
        }
        taken
    }

    /// Notes what is known of `range`, which has no entry; merges it with neighbours that have the same.
    fn insert(&mut self, range: Range<u64>, of: Written) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((&before, (until, same))) = self.0.range(..start).next_back()
            && *until == start
            && *same == of
        {
            start = before;
        }
        if let Some((until, same)) = self.0.get(&end)
            && *same == of
        {
            let until = *until;
            self.0.remove(&end);
            end = until;
        }
        self.0.insert(start, (end, of));
    }

    /// The parts of `range` with their writers, ascending; `None`: nobody.
    fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<&Written>)> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        let before = self.0.range(..=range.start).next_back().map(|(start, _)| *start);
        for (&start, (end, of)) in self.0.range(before.unwrap_or(range.start)..range.end) {
            let (start, end) = (start.max(at), range.end.min(*end));
            if start >= end {
                continue;
            }
            if at < start {
                parts.push((at..start, None));
            }
            parts.push((start..end, Some(of)));
            at = end;
        }
        if at < range.end {
            parts.push((at..range.end, None));
        }
        parts
    }

    /// Compares what a message claims to have written. `connection` is its number in the report; `newer` says of a range which
    /// parts were written meanwhile by writers not noted yet.
    pub(super) fn compare(
        &self,
        (memory, newer): (&RemoteMemory, Newer<'_>),
        valid: &[Range<u64>],
        writer: Writer,
        connection: u64,
        report: &mut VerifyReport,
    ) {
        let mut scratch = Vec::new();
        for (range, of) in valid.iter().flat_map(|range| self.parts(range.clone())) {
            let length = range.end - range.start;
            match of {
                Some(of) if of.writer != writer => report.overwritten_bytes += length,
                None => {
                    // A datagram that went up leaves to newer messages what the kernel has placed of them, and those are noted later.
                    let mut of_it = 0;
                    for part in without(range.clone(), &newer(range)) {
                        of_it += part.end - part.start;
                        differs(report, (connection, writer.1, part.start), part.end - part.start);
                    }
                    report.compared_bytes += of_it;
                    report.overwritten_bytes += length - of_it;
                }
                Some(of) => {
                    for from in (range.start..range.end).step_by(STEP as usize) {
                        let until = range.end.min(from + STEP);
                        scratch.resize((until - from) as usize, 0);
                        memory.copy(from, &mut scratch);
                        let mut of_it = 0;
                        for part in without(from..until, &newer(from..until)) {
                            let bytes = &scratch[(part.start - from) as usize..(part.end - from) as usize];
                            of_it += bytes.len() as u64;
                            of_it -= compare(report, bytes, (connection, writer.1, part.start), &of.rivals);
                        }
                        report.compared_bytes += of_it;
                        report.overwritten_bytes += until - from - of_it;
                    }
                }
            }
        }
    }
}

/// Compares what arrived of a Send, in its buffer, with the pattern of its message. `connection` is its number in the report.
pub(super) fn compare_send(
    memory: &RemoteMemory,
    buffer: u64,
    valid: &[Range<u64>],
    (message, connection): (u64, u64),
    report: &mut VerifyReport,
) {
    let mut scratch = Vec::new();
    for range in valid {
        for from in (range.start..range.end).step_by(STEP as usize) {
            scratch.resize((range.end.min(from + STEP) - from) as usize, 0);
            memory.copy(buffer + from, &mut scratch);
            report.compared_bytes += scratch.len() as u64;
            compare(report, &scratch, (connection, message, from), &[]);
        }
    }
}

fn differs(report: &mut VerifyReport, at: (u64, u64, u64), bytes: u64) {
    report.different_bytes += bytes;
    if report.first.len() < MAX_LISTED {
        report.first.push(at);
    }
}

/// Bytes in a row that must have a pattern to be of its message, but at the end of what is compared.
const MIN_RUN: usize = 8;

/// Compares bytes of a message, which begin at this offset of the region, with its pattern. Returns how many have that of a rival: they
/// are overwritten.
fn compare(
    report: &mut VerifyReport,
    bytes: &[u8],
    (connection, message, from): (u64, u64, u64),
    rivals: &[Writer],
) -> u64 {
    if pattern::first_error(pattern_object(message), from, bytes).is_none() {
        return 0;
    }
    let patterns: Vec<Vec<u8>> = std::iter::once(message)
        .chain(rivals.iter().map(|(_, rival)| *rival))
        .map(|message| {
            let mut wanted = vec![0; bytes.len()];
            pattern::fill(pattern_object(message), from, &mut wanted);
            wanted
        })
        .collect();
    let matching = |wanted: &[u8], at: usize| {
        wanted[at..].iter().zip(&bytes[at..]).take_while(|(want, is)| want == is).count()
    };
    let (mut at, mut of_rivals, mut different, mut first) = (0, 0, 0, None);
    while at < bytes.len() {
        let own = matching(&patterns[0], at);
        let rival = patterns[1..].iter().map(|wanted| matching(wanted, at)).max().unwrap_or(0);
        let is_enough = |run: usize| run >= MIN_RUN || run > 0 && at + run == bytes.len();
        if rival > own && is_enough(rival) {
            of_rivals += rival as u64;
            at += rival;
        } else if own > 0 {
            at += own;
        } else {
            first = first.or(Some(at));
            different += 1;
            at += 1;
        }
    }
    match first {
        // They may be of one that is not kept.
        Some(_) if rivals.len() > MAX_RIVALS => of_rivals + different,
        Some(first) => {
            differs(report, (connection, message, from + first as u64), different);
            of_rivals
        }
        None => of_rivals,
    }
}

/// Turns in which it was looked how far the programs in the kernel had come.
const MAX_TURNS: usize = 1024;

/// In which turn what was found of the messages of each connection that a program places.
#[derive(Debug, Default)]
pub(super) struct Turns {
    now: u64,
    /// By connection: the last turn at whose end nothing was there from this message on; ascending, the last ones.
    untouched: BTreeMap<u32, VecDeque<(u64, u64)>>,
}

impl Turns {
    /// This turn, and the last one at whose end nothing of the message can have been placed without being noted.
    pub(super) fn of(&self, (connection, message): Writer) -> (u64, u64) {
        let since = match self.untouched.get(&connection) {
            // This process copies its bytes itself, in the order in which they are noted.
            None => self.now,
            Some(turns) => {
                let untouched = turns.iter().rev().find(|(_, from)| *from <= message);
                untouched.map_or(0, |(turn, _)| *turn)
            }
        };
        (self.now, since)
    }

    /// The turn is over; `untouched`: for each connection that a program places, the message from which on nothing was placed yet.
    pub(super) fn end(&mut self, untouched: Vec<(u32, u64)>) {
        self.untouched.retain(|connection, _| untouched.iter().any(|(of, _)| of == connection));
        for (connection, from) in untouched {
            let before = self.now.saturating_sub(1);
            let turns = self.untouched.entry(connection).or_insert_with(|| VecDeque::from([(before, 0)]));
            match turns.back_mut() {
                Some((turn, of)) if *of == from => *turn = self.now,
                _ => turns.push_back((self.now, from)),
            }
            if turns.len() > MAX_TURNS {
                turns.pop_front();
            }
        }
        self.now += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The ranges say what an array with a writer for each byte says.
        #[test]
        fn the_last_writer_of_each_byte_is_known(
            writes in proptest::collection::vec((0u64..60, 0u64..20, 1u64..5), 0..40), asked in (0u64..60, 1u64..30),
        ) {
            let (mut writers, mut model) = (Writers::default(), [None; 100]);
            for (at, length, message) in writes {
                writers.note(at..at + length, (1, message), (0, 0));
                model[at as usize..(at + length) as usize].fill(Some((1, message)));
            }
            let range = asked.0..asked.0 + asked.1;
            let mut seen = Vec::new();
            for (part, of) in writers.parts(range.clone()) {
                seen.extend(part.map(|_| of.map(|of| of.writer)));
            }
            prop_assert_eq!(&seen[..], &model[range.start as usize..range.end as usize]);
            let ranges: Vec<_> = writers.0.iter().map(|(start, (end, of))| (*start, *end, of.writer)).collect();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].0);
                prop_assert!(pair[0].1 < pair[1].0 || pair[0].2 != pair[1].2, "neighbours of one writer are one range");
            }
        }
    }

    #[test]
    fn only_bytes_that_are_still_of_a_message_are_compared() {
        let memory = RemoteMemory::new(100).unwrap();
        let mut writers = Writers::default();
        let mut write = |message: u64, range: Range<u64>| {
            memory.place(
                range.start,
                pattern::slice(pattern_object(message), range.start, (range.end - range.start) as usize),
            );
            writers.note(range, (3, message), (0, 0));
        };
        write(7, 0..80);
        write(9, 20..40);
        let mut report = VerifyReport::default();
        writers.compare((&memory, &|_| Vec::new()), std::slice::from_ref(&(0..80)), (3, 7), 1, &mut report);
        assert_eq!((report.compared_bytes, report.overwritten_bytes, report.different_bytes), (60, 20, 0));
        writers.compare((&memory, &|_| Vec::new()), std::slice::from_ref(&(20..40)), (3, 9), 1, &mut report);
        assert_eq!((report.compared_bytes, report.different_bytes), (80, 0));
        // A byte that is not what it should be, and one that nobody wrote.
        let mut byte = [0];
        memory.copy(50, &mut byte);
        memory.place(50, &[byte[0] ^ 1]);
        writers.compare((&memory, &|_| Vec::new()), std::slice::from_ref(&(40..81)), (3, 7), 1, &mut report);
        assert_eq!(report.different_bytes, 2);
        assert_eq!(report.first, [(1, 7, 50), (1, 7, 80)]);
    }

    #[test]
    fn bytes_that_were_left_to_a_message_that_is_not_noted_yet_are_overwritten() {
        let (memory, writers) = (RemoteMemory::new(100).unwrap(), Writers::default());
        let range = 10..50;
        let claimed = std::slice::from_ref(&range);
        let mut report = VerifyReport::default();
        writers.compare((&memory, &|_| std::iter::once(0..60).collect()), claimed, (3, 7), 1, &mut report);
        assert_eq!((report.compared_bytes, report.overwritten_bytes, report.different_bytes), (0, 40, 0));
        // Of these, nobody has the last ten.
        writers.compare((&memory, &|_| std::iter::once(0..40).collect()), claimed, (3, 7), 1, &mut report);
        assert_eq!((report.compared_bytes, report.overwritten_bytes, report.different_bytes), (10, 70, 10));
        assert_eq!(report.first, [(1, 7, 40)]);
    }

    /// A region of 100 bytes in which each of these messages has placed its pattern, in this order.
    fn placed(order: &[(u64, Range<u64>)]) -> RemoteMemory {
        let memory = RemoteMemory::new(100).unwrap();
        for (message, range) in order {
            let bytes =
                pattern::slice(pattern_object(*message), range.start, (range.end - range.start) as usize);
            memory.place(range.start, bytes);
        }
        memory
    }

    fn judged(writers: &Writers, memory: &RemoteMemory, message: u64) -> (u64, u64, u64) {
        let mut report = VerifyReport::default();
        let all = std::slice::from_ref(&(0..80));
        writers.compare((memory, &|_| Vec::new()), all, (3, message), 1, &mut report);
        (report.compared_bytes, report.overwritten_bytes, report.different_bytes)
    }

    #[test]
    fn a_memory_that_is_right_is_never_different_whichever_of_two_open_messages_came_last() {
        // Message 7 was noted last, as its slot was closed last; some of its bytes are those of 8, whose packets came later.
        for later in [0..0, 0..80, 30..80, 10..45] {
            let memory = placed(&[(7, 0..80), (8, later.clone())]);
            let mut writers = Writers::default();
            writers.note(0..80, (3, 8), (5, 4));
            writers.note(0..80, (3, 7), (5, 4));
            let of_8 = later.end - later.start;
            assert_eq!(judged(&writers, &memory, 7), (80 - of_8, of_8, 0));
            assert_eq!(judged(&writers, &memory, 8), (0, 80, 0));
            // What is of neither is different.
            let mut byte = [0];
            memory.copy(50, &mut byte);
            memory.place(50, &[byte[0] ^ 1]);
            assert_eq!(judged(&writers, &memory, 7).2, 1);
        }
    }

    #[test]
    fn one_that_began_later_is_newer_for_certain() {
        let memory = placed(&[(8, 0..80), (7, 0..80)]);
        let mut writers = Writers::default();
        writers.note(0..80, (3, 7), (5, 4));
        writers.note(0..80, (3, 8), (6, 5));
        // But for a byte that is the same in both patterns.
        assert!(judged(&writers, &memory, 8).2 > 70, "7 cannot have come behind 8");
    }

    #[test]
    fn of_more_rivals_than_are_kept_any_may_have_come_last() {
        let memory = placed(&[(50, 0..80)]);
        let mut writers = Writers::default();
        (50..70).for_each(|message| writers.note(0..80, (3, message), (5, 4)));
        assert_eq!(judged(&writers, &memory, 69), (0, 80, 0));
    }

    #[test]
    fn turns_say_what_was_there_when() {
        let mut turns = Turns::default();
        assert_eq!(turns.of((1, 7)), (0, 0));
        turns.end(vec![(2, 1)]);
        turns.end(vec![(2, 9)]);
        turns.end(vec![(2, 9)]);
        // In turn 3: this process copies for connection 1; of 2, messages before 9 were touched in turn 1, others not in turn 2.
        assert_eq!([turns.of((1, 7)), turns.of((2, 8)), turns.of((2, 9))], [(3, 3), (3, 0), (3, 2)]);
        turns.end(Vec::new());
        assert_eq!(turns.of((2, 8)), (4, 4), "its program has ended");
    }
}
