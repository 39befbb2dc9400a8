//! A header is a plain struct, defined like the standard's figure.
//!
//! Standards draw headers as words with bit ranges, so that is how they are written here: one row per word, fields
//! with their `[high:low]` bits (nothing: the whole word), byte order in front. The table gives
//!
//! * a struct with one public field per row: `..Default::default()` builds it, no getters, no setters;
//! * `read(packet) -> Option<(Self, rest)>`, which compiles to one length check and the loads that are used;
//! * `write() -> [u8; LEN]`;
//! * `FIELDS`, the table itself, for `inspect`, documentation and tests.
//!
//! ```
//! skyhaul_core::header! {
//!     /// Mark 5B disk frame header.
//!     Frame [8] {
//!         le u32 @ 0 { sync }
//!         le u32 @ 4 { user[31:16], test[15], /** Frame in the second. */ number[14:0] }
//!     }
//! }
//! let frame = Frame { sync: 0xABAD_DEED, number: 7, ..Frame::default() };
//! let bytes = frame.write();
//! assert_eq!(bytes, [0xED, 0xDE, 0xAD, 0xAB, 7, 0, 0, 0]);
//! assert_eq!(Frame::read(&bytes), Some((frame, &[][..])));
//! assert_eq!(Frame::FIELDS[3].doc.trim(), "Frame in the second.");
//! ```
//!
//! A table that cannot be right does not compile. Rows that overlap:
//!
//! ```compile_fail
//! skyhaul_core::header! { /** Overlap. */ Bad [4] { le u32 @ 0 { upper[31:15], lower[15:0] } } }
//! ```
//!
//! A word that leaves the header:
//!
//! ```compile_fail
//! skyhaul_core::header! { /** Overflow. */ Bad [4] { le u32 @ 2 { word } } }
//! ```
//!
//! A field that leaves its word:
//!
//! ```compile_fail
//! skyhaul_core::header! { /** Overflow. */ Bad [4] { le u32 @ 0 { field[32:1] } } }
//! ```
//!
//! Limits: words of 1, 2, 4 or 8 bytes; headers of at most 512 bits. `write` truncates a value wider than its field.
//! Meaning (units, validity) does not belong in the table but in a short `impl` below it.

use crate::placement::rule::RuleLoad;

/// Byte order of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Least significant byte first (VDIF, Mark 5B).
    Little,
    /// Most significant byte first (SPEAD, EJFAT: network order).
    Big,
}

/// One field of a header table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The standard's name for it.
    pub name: &'static str,
    /// Byte of the header where its word starts.
    pub byte: usize,
    /// Bytes of its word.
    pub width: usize,
    /// Its lowest bit in the word.
    pub lsb: u32,
    /// Number of bits.
    pub bits: u32,
    /// Byte order of the word.
    pub order: Order,
    /// Its description in the table; may be empty.
    pub doc: &'static str,
}

