//! Claims of an index about data that are not there, judged before any reader follows them.
//!
//! A checksum proves that a record is as it was written, not that it is true. What lies in a chunk is proven by its bytes; what is
//! missing has none. So each claim is compared with everything that bounds it:
//!
//! | claim | bounds |
//! |---|---|
//! | frames lost before a chunk (`gap`) | the sum in the recorder's account; the times of the chunks around it; 2^60 bytes |
//! | frames missing in a chunk | its units, its bytes, the length of a whole chunk, and the three above |
//! | heaps in a chunk | its bytes; 2^60 bytes |
//! | the sums of the account | 2^60 bytes |
//!
//! ```text
//!   chunk 4 │ 17 18 19 │  gap: 2^64 - 1  │ 22 23 24 │ chunk 5        the times leave 2 frames: contradicted
//! ```
//!
//! A claim that exceeds one of them is taken out of the opened recording, and a gap with [`Lack::Contradicted`] stands there instead,
//! which every reader reports. Nothing is filled for it; what the times give is counted, as for recorders that did not count.
//!
//! Limits: only claims of more than there can be are found. Frames that were placed by the packets' numbers are not judged by their
//! times, as a sender's clock may stand still; nor those of a stream whose rate changed. A claim within all bounds is believed.

use crate::recording::contents::{DatastreamEntry, Gap, Lack, Rate, Time};
use crate::recording::index::record::{ChunkMeta, ChunkRecord, Datastream, LostChunk};
use crate::recording::report::DatastreamReport;

/// No recording has more bytes, received or lost.
const MAX_CLAIMED_BYTES: u64 = 1 << 60;
/// Bytes of the shortest heap: the head of a packet.
const MIN_HEAP_BYTES: u64 = 8;

/// Judges the records of one datastream in order.
#[derive(Debug)]
pub(super) struct Claims {
    name: String,
    /// Bytes of a frame; 0 if they are not of one size.
    unit: u64,
    lanes: u64,
    /// Frames of a whole chunk; 0 if not known.
    whole: u64,
    /// `None` if times do not bound what is missing.
    rate: Option<Rate>,
    /// What the recorder's account leaves to the records that follow.
    left: Option<Left>,
    before: Option<Around>,
}

/// Lost frames by the account that no record of the recorder has claimed so far. What a repair counts in a file is not in it.
#[derive(Clone, Copy, Debug)]
struct Left {
    between: u64,
    in_chunks: u64,
}

/// A chunk as a neighbour of a gap.
#[derive(Clone, Copy, Debug)]
struct Around {
    epoch: u64,
    units: u64,
    first: Option<Time>,
    last: Option<Time>,
}

impl Around {
    fn of(meta: &ChunkMeta) -> Around {
        let (first, last) = (meta.first_time, meta.last_time);
        Around { epoch: meta.epoch, units: meta.units.into(), first, last }
    }
}

impl Claims {
    /// `account`: the recorder's own, where there is one.
    pub(super) fn new(name: &str, about: Option<&Datastream>, account: Option<&DatastreamReport>) -> Claims {
        let info = about.map(|about| &about.info);
        let ledger = account.filter(|account| !account.keyed).map(|account| &account.ledger);
        // Older recorders did not count frames.
        let ledger = ledger.filter(|ledger| ledger.expected() > 0);
        let rate = about.filter(|about| !about.info.numbered).map(|about| Rate::of(Some(about)));
        Claims {
            name: name.to_owned(),
            unit: info.map_or(0, |info| u64::from(info.unit_bytes)),
            lanes: info.map_or(1, |info| u64::from(info.lanes.max(1))),
            whole: info.map_or(0, |info| u64::from(info.units)),
            rate: rate.filter(|rate| rate.get().is_some()),
            left: ledger.map(|of| Left { between: of.between_chunks, in_chunks: of.in_chunks }),
            before: None,
        }
    }

    /// Judge the record of the next chunk. What cannot be is taken out of it, and returned as gaps.
    pub(super) fn chunk(&mut self, record: &mut ChunkRecord) -> Vec<Gap> {
        let (number, adopted) = (record.number, record.adopted);
        let mut found = Vec::new();
        if let Err(why) = self.within(record) {
            let claim = format!("{} frames missing in chunk {number}", record.meta.missing_units());
            found.push(self.contradicted(number, &claim, &why, Around::of(&record.meta)));
            self.believe_bytes(record);
        }
        let heaps = record.meta.heaps.as_ref();
        if let Some(heaps) = heaps
            .filter(|of| of.count > record.bytes / MIN_HEAP_BYTES || of.missing_bytes > MAX_CLAIMED_BYTES)
        {
            let claim = format!("{} heaps in chunk {number}", heaps.count);
            let why = format!("it has {} bytes", record.bytes);
            found.push(self.contradicted(number, &claim, &why, Around::of(&record.meta)));
            record.meta.heaps = None;
        }
        let here = Around::of(&record.meta);
        if let Some(gap) = record.meta.gap
            && let Err(why) = self.between(gap, &here, adopted)
        {
            found.push(self.contradicted(number, &lost_before(gap, number), &why, here));
            record.meta.gap = None;
        }
        self.before = Some(here);
        found
    }

