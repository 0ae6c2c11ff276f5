//! The one way Oncilla talks to the API server.
//!
//! A kube client whose hidden parts are taken out: no request is ever repeated behind our back, none waits for an answer
//! without end, and each is counted once, as it goes over the wire. What an answer means is said in [`crate::answer`];
//! whether a request is sent again is said in [`retry`], and nowhere else.

pub mod deadline;
pub mod meter;
pub mod read;
pub mod request;
pub mod retry;
mod send;
pub mod write;

use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::{Client, Config};
use tower::layer::util::Identity;
use tower::util::BoxService;
use tower::{BoxError, Layer, Service};

pub use deadline::DeadlineExceeded;
pub use meter::Meter;

use crate::api::names;

/// How to reach the API server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is and who we are. None: KUBECONFIG or ~/.kube/config, else the service account of the pod.
    pub config: Option<Config>,
    /// Longest time from sending a request to the last byte of its answer. Watches and followed logs are exempt: they end
    /// by kube's own idle timeout.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            config: None,
            deadline: Duration::from_secs(10),
        }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no cluster to talk to: set KUBECONFIG, or run in a pod with a service account: {0}")]
    NoCluster(#[source] kube::config::InferConfigError),
    #[error("the configuration of the cluster cannot be used: {0}")]
    BadConfig(#[source] kube::Error),
}

/// A client, and the meter that counts what it sends. Nothing is sent yet.
pub async fn connect(options: Options) -> Result<(Client, Meter), Error> {
    connect_through(options, &Identity::new()).await
}

/// kube's own part of a client: authentication, TLS and HTTP.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// The same with `below` between kube's own part and ours: where the wire is, for faults.
pub async fn connect_through<L>(options: Options, below: &L) -> Result<(Client, Meter), Error>
where
    L: Layer<Transport>,
    L::Service: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError> + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
{
    let mut config = match options.config {
        Some(config) => config,
        None => Config::infer().await.map_err(Error::NoCluster)?,
    };
    // kube repeats what was answered with 429, 503 or 504, also POST and PATCH: a write that was applied is then answered
    // with a conflict with itself, and a throttled server can hold a reconcile for minutes.
    config.default_retry = false;
    config.connect_timeout = Some(options.deadline);
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));

    let meter = Meter::default();
    let client = ClientBuilder::try_from(config)
        .map_err(Error::BadConfig)?
        .with_layer(below)
        .with_layer(&deadline::DeadlineLayer::new(options.deadline))
        .with_layer(&meter.layer())
        .build();
    Ok((client, meter))
}

const AGENT: &str = concat!("oncilla/", env!("CARGO_PKG_VERSION"));

/// A resource of the API server, as far as its path goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    root: &'static str,
    plural: &'static str,
}

pub const JOBS: Resource = Resource::new("/apis/batch/v1", "jobs");
pub const PODS: Resource = Resource::new("/api/v1", "pods");
pub const NODES: Resource = Resource::new("/api/v1", "nodes");
pub const RUNS: Resource = Resource::new("/apis/oncilla.dev/v1alpha1", "workflowruns");

impl Resource {
    /// `root` is `/api/v1` or `/apis/GROUP/VERSION`.
    pub const fn new(root: &'static str, plural: &'static str) -> Resource {
        Resource { root, plural }
    }

    fn collection(&self, namespace: Option<&str>) -> Result<String, kube::Error> {
        match namespace {
            Some(namespace) => Ok(format!("{}/namespaces/{}/{}", self.root, part(namespace)?, self.plural)),
            None => Ok(format!("{}/{}", self.root, self.plural)),
        }
    }

    fn object(&self, namespace: Option<&str>, name: &str) -> Result<String, kube::Error> {
        Ok(format!("{}/{}", self.collection(namespace)?, part(name)?))
    }
}

/// A name as one part of a path. An empty one would turn a delete into the delete of a whole collection.
fn part(name: &str) -> Result<&str, kube::Error> {
    let sound = !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    if sound {
        return Ok(name);
    }
    Err(kube::Error::BuildRequest(kube::core::request::Error::Validation(
        format!("{name:?} is no name of a Kubernetes object"),
    )))
}

/// What every write says about itself: with strict validation an older CRD refuses a record instead of pruning it.
fn write_query() -> String {
    format!("?fieldManager={}&fieldValidation=Strict", names::MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_have_the_path_of_their_api() {
        assert_eq!(
            RUNS.object(Some("shop"), "order-1042").unwrap(),
            format!(
                "/apis/{}/{}/namespaces/shop/workflowruns/order-1042",
                names::GROUP,
                names::VERSION
            )
        );
        assert_eq!(NODES.object(None, "n.1").unwrap(), "/api/v1/nodes/n.1");
        assert_eq!(PODS.collection(None).unwrap(), "/api/v1/pods");
    }

    /// Reconciles move between threads; a call whose future could not would show only where it is spawned.
    #[allow(dead_code)]
    fn every_call_can_be_spawned(client: &Client, patch: &serde_json::Value) {
        fn spawnable(_: impl Future + Send) {}
        spawnable(read::get_job::<serde_json::Value>(client, "", ""));
        spawnable(read::list_pods::<serde_json::Value>(client, None, ""));
        spawnable(write::patch_status(client, "", "", patch));
        spawnable(write::create_job(client, "", patch));
        spawnable(write::release_pod(client, "", "", ""));
        spawnable(write::delete_job(client, "", "", ""));
    }

    #[test]
    fn what_is_no_name_makes_no_path() {
        for name in ["", "a/b", "..", "a?b", "a%2fb", "A", "a b"] {
            assert!(JOBS.object(Some("shop"), name).is_err(), "{name:?}");
            assert!(JOBS.object(Some(name), "job").is_err(), "{name:?}");
        }
    }
}