impl Field {
    /// The field of this name. In a constant, a wrong name does not compile.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub const fn named(fields: &[Field], name: &str) -> Field {
        let mut i = 0;
        while i < fields.len() {
            if is_same(fields[i].name.as_bytes(), name.as_bytes()) {
                return fields[i];
            }
            i += 1;
        }
        panic!("no field has this name")
    }

    /// The load of a placement rule for this field, in a packet whose header begins at this byte.
    #[must_use]
    pub const fn load(&self, start: usize) -> RuleLoad {
        RuleLoad {
            byte: (start + self.byte) as u16,
            width: self.width as u8,
            is_big_endian: matches!(self.order, Order::Big),
            lsb: self.lsb as u8,
            bits: self.bits as u8,
        }
    }

    /// The largest value it can hold.
    #[must_use]
    pub const fn max(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Its value in `header`, or `None` if `header` ends before it.
    #[must_use]
    pub fn value(&self, header: &[u8]) -> Option<u64> {
        let word = header.get(self.byte..self.byte + self.width)?;
        let add = |word: u64, octet: &u8| word << 8 | u64::from(*octet);
        let word = match self.order {
            Order::Big => word.iter().fold(0, add),
            Order::Little => word.iter().rev().fold(0, add),
        };
        Some(word >> self.lsb & self.max())
    }
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Rejects, at compile time, a table whose fields overlap or exceed the header.
pub const fn check(fields: &[Field], len: usize) {
    assert!(len <= 64, "header longer than 512 bits");
    let mut used = [false; 512];
    let mut i = 0;
    while i < fields.len() {
        let field = fields[i];
        assert!(field.byte + field.width <= len, "a word leaves the header");
        assert!(field.lsb + field.bits <= field.width as u32 * 8, "a field leaves its word");
        let mut bit = 0;
        while bit < field.bits {
            // Bits are numbered by significance within their bytes, so that overlapping words are found too.
            let at = field.lsb + bit;
            let octet = match field.order {
                Order::Little => field.byte + at as usize / 8,
                Order::Big => field.byte + field.width - 1 - at as usize / 8,
            };
            let place = octet * 8 + at as usize % 8;
            assert!(!used[place], "fields overlap");
            used[place] = true;
            bit += 1;
        }
        i += 1;
    }
}

/// Defines a header by its standard's figure; see [`wire::header`](crate::wire::header).
#[macro_export]
macro_rules! header {
    (@bits $word:ident) => { ($word::BITS - 1, 0) };
    (@bits $word:ident $bit:literal) => { ($bit, $bit) };
    (@bits $word:ident $high:literal : $low:literal) => { ($high, $low) };
    (@order le) => { $crate::wire::header::Order::Little };
    (@order be) => { $crate::wire::header::Order::Big };
    (@load le $word:ident $octets:expr) => { $word::from_le_bytes($octets) };
    (@load be $word:ident $octets:expr) => { $word::from_be_bytes($octets) };
    (@store le $word:expr) => { $word.to_le_bytes() };
    (@store be $word:expr) => { $word.to_be_bytes() };
    (
        $(#[$meta:meta])* $name:ident [$len:literal] {
            $( $order:ident $word:ident @ $at:literal {
                $( $(#[doc = $doc:literal])* $field:ident $([ $($range:tt)+ ])? ),+ $(,)?
            } )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name { $($(
            $(#[doc = $doc])*
            #[doc = concat!("`", stringify!($order), " ", stringify!($word), " @ ", $at, " [",
                            $(stringify!($($range)+),)? "]`")]
            pub $field: $word,
        )+)+ }

        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = $len;
            /// The table itself.
            pub const FIELDS: &'static [$crate::wire::header::Field] = &[$($({
                let (high, low): (u32, u32) = $crate::header!(@bits $word $($($range)+)?);
                $crate::wire::header::Field {
                    name: stringify!($field), byte: $at, width: size_of::<$word>(), lsb: low,
                    bits: high - low + 1, order: $crate::header!(@order $order), doc: concat!($($doc),*),
                }
            }),+),+];

            /// Split this header off the front of `packet`; `None` if `packet` is shorter.
            #[inline(always)]
            #[must_use]
            pub fn read(packet: &[u8]) -> Option<(Self, &[u8])> {
                let (head, rest) = packet.split_first_chunk::<$len>()?;
                let mut this = Self::default();
                $({
                    let word = $crate::header!(@load $order $word *head[$at..].first_chunk()?);
                    $(
                        let (high, low): (u32, u32) = $crate::header!(@bits $word $($($range)+)?);
                        this.$field = (word << ($word::BITS - 1 - high)) >> ($word::BITS - 1 - high + low);
                    )+
                })+
                Some((this, rest))
            }

            /// The bytes of this header; values wider than their field are truncated.
            #[inline]
            #[must_use]
            pub fn write(&self) -> [u8; $len] {
                let mut out = [0; $len];
                $({
                    let mut word: $word = 0;
                    $(
                        let (high, low): (u32, u32) = $crate::header!(@bits $word $($($range)+)?);
                        word |= (self.$field & ($word::MAX >> ($word::BITS - 1 - high + low))) << low;
                    )+
                    out[$at..$at + size_of::<$word>()].copy_from_slice(&$crate::header!(@store $order word));
                })+
                out
            }
        }
        const _: () = $crate::wire::header::check($name::FIELDS, $len);
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any bytes, read and written, keep every bit that has a row; and the table reads what `read` reads.
    pub(crate) fn round_trips(fields: &[Field], len: usize, rewrite: fn(&[u8]) -> Vec<u8>) {
        proptest!(|(raw in proptest::collection::vec(any::<u8>(), len))| {
            let written = rewrite(&raw);
            prop_assert_eq!(written.len(), len);
            prop_assert_eq!(&rewrite(&written), &written);
            for field in fields {
                prop_assert_eq!(field.value(&raw), field.value(&written), "{}", field.name);
                prop_assert_eq!(field.value(&raw[..field.byte]), None);
            }
            let ones: u32 = written.iter().map(|octet| octet.count_ones()).sum();
            let in_rows: u32 = fields.iter().filter_map(|f| f.value(&raw)).map(u64::count_ones).sum();
            prop_assert_eq!(ones, in_rows, "bits outside the rows are written as zero");
        });
    }

    /// One line per table: `round_trip!(Vdif);`
    macro_rules! round_trip {
        ($($table:ty),+ $(,)?) => { $(
            $crate::wire::header::tests::round_trips(<$table>::FIELDS, <$table>::LEN, |raw| {
                <$table>::read(raw).map(|(header, _)| header.write().to_vec()).unwrap_or_default()
            });
            assert_eq!(<$table>::read(&[0; <$table>::LEN - 1]), None);
        )+ };
    }
    pub(crate) use round_trip;

    // A table's items are public; the module keeps this one private.
    #[allow(unreachable_pub)]
    mod mixed {
        crate::header! {
            /// Every kind of entry that a table can have.
            Mixed [17] {
                be u8  @ 0 { version[7:4], low[3:0] }
                be u16 @ 1 { id }
                le u32 @ 3 { top[31], middle[20:9] }
                be u64 @ 7 { flag[63], value[62:0] }
                le u16 @ 15 { tail[15:1] }
            }
        }
    }
    use mixed::Mixed;

    #[test]
    fn every_width_and_order_round_trips() {
        round_trip!(Mixed);
    }

    #[test]
    fn a_value_wider_than_its_field_is_cut() {
        let wide = Mixed { version: 0xFF, middle: u32::MAX, ..Mixed::default() };
        let (cut, _) = Mixed::read(&wide.write()).unwrap();
        assert_eq!(cut, Mixed { version: 0xF, middle: 0xFFF, ..Mixed::default() });
    }
}
