//! RDMA: the bytes of the RFCs' figures, the page of the tables, and single situations of the endpoint.
#![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]

mod endpoint;
mod golden;
mod page;
mod stream;
mod waking;
