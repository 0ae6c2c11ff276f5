//! Faults on the way between a client and the API server, each at the request that a test names.
//!
//! The layer lies below Oncilla's own (deadline, meter), where the wire is: what it does looks to Oncilla like the network.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::{Body, DynBody};
use oncilla::client::request::{self, classify};
use serde_json::json;
use tower::{BoxError, Layer, Service};

use super::gate::Gate;

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It never reaches the API server; the client sees a broken connection.
    NotSent,
    /// It reaches the API server and is carried out; the client sees a broken connection.
    AnswerLost,
    /// It reaches the API server and is carried out; the client sees nothing, until its deadline.
    Silence,
    /// It does not reach the API server; the client sees this code and reason.
    Refused(u16, &'static str),
    /// It is sent when the gate opens, however long the client waits for it.
    HeldBack(Gate),
    /// Its answer is handed over when the gate opens.
    AnswerHeldBack(Gate),
}

type Test = Box<dyn Fn(&request::Request) -> bool + Send>;

struct Rule {
    matches: Test,
    left: usize,
    fault: Fault,
}

/// The faults of one client. Clones are the same.
#[derive(Clone, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Rule>>>,
}

impl Faults {
    /// The next `times` requests that `matches` meet `fault`. Of several such rules the first goes first.
    pub fn inject(&self, times: usize, fault: Fault, matches: impl Fn(&request::Request) -> bool + Send + 'static) {
        self.rules.lock().unwrap().push(Rule {
            matches: Box::new(matches),
            left: times,
            fault,
        });
    }

    /// How many of the injected faults have not been met. A test that ends with some left has not tested them.
    pub fn left(&self) -> usize {
        self.rules.lock().unwrap().iter().map(|rule| rule.left).sum()
    }

    fn meet(&self, request: &Request<Body>) -> Option<Fault> {
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        let asked = classify(request.method(), path);
        let mut rules = self.rules.lock().unwrap();
        let rule = rules.iter_mut().find(|rule| rule.left > 0 && (rule.matches)(&asked))?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faults({} left)", self.left())
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty {
            inner,
            faults: self.clone(),
        }
    }
}

/// A service whose requests meet faults.
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

type Answer = Response<Box<DynBody>>;

impl<S> Service<Request<Body>> for Faulty<S>
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
        let fault = self.faults.meet(&request);
        match &fault {
            Some(Fault::NotSent) => return Box::pin(async { Err(broken()) }),
            Some(Fault::Refused(code, reason)) => {
                let answer = status(*code, reason);
                return Box::pin(async { Ok(answer) });
            }
            _ => {}
        }
        // Nothing is sent before the future is first polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            match fault {
                Some(Fault::AnswerLost) => {
                    carried_out(answer).await?;
                    Err(broken())
                }
                Some(Fault::Silence) => {
                    carried_out(answer).await?;
                    std::future::pending().await
                }
                Some(Fault::HeldBack(gate)) => {
                    // The client may stop waiting; the request is under way all the same.
                    let sent = tokio::spawn(async move {
                        gate.pass().await;
                        answer.await
                    });
                    sent.await?
                }
                Some(Fault::AnswerHeldBack(gate)) => {
                    let answer = answer.await?;
                    gate.pass().await;
                    Ok(answer)
                }
                _ => answer.await,
            }
        })
    }
}

/// Waits for the whole answer: only then has the request been carried out.
async fn carried_out(answer: impl Future<Output = Result<Answer, BoxError>>) -> Result<(), BoxError> {
    answer.await?.into_body().collect().await?;
    Ok(())
}

fn broken() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the connection broke").into()
}

fn status(code: u16, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": "injected by a test",
    });
    let body = Full::from(status.to_string()).map_err(|never| match never {});
    let body: Box<DynBody> = Box::new(body);
    Response::builder().status(code).body(body).expect("a response")
}
