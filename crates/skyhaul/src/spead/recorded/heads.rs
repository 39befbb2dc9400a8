//! Reads the heads of a chunk, after verifying it.

use super::{Chunk, FAR, First, Heaps, NEAR, Slot};
use crate::recording::{OpenPiece, Pieces};
use skyhaul_core::wire::spead::table::Table;
use skyhaul_core::wire::spead::{Head, id};

/// What the heads of a chunk say by themselves.
pub(super) struct Heads {
    pub(super) table: Table,
    pub(super) first: Option<First>,
    file: OpenPiece,
}

impl Heaps {
    /// Read the heads of a chunk, after verifying it; `None` if that fails: then it is in the gaps.
    pub(super) fn heads(&self, piece: usize) -> Option<Heads> {
        let of = &self.pieces.all()[piece];
        let file = self.pieces.open(of, self.verify)?;
        let (mut table, mut first) = (Table::default(), None);
        let read = each_head(&file, |head, octets, at| {
            first.get_or_insert_with(|| First(octets.to_vec()));
            table.add(head, 0, at);
        });
        if let Err(why) = read {
            self.pieces.note_unproven(of, format!("its packets are not valid: {why}"));
            return None;
        }
        Some(Heads { table, first, file })
    }

    /// Whether a chunk begins with the rest of a heap; `None` if its heaps are not those of its record.
    fn continues(&self, piece: usize, heads: &Heads) -> Option<bool> {
        if let Some(&continues) = self.pieces.all()[piece].known.continues.get() {
            return Some(continues);
        }
        let (found, told) = (heads.table.len() as u64, self.told(piece)?.count);
        match found.checked_sub(told) {
            Some(more @ (0 | 1)) => Some(more == 1),
            _ => {
                let text = format!("its packets are of {found} heaps, but its index record says {told}");
                self.pieces.note_unproven(&self.pieces.all()[piece], text);
                None
            }
        }
    }

    /// Make the table of a chunk.
    pub(super) fn read_chunk(&self, piece: usize) -> Option<Chunk> {
        let heads = self.heads(piece)?;
        let before = usize::from(self.continues(piece, &heads)?);
        let mut chunk = Chunk { table: heads.table, before, files: vec![heads.file], described: Vec::new() };
        self.go_on(piece, &mut chunk);
        chunk.table.shrink();
        if self.may_carry(piece, id::DESCRIPTOR) {
            chunk.described = self.describe(&chunk);
        }
        Some(chunk)
    }

    /// Add the packets of the last heap that are in the next chunks.
    fn go_on(&self, piece: usize, chunk: &mut Chunk) {
        let mut last = piece;
        while chunk.heaps() > 0
            && self.number(last + 1).is_some_and(|next| Some(next) == self.number(last).map(|n| n + 1))
        {
            let heap = chunk.table.heap(chunk.table.len() - 1);
            // The size tells; without one, only the next chunk does.
            if heap.is_some_and(|heap| heap.size.is_some() && heap.is_complete()) {
                return;
            }
            // Most often the next chunk begins with a heap of its own, which is seen by its first head.
            let next = last + 1;
            if !self.peeked(next, &chunk.table) {
                return;
            }
            let Some(heads) = self.heads(next) else { return };
            if self.continues(next, &heads) != Some(true) {
                return;
            }
            let (file, mut is_all) = (chunk.files.len() as u32, true);
            let Heads { file: open, .. } = heads;
            let _ = each_head(&open, |head, _, at| {
                is_all &= chunk.table.is_continued_by(head);
                if is_all {
                    chunk.table.add(head, file, at);
                }
            });
            chunk.files.push(open);
            if !is_all {
                return;
            }
            last = next;
        }
    }

    /// Whether a piece may begin with a packet of the last heap of a table; it is not verified for that.
    fn peeked(&self, piece: usize, table: &Table) -> bool {
        let pieces: &Pieces<Slot> = &self.pieces;
        let Ok(open) = pieces.open_unverified(&pieces.all()[piece]) else { return true };
        let mut octets = vec![0; FAR];
        let Ok(read) = open.read(0, &mut octets) else { return true };
        // A head that is longer, or that is damaged, may be one.
        !matches!(Head::peek(&octets[..read]), Ok(Some(head)) if !table.is_continued_by(&head))
    }
}

/// Call `each` with every head of a chunk, its octets, and where its payload is.
fn each_head(file: &OpenPiece, mut each: impl FnMut(&Head<'_>, &[u8], u64)) -> Result<(), String> {
    let (mut octets, mut begin, mut at, mut want) = (Vec::new(), 0, 0u64, NEAR);
    while at < file.bytes {
        let have = usize::try_from(at - begin).ok().and_then(|skip| octets.get(skip..)).unwrap_or_default();
        let Some(head) = Head::peek(have).map_err(|why| format!("byte {at}: {}", why.name()))? else {
            let known = have.len();
            if known as u64 >= file.bytes - at || known >= Head::LONGEST {
                return Err("the file ends within a packet".to_owned());
            }
            octets.resize(want.max(2 * known), 0);
            let read = file.read(at, &mut octets).map_err(|error| error.to_string())?;
            if read <= known {
                return Err("it was truncated while it was read".to_owned());
            }
            octets.truncate(read);
            begin = at;
            continue;
        };
        let bytes = head.bytes();
        if bytes > file.bytes - at {
            return Err("the file ends within a packet".to_owned());
        }
        each(&head, &have[..head.start], at + head.start as u64);
        want = if bytes < NEAR as u64 / 4 { NEAR } else { FAR };
        at += bytes;
    }
    Ok(())
}
