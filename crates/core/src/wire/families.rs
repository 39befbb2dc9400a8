//! The registry: one line for each family, and no other file names them.
//!
//! The line makes a family known to everything off the data path ([`FAMILIES`]) and compiles its layout into whatever is
//! generic over layouts ([`StreamFormat::visit`]). Decision 0010 has the reasons.

use super::family::{FamilyRef, Format, Framed, Known, StreamFormat};
use super::frame::Framing;
use super::keyed::{Keyed, KnownKeyed, PacketEnd, VisitKeyed, end_of};
use super::labelled::{KnownLabelled, VisitLabelled};
use super::layout::LayoutRule;
use super::{ejfat, fila10g, lofar, mark5b, spead, vdif};
use crate::placement::rule::{BadRule, RuleWake};
use crate::placement::{Geometry, Layout, Reject};
use std::{any::Any, fmt, str::FromStr};

/// Builds something generic over a layout; the compiler instantiates it for each family.
pub trait Visit {
    /// The result.
    type Out;

    /// Build it for this layout.
    fn visit<L: Layout + fmt::Debug + Send + Sync + 'static>(self, layout: L) -> Self::Out;
}

macro_rules! families {
    ($($known:ty => $kind:ident $($labels:ident)?),+ $(,)?) => {
        /// All families, in the order in which they are listed.
        pub static FAMILIES: &[FamilyRef] = &[$(<$known as Known>::FAMILY),+];

        impl StreamFormat {
            /// Call `visitor` with the concrete layout of this stream's packets, so that nothing is left to dispatch at
            /// run time.
            ///
            /// # Errors
            /// [`Reject::Outside`] if an object has no room for one frame of each thread, [`Reject::WrongSize`] if no
            /// byte of a packet is kept, [`Reject::BadField`] for an invalid frame rate, [`Reject::UnknownThread`] for
            /// invalid threads, [`Reject::Unrecognised`] if a value that the layout needs is not set,
            /// [`Reject::NotFrames`] for families whose objects are not frames.
            pub fn visit<V: Visit>(&self, visitor: V) -> Result<V::Out, Reject> {
                let own: &dyn Any = &*self.own;
                $(families!(@layout $kind, $known, own, self, visitor);)+
                Err(Reject::NotFrames)
            }

            /// The rule by which the kernel places this stream's packets, in so many slots.
            ///
            /// # Errors
            /// There is no rule for its format, or for such streams: their rate is unknown, or their blocks are too large.
            pub fn rule(&self, slots: u32, wake: RuleWake) -> Result<LayoutRule, BadRule> {
                let own: &dyn Any = &*self.own;
                $(families!(@rule $kind, $known, own, self, slots, wake);)+
                Err(BadRule("there is none for this format"))
            }
        }

        impl FamilyRef {
            /// Call `visitor` with the concrete type of this family. `None` for a family of frames, whose streams have a
            /// [layout](StreamFormat::visit).
            pub fn visit_keyed<V: VisitKeyed>(self, visitor: V) -> Option<V::Out> {
                $(families!(@wire $kind, $known, self, visitor);)+
                None
            }

            /// Call `visitor` with the labels of this family. `None` for a family whose packets no balancer distributes.
            pub fn visit_labelled<V: VisitLabelled>(self, visitor: V) -> Option<V::Out> {
                $($(families!(@$labels $known, self, visitor);)?)+
                None
            }
        }
    };
    (@layout frames, $known:ty, $own:ident, $stream:ident, $visitor:ident) => {
        if let Some(known) = $own.downcast_ref::<$known>() {
            return Ok($visitor.visit(known.layout($stream)?));
        }
    };
    (@layout keyed, $($rest:tt)*) => {};
    (@rule frames, $known:ty, $own:ident, $stream:ident, $slots:ident, $wake:ident) => {
        if let Some(known) = $own.downcast_ref::<$known>() {
            return known.rule($stream, $slots, $wake);
        }
    };
    (@rule keyed, $($rest:tt)*) => {};
    (@wire frames, $($rest:tt)*) => {};
    (@wire keyed, $known:ty, $family:ident, $visitor:ident) => {
        if $family == <$known as Known>::FAMILY {
            return Some($visitor.visit::<<$known as KnownKeyed>::Wire>());
        }
    };
    (@labelled $known:ty, $family:ident, $visitor:ident) => {
        if $family == <$known as Known>::FAMILY {
            return Some($visitor.visit::<<$known as KnownLabelled>::Labels>());
        }
    };
}

families! {
    vdif::VdifStream => frames,
    mark5b::Mark5bStream => frames,
    fila10g::Fila10gStream => frames,
    lofar::LofarStream => frames,
    spead::SpeadStream => keyed,
    ejfat::EjfatStream => keyed labelled,
}

