//! Zeros, without writing them where that is not needed.

use super::super::mapping::HUGE;

/// Set `part` to zero.
///
/// # Safety
/// It lies in a private anonymous mapping.
pub(super) unsafe fn zero(part: &mut [u8]) {
    let begin = part.as_ptr().addr().next_multiple_of(HUGE) - part.as_ptr().addr();
    let pages = part.len().saturating_sub(begin) / HUGE * HUGE;
    if pages == 0 || cfg!(miri) {
        return part.fill(0);
    }
    let (before, rest) = part.split_at_mut(begin);
    let (inside, behind) = rest.split_at_mut(pages);
    before.fill(0);
    behind.fill(0);
    let (start, length) = (inside.as_mut_ptr().cast(), inside.len());
    // SAFETY: whole pages of a private anonymous mapping, as the caller says; then they read as zeros, which are valid bytes.
    let done = unsafe { rustix::mm::madvise(start, length, rustix::mm::Advice::LinuxDontNeed) };
    if done.is_err() {
        inside.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::HeapMemory;
    use super::HUGE;

    #[test]
    fn exactly_the_part_is_zero() {
        let bytes = 5 * HUGE;
        let memory = HeapMemory::new(64 << 20);
        for (start, end) in [
            (0, bytes),
            (1, bytes - 1),
            (HUGE + 3, HUGE + 4),
            (HUGE - 1, 3 * HUGE + 1),
            (HUGE, 2 * HUGE),
            (7, 7),
        ] {
            let mut heap = memory.take(bytes).unwrap();
            heap.fill(0xA5);
            heap.zero(start..end);
            let wrong = heap
                .iter()
                .enumerate()
                .find(|&(at, &byte)| byte != if (start..end).contains(&at) { 0 } else { 0xA5 });
            assert_eq!(wrong, None, "{start}..{end}");
        }
    }
}