    /// Judge a chunk that no disk could take. `epoch` is that of the chunk behind it.
    pub(super) fn lost(&mut self, lost: &mut LostChunk, epoch: Option<u64>) -> Vec<Gap> {
        let (first, last) = (lost.first_time, lost.last_time);
        let here = |lost: &LostChunk| Around {
            epoch: epoch.unwrap_or(u64::MAX),
            units: lost.units.into(),
            first,
            last,
        };
        let mut found = Vec::new();
        let frames = lost.bytes.checked_div(self.unit).unwrap_or(u64::MAX);
        let units = u64::from(lost.units);
        // What was missing may have been left out of it.
        let why = match units.checked_sub(lost.missing_units) {
            None => Err(format!("it has {units} in all")),
            Some(received) if received > frames => {
                Err(format!("{received} others cannot lie in its {} bytes", lost.bytes))
            }
            Some(_) => self.whole(lost.units).and_then(|()| self.take_in_chunks(lost.missing_units, false)),
        };
        if let Err(why) = why {
            let claim =
                format!("{} of {} frames missing in chunk {}", lost.missing_units, lost.units, lost.number);
            found.push(self.contradicted(lost.number, &claim, &why, here(lost)));
            lost.missing_units = 0;
            lost.units = lost.units.min(u32::try_from(frames).unwrap_or(u32::MAX));
        }
        if let Err(why) = self.between(lost.gap, &here(lost), false) {
            let claim = lost_before(lost.gap, lost.number);
            found.push(self.contradicted(lost.number, &claim, &why, here(lost)));
            lost.gap = 0;
        }
        found
    }

    fn contradicted(&self, number: u32, claim: &str, why: &str, here: Around) -> Gap {
        let why = format!("the index claims {claim}, but {why}: the claim is not used");
        let from = self.before.and_then(|before| before.last);
        Gap { from, to: here.first, ..Gap::new(&self.name, number..number, Lack::Contradicted, why) }
    }

    /// Whether so many frames can have been lost before a chunk; if so, the account leaves fewer.
    fn between(&mut self, gap: u64, here: &Around, adopted: bool) -> Result<(), String> {
        self.bounded(gap)?;
        if let Some(most) = self.by_time(here, adopted)
            && u128::from(gap) > most
        {
            return Err(format!("the times of the chunks around it leave at most {most}"));
        }
        if let Some(left) = self.left.as_mut().filter(|_| !adopted) {
            let rest = left.between.checked_sub(gap);
            left.between = rest.ok_or_else(|| format!("the recorder's account leaves {}", left.between))?;
        }
        Ok(())
    }

    fn bounded(&self, frames: u64) -> Result<(), String> {
        let bytes = frames.checked_mul(self.unit.max(1));
        if bytes.is_none_or(|bytes| bytes > MAX_CLAIMED_BYTES) {
            return Err("no recording has so many bytes".to_owned());
        }
        Ok(())
    }

    fn take_in_chunks(&mut self, missing: u64, adopted: bool) -> Result<(), String> {
        if let Some(left) = self.left.as_mut().filter(|_| !adopted) {
            let rest = left.in_chunks.checked_sub(missing);
            left.in_chunks =
                rest.ok_or_else(|| format!("the recorder's account leaves {}", left.in_chunks))?;
        }
        Ok(())
    }

    /// Frames that the times of two chunks leave between them. Single frames may have a wrong time: what any pair of times
    /// leaves, can be.
    fn by_time(&self, here: &Around, adopted: bool) -> Option<u128> {
        let before = self.before.filter(|before| before.epoch == here.epoch)?;
        let from = [(before.first, before.units), (before.last, 0)];
        let to = [(here.first, 0), (here.last, here.units)];
        let pairs = from.into_iter().flat_map(|from| to.into_iter().map(move |to| (from, to)));
        let most = pairs.filter_map(|((from, units), (to, more))| {
            Some(self.most(from?, to?, adopted)?.saturating_sub(i128::from(units) + i128::from(more)))
        });
        Some(u128::try_from(most.max()?).unwrap_or(0))
    }

