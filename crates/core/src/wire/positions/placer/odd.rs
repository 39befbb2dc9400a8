//! Frames in a row whose times are wrong: whether there are as many free places as there are such frames.

use super::Placer;

impl Placer {
    /// Frames at the beginning that have one second, if it is wrong, and the position by time of a frame behind them of one of their
    /// threads. `number`: that of the first one.
    pub(super) fn odd_beginning(&mut self, number: i64) -> Option<Option<(usize, i64)>> {
        let Some(second) = self.clock.whole_second() else { return Some(None) };
        let fps = i64::from(self.clock.count_fps);
        while let Some(seen) = self.visible(self.looked) {
            if !self.may_look() {
                return Some(None);
            }
            if let Some((of, position)) = self.counted(&seen) {
                let rank = self.rank(&seen);
                let is_same = of.div_euclid(fps) == number.div_euclid(fps);
                match self.beginning {
                    None if !is_same => self.beginning = Some(self.looked),
                    Some(_) if is_same => return Some(None),
                    _ => {}
                }
                let odd = self.beginning.unwrap_or_default();
                let before = self.waiting.range(..odd).rev().find(|before| self.rank(before) == rank);
                if let Some((_, last)) = before.and_then(|before| self.counted(before)) {
                    let place = last.saturating_add(self.lanes());
                    let is_odd = position.saturating_sub(place) % second == 0 && of.rem_euclid(fps) != 0;
                    return Some(is_odd.then_some((odd, position)));
                }
            }
            self.looked += 1;
        }
        (self.has_ended || self.is_full()).then_some(None)
    }

    /// The first frames are before `right`: each has the last position that its frame number allows.
    pub(super) fn keep_beginning(&mut self, odd: usize, right: i64) {
        let (lanes, second) = (self.lanes(), self.clock.second());
        let mut ends = vec![right.saturating_add(lanes - 1); self.of_threads.len()];
        for n in (0..odd).rev() {
            let frame = self.waiting[n];
            if let (Some((_, position)), Some(end)) =
                (self.counted(&frame), self.rank(&frame).and_then(|rank| ends.get_mut(rank)))
            {
                let at = end.saturating_sub(end.saturating_sub(position).rem_euclid(second));
                self.waiting[n].kept = Some(at);
                *end = at.saturating_sub(1);
            }
        }
    }

    /// Whether the first frame that waits is exactly a second before its place.
    pub(super) fn is_a_second_back(&self, at: i64) -> bool {
        let last = self.waiting.front().and_then(|head| self.last_of(head));
        let place = last.map(|last| last.saturating_add(self.lanes()));
        let second = self.clock.whole_second();
        place.zip(second).is_some_and(|(place, second)| at == place.saturating_sub(second))
    }

    /// Whether the time of the first frame that waits is wrong, and those of others of its thread with it: then they have their positions.
    /// `is_back`: they are a second before their places.
    pub(super) fn has_odd_time(&mut self, base: i64, is_back: bool) -> Option<bool> {
        let head = *self.waiting.front()?;
        let (rank, Some(last)) = (self.rank(&head), self.last_of(&head)) else { return Some(false) };
        let (lanes, second) = (self.lanes(), self.clock.second());
        while let Some(seen) = self.visible(self.looked + 1) {
            if !self.may_look() {
                return Some(false);
            }
            self.looked += 1;
            if self.rank(&seen) != rank {
                continue;
            }
            let Some((_, position)) = self.counted(&seen) else { continue };
            let (at, waiting) = (position.saturating_sub(base), self.looked as i64);
            let place = last.saturating_add(lanes.saturating_mul(self.odd + 1));
            let is_odd = if is_back {
                at < place && place.saturating_sub(at) % second == 0
            } else {
                let jump = at.saturating_sub(self.front);
                jump < -second || jump > second.saturating_add(waiting)
            };
            if is_odd {
                self.odd += 1;
                continue;
            }
            // Seconds that stand still begin and end with one.
            let is_still = [&head, &seen].iter().all(|frame| self.begins_second(frame));
            return Some((!is_back || at == place && !is_still) && self.keep(base, (last, at)));
        }
        match self.is_full() {
            true => Some(false),
            false => self.has_ended.then(|| self.keep_to_the_end(base, last)),
        }
    }

    /// Frames of the first one's thread that wait and are looked at, and their positions by their times.
    fn odd_frames(&self, base: i64) -> Vec<(usize, i64)> {
        let rank = self.waiting.front().and_then(|head| self.rank(head));
        let looked = self.waiting.range(..=self.looked.min(self.waiting.len() - 1)).enumerate();
        let of_thread = looked.filter(|(_, seen)| rank.is_some() && self.rank(seen) == rank);
        of_thread.filter_map(|(n, seen)| Some((n, self.counted(seen)?.1.saturating_sub(base)))).collect()
    }

    /// Frames that wait keep their places between those of `from` and `to` of their thread: if they have as many, or if they have one
    /// second, and their numbers fit there.
    fn keep(&mut self, base: i64, (from, to): (i64, i64)) -> bool {
        let (lanes, mut odd) = (self.lanes(), self.odd_frames(base));
        // The last one is at `to`.
        odd.pop();
        if to.saturating_sub(from) == lanes.saturating_mul(odd.len() as i64 + 1) {
            odd.iter_mut().zip(1..).for_each(|((_, at), n)| *at = from + lanes * n);
        } else if !self.have_one_second(base, &odd)
            || !self.fit(from, &mut odd)
            || odd.last().is_none_or(|(_, last)| *last >= to)
        {
            return false;
        }
        odd.into_iter().for_each(|(n, at)| self.waiting[n].kept = Some(at));
        true
    }

    /// The same of the last frames of a thread, whose numbers continue from `last`: they have one second, which is wrong.
    fn keep_to_the_end(&mut self, base: i64, last: i64) -> bool {
        let mut odd = self.odd_frames(base);
        let begins = self.waiting.front().is_some_and(|head| self.begins_second(head));
        if begins || !self.have_one_second(base, &odd) || !self.fit(last, &mut odd) {
            return false;
        }
        if odd.first().is_some_and(|&(_, at)| at != last.saturating_add(self.lanes())) {
            return false;
        }
        odd.into_iter().for_each(|(n, at)| self.waiting[n].kept = Some(at));
        true
    }

    /// Whether frames have the same second by their times. Those of a scan may have several.
    fn have_one_second(&self, base: i64, odd: &[(usize, i64)]) -> bool {
        let of = |&(_, at): &(usize, i64)| at.saturating_add(base).div_euclid(self.clock.second());
        odd.iter().all(|frame| of(frame) == odd.first().map_or(0, of))
    }

    /// Gives frames of a thread behind `last` the first positions that their numbers allow. Returns whether numbers give any.
    fn fit(&self, mut last: i64, odd: &mut [(usize, i64)]) -> bool {
        let Some(second) = self.clock.whole_second() else { return false };
        for (_, at) in odd {
            let next = last.saturating_add(1);
            last = next.saturating_add(at.saturating_sub(next).rem_euclid(second));
            *at = last;
        }
        true
    }
}
