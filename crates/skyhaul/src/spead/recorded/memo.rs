//! What was found by going back from the end of a piece, kept for all pieces from there on.

use std::collections::BTreeMap;

/// Values that hold for runs of pieces: the first of each, with the last and the value.
#[derive(Debug)]
pub(super) struct Memo<T>(BTreeMap<usize, (usize, T)>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Memo<T> {
    /// The value at the end of a piece, if it is known.
    pub(super) fn at(&self, piece: usize) -> Option<T> {
        let (_, (last, value)) = self.0.range(..=piece).next_back()?;
        (*last >= piece).then(|| value.clone())
    }

    /// The same value holds from the end of piece `first` to that of `last`.
    pub(super) fn put(&mut self, first: usize, last: usize, value: T) {
        // It is joined with the run that it was found in.
        if let Some((_, (end, _))) = self.0.range_mut(..=first).next_back()
            && *end >= first
        {
            *end = last.max(*end);
            return;
        }
        self.0.insert(first, (last, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_as_they_are_found() {
        let mut memo = Memo::default();
        memo.put(3, 5, 'a');
        memo.put(5, 9, 'a');
        memo.put(12, 12, 'b');
        assert_eq!((2..=13).map(|piece| memo.at(piece)).collect::<Vec<_>>(), {
            let mut told = vec![None; 12];
            told[1..=7].fill(Some('a'));
            told[10] = Some('b');
            told
        });
        assert_eq!(memo.0.len(), 2);
    }
}
