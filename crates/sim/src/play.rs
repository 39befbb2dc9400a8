//! Any world by its number: of streams of frames, or of the objects of one of the families that have keys.

use crate::keyed::{Objects, worlds};
use crate::ledger::{Held, Tally};
use crate::ordered::Frames;
use crate::world::{Log, World};
use skyhaul_core::wire::keyed::{Keyed, VisitKeyed};
use skyhaul_core::wire::{FAMILIES, FamilyRef, Objects as Kinds};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The families of keyed objects.
fn keyed() -> impl Iterator<Item = FamilyRef> {
    FAMILIES.iter().copied().filter(|family| family.objects() != Kinds::Frames)
}

/// A panic is something that did not hold.
fn caught(world: impl FnOnce() -> Held<Tally>) -> Held<Tally> {
    catch_unwind(AssertUnwindSafe(world)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

/// How many numbers it takes for a world of frames and one of each family of keyed objects.
pub fn round() -> u64 {
    1 + keyed().count() as u64
}

/// Play the world of this seed.
pub fn seed(seed: u64, log: Log<'_>) -> Held<Tally> {
    struct Play<'a>(u64, Log<'a>);
    impl VisitKeyed for Play<'_> {
        type Out = Held<Tally>;
        fn visit<W: Keyed>(self) -> Held<Tally> {
            caught(|| World::<Objects<W>>::random(self.0).run(self.1))
        }
    }
    let family = (seed % round()).checked_sub(1).and_then(|n| keyed().nth(n as usize));
    match family {
        None => caught(|| World::<Frames>::random(seed)?.run(log)),
        Some(family) => {
            family.visit_keyed(Play(seed, log)).unwrap_or_else(|| Err(format!("{family} has no keys")))
        }
    }
}

/// Play all small worlds of all families of keyed objects, of those with two faults each `every`-th.
pub fn small(every: usize) -> Held<Tally> {
    struct Play(usize);
    impl VisitKeyed for Play {
        type Out = Held<Tally>;
        fn visit<W: Keyed>(self) -> Held<Tally> {
            let mut sum = Tally::default();
            for (name, world) in worlds::<W>(self.0) {
                sum.add(&caught(|| world.run(&mut |_| ())).map_err(|why| format!("{name}: {why}"))?);
            }
            Ok(sum)
        }
    }
    let mut sum = Tally::default();
    for family in keyed() {
        let played = family.visit_keyed(Play(every)).unwrap_or_else(|| Ok(Tally::default()));
        sum.add(&played.map_err(|why| format!("small world of {family}: {why}"))?);
    }
    Ok(sum)
}
