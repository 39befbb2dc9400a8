//! RDMA without a card: an endpoint that says which bytes of a datagram belong where in registered memory.
//!
//! ```text
//!   datagram ─▶ RdmaEndpoint::handle_datagram ─▶ PlaceBytes { from the datagram, to memory }   the caller copies
//!                      │ KeyedWindow, Coverage                 then poll_event: Written, Received, ReadDone, MessagesLost …
//!   write, send, read ─┴─▶ poll_transmit ─▶ RdmaTransmit { headers, payload as a slice of memory }   the caller gathers
//! ```
//!
//! * Loss is a value: a message ends complete, or with its missing byte ranges; one that is lost whole ends by its number.
//! * The endpoint never holds the memory. Memory that a peer may write is no `&[u8]`: it is a number and a range, and only the
//!   caller, who knows what it is, touches it. A place is given out only for bytes that have not arrived before.
//! * Each Read has a deadline and STags of its own, drawn anew: after the deadline, an answer finds no buffer.
//! * A connection begins when the peer has returned a cookie bound to its address. Before that the endpoint keeps no state,
//!   and no answer is longer than its question.
//! * Every datagram is placed, consumed, control or refused, and [`RdmaCounts`] asserts the sum.
//!
//! The loop of a caller, for one socket:
//!
//! ```text
//!   received:  if let Some(place) = endpoint.handle_datagram(from, bytes, &mut context) { copy }
//!   always:    while let Some(event) = endpoint.poll_event() { … }
//!              while let Some(transmit) = endpoint.poll_transmit(&mut context) { gather, send }
//!   waited until endpoint.poll_timeout():  endpoint.handle_timeout(&mut context)
//! ```
//!
//! On TCP the caller opens and cuts the streams ([`frame_length`](crate::wire::rdma::mpa::frame_length)): the first frame of a peer goes to
//! [`handle_request`](RdmaEndpoint::handle_request), all others to [`handle_frame`](RdmaEndpoint::handle_frame), and the end of the peer's half and of the stream to
//! [`end_half`](RdmaEndpoint::end_half) and [`end_stream`](RdmaEndpoint::end_stream).
//!
//! Copy before the next call: events may speak of the bytes. Limits: all are fixed in [`RdmaConfig`]; nothing grows with what a
//! peer sends. Atomic operations are refused. `docs/internals/rdma.md` has the design.

mod config;
mod connection;
mod counts;
mod endpoint;
mod event;
mod inbound;
mod landing;
mod outbound;
mod reads;
mod regions;
mod timing;

pub use config::RdmaConfig;
pub use counts::RdmaCounts;
pub use endpoint::{AddressProof, RdmaContext, RdmaEndpoint, ShortWrite, StreamNeed};
pub use event::{ClosedBy, MemorySlice, PlaceBytes, RdmaEvent, RemoteAddress, RemoteRead, RemoteWrite};
pub use outbound::{RdmaTrailer, RdmaTransmit};
pub use regions::RegionRights;
