//! Extended attributes (xattr(7)): short values that the file system keeps beside a file's contents.
//!
//! Limits: values of 4096 bytes. Some file systems have none, which is an error of the kind `Unsupported`.

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// Bytes of the longest value.
const MAX_VALUE_BYTES: usize = 4096;

/// The value of an attribute; `None` if the file has none of this name.
///
/// # Errors
/// A system error, or the value is longer than 4096 bytes.
pub fn attribute(file: &File, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; MAX_VALUE_BYTES];
    match rustix::fs::fgetxattr(file, name, &mut value[..]) {
        Ok(bytes) => {
            value.truncate(bytes);
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets an attribute.
///
/// # Errors
/// A system error: the file system has no attributes, or the file may not be changed.
pub fn set_attribute(file: &File, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())?)
}

/// Removes an attribute.
///
/// # Errors
/// If the file has no attribute of this name, or its file system has none at all.
pub fn remove_attribute(file: &File, name: &str) -> io::Result<()> {
    Ok(rustix::fs::fremovexattr(file, name)?)
}
