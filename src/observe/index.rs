//! The evidence of every run, in memory, fed by the watches of Jobs and pods and asked by run.
//!
//! Evidence is kept by what an object's labels say and in the namespace where it lies, so that a pod elsewhere cannot speak
//! for a run whose UID it merely knows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::evidence::{RunRef, job_evidence, pod_evidence, run_of};
use super::views::{JobView, PodView};
use crate::evidence::{Evidence, JobEvidence, PodEvidence, Waiting};

/// Evidence by run. Every call takes a lock for as long as it takes to look at one run's objects, or, where it says so, at all.
#[derive(Debug, Default)]
pub struct Index {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    jobs: Table<JobEvidence>,
    pods: Table<PodEvidence>,
}

/// A pod that holds our finalizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeldPod {
    pub name: String,
    pub uid: String,
}

impl Index {
    pub fn new() -> Index {
        Index::default()
    }

    /// Takes in what the watch of Jobs reports. Returns the runs whose evidence is another now.
    pub fn on_job(&self, event: Event<JobView>) -> BTreeSet<RunRef> {
        let event = map(event, |job| (place(&job), run_of(&job).zip(job_evidence(&job))));
        self.tables().jobs.on_event(event)
    }

    /// Takes in what the watch of pods reports. Returns the runs whose evidence is another now.
    pub fn on_pod(&self, event: Event<PodView>) -> BTreeSet<RunRef> {
        let event = map(event, |pod| (place(&pod), run_of(&pod).zip(pod_evidence(&pod))));
        self.tables().pods.on_event(event)
    }

    /// Whether both watches have listed once: until then absence means nothing at all.
    pub fn is_listed(&self) -> bool {
        let tables = self.tables();
        tables.jobs.listed && tables.pods.listed
    }

    /// What is known of one run's Jobs and pods; empty if nothing is.
    pub fn evidence(&self, namespace: &str, run_uid: &str) -> Evidence {
        let key = (namespace.to_owned(), run_uid.to_owned());
        let tables = self.tables();
        let jobs = tables.jobs.runs.get(&key);
        let pods = tables.pods.runs.get(&key);
        let mut pods: Vec<PodEvidence> = pods.map_or_else(Vec::new, |run| run.objects.values().cloned().collect());
        pods.sort_by(|a, b| (&a.attempt, &a.uid).cmp(&(&b.attempt, &b.uid)));
        Evidence {
            jobs: jobs.map_or_else(BTreeMap::new, |run| run.objects.clone()),
            pods,
            ..Evidence::default()
        }
    }

    /// Keeps what the events of a Job say, as long as it is this Job. Returns whether that is news.
    pub fn explain_job(&self, run: &RunRef, name: &str, uid: &str, why: Option<Waiting>) -> bool {
        self.tables().jobs.explain(run, name, uid, why)
    }

    /// Keeps what the events of a pod say, as long as it is this pod. Returns whether that is news.
    pub fn explain_pod(&self, run: &RunRef, name: &str, uid: &str, why: Option<Waiting>) -> bool {
        self.tables().pods.explain(run, name, uid, why)
    }

    /// Every run with a pod that holds our finalizer: some of these runs may be gone. Looks at all pods.
    pub fn runs_with_held_pods(&self) -> Vec<RunRef> {
        let tables = self.tables();
        let mut runs: Vec<RunRef> = tables
            .pods
            .runs
            .iter()
            .filter(|(_, run)| run.objects.values().any(|pod| pod.held))
            .map(|((namespace, uid), run)| RunRef {
                namespace: namespace.clone(),
                uid: uid.clone(),
                name: run.name.clone(),
            })
            .collect();
        runs.sort();
        runs
    }

