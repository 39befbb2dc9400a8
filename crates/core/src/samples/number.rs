//! The types that samples are decoded to.

use super::coding::Coding;

/// A type of decoded samples: levels as `f32`, or signed integers.
pub trait Number: Copy + PartialEq + Send + Sync + 'static {
    /// The value of a missing sample: NaN, or the lowest integer of the type.
    const MISSING: Self;
    /// Maximum number of bits of a code.
    const BITS: u32;

    /// The number of a code.
    fn of(coding: Coding, code: u32) -> Self;
}

impl Number for f32 {
    const MISSING: f32 = f32::NAN;
    const BITS: u32 = 32;

    #[inline]
    fn of(coding: Coding, code: u32) -> f32 {
        coding.level(code)
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            const MISSING: $t = <$t>::MIN;
            const BITS: u32 = <$t>::BITS;

            #[inline]
            fn of(coding: Coding, code: u32) -> $t {
                coding.integer(code) as $t
            }
        }
    )*};
}
integers!(i8 i16 i32);
