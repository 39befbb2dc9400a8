//! What senders of keyed objects send: objects cut into packets, whole streams in the order and at the times of sending.
//!
//! ```text
//!   plan   object 41, 100 bytes      ┌───────┬──────┬─────┐   cuts: where its packets begin and end
//!   order  41.0 41.1 42.0 41.2 …   any number of senders, objects in series or in turn
//! ```
//!
//! [`Objects`] are the senders of one family, with the fields that its packets have.

use crate::random::Random;
use skyhaul_core::assembly::KeyedConfig;
use skyhaul_core::pattern;
use skyhaul_core::placement::{Key, Nanos};
use skyhaul_core::wire::keyed::{Control, Keyed, Part};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// Which packets of an object tell its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Each.
    Always,
    /// Only its first.
    First,
    /// Only its last.
    Last,
    /// None.
    Never,
}

/// One object.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of its sender, from 0.
    pub sender: u64,
    /// Its number; its packets tell as many bits of it as they can.
    pub number: u64,
    /// Its bytes.
    pub size: u64,
    /// Its packets.
    pub cuts: Vec<Range<u64>>,
    /// Who tells its size.
    pub told: Told,
    /// What its first packet says of the stream.
    pub control: Option<Control>,
    /// Whether each packet says that again, and what is in the object.
    pub repeat: bool,
    /// Whose pattern its bytes are.
    pub content: u64,
}

impl Plan {
    /// Whether packet `n` tells the size.
    pub fn tells(&self, n: usize) -> bool {
        match self.told {
            Told::Always => true,
            Told::First => n == 0,
            Told::Last => n + 1 == self.cuts.len(),
            Told::Never => false,
        }
    }

    /// The payload of packet `n`: of this object and no other, also of none with its number.
    pub fn payload(&self, n: usize) -> Vec<u8> {
        let cut = &self.cuts[n];
        let mut payload = vec![0; (cut.end - cut.start) as usize];
        pattern::fill(self.content, cut.start, &mut payload);
        payload
    }

    /// Packet `n` with its payload.
    pub fn part<'a>(&self, n: usize, payload: &'a [u8]) -> Part<'a> {
        let items = n == 0 || self.repeat;
        Part {
            own: 0,
            number: self.number,
            size: self.tells(n).then_some(self.size),
            offset: self.cuts[n].start,
            payload,
            items,
            control: self.control.filter(|_| items),
        }
    }
}

/// A packet: of which plan, and which of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Index of its object.
    pub plan: usize,
    /// Its number in the object.
    pub packet: usize,
}

/// Everything that is sent.
#[derive(Clone, Debug)]
pub struct Stream {
    /// All objects.
    pub plans: Vec<Plan>,
    /// All packets, in order of sending.
    pub order: Vec<(Nanos, Id)>,
    /// How many senders there are.
    pub senders: u64,
    /// Numbers were used twice.
    pub restarted: bool,
}

/// How a stream is made.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Senders.
    pub senders: u64,
    /// Objects of each, besides the start and the stop.
    pub objects: u64,
    /// Most packets of an object.
    pub packets: u64,
    /// All have so many; else any number up to it.
    pub equal: bool,
    /// Bytes of a packet's payload.
    pub payload: u64,
    /// Objects of a sender that are sent in turn.
    pub in_turn: usize,
    /// Who tells their size; `None`: each its own.
    pub told: Option<Told>,
    /// All senders count alike; else their numbers are strided.
    pub alike: bool,
    /// Between two numbers of a sender.
    pub step: u64,
    /// The whole stream is sent so many times, with the same numbers.
    pub runs: u64,
    /// Between two packets.
    pub gap: Nanos,
    /// Between two runs.
    pub pause: Nanos,
}

impl Stream {
    /// A stream of this shape, with packets of `least` bytes at least; `has_controls`: senders say that they start and stop.
    pub fn new(shape: &Shape, has_controls: bool, least: u64, random: &mut Random) -> Stream {
        let mut stream = Stream {
            plans: Vec::new(),
            order: Vec::new(),
            senders: shape.senders,
            restarted: shape.runs > 1,
        };
        let mut now = Nanos(1_000_000);
        for _ in 0..shape.runs {
            let mut queues: Vec<Vec<Id>> = (0..shape.senders)
                .map(|sender| stream.plan(shape, sender, has_controls, least, random))
                .collect();
            // Senders take turns, in any order.
            while queues.iter().any(|queue| !queue.is_empty()) {
                let waiting: Vec<usize> = (0..queues.len()).filter(|&q| !queues[q].is_empty()).collect();
                let next = queues[random.pick(&waiting)].remove(0);
                stream.order.push((now, next));
                now = now.plus(shape.gap);
            }
            now = now.plus(shape.pause);
        }
        stream
    }

    /// One sender's objects: a start, its data, a stop. In order of sending.
    fn plan(
        &mut self,
        shape: &Shape,
        sender: u64,
        has_controls: bool,
        least: u64,
        random: &mut Random,
    ) -> Vec<Id> {
        let (offset, stride) =
            if shape.alike { (1, shape.step) } else { (sender + 1, shape.step * shape.senders) };
        let mut order = Vec::new();
        let mut group: Vec<Vec<Id>> = Vec::new();
        for n in 0..shape.objects + 2 {
            let ends = [(0, Control::Start), (shape.objects + 1, Control::Stop)];
            let control = ends.into_iter().find(|&(at, _)| at == n).map(|(_, control)| control);
            if control.is_some() && !has_controls {
                continue;
            }
            let object = self.object(shape, (sender, offset + n * stride), control, least, random);
            // The start and the stop are not sent in turn with others.
            if control.is_some() {
                drain_in_turn(&mut group, &mut order);
                order.extend(object);
            } else {
                group.push(object);
                if group.len() == shape.in_turn.max(1) {
                    drain_in_turn(&mut group, &mut order);
                }
            }
        }
        drain_in_turn(&mut group, &mut order);
        order
    }

    fn object(
        &mut self,
        shape: &Shape,
        (sender, number): (u64, u64),
        control: Option<Control>,
        least: u64,
        random: &mut Random,
    ) -> Vec<Id> {
        let packets = match control {
            Some(_) => 1,
            None if shape.equal => shape.packets,
            None => random.between(1, shape.packets),
        };
        let mut cuts = Vec::new();
        let mut at = 0;
        for n in 0..packets {
            let last = n + 1 == packets;
            let length = match (shape.equal, last) {
                (true, false) => shape.payload,
                (true, true) => shape.payload - 1,
                (false, _) => random.between(least.max(u64::from(!last)), shape.payload),
            };
            cuts.push(at..at + length);
            at += length;
        }
        let told = shape.told.unwrap_or_else(|| {
            random.pick(&[Told::Always, Told::Always, Told::First, Told::Last, Told::Never])
        });
        let told = if control.is_some() { Told::Always } else { told };
        let plan = self.plans.len();
        self.plans.push(Plan {
            sender,
            number,
            size: at,
            cuts,
            told,
            control,
            repeat: random.chance(0.5),
            content: plan as u64 + 1,
        });
        (0..packets as usize).map(|packet| Id { plan, packet }).collect()
    }
}

/// One packet of each object, then the next of each.
fn drain_in_turn(group: &mut Vec<Vec<Id>>, order: &mut Vec<Id>) {
    let longest = group.iter().map(Vec::len).max().unwrap_or(0);
    for n in 0..longest {
        order.extend(group.iter().filter_map(|object| object.get(n)));
    }
    group.clear();
}

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
