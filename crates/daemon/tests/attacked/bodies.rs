//! Streams of HTTP/2 that show no token and send all they may.

use axum::body::Bytes;
use axum::http::Request;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What came of them. They end when it is dropped.
pub(crate) struct Flooded {
    refused: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Flooded {
    /// Streams that were told that they need a token.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes of bodies that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

static CHUNK: [u8; 16384] = [0; 16384];

/// So many connections with so many streams each.
pub(crate) fn flood(at: SocketAddr, connections: usize, streams: usize) -> Flooded {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (refused, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    for _ in 0..connections {
        runtime.spawn(connection(at, streams, Arc::clone(&refused), Arc::clone(&sent)));
    }
    Flooded { refused, sent, _runtime: runtime }
}

async fn connection(at: SocketAddr, streams: usize, refused: Arc<AtomicUsize>, sent: Arc<AtomicUsize>) {
    let tcp = tokio::net::TcpStream::connect(at).await.unwrap();
    let (mut client, connection) = h2::client::handshake(tcp).await.unwrap();
    tokio::spawn(connection);
    let path = format!("http://{at}/loadbalancer.LoadBalancer/ReserveLoadBalancer");
    for _ in 0..streams {
        let request =
            Request::post(&path).header("content-type", "application/grpc").header("te", "trailers");
        let Ok(mut ready) = client.ready().await else { return };
        let (response, mut body) = ready.send_request(request.body(()).unwrap(), false).unwrap();
        client = ready;
        let refused = Arc::clone(&refused);
        tokio::spawn(async move {
            if let Ok(response) = response.await {
                let told = response.headers().get("grpc-status").is_some_and(|status| status == "16");
                refused.fetch_add(usize::from(told), Ordering::Relaxed);
            }
        });
        let sent = Arc::clone(&sent);
        tokio::spawn(async move {
            loop {
                body.reserve_capacity(CHUNK.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { return };
                if body.send_data(Bytes::from_static(&CHUNK[..room.min(CHUNK.len())]), false).is_err() {
                    return;
                }
                sent.fetch_add(room, Ordering::Relaxed);
            }
        });
    }
    std::future::pending::<()>().await;
}
