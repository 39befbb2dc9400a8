//! Rows from columns, as loops that a compiler vectorises; and where samples are written: into the cache, or past it.

/// Transpose on any CPU; also compiled with the instructions of newer ones.
#[inline(always)]
pub(super) fn rows<T: Copy>(columns: &[T], threads: usize, each: usize, out: &mut [T]) {
    match (threads, each) {
        (1, _) => out.copy_from_slice(columns),
        (2, 1) => rows_of::<T, 2, 1>(columns, out),
        (4, 1) => rows_of::<T, 4, 1>(columns, out),
        (8, 1) => rows_of::<T, 8, 1>(columns, out),
        (2, 2) => rows_of::<T, 2, 2>(columns, out),
        (4, 2) => rows_of::<T, 4, 2>(columns, out),
        (8, 2) => rows_of::<T, 8, 2>(columns, out),
        (_, 1) => by_blocks::<T, 1>(columns, threads, out),
        (_, 2) => by_blocks::<T, 2>(columns, threads, out),
        _ => {
            let column = columns.len() / threads;
            for (n, row) in out.chunks_exact_mut(threads * each).enumerate() {
                for (thread, to) in row.chunks_exact_mut(each).enumerate() {
                    to.copy_from_slice(&columns[thread * column + n * each..][..each]);
                }
            }
        }
    }
}

/// Many threads with few samples each, eight threads at a time, so that whole cache lines are written.
#[inline(always)]
fn by_blocks<T: Copy, const EACH: usize>(columns: &[T], threads: usize, out: &mut [T]) {
    let column = columns.len() / threads;
    for first in (0..threads).step_by(8) {
        if threads - first >= 8 {
            block::<T, 8, EACH>(&columns[first * column..], column, threads, first, out);
        } else {
            (first..threads).for_each(|thread| {
                block::<T, 1, EACH>(&columns[thread * column..], column, threads, thread, out);
            });
        }
    }
}

/// Write `THREADS` columns of every row, from column `first` on.
#[inline(always)]
fn block<T: Copy, const THREADS: usize, const EACH: usize>(
    columns: &[T],
    column: usize,
    threads: usize,
    first: usize,
    out: &mut [T],
) {
    let columns: [&[[T; EACH]]; THREADS] =
        std::array::from_fn(|thread| columns[thread * column..][..column].as_chunks().0);
    for (n, row) in out.chunks_exact_mut(threads * EACH).enumerate() {
        let to = &mut row.as_chunks_mut::<EACH>().0[first..first + THREADS];
        for (to, column) in to.iter_mut().zip(columns) {
            *to = column[n];
        }
    }
}

#[inline(always)]
fn rows_of<T: Copy, const THREADS: usize, const EACH: usize>(columns: &[T], out: &mut [T]) {
    let column = columns.len() / THREADS;
    let columns: [&[T]; THREADS] = std::array::from_fn(|thread| &columns[thread * column..][..column]);
    for (n, row) in out.chunks_exact_mut(THREADS * EACH).enumerate() {
        for (thread, to) in row.chunks_exact_mut(EACH).enumerate() {
            to.copy_from_slice(&columns[thread][n * EACH..][..EACH]);
        }
    }
}

/// How decoded samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To memory that is in the cache, or is read again soon.
    Warm,
    /// To an array larger than the cache: lines are written past the cache.
    Cold,
}

impl Target {
    /// The faster choice for an array of this many bytes.
    #[must_use]
    pub fn of(octets: usize) -> Self {
        // A quarter, because other programs share the cache.
        if octets > crate::copy::cache_bytes() / 4 { Target::Cold } else { Target::Warm }
    }
}
