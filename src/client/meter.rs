//! Counts requests as they go over the wire, once each. Metrics and tests read the same numbers.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::deadline;
use super::request::{Verb, classify};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    Success,
    Redirect,
    ClientError,
    ServerError,
    /// No answer within the deadline.
    Timeout,
    /// No answer: the connection failed.
    Error,
    /// Whoever asked no longer waits.
    Abandoned,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "2xx",
            Outcome::Redirect => "3xx",
            Outcome::ClientError => "4xx",
            Outcome::ServerError => "5xx",
            Outcome::Timeout => "timeout",
            Outcome::Error => "error",
            Outcome::Abandoned => "abandoned",
        }
    }

    fn of(status: StatusCode) -> Outcome {
        match status.as_u16() {
            300..400 => Outcome::Redirect,
            400..500 => Outcome::ClientError,
            500.. => Outcome::ServerError,
            _ => Outcome::Success,
        }
    }
}

/// What is counted apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// `pods`, `jobs.batch`; `/` for what names no resource.
    pub resource: String,
    /// Empty if there is none.
    pub subresource: String,
    pub verb: Verb,
    pub outcome: Outcome,
}

/// The counts of one client. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    counts: Arc<Mutex<BTreeMap<Key, u64>>>,
}

impl Meter {
    /// Counts the requests of the service that it is laid around.
    pub fn layer(&self) -> MeterLayer {
        MeterLayer { meter: self.clone() }
    }

    /// Every count, in order. A request is counted when its answer is there, a watch when it begins.
    pub fn snapshot(&self) -> Vec<(Key, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(key, n)| (key.clone(), *n)).collect()
    }

    /// The requests so far for which `wanted` holds.
    pub fn count(&self, wanted: impl Fn(&Key) -> bool) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter(|(key, _)| wanted(key)).map(|(_, n)| n).sum()
    }

    fn add(&self, key: Key) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key).or_default() += 1;
    }
}

/// Lays a [`Meter`] around a service.
#[derive(Clone, Debug)]
pub struct MeterLayer {
    meter: Meter,
}

impl<S> Layer<S> for MeterLayer {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Metered<S> {
        Metered {
            inner,
            meter: self.meter.clone(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub struct Metered<S> {
    inner: S,
    meter: Meter,
}

impl<S, B> Service<Request<Body>> for Metered<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        let asked = classify(request.method(), path);
        let mut entry = Entry {
            meter: self.meter.clone(),
            key: Some(Key {
                resource: asked.resource,
                subresource: asked.subresource,
                verb: asked.verb,
                outcome: Outcome::Abandoned,
            }),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            entry.end(match &result {
                Ok(response) => Outcome::of(response.status()),
                Err(error) if deadline::exceeded(error.as_ref()).is_some() => Outcome::Timeout,
                Err(_) => Outcome::Error,
            });
            result
        })
    }
}

/// One request on its way. It is counted also if its future is dropped, because it may have reached the API server.
struct Entry {
    meter: Meter,
    key: Option<Key>,
}

impl Entry {
    fn end(&mut self, outcome: Outcome) {
        if let Some(mut key) = self.key.take() {
            key.outcome = outcome;
            self.meter.add(key);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(Outcome::Abandoned);
    }
}
