//! What goes over the wire between a controller and the API server, and when: a layer of the controller's client.
//!
//! While the controller is at work only times and bytes are kept; they are read afterwards, so that reading costs no time that
//! is measured.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::{Body, DynBody};
use oncilla::client::request::{self, Verb, classify};
use tower::{BoxError, Layer, Service};

/// A request that was answered to the last byte. Watches are kept apart.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub request: request::Request,
    pub sent: Instant,
    pub answered: Instant,
    pub body: Bytes,
}

/// A part of a watch's answer, as it came in.
#[derive(Clone, Debug)]
struct Chunk {
    /// Which watch, by the order in which they began.
    watch: usize,
    resource: String,
    received: Instant,
    bytes: Bytes,
}

/// A line of a watch: one event.
#[derive(Clone, Debug)]
pub struct Line {
    pub resource: String,
    /// When its last byte was there.
    pub received: Instant,
    pub text: Vec<u8>,
}

#[derive(Debug, Default)]
struct Seen {
    exchanges: Vec<Exchange>,
    chunks: Vec<Chunk>,
    watches: usize,
}

/// What one client sends and receives. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    seen: Arc<Mutex<Seen>>,
}

impl Wire {
    /// What has been answered, in the order in which it was sent.
    pub fn exchanges(&self) -> Vec<Exchange> {
        let mut exchanges = self.seen.lock().unwrap().exchanges.clone();
        exchanges.sort_by_key(|exchange| exchange.sent);
        exchanges
    }

    /// What the watches have reported, line by line, in the order in which it came.
    pub fn lines(&self) -> Vec<Line> {
        let (chunks, watches) = {
            let seen = self.seen.lock().unwrap();
            (seen.chunks.clone(), seen.watches)
        };
        let mut begun: Vec<Vec<u8>> = vec![Vec::new(); watches];
        let mut lines = Vec::new();
        for chunk in chunks {
            for piece in chunk.bytes.split_inclusive(|byte| *byte == b'\n') {
                let line = &mut begun[chunk.watch];
                line.extend_from_slice(piece);
                if line.ends_with(b"\n") {
                    lines.push(Line {
                        resource: chunk.resource.clone(),
                        received: chunk.received,
                        text: std::mem::take(line),
                    });
                }
            }
        }
        lines
    }
}

impl<S> Layer<S> for Wire {
    type Service = Wired<S>;

    fn layer(&self, inner: S) -> Wired<S> {
        Wired {
            inner,
            wire: self.clone(),
        }
    }
}

/// A service whose requests and answers are kept.
pub struct Wired<S> {
    inner: S,
    wire: Wire,
}

type Answer = Response<Box<DynBody>>;

impl<S> Service<Request<Body>> for Wired<S>
where
    S: Service<Request<Body>, Response = Answer, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        let asked = classify(request.method(), path);
        let wire = self.wire.clone();
        let sent = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let (head, body) = answer.await?.into_parts();
            let body = match asked.verb {
                Verb::Watch => wire.listened(asked.resource, body),
                _ => {
                    // Only with its last byte can the client make something of it.
                    let body = body.collect().await?.to_bytes();
                    wire.seen.lock().unwrap().exchanges.push(Exchange {
                        request: asked,
                        sent,
                        answered: Instant::now(),
                        body: body.clone(),
                    });
                    Box::new(Full::from(body).map_err(|never| match never {}))
                }
            };
            Ok(Response::from_parts(head, body))
        })
    }
}

impl Wire {
    /// The same body, of which every part is kept.
    fn listened(self, resource: String, body: Box<DynBody>) -> Box<DynBody> {
        let watch = {
            let mut seen = self.seen.lock().unwrap();
            seen.watches += 1;
            seen.watches - 1
        };
        Box::new(body.map_frame(move |frame| {
            if let Some(bytes) = frame.data_ref() {
                self.seen.lock().unwrap().chunks.push(Chunk {
                    watch,
                    resource: resource.clone(),
                    received: Instant::now(),
                    bytes: bytes.clone(),
                });
            }
            frame
        }))
    }
}
