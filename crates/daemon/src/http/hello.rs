//! A limit on what a client sends before its TLS handshake is complete.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection with a limit on the bytes read before the handshake is complete. Without it, TLS would keep up to 64 KiB of a message
/// that never ends.
pub(super) struct HelloStream {
    pub(super) inner: TcpStream,
    /// What may still be read; `None` without a bound.
    pub(super) left: Option<usize>,
}

impl AsyncRead for HelloStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.inner).poll_read(context, to) };
        if left == 0 {
            let text = "more bytes than a handshake has";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        let room = left.min(to.remaining());
        let mut part = ReadBuf::new(to.initialize_unfilled_to(room));
        let polled = Pin::new(&mut self.inner).poll_read(context, &mut part);
        let read = part.filled().len();
        to.advance(read);
        self.left = Some(left - read);
        polled
    }
}

impl AsyncWrite for HelloStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, from)
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
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
