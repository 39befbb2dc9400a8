//! A connection without TLS, on which marks of files become their bytes ([`FileSender`]).

use super::file_sender::{FileSender, is_mark};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The connection, and what sends files on it.
pub(super) struct FileStream {
    inner: TcpStream,
    sender: Arc<FileSender>,
}

impl FileStream {
    pub(super) fn new(inner: TcpStream, sender: &Arc<FileSender>) -> Self {
        Self { inner, sender: Arc::clone(sender) }
    }
}

impl Drop for FileStream {
    fn drop(&mut self) {
        self.sender.end(&self.inner);
    }
}

impl AsyncRead for FileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, to)
    }
}

impl AsyncWrite for FileStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let plain = from.iter().take_while(|slice| !is_mark(slice)).count();
        let (plain, marked) = from.split_at(plain);
        let marks = marked.iter().filter(|slice| is_mark(slice)).map(|slice| slice.len() as u64).sum();
        self.sender.check(marks, plain.is_empty())?;
        match (plain, marked) {
            ([], [mark, ..]) => self.sender.poll_pass(context, mark.len(), &self.inner),
            _ => Pin::new(&mut self.inner).poll_write_vectored(context, plain),
        }
    }

    /// Without it, hyper copies what it writes, marks included.
    fn is_write_vectored(&self) -> bool {
        true
    }
}