    /// The pods of one run that hold our finalizer.
    pub fn held_pods(&self, namespace: &str, run_uid: &str) -> Vec<HeldPod> {
        let key = (namespace.to_owned(), run_uid.to_owned());
        let tables = self.tables();
        let objects = tables.pods.runs.get(&key).into_iter();
        objects
            .flat_map(|run| run.objects.values())
            .filter(|pod| pod.held)
            .map(|pod| HeldPod {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            })
            .collect()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A poisoned lock would take every run down with the one reconcile that panicked.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an object is: its namespace and name.
type Place = (String, String);
/// A run: its namespace and UID.
type RunKey = (String, String);
/// An object's place, and what it says of which run, if it is ours.
type Found<E> = (Place, Option<(RunRef, E)>);

fn place<K: ResourceExt>(object: &K) -> Place {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn map<K, T>(event: Event<K>, f: impl FnOnce(K) -> T) -> Event<T> {
    match event {
        Event::Apply(object) => Event::Apply(f(object)),
        Event::Delete(object) => Event::Delete(f(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(f(object)),
        Event::InitDone => Event::InitDone,
    }
}

/// Evidence that replaces an earlier version of itself.
trait Kept: Clone + PartialEq {
    fn uid(&self) -> &str;
    /// Takes over what only the earlier version of the same object knows.
    fn remember(&mut self, earlier: &Self);
    fn waiting_mut(&mut self) -> &mut Option<Waiting>;
}

impl Kept for JobEvidence {
    fn uid(&self) -> &str {
        &self.uid
    }
    fn remember(&mut self, earlier: &JobEvidence) {
        self.waiting.clone_from(&earlier.waiting);
    }
    fn waiting_mut(&mut self) -> &mut Option<Waiting> {
        &mut self.waiting
    }
}

impl Kept for PodEvidence {
    fn uid(&self) -> &str {
        &self.uid
    }
    fn remember(&mut self, earlier: &PodEvidence) {
        self.waiting.clone_from(&earlier.waiting);
        self.ended_before_deletion = earlier.ended_before_deletion || (earlier.is_terminal() && !earlier.deleting);
    }
    fn waiting_mut(&mut self) -> &mut Option<Waiting> {
        &mut self.waiting
    }
}

/// One kind of evidence.
#[derive(Debug)]
struct Table<E> {
    runs: HashMap<RunKey, Run<E>>,
    /// Which run the object at a place belongs to.
    places: HashMap<Place, RunKey>,
    /// What the list under way has said so far. It counts when it is whole.
    listing: Option<HashMap<Place, Option<(RunRef, E)>>>,
    listed: bool,
}

#[derive(Debug)]
struct Run<E> {
    name: String,
    /// By the object's name.
    objects: BTreeMap<String, E>,
}

impl<E> Default for Table<E> {
    fn default() -> Table<E> {
        Table {
            runs: HashMap::new(),
            places: HashMap::new(),
            listing: None,
            listed: false,
        }
    }
}

impl<E: Kept> Table<E> {
    fn on_event(&mut self, event: Event<Found<E>>) -> BTreeSet<RunRef> {
        let mut changed = BTreeSet::new();
        match event {
            Event::Init => self.listing = Some(HashMap::new()),
            Event::InitApply((place, found)) => match &mut self.listing {
                Some(listing) => {
                    listing.insert(place, found);
                }
                None => self.put((place, found), &mut changed),
            },
            Event::InitDone => {
                let listing = self.listing.take().unwrap_or_default();
                let gone = self.places.keys().filter(|it| !listing.contains_key(*it));
                for place in gone.cloned().collect::<Vec<_>>() {
                    self.remove(&place, &mut changed);
                }
                for found in listing {
                    self.put(found, &mut changed);
                }
                self.listed = true;
            }
            Event::Apply(found) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(found.0.clone(), found.1.clone());
                }
                self.put(found, &mut changed);
            }
            Event::Delete((place, _)) => {
                if let Some(listing) = &mut self.listing {
                    listing.remove(&place);
                }
                self.remove(&place, &mut changed);
            }
        }
        changed
    }

    fn put(&mut self, (place, found): Found<E>, changed: &mut BTreeSet<RunRef>) {
        let Some((run, mut evidence)) = found else {
            // Labels that say nothing: what they said before no longer holds.
            return self.remove(&place, changed);
        };
        let key = (run.namespace.clone(), run.uid.clone());
        if self.places.get(&place).is_some_and(|before| *before != key) {
            self.remove(&place, changed);
        }
        let entry = self.runs.entry(key.clone()).or_insert_with(|| Run {
            name: String::new(),
            objects: BTreeMap::new(),
        });
        entry.name.clone_from(&run.name);
        let earlier = entry.objects.get(&place.1);
        if let Some(earlier) = earlier.filter(|earlier| earlier.uid() == evidence.uid()) {
            evidence.remember(earlier);
        }
        if earlier != Some(&evidence) {
            entry.objects.insert(place.1.clone(), evidence);
            changed.insert(run);
        }
        self.places.insert(place, key);
    }

    fn remove(&mut self, place: &Place, changed: &mut BTreeSet<RunRef>) {
        let Some(key) = self.places.remove(place) else {
            return;
        };
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if run.objects.remove(&place.1).is_some() {
            changed.insert(RunRef {
                namespace: key.0.clone(),
                uid: key.1.clone(),
                name: run.name.clone(),
            });
        }
        if run.objects.is_empty() {
            self.runs.remove(&key);
        }
    }

    fn explain(&mut self, run: &RunRef, name: &str, uid: &str, why: Option<Waiting>) -> bool {
        let key = (run.namespace.clone(), run.uid.clone());
        let objects = self.runs.get_mut(&key).map(|run| &mut run.objects);
        let object = objects
            .and_then(|objects| objects.get_mut(name))
            .filter(|object| object.uid() == uid);
        object.is_some_and(|object| {
            let before = std::mem::replace(object.waiting_mut(), why.clone());
            before != why
        })
    }
}

#[cfg(test)]
mod tests;
