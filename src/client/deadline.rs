//! A deadline on every request, from sending it to the last byte of its answer.
//!
//! kube sets no read timeout: an answer lost on a silent connection would hold its reconcile for ever, and no other one of
//! that object could run. The answer is read whole inside the deadline, so that a body that never ends is caught as well.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::{Body, DynBody};
use tower::{BoxError, Layer, Service};

use super::request::is_set;

/// The answer did not come in time: whether the request took effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server did not answer within {} ms", limit.as_millis())]
pub struct DeadlineExceeded {
    pub limit: Duration,
}

/// Puts a deadline on the requests of a service.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineLayer {
    limit: Duration,
}

impl DeadlineLayer {
    pub fn new(limit: Duration) -> DeadlineLayer {
        DeadlineLayer { limit }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline {
            inner,
            limit: self.limit,
        }
    }
}

/// A service whose requests have a deadline.
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    inner: S,
    limit: Duration,
}

type Answer = Response<Box<DynBody>>;

impl<S> Service<Request<Body>> for Deadline<S>
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
        let query = request.uri().query().unwrap_or("");
        let endless = is_set(query, "watch") || is_set(query, "follow");
        let limit = self.limit;
        let answer = self.inner.call(request);
        if endless {
            return Box::pin(answer);
        }
        Box::pin(async move {
            match tokio::time::timeout(limit, whole(answer)).await {
                Ok(result) => result,
                Err(_) => Err(DeadlineExceeded { limit }.into()),
            }
        })
    }
}

async fn whole(answer: impl Future<Output = Result<Answer, BoxError>>) -> Result<Answer, BoxError> {
    let (head, body) = answer.await?.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let body: Box<DynBody> = Box::new(Full::new(bytes).map_err(|never| match never {}));
    Ok(Response::from_parts(head, body))
}

/// The deadline that `error` tells of, if it does.
pub fn exceeded<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a DeadlineExceeded> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(deadline) = error.downcast_ref() {
            return Some(deadline);
        }
        next = error.source();
    }
    None
}
