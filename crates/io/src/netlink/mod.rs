//! Netlink: queries and changes of the kernel's network configuration.
//!
//! ```text
//!   message     length kind flags sequence port │ fixed part │ attributes
//!   attribute   length kind │ value, or attributes again │ up to a multiple of 4
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`attribute`] | attributes, read within their bounds |
//! | [`message`] | requests, and the messages of a reply |
//! | [`socket`] | a socket: queries, commands, lists |
//! | [`route`] | interfaces, addresses, routes, neighbours, queues |
//!
//! ```no_run
//! use skyhaul_io::netlink::{Netlink, Request};
//! const GET_LINK: u16 = 18;
//! let mut route = Netlink::route()?;
//! route.dump(&Request::new(GET_LINK).fixed(&[0; 16]), &mut |_kind, body| println!("{} octets", body.len()))?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: a reply of at most 64 KiB for each read, which is twice what the kernel uses.

pub mod attribute;
pub mod discipline;
pub mod message;
pub mod route;
pub mod socket;

pub use attribute::Attributes;
pub use message::{Message, Messages, Request};
pub use socket::Netlink;
