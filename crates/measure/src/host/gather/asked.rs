//! What is asked for, and who answers what is no file.

use crate::host::facts::Facts;
use std::net::IpAddr;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The interface of the data; without one, that of the way to the peer, or the fastest.
    pub interface: Option<String>,
    /// The other end.
    pub peer: Option<IpAddr>,
    /// Directories of data; without any, every file system on a disk.
    pub data: Vec<String>,
}

/// What is no file: it is asked of the kernel, or made up by a test.
pub trait Devices {
    /// The interface that leads to an address.
    fn towards(&self, peer: IpAddr) -> Option<String>;
    /// Note what the kernel says of an interface.
    fn note(&self, asked: &Asked, facts: &mut Facts);
    /// Note the counters of an interface.
    fn count(&self, facts: &mut Facts);
    /// Percent of a file system that is free.
    fn free(&self, mount: &str) -> Option<u64>;
}