/// All families in the order in which they are tried on a packet: those with a magic number first.
pub fn by_proof() -> impl Iterator<Item = FamilyRef> {
    let with = |magic| FAMILIES.iter().copied().filter(move |family| family.has_magic() == magic);
    with(true).chain(with(false))
}

impl StreamFormat {
    /// The layout as a trait object, for use off the data path.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    pub fn layout(&self) -> Result<Box<dyn Layout + Send + Sync>, Reject> {
        struct Boxed;
        impl Visit for Boxed {
            type Out = Box<dyn Layout + Send + Sync>;
            fn visit<L: Layout + fmt::Debug + Send + Sync + 'static>(self, layout: L) -> Self::Out {
                Box::new(layout)
            }
        }
        self.visit(Boxed)
    }

    /// How the stream divides into objects.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    pub fn geometry(&self) -> Result<Geometry, Reject> {
        struct Divided;
        impl Visit for Divided {
            type Out = Geometry;
            fn visit<L: Layout + fmt::Debug + Send + Sync + 'static>(self, layout: L) -> Geometry {
                layout.geometry()
            }
        }
        self.visit(Divided)
    }
}

impl Format {
    /// All formats that can be requested.
    pub fn all() -> impl Iterator<Item = Format> {
        std::iter::once(Format::Auto).chain(FAMILIES.iter().copied().map(Format::Of))
    }

    /// The families of this format, in the order in which they are tried on a packet.
    pub fn families(self) -> impl Iterator<Item = FamilyRef> {
        by_proof().filter(move |family| self.family().is_none_or(|asked| asked == *family))
    }

    /// The function that finds the end of a packet, of the first of these families whose packets state their length.
    #[must_use]
    pub fn packet_end(self) -> Option<PacketEnd> {
        struct End;
        impl VisitKeyed for End {
            type Out = PacketEnd;
            fn visit<W: Keyed>(self) -> PacketEnd {
                end_of::<W>
            }
        }
        self.families().filter(|family| family.packets().is_some()).find_map(|family| family.visit_keyed(End))
    }

    /// Where the first frame of `bytes` ends, according to the first of these families that recognises it.
    #[must_use]
    pub fn framing(self, bytes: &[u8]) -> Framing {
        self.framed(bytes).1
    }

    /// The same, with the family that recognised it.
    #[must_use]
    pub fn framed(self, bytes: &[u8]) -> (Option<FamilyRef>, Framing) {
        let mut answer = Framing::Unknown;
        for family in self.families() {
            match family.frames().map_or(Framing::Unknown, |frames| frames.framing(bytes)) {
                Framing::Unknown => {}
                // Another family may recognise it already.
                Framing::Incomplete => answer = Framing::Incomplete,
                known @ Framing::Length(_) => return (Some(family), known),
            }
        }
        (None, answer)
    }
}

/// A name that is not a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no format '{}'; there are", self.0)?;
        Format::all().try_for_each(|format| write!(f, " {format}"))
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let is_called = |format: &Format| {
            let aliases = format.family().map_or(&[][..], |family| family.aliases());
            aliases.iter().chain([&format.name()]).any(|known| known.eq_ignore_ascii_case(&plain))
        };
        Format::all().find(is_called).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn formats_have_names() {
        for format in Format::all() {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("Mark-5B".parse(), Ok(Format::Of(mark5b::Mark5bStream::FAMILY)));
        assert_eq!(
            "mk6".parse::<Format>().unwrap_err().to_string(),
            "no format 'mk6'; there are auto vdif mark5b fila10g lofar spead ejfat"
        );
    }

    #[test]
    fn no_two_families_share_a_name() {
        let names =
            FAMILIES.iter().flat_map(|family| family.aliases().iter().copied().chain([family.name()]));
        let names: Vec<&str> = names.chain(["auto"]).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(by_proof().count(), FAMILIES.len());
    }

    #[test]
    fn a_magic_number_is_believed_before_a_length() {
        let sync = mark5b::SYNC.to_le_bytes();
        assert_eq!(Format::Auto.framing(&sync), Framing::Length(mark5b::FRAME));
        assert_eq!(Format::Auto.framing(&sync[..3]), Framing::Incomplete);
        assert_eq!(Format::Auto.framing(&[0; 15]), Framing::Incomplete);
        assert_eq!(Format::Auto.framing(&[0; 16]), Framing::Unknown);
        assert_eq!(Format::Of(spead::SpeadStream::FAMILY).framing(&sync), Framing::Unknown);
    }
}
