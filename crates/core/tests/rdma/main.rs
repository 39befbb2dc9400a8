//! RDMA: the bytes of the RFCs' figures, the page of the tables, and single situations of the endpoint.

mod endpoint;
mod golden;
mod page;
