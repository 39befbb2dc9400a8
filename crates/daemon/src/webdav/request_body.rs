//! The bytes of a request.

use crate::remote::failure::Failure;
use axum::body::{Body, Bytes, HttpBody};
use std::pin::Pin;

/// The next bytes of a body; `None` at its end.
pub(super) async fn next_data(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => return Some(Ok(data)),
            // Trailers.
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

/// All of a body, which has at most so many bytes.
pub(super) async fn read_whole(body: &mut Body, most: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(data) = next_data(body).await {
        let data = data.map_err(|error| Failure::bad(format_args!("the body ended too early: {error}")))?;
        if bytes.len() + data.len() > most {
            return Err(Failure::new(413, format_args!("the body is longer than {most} bytes")));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
