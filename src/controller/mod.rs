//! The controller: watches, the queue, and what one process keeps.

pub mod events;
pub mod health;
pub mod memory;
pub mod reconcile;
pub mod sweep;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::controller::{Action, Config};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Notify, watch};

use self::health::Ready;
use self::memory::Memory;
use crate::api::names::{LABEL_RUN_UID, MANAGER};
use crate::client::{self, Meter};
use crate::observe::evidence::RunRef;
use crate::observe::index::Index;
use crate::observe::views::{JobView, PodView, RunView};

/// How the controller runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/livez` and `/readyz` are served; none: nowhere.
    pub health_address: Option<SocketAddr>,
    /// Only this namespace; none: all.
    pub namespace: Option<String>,
    /// Reconciles under way at once; 0: no limit.
    pub concurrency: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            health_address: None,
            namespace: None,
            concurrency: 32,
        }
    }
}

/// Why the controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(
        "cannot listen on {address} for health checks: {error}; choose another with --health-address or ONCILLA_HEALTH_ADDRESS (port 0: any)"
    )]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error("the API server does not know WorkflowRuns: apply the CRDs first (kubectl apply -f crds/): {0}")]
    NoCrd(#[source] kube::Error),
}

/// Which caches are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Listed {
    runs: bool,
    jobs_and_pods: bool,
}

/// What reconciles share.
pub struct Context {
    pub client: Client,
    pub meter: Meter,
    pub index: Index,
    pub recorder: Recorder,
    pub run_deleted: Notify,
    runs: Store<RunView>,
    /// The store has a wait of its own, but only the last of those who wait there is woken.
    listed: watch::Sender<Listed>,
    memory: Mutex<HashMap<String, Arc<Mutex<Memory>>>>,
}

impl Context {
    /// What is remembered of the run with this UID.
    pub fn memory_of(&self, uid: &str) -> Arc<Mutex<Memory>> {
        let mut memory = self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        memory.entry(uid.to_owned()).or_default().clone()
    }

    /// Failed reconciles in a row of the run with this UID.
    fn failures(&self, uid: &str) -> u32 {
        let memory = self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        memory.get(uid).map_or(0, |memory| reconcile::lock(memory).failures)
    }

    pub fn forget(&self, uid: &str) {
        self.memory
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .remove(uid);
    }

    /// Returns when runs, Jobs and pods have been listed once.
    async fn wait_until_listed(&self) {
        let all = Listed {
            runs: true,
            jobs_and_pods: true,
        };
        // The sender lives as long as this context: waiting cannot fail.
        let _ = self.listed.subscribe().wait_for(|listed| *listed == all).await;
    }

    fn note_listed(&self, note: impl FnOnce(&mut Listed)) {
        self.listed.send_if_modified(|listed| {
            let before = *listed;
            note(listed);
            *listed != before
        });
    }

    /// Whether the cache shows this very run. The name is only where to look first: it comes from a label that anybody may change.
    pub fn is_known(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let is_it = |run: &RunView| run.uid().as_deref() == Some(uid) && run.namespace().as_deref() == Some(namespace);
        let run = self.runs.get(&ObjectRef::new(name).within(namespace));
        run.is_some_and(|run| is_it(&run)) || self.runs.find(is_it).is_some()
    }

    /// Drops what is remembered of runs that the cache does not show.
    pub fn forget_unknown(&self) {
        let known: HashSet<String> = self.runs.state().iter().filter_map(|run| run.uid()).collect();
        let mut memory = self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        memory.retain(|uid, _| known.contains(uid));
    }
}

