use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::words::StepReason;

fn object(namespace: &str, name: &str, uid: &str, run_uid: &str) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "generation": 1,
            "finalizers": ["oncilla.dev/evidence"],
            "labels": {
                "oncilla.dev/run": format!("name-of-{run_uid}"),
                "oncilla.dev/run-uid": run_uid,
                "oncilla.dev/step-hash": "2f7a",
                "oncilla.dev/attempt": "1",
            },
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    })
}

fn pod(name: &str, run_uid: &str) -> PodView {
    serde_json::from_value(object("shop", name, &format!("uid-{name}"), run_uid)).unwrap()
}

fn job(name: &str, run_uid: &str) -> JobView {
    serde_json::from_value(object("shop", name, &format!("uid-{name}"), run_uid)).unwrap()
}

fn run(uid: &str) -> RunRef {
    RunRef {
        namespace: "shop".to_owned(),
        uid: uid.to_owned(),
        name: format!("name-of-{uid}"),
    }
}

fn names(index: &Index, run_uid: &str) -> Vec<String> {
    let pods = index.evidence("shop", run_uid).pods;
    pods.into_iter().map(|pod| pod.name).collect()
}

#[test]
fn a_run_is_told_of_its_own_jobs_and_pods_only() {
    let index = Index::new();
    assert_eq!(index.on_job(Event::Apply(job("j1", "r1"))), BTreeSet::from([run("r1")]));
    assert_eq!(index.on_pod(Event::Apply(pod("p1", "r1"))), BTreeSet::from([run("r1")]));
    index.on_pod(Event::Apply(pod("p2", "r2")));

    let evidence = index.evidence("shop", "r1");
    assert_eq!(evidence.jobs.keys().collect::<Vec<_>>(), ["j1"]);
    assert_eq!(names(&index, "r1"), ["p1"]);
    assert_eq!(names(&index, "r2"), ["p2"]);
    assert_eq!(index.evidence("other", "r1"), Evidence::default());

    // A pod in another namespace that claims the same run.
    let foreign = serde_json::from_value(object("other", "p3", "u3", "r1")).unwrap();
    index.on_pod(Event::Apply(foreign));
    assert_eq!(names(&index, "r1"), ["p1"]);

    assert_eq!(
        index.on_pod(Event::Delete(pod("p1", "r1"))),
        BTreeSet::from([run("r1")])
    );
    assert_eq!(names(&index, "r1"), [""; 0]);
}

#[test]
fn what_changes_nothing_wakes_nobody() {
    let index = Index::new();
    index.on_pod(Event::Apply(pod("p1", "r1")));
    let mut same = pod("p1", "r1");
    same.metadata.resource_version = Some("2".to_owned());
    assert_eq!(index.on_pod(Event::Apply(same)), BTreeSet::new());
    assert_eq!(index.on_pod(Event::Delete(pod("p9", "r1"))), BTreeSet::new());
}

#[test]
fn a_list_counts_when_it_is_whole_and_takes_away_what_it_lacks() {
    let index = Index::new();
    assert!(!index.is_listed());
    index.on_job(Event::Init);
    index.on_job(Event::InitDone);
    for name in ["p1", "p2"] {
        index.on_pod(Event::Apply(pod(name, "r1")));
    }
    assert!(!index.is_listed());

    assert_eq!(index.on_pod(Event::Init), BTreeSet::new());
    assert_eq!(index.on_pod(Event::InitApply(pod("p2", "r1"))), BTreeSet::new());
    assert_eq!(index.on_pod(Event::InitApply(pod("p3", "r2"))), BTreeSet::new());
    assert_eq!(
        (names(&index, "r1"), names(&index, "r2")),
        (vec!["p1".to_owned(), "p2".to_owned()], vec![])
    );

    // A list that breaks off is begun again and forgets what it had.
    index.on_pod(Event::Init);
    index.on_pod(Event::InitApply(pod("p2", "r1")));
    index.on_pod(Event::InitApply(pod("p4", "r4")));
    assert_eq!(index.on_pod(Event::InitDone), BTreeSet::from([run("r1"), run("r4")]));
    assert_eq!(
        (names(&index, "r1"), names(&index, "r4")),
        (vec!["p2".to_owned()], vec!["p4".to_owned()])
    );
    assert_eq!(names(&index, "r2"), [""; 0]);
    assert!(index.is_listed());
}

#[test]
fn a_pod_that_changes_hands_leaves_its_old_run() {
    let index = Index::new();
    index.on_pod(Event::Apply(pod("p1", "r1")));
    assert_eq!(
        index.on_pod(Event::Apply(pod("p1", "r2"))),
        BTreeSet::from([run("r1"), run("r2")])
    );
    assert_eq!(
        (names(&index, "r1"), names(&index, "r2")),
        (vec![], vec!["p1".to_owned()])
    );

    let mut stripped = pod("p1", "r2");
    stripped.metadata.labels = None;
    assert_eq!(index.on_pod(Event::Apply(stripped)), BTreeSet::from([run("r2")]));
    assert_eq!(names(&index, "r2"), [""; 0]);
}

