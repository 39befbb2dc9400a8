//! Compares memory with the patterns of the messages that were written to it.
//!
//! A message that lacks a segment ends when the window or its deadline says so. By then later messages may have been written to the
//! same bytes, rightly. So each byte's last writer is kept, as ranges, and only bytes that are still of the message are compared:
//!
//! ```text
//!   region   │ message 7 │ 9 (newer) │ message 7 │ nobody │
//!   7 ends    compared    overwritten  compared    different, if 7 claims it and no message that is not noted yet has it
//! ```

use super::memory::pattern_object;
use super::placing::without;
use super::report::VerifyReport;
use skyhaul_core::pattern;
use skyhaul_io::memory::remote::RemoteMemory;
use std::collections::BTreeMap;
use std::ops::Range;

/// Which parts of a range were written meanwhile by writers that are not noted yet.
type Newer<'a> = &'a dyn Fn(Range<u64>) -> Vec<Range<u64>>;

/// Differences that are listed.
const MAX_LISTED: usize = 100;
/// Bytes copied at a time.
const STEP: u64 = 64 << 10;

/// Who wrote: the connection, and the message of it.
pub(super) type Writer = (u32, u64);

/// The last writer of each byte of a region.
#[derive(Debug, Default)]
pub(super) struct Writers(BTreeMap<u64, (u64, Writer)>);

impl Writers {
    /// `writer` writes these bytes.
    pub(super) fn note(&mut self, range: Range<u64>, writer: Writer) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Cut or take out what lies below, and join neighbours of the same writer.
        if let Some((&at, &(until, of))) = self.0.range(..start).next_back()
            && until >= start
        {
            if of == writer {
                start = at;
                end = end.max(until);
                self.0.remove(&at);
            } else if until > start {
                self.0.insert(at, (start, of));
                if until > end {
                    self.0.insert(end, (until, of));
                }
            }
        }
        while let Some((&at, &(until, of))) = self.0.range(start..=end).next() {
            if at == end && of != writer {
                break;
            }
            self.0.remove(&at);
            if of == writer {
                end = end.max(until);
            } else if until > end {
                self.0.insert(end, (until, of));
            }
        }
        self.0.insert(start, (end, writer));
    }

    /// The parts of `range` with their writers, ascending; `None`: nobody.
    fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<Writer>)> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        let before = self.0.range(..=range.start).next_back().map(|(start, _)| *start);
        for (&start, &(end, writer)) in self.0.range(before.unwrap_or(range.start)..range.end) {
            let (start, end) = (start.max(at), end.min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                parts.push((at..start, None));
            }
            parts.push((start..end, Some(writer)));
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
                Some(of) if of != writer => report.overwritten_bytes += length,
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
                Some(_) => {
                    for from in (range.start..range.end).step_by(STEP as usize) {
                        let until = range.end.min(from + STEP);
                        scratch.resize((until - from) as usize, 0);
                        memory.copy(from, &mut scratch);
                        let mut of_it = 0;
                        for part in without(from..until, &newer(from..until)) {
                            let bytes = &scratch[(part.start - from) as usize..(part.end - from) as usize];
                            of_it += bytes.len() as u64;
                            compare(report, bytes, (connection, writer.1, part.start));
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
            compare(report, &scratch, (connection, message, from));
        }
    }
}

fn differs(report: &mut VerifyReport, at: (u64, u64, u64), bytes: u64) {
    report.different_bytes += bytes;
    if report.first.len() < MAX_LISTED {
        report.first.push(at);
    }
}

/// Compare bytes of a message, which begin at this offset of the region, with its pattern.
fn compare(report: &mut VerifyReport, bytes: &[u8], (connection, message, from): (u64, u64, u64)) {
    let object = pattern_object(message);
    let Some(first) = pattern::first_error(object, from, bytes) else { return };
    let mut wanted = vec![0; bytes.len()];
    pattern::fill(object, from, &mut wanted);
    let count = bytes.iter().zip(&wanted).filter(|(is, want)| is != want).count();
    differs(report, (connection, message, from + first as u64), count as u64);
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
                writers.note(at..at + length, (1, message));
                model[at as usize..(at + length) as usize].fill(Some((1, message)));
            }
            let range = asked.0..asked.0 + asked.1;
            let mut seen = Vec::new();
            for (part, of) in writers.parts(range.clone()) {
                seen.extend(part.map(|_| of));
            }
            prop_assert_eq!(&seen[..], &model[range.start as usize..range.end as usize]);
            let ranges: Vec<_> = writers.0.iter().map(|(start, (end, of))| (*start, *end, *of)).collect();
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
            writers.note(range, (3, message));
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
}
