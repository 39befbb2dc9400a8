//! Senders of objects of one family, with what its packets can say.

use super::stream::{Shape, Stream, Told};
use crate::random::Random;
use skyhaul_core::assembly::KeyedConfig;
use skyhaul_core::placement::{Key, Nanos};
use skyhaul_core::wire::keyed::{Control, Keyed, Part};
use std::fmt;
use std::marker::PhantomData;

/// Senders of objects of one family, and the window that they go to.
pub struct Objects<W> {
    /// What is sent.
    pub stream: Stream,
    /// The form of its packets.
    pub(super) form: u8,
    /// The highest number that they can tell.
    pub(super) highest: u64,
    /// Objects are keyed by their sender too.
    pub(super) keyed: bool,
    /// The receiver's limits.
    pub config: KeyedConfig,
    /// The receiver looks at its clock exactly when it should.
    pub(super) exact: bool,
    wire: PhantomData<W>,
}

impl<W> fmt::Debug for Objects<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = &self.stream.plans;
        write!(f, "form {}, keyed by sender: {}\n{:#?}\n{plans:#?}", self.form, self.keyed, self.config)
    }
}

/// Bits of an object's number that packets of this form tell; `None`: there is no such form.
pub(super) fn number_bits<W: Keyed>(form: u8) -> Option<u8> {
    let part = Part { size: Some(8), payload: &[0; 8], ..Part::default() };
    Some(W::placement(&W::read(&W::packet(form, &part)?).ok()?, 0).number_bits)
}

impl<W: Keyed> Objects<W> {
    /// Senders whose objects have this shape, as far as packets of this form can have it.
    pub(super) fn new(
        form: u8,
        shape: &Shape,
        keyed: bool,
        config: KeyedConfig,
        tick: Nanos,
        random: &mut Random,
    ) -> Objects<W> {
        let has = |part: Part<'_>| W::packet(form, &part).is_some();
        let whole = Part { size: Some(8), payload: &[0; 8], ..Part::default() };
        let shape = Shape {
            told: if has(Part { size: None, ..whole }) { shape.told } else { Some(Told::Always) },
            // The last packet of equal ones is shorter by one.
            payload: shape.payload.max(2),
            ..shape.clone()
        };
        let has_controls = has(Part { control: Some(Control::Start), ..whole });
        let least = u64::from(!has(Part { payload: &[], ..whole }));
        let bits = number_bits::<W>(form).map_or(64, u32::from);
        Objects {
            stream: Stream::new(&shape, has_controls, least, random),
            form,
            highest: u64::MAX >> (64 - bits),
            keyed,
            config,
            exact: tick.0 == 0,
            wire: PhantomData,
        }
    }

    /// The source under which a sender's objects are known.
    pub(super) fn source(&self, sender: u64) -> u64 {
        if self.keyed { sender + 1 } else { 0 }
    }

    /// The whole key of an object.
    pub(super) fn key(&self, plan: usize) -> Key {
        let plan = &self.stream.plans[plan];
        Key { source: self.source(plan.sender), number: plan.number }
    }

    pub(super) fn octets(&self, sender: u64, part: Part<'_>) -> Option<Vec<u8>> {
        W::packet(self.form, &Part { own: self.source(sender) as u16, ..part })
    }
}
