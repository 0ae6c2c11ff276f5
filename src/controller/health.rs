//! `/livez` and `/readyz` for the kubelet.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// Whether the caches are filled: before that the controller would decide from nothing.
#[derive(Clone, Debug, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, ready: Ready) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a health check could not connect");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let ready = ready.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, ready.clone()));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).keep_alive(false);
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a health check ended early");
            }
        });
    }
}

/// Listens on `address`.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

async fn answer(request: Request<Incoming>, ready: Ready) -> Result<Response<String>, Infallible> {
    let (status, text) = match request.uri().path() {
        "/livez" => (StatusCode::OK, "ok\n"),
        "/readyz" if ready.get() => (StatusCode::OK, "ok\n"),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet\n"),
        _ => (StatusCode::NOT_FOUND, "/livez or /readyz\n"),
    };
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    Ok(response)
}