#[test]
fn a_pod_read_as_ended_before_its_deletion_stays_so() {
    let index = Index::new();
    let ended = |deleting: bool| {
        let mut pod = object("shop", "p1", "u1", "r1");
        pod["status"] = json!({"phase": "Succeeded", "observedGeneration": 2});
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-29T10:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    };
    let knows = || index.evidence("shop", "r1").pods[0].ended_before_deletion;
    index.on_pod(Event::Apply(ended(true)));
    assert!(!knows(), "it was deleted when it was first seen");

    index.on_pod(Event::Delete(ended(true)));
    index.on_pod(Event::Apply(ended(false)));
    index.on_pod(Event::Apply(ended(true)));
    assert!(knows());
    index.on_pod(Event::Apply(ended(true)));
    assert!(knows());
    for event in [Event::Init, Event::InitApply(ended(true)), Event::InitDone] {
        index.on_pod(event);
    }
    assert!(knows(), "a new list is no new pod");

    let mut other: PodView = ended(true);
    other.metadata.uid = Some("u2".to_owned());
    index.on_pod(Event::Apply(other));
    assert!(!knows(), "another pod of the same name");
}

#[test]
fn an_explanation_lasts_as_long_as_its_object() {
    let index = Index::new();
    let why = Some(Waiting::new(StepReason::QuotaExceeded, "no room"));
    assert!(
        !index.explain_job(&run("r1"), "j1", "uid-j1", why.clone()),
        "no such Job"
    );
    index.on_job(Event::Apply(job("j1", "r1")));
    assert!(!index.explain_job(&run("r1"), "j1", "other", why.clone()));
    assert!(index.explain_job(&run("r1"), "j1", "uid-j1", why.clone()));
    assert!(!index.explain_job(&run("r1"), "j1", "uid-j1", why.clone()), "no news");
    let mut changed = job("j1", "r1");
    changed.spec.suspend = Some(true);
    index.on_job(Event::Apply(changed));
    assert_eq!(index.evidence("shop", "r1").jobs["j1"].waiting, why);
    let mut other = job("j1", "r1");
    other.metadata.uid = Some("u9".to_owned());
    index.on_job(Event::Apply(other));
    assert_eq!(index.evidence("shop", "r1").jobs["j1"].waiting, None);

    index.on_pod(Event::Apply(pod("p1", "r1")));
    assert!(index.explain_pod(&run("r1"), "p1", "uid-p1", why.clone()));
    assert_eq!(index.evidence("shop", "r1").pods[0].waiting, why);
    assert!(index.explain_pod(&run("r1"), "p1", "uid-p1", None));
    assert_eq!(index.evidence("shop", "r1").pods[0].waiting, None);
}

#[test]
fn a_sweep_finds_every_run_whose_pods_are_held() {
    let index = Index::new();
    index.on_pod(Event::Apply(pod("p1", "r1")));
    index.on_pod(Event::Apply(pod("p2", "r2")));
    let mut released = pod("p3", "r2");
    released.metadata.finalizers = Some(vec!["batch.kubernetes.io/job-tracking".to_owned()]);
    index.on_pod(Event::Apply(released));
    index.on_job(Event::Apply(job("j3", "r3")));
    assert_eq!(index.runs_with_held_pods(), [run("r1"), run("r2")]);
    let held = HeldPod {
        name: "p2".to_owned(),
        uid: "uid-p2".to_owned(),
    };
    assert_eq!(index.held_pods("shop", "r2"), [held]);
    assert_eq!(index.held_pods("shop", "r3"), []);
}

/// What can happen to the four pods of a small world.
#[derive(Clone, Debug)]
enum Change {
    Apply(u8, u8),
    Delete(u8),
    List(Vec<(u8, u8)>),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u8..4, 0u8..3).prop_map(|(name, run)| Change::Apply(name, run)),
        2 => (0u8..4).prop_map(Change::Delete),
        1 => prop::collection::vec((0u8..4, 0u8..3), 0..5).prop_map(Change::List),
    ]
}

proptest! {
    /// The index is what the last word about each pod makes it, and says which runs changed.
    #[test]
    fn the_index_agrees_with_the_world(changes in prop::collection::vec(any_change(), 0..24)) {
        let index = Index::new();
        let mut world: BTreeMap<u8, u8> = BTreeMap::new();
        let view = |name: u8, run: u8| pod(&format!("p{name}"), &format!("r{run}"));
        let of = |world: &BTreeMap<u8, u8>, run: u8| -> Vec<String> {
            let pods = world.iter().filter(|(_, r)| **r == run);
            pods.map(|(name, _)| format!("p{name}")).collect()
        };
        for change in changes {
            let before = world.clone();
            let told = match change {
                Change::Apply(name, run) => {
                    world.insert(name, run);
                    index.on_pod(Event::Apply(view(name, run)))
                }
                Change::Delete(name) => {
                    let run = world.remove(&name).unwrap_or_default();
                    index.on_pod(Event::Delete(view(name, run)))
                }
                Change::List(list) => {
                    world.clear();
                    index.on_pod(Event::Init);
                    for (name, run) in list {
                        world.insert(name, run);
                        index.on_pod(Event::InitApply(view(name, run)));
                    }
                    index.on_pod(Event::InitDone)
                }
            };
            for number in 0..3 {
                let uid = format!("r{number}");
                prop_assert_eq!(names(&index, &uid), of(&world, number));
                let changed = of(&world, number) != of(&before, number);
                prop_assert_eq!(told.contains(&run(&uid)), changed);
            }
        }
    }
}
