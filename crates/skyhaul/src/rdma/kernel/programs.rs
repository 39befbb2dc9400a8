//! Programs for connections to come. Each is for segments of one length.
//!
//! To load one takes the kernel a tenth of a second of CPU, and on a busy host seconds, so a thread does it: meanwhile the server
//! answers its other peers. The first is loaded before anybody connects.

use skyhaul_core::placement::rule::{RuleWake, SlotShape};
use skyhaul_core::wire::rdma::ddp::DdpTagged;
use skyhaul_core::wire::rdma::rules::WriteRule;
use skyhaul_core::wire::rdma::shim::UcShim;
use skyhaul_io::udp::bpf::{CannotPlace, PlacementArena, PlacementProgram};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Programs kept for connections to come.
const SPARE: usize = 4;
/// Bytes of the words of a connection's slots, at most; and slots. The server is woken when half of them are filled.
const SLOT_BYTES: usize = 8 << 20;
const SLOTS: [u32; 2] = [64, 1 << 16];
/// Of longer messages, what is behind comes up: room for each in every slot would leave few slots.
const MAX_MESSAGE_BYTES: u64 = 4 << 20;

/// A program, and its slots.
pub(super) type Loaded = (PlacementProgram, SlotShape);

#[derive(Debug)]
pub(super) struct Programs {
    arena: Arc<PlacementArena>,
    element_bytes: u32,
    elements: u32,
    /// Bytes of the longest region.
    longest: u64,
    spare: Vec<Loaded>,
    /// The length of segments, and the thread. One that is dropped ends by itself.
    loading: Option<(u32, JoinHandle<Result<Loaded, CannotPlace>>)>,
    /// The last that the kernel refused.
    refused: Option<(u32, String)>,
}

impl Programs {
    /// Loads the first one.
    ///
    /// # Errors
    /// Why the kernel does not place.
    pub(super) fn new(
        arena: Arc<PlacementArena>,
        (element_bytes, elements): (u32, u32),
        longest: u64,
        unit_bytes: u32,
    ) -> Result<Programs, CannotPlace> {
        let (spare, loading, refused) = Default::default();
        let mut programs = Programs { arena, element_bytes, elements, longest, spare, loading, refused };
        let rule = programs.rule(unit_bytes);
        programs.spare.push(load(&rule, &programs.arena)?);
        Ok(programs)
    }

    fn rule(&self, unit_bytes: u32) -> WriteRule {
        let [least, most] = SLOTS;
        let room = (SLOT_BYTES / least as usize / 8 - 8) * 64;
        let longest = self.longest.min(MAX_MESSAGE_BYTES);
        let units = longest.div_ceil(unit_bytes.into()).min(room as u64) as u32;
        let mut shape = SlotShape { slots: most, units, unit_bytes };
        while shape.slots > least && shape.words() * 8 * shape.slots as usize > SLOT_BYTES {
            shape.slots /= 2;
        }
        WriteRule {
            shape,
            regions: 1,
            element_bytes: self.element_bytes,
            elements: self.elements,
            wake: RuleWake { completed: shape.slots / 2, begun: 0 },
        }
    }

    fn spare(&self, unit_bytes: u32) -> Option<usize> {
        self.spare.iter().position(|(_, shape)| shape.unit_bytes == unit_bytes)
    }

    /// Whether a program for segments of this length is on its way: it is loaded from now on if there is none.
    pub(super) fn is_awaited(&mut self, unit_bytes: u32) -> bool {
        if let Some((unit_bytes, thread)) = self.loading.take_if(|(_, thread)| thread.is_finished()) {
            match thread.join() {
                Ok(Ok(loaded)) => self.give_back(loaded),
                Ok(Err(why)) => self.refused = Some((unit_bytes, why.to_string())),
                Err(_) => self.refused = Some((unit_bytes, "the thread that loads it panicked".to_owned())),
            }
        }
        let is_refused = self.refused.as_ref().is_some_and(|(refused, _)| *refused == unit_bytes);
        if is_refused || self.spare(unit_bytes).is_some() {
            return false;
        }
        if self.loading.is_none() {
            let (rule, arena) = (self.rule(unit_bytes), Arc::clone(&self.arena));
            let thread = std::thread::Builder::new().name("rdma-program".to_owned());
            match thread.spawn(move || load(&rule, &arena)) {
                Ok(thread) => self.loading = Some((unit_bytes, thread)),
                Err(why) => {
                    self.refused = Some((unit_bytes, format!("no thread to load it: {why}")));
                    return false;
                }
            }
        }
        true
    }

    /// A program for segments of this length, if there is one now.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn take(&mut self, unit_bytes: u32) -> Result<Loaded, String> {
        let Some(at) = self.spare(unit_bytes) else {
            let why = self.refused.as_ref().filter(|(refused, _)| *refused == unit_bytes);
            return Err(why.map_or_else(
                || format!("the program for segments of {unit_bytes} bytes was not loaded in time"),
                |(_, why)| why.clone(),
            ));
        };
        let (program, shape) = self.spare.swap_remove(at);
        program.reset();
        Ok((program, shape))
    }

    /// Keeps a program that no socket has.
    pub(super) fn give_back(&mut self, loaded: Loaded) {
        if self.spare.len() >= SPARE {
            self.spare.remove(0);
        }
        self.spare.push(loaded);
    }
}

fn load(rule: &WriteRule, arena: &PlacementArena) -> Result<Loaded, CannotPlace> {
    PlacementProgram::over(&rule.uc(), arena).map(|program| (program, rule.shape))
}

/// Payload of a segment in a datagram of this length.
pub(super) fn unit_of(datagram_bytes: u16) -> u32 {
    u32::from(datagram_bytes).saturating_sub((UcShim::LEN + DdpTagged::LEN) as u32).max(1)
}