    /// The most frames that there can be from one time to another, both included.
    fn most(&self, from: Time, to: Time, adopted: bool) -> Option<i128> {
        let rate = self.rate?;
        // Threads need not begin a frame number together, and those of a file that was adopted may be apart.
        let slack = 2 + if adopted { i128::from(rate.get()?.0) } else { 0 };
        rate.steps(from, to)?.checked_add(1 + slack)?.checked_mul(i128::from(self.lanes))
    }

    /// Whether the frames that are missing in a chunk fit into it.
    fn within(&mut self, record: &ChunkRecord) -> Result<(), String> {
        let (meta, missing) = (&record.meta, record.meta.missing_units());
        if meta.heaps.is_some() {
            return Ok(());
        }
        let mut end = 0;
        for range in &meta.missing {
            if range.start < end || range.end < range.start || range.end > meta.units {
                return Err(format!("they are no ranges, in order, of its {} frames", meta.units));
            }
            end = range.end;
        }
        let there = if meta.packed { meta.received_units() } else { u64::from(meta.units) };
        if let Some(frames) = record.bytes.checked_div(self.unit)
            && there > frames + u64::from(frames * self.unit < record.bytes)
        {
            return Err(format!("{there} others cannot lie in its {} bytes", record.bytes));
        }
        self.bounded(meta.units.into())?;
        if meta.packed && missing > 0 {
            if !record.adopted {
                self.whole(meta.units)?;
            }
            let times = meta.first_time.zip(meta.last_time);
            let most = times.and_then(|(from, to)| self.most(from, to, record.adopted));
            if let Some(most) = most.filter(|&most| i128::from(meta.units) > most) {
                return Err(format!("its times leave {} frames in all", most.max(0)));
            }
        }
        self.take_in_chunks(missing, record.adopted)
    }

    /// Whether a chunk can have so many frames. Threads that join later change the length of whole chunks a little.
    fn whole(&self, units: u32) -> Result<(), String> {
        match u64::from(units) > self.whole.saturating_mul(2) && self.whole > 0 {
            true => Err(format!("a whole chunk has {}", self.whole)),
            false => Ok(()),
        }
    }

    /// Takes a chunk for what its bytes are, and believes none of its missing frames.
    fn believe_bytes(&self, record: &mut ChunkRecord) {
        let meta = &mut record.meta;
        let frames = record.bytes.checked_div(self.unit).unwrap_or(u64::from(meta.units));
        meta.units = u32::try_from(frames).unwrap_or(u32::MAX).min(meta.units);
        meta.missing = Vec::new();
        meta.packed = false;
    }
}

fn lost_before(gap: u64, number: u32) -> String {
    format!("{gap} frames lost before chunk {number}")
}

/// Judge all records of a datastream. `is_own`: its account is that of the recorder that wrote them; `has_rate`: the rate of the index is
/// that of all of its frames.
pub(super) fn judge(stream: &mut DatastreamEntry, is_own: bool, has_rate: bool) {
    let mut found = Vec::new();
    let mut claims = Claims::new(&stream.name, stream.datastream.as_ref(), None);
    if let Some(account) = &mut stream.account {
        let expected = account.ledger.expected();
        if claims.bounded(expected).is_err() {
            let claim = format!("{expected} frames in all");
            let nowhere = Around { epoch: 0, units: 0, first: None, last: None };
            found.push(claims.contradicted(0, &claim, "no recording has so many bytes", nowhere));
            account.ledger = Default::default();
        }
    }
    let account = stream.account.as_ref().filter(|_| is_own);
    claims = Claims::new(&stream.name, stream.datastream.as_ref(), account);
    claims.rate = claims.rate.filter(|_| has_rate);
    let recorded = stream.chunks.iter().filter_map(|(&number, chunk)| Some((number, chunk.record.as_ref()?)));
    let epochs: Vec<(u32, u64)> = recorded.map(|(number, record)| (number, record.meta.epoch)).collect();
    let mut lost = stream.lost.values_mut().peekable();
    let mut lost_before = |number: Option<u32>, claims: &mut Claims, found: &mut Vec<Gap>| {
        while let Some(lost) = lost.next_if(|lost| number.is_none_or(|number| lost.number < number)) {
            let behind = epochs.get(epochs.partition_point(|&(number, _)| number < lost.number));
            found.extend(claims.lost(lost, behind.map(|&(_, epoch)| epoch)));
        }
    };
    for (&number, chunk) in &mut stream.chunks {
        lost_before(Some(number), &mut claims, &mut found);
        found.extend(chunk.record.iter_mut().flat_map(|record| claims.chunk(record)));
    }
    lost_before(None, &mut claims, &mut found);
    stream.contradicted = found;
}

#[cfg(test)]
mod tests;
