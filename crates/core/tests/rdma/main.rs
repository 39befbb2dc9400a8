//! RDMA: the bytes of the RFCs' figures, the page of the tables, and single situations of the endpoint. Worlds of many faults
//! are in `crates/sim`.

mod endpoint;
mod golden;
mod page;