/// Runs until `shutdown` is done: reconciles under way end first.
pub async fn run(
    client: Client,
    meter: Meter,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Error> {
    let ready = Ready::default();
    let mut tasks = tokio::task::JoinSet::new();
    if let Some(address) = options.health_address {
        let listener = health::listen(address)
            .await
            .map_err(|error| Error::Listen { address, error })?;
        tasks.spawn(health::serve(listener, ready.clone()));
    }
    let runs: Api<RunView> = api(&client, &options);
    runs.list_metadata(&kube::api::ListParams::default().limit(1))
        .await
        .map_err(Error::NoCrd)?;

    let (store, writer) = reflector::store();
    let context = Arc::new(Context {
        client: client.clone(),
        meter,
        index: Index::default(),
        recorder: Recorder::new(
            client.clone(),
            Reporter {
                controller: MANAGER.into(),
                instance: None,
            },
        ),
        run_deleted: Notify::new(),
        runs: store.clone(),
        listed: watch::Sender::default(),
        memory: Mutex::default(),
    });

    let run_events = watcher(runs, watcher::Config::default()).default_backoff();
    let run_events = reflector::reflector(writer, run_events).inspect_ok({
        let context = context.clone();
        // What an event says is in the store by now.
        move |event| match event {
            watcher::Event::Delete(run) => {
                if let Some(uid) = &run.metadata.uid {
                    context.forget(uid);
                }
                context.run_deleted.notify_one();
            }
            watcher::Event::InitDone => context.note_listed(|listed| listed.runs = true),
            _ => {}
        }
    });
    let run_events = run_events.touched_objects();
    let (news, changed) = mpsc::unbounded();
    let ours = watcher::Config::default().labels(LABEL_RUN_UID);
    tasks.spawn(feed(
        watcher(api::<JobView>(&client, &options), ours.clone()),
        context.clone(),
        news.clone(),
        Index::on_job,
    ));
    tasks.spawn(feed(
        watcher(api::<PodView>(&client, &options), ours),
        context.clone(),
        news,
        Index::on_pod,
    ));

    // Decisions are made from three caches; before each is filled, absence would be taken for a fact far too often.
    let filled = {
        let context = context.clone();
        async move {
            context.wait_until_listed().await;
            ready.set();
            tracing::info!("the caches are filled");
            sweep::sweep(context).await;
        }
    };
    tasks.spawn(filled);

    tracing::info!(namespace = options.namespace.as_deref().unwrap_or("all"), "watching");
    Controller::for_stream(run_events, context.runs.clone())
        .with_config(Config::default().concurrency(options.concurrency))
        .reconcile_on(changed)
        .graceful_shutdown_on(shutdown)
        .run(reconcile_listed, on_error, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "queue");
            }
        })
        .await;
    tasks.shutdown().await;
    tracing::info!("stopped");
    Ok(())
}

async fn reconcile_listed(run: Arc<RunView>, context: Arc<Context>) -> Result<Action, reconcile::Error> {
    context.wait_until_listed().await;
    reconcile::reconcile(run, context).await
}

fn on_error(run: Arc<RunView>, error: &reconcile::Error, context: Arc<Context>) -> Action {
    let failures = context.failures(&run.uid().unwrap_or_default());
    let wait = reconcile::backoff(failures);
    let namespace = run.namespace().unwrap_or_default();
    tracing::warn!(run = %run.name_any(), %namespace, %error, wait_ms = wait.as_millis() as u64, "a reconcile failed");
    Action::requeue(wait)
}

fn api<K>(client: &Client, options: &Options) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match &options.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Feeds the index from a watch that never ends, and wakes the runs whose evidence is another now.
async fn feed<K>(
    watch: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
    context: Arc<Context>,
    news: mpsc::UnboundedSender<ObjectRef<RunView>>,
    take: fn(&Index, watcher::Event<K>) -> BTreeSet<RunRef>,
) {
    let mut events = pin!(watch.default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                for run in take(&context.index, event) {
                    // Closed only when the controller stops.
                    let _ = news.unbounded_send(ObjectRef::new(&run.name).within(&run.namespace));
                }
                if context.index.is_listed() {
                    context.note_listed(|listed| listed.jobs_and_pods = true);
                }
            }
            Err(error) => tracing::warn!(%error, "a watch was interrupted"),
        }
    }
}
