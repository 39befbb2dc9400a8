//! The registry: one line for each family, and nothing else of the tree names them.
//!
//! The line makes a family known to all cold work ([`FAMILIES`]) and compiles its layout into whatever is built of
//! layouts ([`StreamFormat::visit`]). Decision 0010 has the reasons.

use super::{
    ejfat,
    family::{FamilyRef, Format, Framed, Known, StreamFormat},
    fila10g,
    frame::Framing,
    joined::{PacketEnd, end_of},
    keyed::{Keyed, KnownKeyed, VisitKeyed},
    lofar, mark5b,
    restamp::{RestampError, Restamper},
    spead, vdif,
};
use crate::placement::{Geometry, Layout, Reject};
use std::{any::Any, fmt, str::FromStr};

/// Something to be built of a layout, once for each family: the compiler makes a copy of it for each.
pub trait Visit {
    /// What is built.
    type Out;

    /// Build it of this layout.
    fn visit<L: Layout + fmt::Debug + Send + Sync + 'static>(self, layout: L) -> Self::Out;
}

macro_rules! families {
    ($($known:ty => $kind:ident),+ $(,)?) => {
        /// All families, in the order in which they are shown.
        pub static FAMILIES: &[FamilyRef] = &[$(<$known as Known>::FAMILY),+];

        impl StreamFormat {
            /// Give the layout of this stream's packets to `visitor`, as the type it is: what the visitor builds has
            /// no more to choose.
            ///
            /// # Errors
            /// [`Reject::Outside`] where an object has no room for one frame of each thread, [`Reject::WrongSize`]
            /// where nothing of a packet is kept, [`Reject::BadField`] for an impossible frame rate,
            /// [`Reject::UnknownThread`] for impossible threads, [`Reject::Unrecognised`] where what the layout needs
            /// was not filled in, [`Reject::NotFrames`] for families whose objects are not frames.
            pub fn visit<V: Visit>(&self, visitor: V) -> Result<V::Out, Reject> {
                let own: &dyn Any = &*self.own;
                $(families!(@layout $kind, $known, own, self, visitor);)+
                Err(Reject::NotFrames)
            }
        }

        impl FamilyRef {
            /// Let `visitor` build for this family, as the type it is. `None`: it is a family of frames, whose streams
            /// have a [layout](StreamFormat::visit).
            pub fn visit_keyed<V: VisitKeyed>(self, visitor: V) -> Option<V::Out> {
                $(families!(@wire $kind, $known, self, visitor);)+
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
    (@wire frames, $($rest:tt)*) => {};
    (@wire keyed, $known:ty, $family:ident, $visitor:ident) => {
        if $family == <$known as Known>::FAMILY {
            return Some($visitor.visit::<<$known as KnownKeyed>::Wire>());
        }
    };
}

families! {
    vdif::VdifStream => frames,
    mark5b::Mark5bStream => frames,
    fila10g::Fila10gStream => frames,
    lofar::LofarStream => frames,
    spead::SpeadStream => keyed,
    ejfat::EjfatStream => keyed,
}

/// All families in the order in which they are asked what a packet is: those that a magic number proves first.
pub fn by_proof() -> impl Iterator<Item = FamilyRef> {
    let with = |magic| FAMILIES.iter().copied().filter(move |family| family.has_magic() == magic);
    with(true).chain(with(false))
}

impl StreamFormat {
    /// How its packets are placed, where it does not matter how fast that is told.
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
    /// All that can be asked for.
    pub fn all() -> impl Iterator<Item = Format> {
        std::iter::once(Format::Auto).chain(FAMILIES.iter().copied().map(Format::Of))
    }

    /// The families that may be meant, in the order in which they are asked what a packet is.
    pub fn families(self) -> impl Iterator<Item = FamilyRef> {
        by_proof().filter(move |family| self.family().is_none_or(|asked| asked == *family))
    }

    /// What tells where a packet ends, of the first of these families whose packets say that.
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

    /// Where the frame with which `bytes` begin ends, to the first of these families that knows.
    #[must_use]
    pub fn framing(self, bytes: &[u8]) -> Framing {
        self.framed(bytes).1
    }

    /// The same, and which family it was that knew, if one did.
    #[must_use]
    pub fn framed(self, bytes: &[u8]) -> (Option<FamilyRef>, Framing) {
        let mut answer = Framing::Unknown;
        for family in self.families() {
            match family.frames().map_or(Framing::Unknown, |frames| frames.framing(bytes)) {
                Framing::Unknown => {}
                // Another family may know already.
                Framing::Incomplete => answer = Framing::Incomplete,
                known @ Framing::Length(_) => return (Some(family), known),
            }
        }
        (None, answer)
    }

    /// The frames of `file`, which stand one after the other, to be sent again with times that run on.
    /// [`Format::Auto`] takes them for what the first looks like. `fps`, frames of one thread in a second, is needed
    /// where neither headers nor the end of a second in the file tell it.
    ///
    /// # Errors
    /// See [`RestampError`].
    pub fn restamp(self, file: &[u8], fps: Option<u32>) -> Result<Restamper, RestampError> {
        let found = || match self.framed(file) {
            (found, Framing::Length(_)) => found,
            // What says why it is no file of frames is the first that cannot rule that out by a magic number.
            _ => self.families().find(|family| family.frames().is_some() && !family.has_magic()),
        };
        let family = self.family().or_else(found).ok_or(RestampError::Empty)?;
        family.restamp(file, fps)
    }
}

/// A name that no format has.
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
