//! A load balancer without a clock or a socket. It sends the packets of any number of senders to the members of a
//! group, and all packets of a tick to the same member.
//!
//! ```text
//!   data      packet ─▶ Table: allow-list ─ epoch by tick ─ calendar ─ slot ─ member ─▶ Route      any number of threads
//!                         ▲ a new one, as a whole                          Counters ─┐
//!   control   Balancer: Predictor ─ Epochs ─ calendars ─ shares ─ workers ◀──────────┘            one thread
//!                         ▲ synchronisation messages         ▲ registrations, states
//!   worker    Governor: queue ─▶ signal                                                           each worker
//! ```
//!
//! A calendar assigns each of its 512 slots to a member, and the label of a packet selects the slot. Workers get slots
//! according to their reports. A new calendar begins at a tick that no thread has forwarded ([`Settled`]), so no event is
//! ever split, however late a thread is; packets of a tick whose calendar has been retired are rejected and counted. `docs/internals/balancer.md` has the
//! control laws and their limits.
//!
//! The loop of the control thread; the other threads take the table and route packets with it:
//!
//! ```
//! use skyhaul_core::{balance::*, placement::Nanos, wire::{FAMILIES, labelled::*}};
//! struct Forward;
//! impl VisitLabelled for Forward {
//!     type Out = ();
//!     fn visit<L: Labelled>(self) {
//!         let mut balancer = Balancer::new(BalancerConfig::default());
//!         balancer.allow(AllowList::of(&["10.0.0.0/8".parse().unwrap()]));
//!         let member = Member::new([10, 0, 0, 9].into(), 17750, PortRange::default(), false).unwrap();
//!         let like = Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 };
//!         let now = Nanos(0);
//!         // 1. what arrived: registrations, states, synchronisation messages, the newest tick of the data
//!         let session = balancer.register(like, now).unwrap();
//!         balancer.handle_state(session, WorkerState { ready: true, ..WorkerState::default() }, now).unwrap();
//!         let message = L::write_sync(&Sync { source: 1, tick: 5_000_000, rate: 1_000_000, sent: 0 });
//!         balancer.handle_sync(1, &L::sync(&message).unwrap(), now);
//!         // 2. time passes   3. the table, if it changed
//!         balancer.handle_timeout(now);
//!         let table = balancer.poll_table().unwrap();
//!         // A thread: a train of one sender, with room for its routes.
//!         let (mut counters, mut routes) = (Counters::default(), [Err(Refusal::Empty); 4]);
//!         table.route_train::<L>([10, 0, 0, 1].into(), [&b"no label"[..]], &mut routes, &mut counters);
//!         assert_eq!((routes[0], counters.refused(Refusal::Truncated)), (Err(Refusal::Truncated), 1));
//!     }
//! }
//! assert_eq!(FAMILIES.iter().filter_map(|family| family.visit_labelled(Forward)).count(), 1);
//! ```
//!
//! Limits: [`MEMBERS`] seats, [`EPOCHS`] calendars at a time, predictions for [`SOURCES`] senders.

mod allow;
mod balancer;
mod calendar;
mod epochs;
mod governor;
mod member;
mod predict;
mod refusal;
mod settled;
mod table;
mod tick_range;
mod worker;
pub mod xdp;

pub use allow::{AllowList, NoPrefix, Prefix};
pub use balancer::{Balancer, BalancerConfig, DemandError, SlotRange, Strategy};
pub use calendar::{Calendar, Claim, SLOTS, apportion};
pub use epochs::{EpochConfig, EpochStats, Epochs, Held};
pub use governor::{Gains, Governor, Load, Pid, WINDOW};
pub use member::{Kind, MEMBERS, Member, PortRange, Reach, Seat, Unusable};
pub use predict::{PredictStats, Predictor, SOURCES};
pub use refusal::{Counters, Refusal, Ticks, Traffic};
pub use settled::{FRONTS, Settled};
pub use table::{EPOCHS, Epoch, NotATable, Occupant, Route, Routed, SlotSelect, Table};
pub use tick_range::TickRange;
pub use worker::{RegisterError, Registration, Session, Standing, StateError, Worker, WorkerState};
