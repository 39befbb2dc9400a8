//! Lines of the command channel.

/// Maximum length of a line in bytes: a path, and room for the rest.
pub const MAX_ETRANSFER_LINE_BYTES: usize = 8 << 10;

/// A line was longer than [`MAX_ETRANSFER_LINE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

/// Divides the bytes of a command channel into lines, in bounded memory. A line ends with `\n` or `\r`; empty lines are left out.
#[derive(Clone, Debug, Default)]
pub struct EtransferLines {
    line: Vec<u8>,
    is_skipping: bool,
}

impl EtransferLines {
    /// Takes bytes as they arrived, and calls `take` for each line that ends in them.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Result<Vec<u8>, LineTooLong>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| b"\r\n".contains(byte));
            let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + part.len() > MAX_ETRANSFER_LINE_BYTES {
                self.is_skipping = true;
                self.line.clear();
            }
            if !self.is_skipping {
                self.line.extend_from_slice(part);
            }
            if end.is_none() {
                return;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_skipping) {
                take(Err(LineTooLong));
            } else if !line.is_empty() {
                take(Ok(line));
            }
            rest = &behind[1..];
        }
    }

    /// Whether bytes arrived behind the last line.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.is_skipping || !self.line.is_empty()
    }
}
