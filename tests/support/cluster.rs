//! The control plane that tests run against, and how to wait for what happens on it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, Pod, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Config};
use oncilla::api::names;
use oncilla::client::{Meter, Options, connect, connect_through, read, write};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::faults::Faults;

/// Names the kubeconfig of a control plane that exists for tests.
pub const KUBECONFIG: &str = "ONCILLA_TEST_KUBECONFIG";

/// Longer than anything takes on a machine that does ten other things; reached only when something is broken.
pub const GENEROUS: Duration = Duration::from_secs(120);

/// A control plane for tests.
#[derive(Clone)]
pub struct Cluster {
    pub config: Config,
    /// The test's own client, as administrator. What Oncilla sends is counted apart: see [`Cluster::client`].
    pub admin: Client,
}

impl Cluster {
    /// The control plane that ONCILLA_TEST_KUBECONFIG names.
    pub async fn connect() -> Cluster {
        let path = std::env::var(KUBECONFIG).unwrap_or_else(|_| {
            panic!(
                "{KUBECONFIG} is not set: this test needs a control plane. `make check` starts one and sets it; or set it to \
                 the kubeconfig of a cluster that may be written to."
            )
        });
        let kubeconfig = Kubeconfig::read_from(&path).unwrap_or_else(|error| panic!("{KUBECONFIG}={path}: {error}"));
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap_or_else(|error| panic!("{KUBECONFIG}={path}: {error}"));
        let (admin, _) = connect_as(&config).await;
        Cluster { config, admin }
    }

    /// A client as Oncilla has it, with a meter of its own.
    pub async fn client(&self) -> (Client, Meter) {
        connect_as(&self.config).await
    }

    /// The same with faults where the wire is.
    pub async fn client_through(&self, faults: &Faults) -> (Client, Meter) {
        let options = Options {
            config: Some(self.config.clone()),
            ..Options::default()
        };
        connect_through(options, faults)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// A namespace of its own for one test, ready for pods.
    pub async fn namespace(&self, purpose: &str) -> Namespace {
        let name = format!("t-{purpose}-{}", unique());
        let namespaces: Api<NamespaceObject> = Api::all(self.admin.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .unwrap_or_else(|error| panic!("namespace {name}: {error}"));
        // Without it the Job controller's first try to make a pod fails, and its second comes late.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), &name);
        watch_until("the default service account", &accounts, "default", |it| {
            it.map(|_| ()).ok_or("not there yet".to_string())
        })
        .await;
        Namespace {
            name,
            admin: self.admin.clone(),
        }
    }
}

async fn connect_as(config: &Config) -> (Client, Meter) {
    let options = Options {
        config: Some(config.clone()),
        ..Options::default()
    };
    connect(options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Different for each call, in each process of a machine.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!(
        "{:x}-{:x}-{}",
        time.as_millis() & 0xff_ffff_ffff,
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A test's own namespace. A test that fails leaves it, to be looked at.
pub struct Namespace {
    pub name: String,
    admin: Client,
}

impl Namespace {
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.admin.clone(), &self.name)
    }

    /// Deletes it, and lets go of the pods in it that wait for a controller that no longer is.
    pub async fn finish(self) {
        let namespaces: Api<NamespaceObject> = Api::all(self.admin.clone());
        let deleted = namespaces.delete(&self.name, &DeleteParams::background()).await;
        deleted.unwrap_or_else(|error| panic!("namespace {}: {error}", self.name));
        let pods: Vec<Pod> = read::list_pods(&self.admin, Some(&self.name), "")
            .await
            .unwrap_or_else(|error| panic!("pods of {}: {error}", self.name));
        for pod in pods {
            let metadata = pod.metadata;
            let finalizers = metadata.finalizers.unwrap_or_default();
            if finalizers.iter().any(|f| f == names::FINALIZER_EVIDENCE) {
                let (name, uid) = (metadata.name.unwrap(), metadata.uid.unwrap());
                // It may go by itself in the meantime.
                let _ = write::release_pod(&self.admin, &self.name, &name, &uid).await;
            }
        }
    }
}

/// Asks `state` again and again until it gives a value; fails with the last thing it said after [`GENEROUS`].
pub async fn wait_for<T>(what: &str, state: impl AsyncFnMut() -> Result<T, String>) -> T {
    wait_at_most(GENEROUS, what, state).await
}

/// The same with a limit of its own.
pub async fn wait_at_most<T>(limit: Duration, what: &str, mut state: impl AsyncFnMut() -> Result<T, String>) -> T {
    let mut last = "never asked".to_string();
    let found = tokio::time::timeout(limit, async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            pause.tick().await;
            match state().await {
                Ok(value) => return value,
                Err(text) => last = text,
            }
        }
    })
    .await;
    found.unwrap_or_else(|_| panic!("after {limit:?} still not: {what}. Last seen: {last}"))
}

/// Follows one object until `state` gives a value; None is an object that is not there. Fails with the last thing it said.
pub async fn watch_until<K, T>(
    what: &str,
    api: &Api<K>,
    name: &str,
    mut state: impl FnMut(Option<&K>) -> Result<T, String>,
) -> T
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut last = "nothing".to_string();
    let objects = watch_object(api.clone(), name).default_backoff();
    pin_mut!(objects);
    let found = tokio::time::timeout(GENEROUS, async {
        while let Some(object) = objects.next().await {
            match object {
                Ok(object) => match state(object.as_ref()) {
                    Ok(value) => return value,
                    Err(text) => last = text,
                },
                Err(error) => last = error.to_string(),
            }
        }
        panic!("the watch of {name} ended while waiting for: {what}")
    })
    .await;
    found.unwrap_or_else(|_| panic!("after {GENEROUS:?} still not: {what}. Last seen: {last}"))
}
