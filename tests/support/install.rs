//! Oncilla's own objects on the control plane, and a controller in this process.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use oncilla::client::Meter;
use oncilla::controller::{self, Options};
use oncilla::crdgen;
use serde::Deserialize;
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinHandle;

use super::cluster::{Cluster, GENEROUS, Namespace};
use super::faults::Faults;

/// Applies the CRD and the admission policies, once in this process.
pub async fn install(cluster: &Cluster) {
    static DONE: OnceCell<()> = OnceCell::const_new();
    DONE.get_or_init(|| async {
        // RUST_LOG=oncilla=debug shows what the controller does; a failed test shows it by itself.
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "oncilla=info".into());
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_test_writer()
            .try_init();
        for text in [crdgen::crd_yaml(), crdgen::policies_yaml()] {
            apply(&cluster.admin, &text).await;
        }
        let crds: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
            Api::all(cluster.admin.clone());
        let name = "workflowruns.oncilla.dev";
        let established = await_condition(crds, name, conditions::is_crd_established());
        tokio::time::timeout(GENEROUS, established)
            .await
            .expect("the CRD is established")
            .unwrap();
        policies_hold(cluster).await;
    })
    .await;
}

/// Applies every document of a YAML text, as `kubectl apply --server-side` does.
pub async fn apply(client: &Client, text: &str) -> Vec<DynamicObject> {
    let mut applied = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let object = DynamicObject::deserialize(document).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        applied.push(
            apply_object(client, object)
                .await
                .unwrap_or_else(|error| panic!("{error}")),
        );
    }
    applied
}

/// Applies one object; the error is what the API server says.
pub async fn apply_object(client: &Client, object: DynamicObject) -> Result<DynamicObject, kube::Error> {
    let types = object.types.clone().expect("an object has a kind");
    let kind = GroupVersionKind::try_from(&types).expect("apiVersion and kind are sound");
    let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind).await?;
    let api = api_of(client, &resource, capabilities.scope, object.namespace());
    let params = PatchParams::apply("tests").force().validation_strict();
    api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await
}

fn api_of(
    client: &Client,
    resource: &ApiResource,
    scope: kube::discovery::Scope,
    namespace: Option<String>,
) -> Api<DynamicObject> {
    match scope {
        kube::discovery::Scope::Cluster => Api::all_with(client.clone(), resource),
        kube::discovery::Scope::Namespaced => {
            Api::namespaced_with(client.clone(), namespace.as_deref().unwrap_or("default"), resource)
        }
    }
}

/// Policies take effect a moment after they are stored: waits until a create that comes too late is refused.
async fn policies_hold(cluster: &Cluster) {
    let jobs: Api<k8s_openapi::api::batch::v1::Job> = Api::namespaced(cluster.admin.clone(), "default");
    let late = serde_json::json!({
        "metadata": {"generateName": "late-", "annotations": {"oncilla.dev/create-before": "2020-01-01T00:00:00Z"}},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}},
    });
    let late = serde_json::from_value(late).unwrap();
    super::cluster::wait_for("the policies are in force", async || {
        let params = kube::api::PostParams {
            dry_run: true,
            ..Default::default()
        };
        match jobs.create(&params, &late).await {
            Err(kube::Error::Api(status)) if status.message.contains("oncilla-create-before") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// A controller at work on one namespace.
pub struct Oncilla {
    pub meter: Meter,
    stop: Arc<Notify>,
    task: Option<JoinHandle<Result<(), controller::Error>>>,
}

impl Oncilla {
    /// Starts it with a client and a meter of its own.
    pub async fn start(cluster: &Cluster, namespace: &Namespace) -> Oncilla {
        Oncilla::start_with(cluster, namespace, &Faults::default()).await
    }

    /// The same with faults on its wire.
    pub async fn start_with(cluster: &Cluster, namespace: &Namespace, faults: &Faults) -> Oncilla {
        install(cluster).await;
        let (client, meter) = cluster.client_through(faults).await;
        let options = Options {
            namespace: Some(namespace.name.clone()),
            ..Options::default()
        };
        let stop = Arc::new(Notify::new());
        let told = stop.clone();
        let counted = meter.clone();
        let task = tokio::spawn(async move {
            controller::run(client, counted, options, async move { told.notified().await }).await
        });
        Oncilla {
            meter,
            stop,
            task: Some(task),
        }
    }

    /// Ends it as SIGTERM does.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        let task = self.task.take().expect("it runs");
        tokio::time::timeout(GENEROUS, task)
            .await
            .expect("it ends")
            .expect("it does not panic")
            .expect("it runs well");
    }

    /// Ends it as kill -9 does: wherever it is.
    pub async fn kill(mut self) {
        let task = self.task.take().expect("it runs");
        task.abort();
        let _ = task.await;
    }
}

impl Drop for Oncilla {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// How long a test gives things that must not happen a chance to happen.
pub const A_WHILE: Duration = Duration::from_secs(3);
