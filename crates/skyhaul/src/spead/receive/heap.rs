//! A received heap: an object with items.

use crate::receive::keyed::Object;
use skyhaul_core::wire::spead::{BugCompat, Descriptor, DescriptorError};
use skyhaul_core::wire::spead::{Flavour, RawItem, SpeadWire, id, items};

/// A received heap: payload, item pointers, and what is known about it.
pub type Heap = Object<SpeadWire>;

impl Heap {
    /// How its pointers divide into mode, id and value.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.kept.flavour
    }

    /// Its item pointers in native byte order, each once, in order of arrival, without those that every packet has
    /// (counter, size, offset, length).
    #[must_use]
    pub fn pointers(&self) -> &[u64] {
        self.kept.pointers()
    }

    /// Its items: addressed ones by address, then immediate ones.
    #[must_use]
    pub fn items(&self) -> Vec<RawItem> {
        items::items(self.flavour(), self.pointers(), self.payload().len() as u64)
    }

    /// The bytes of an addressed item of this heap; empty for an immediate one.
    #[must_use]
    pub fn item_bytes(&self, item: &RawItem) -> &[u8] {
        let (start, end) = (usize::try_from(item.range.start), usize::try_from(item.range.end));
        start.ok().zip(end.ok()).and_then(|(start, end)| self.payload().get(start..end)).unwrap_or_default()
    }

    /// The value of the last immediate item with this id.
    #[must_use]
    pub fn immediate(&self, id: u64) -> Option<u64> {
        let mut parts = self.pointers().iter().map(|&pointer| self.flavour().parts(pointer));
        parts.rfind(|item| item.immediate && item.id == id).map(|item| item.value)
    }

    /// Its descriptors. Each is read separately: an invalid one does not hide the others.
    ///
    /// # Errors
    /// For each invalid descriptor, the reason.
    pub fn descriptors(
        &self,
        compat: BugCompat,
    ) -> impl Iterator<Item = Result<Descriptor, DescriptorError>> + '_ {
        let found = self.items().into_iter().filter(|item| item.id == id::DESCRIPTOR && !item.immediate);
        found.map(move |item| Descriptor::read(self.item_bytes(&item), compat))
    }

    /// Whether an immediate stream control starts a stream (value 0).
    #[must_use]
    pub fn is_start_of_stream(&self) -> bool {
        self.has_control(0)
    }

    /// Whether an immediate stream control ends the stream (value 2).
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.has_control(2)
    }

    fn has_control(&self, value: u64) -> bool {
        let control = self.flavour().immediate(id::STREAM_CONTROL, value);
        self.pointers().contains(&control)
    }
}
