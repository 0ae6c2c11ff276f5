//! From an object as the API server sends it to what Oncilla makes of it.

use kube::Resource;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::events::explain_events;
use super::evidence::{belongs_to, job_evidence, pod_evidence, run_of};
use super::views::{EventView, JobView, PodView, RunView};
use crate::api::time::Time;
use crate::api::words::StepReason;
use crate::evidence::{
    ContainerKind, ContainerState, JobState, MAX_TERMINATION_MESSAGE, Node, PodEvidence, PodPhase, Terminated, cause,
};

fn labels() -> Value {
    json!({
        "oncilla.dev/run": "order-1042",
        "oncilla.dev/run-uid": "r1",
        "oncilla.dev/step": "charge",
        "oncilla.dev/step-hash": "2f7a3c9d",
        "oncilla.dev/attempt": "2",
        "batch.kubernetes.io/controller-uid": "j1",
    })
}

/// A Job as Oncilla makes it and the API server stores it.
fn job() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "order-1042-charge-2f7a3c9d",
            "namespace": "shop",
            "uid": "j1",
            "creationTimestamp": "2026-11-29T10:00:00Z",
            "labels": labels(),
            "annotations": {"oncilla.dev/step-path": "charge", "example.com/big": "x"},
            "ownerReferences": [{
                "apiVersion": "oncilla.dev/v1alpha1", "kind": "WorkflowRun", "name": "order-1042", "uid": "r1",
                "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": [{"manager": "oncilla", "operation": "Update"}],
        },
        "spec": {
            "backoffLimit": 0,
            "completionMode": "NonIndexed",
            "completions": 1,
            "manualSelector": false,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "j1"}},
            "suspend": false,
            "template": {
                "metadata": {
                    "creationTimestamp": null,
                    "labels": labels(),
                    "finalizers": ["oncilla.dev/evidence"],
                },
                "spec": {
                    "restartPolicy": "Never",
                    "initContainers": [{"name": "relay", "image": "relay:2", "restartPolicy": "Always"}],
                    "containers": [{
                        "name": "main", "image": "shop:1.8", "resources": {},
                        "terminationMessagePath": "/oncilla/output", "terminationMessagePolicy": "File",
                    }],
                },
            },
        },
        "status": {"ready": 0, "uncountedTerminatedPods": {}},
    })
}

/// A pod that was evicted by its node.
fn pod() -> Value {
    json!({
        "metadata": {
            "name": "order-1042-charge-2f7a3c9d-x7k2p",
            "namespace": "shop",
            "uid": "p1",
            "generation": 2,
            "deletionTimestamp": "2026-11-29T10:01:00Z",
            "labels": labels(),
            "annotations": {"cni.example/ip": "10.0.0.7"},
            "finalizers": ["batch.kubernetes.io/job-tracking", "oncilla.dev/evidence"],
            "ownerReferences": [],
        },
        "spec": {
            "nodeName": "n1",
            "activeDeadlineSeconds": 300,
            "initContainers": [{"name": "prepare"}, {"name": "relay", "restartPolicy": "Always"}],
            "containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}, {"name": "mesh"}],
            "ephemeralContainers": [{"name": "debug"}],
        },
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "observedGeneration": 2,
            "startTime": "2026-11-29T10:00:00Z",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "low"},
            ],
            "initContainerStatuses": [
                {"name": "relay", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                 "lastState": {"terminated": {"exitCode": 1}}},
                {"name": "prepare", "restartCount": 0, "lastState": {}, "state": {"terminated": {
                    "exitCode": 0, "reason": "Completed", "containerID": "containerd://1",
                    "startedAt": "2026-11-29T10:00:01Z", "finishedAt": "2026-11-29T10:00:02Z"}}},
            ],
            "containerStatuses": [
                {"name": "main", "restartCount": 0, "state": {"terminated": {
                    "exitCode": 137, "reason": "Error", "message": "half", "containerID": "containerd://2",
                    "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "2026-11-29T10:00:05Z"}}},
                {"name": "mesh", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-29T10:00:03Z"}}},
            ],
        },
    })
}

fn job_view(job: Value) -> JobView {
    serde_json::from_value(job).unwrap()
}

fn read(pod: Value) -> Option<PodEvidence> {
    pod_evidence(&serde_json::from_value::<PodView>(pod).unwrap())
}

fn time(text: &str) -> Option<Time> {
    Some(text.parse::<jiff::Timestamp>().unwrap().into())
}

#[test]
fn a_sound_job_has_no_faults() {
    let evidence = job_evidence(&job_view(job())).unwrap();
    assert_eq!(evidence.faults, [""; 0]);
    assert_eq!(evidence.attempt, ("2f7a3c9d".to_owned(), 2));
    assert_eq!(evidence.uid, "j1");
    assert_eq!(evidence.state, JobState::Active);
    assert_eq!(evidence.created, time("2026-11-29T10:00:00Z"));
    assert!(!evidence.deleting && !evidence.suspended && !evidence.closing);
}

#[test]
fn each_change_that_could_break_the_promise_is_a_fault_that_says_what_was_found() {
    let template = "/spec/template/spec";
    for (at, value, fault) in [
        ("/spec/backoffLimit", json!(6), "spec.backoffLimit is 6, not 0"),
        ("/spec/completions", json!(2), "spec.completions is 2, not 1"),
        ("/spec/parallelism", json!(null), "spec.parallelism is not set, not 1"),
        (
            "/spec/podReplacementPolicy",
            json!("TerminatingOrFailed"),
            "spec.podReplacementPolicy is TerminatingOrFailed, not Failed",
        ),
        (
            "/spec/podFailurePolicy",
            json!({"rules": []}),
            "spec.podFailurePolicy is set, and must not be",
        ),
        (
            "/spec/successPolicy",
            json!({"rules": []}),
            "spec.successPolicy is set, and must not be",
        ),
        (
            "/spec/backoffLimitPerIndex",
            json!(0),
            "spec.backoffLimitPerIndex is set, and must not be",
        ),
        (
            "/spec/ttlSecondsAfterFinished",
            json!(0),
            "spec.ttlSecondsAfterFinished is set, and must not be",
        ),
        (
            "/spec/managedBy",
            json!("example.com/other"),
            "spec.managedBy is example.com/other, and must not be set",
        ),
        (
            "/metadata/annotations",
            json!({}),
            "metadata.annotations has no oncilla.dev/step-path",
        ),
        (
            "/metadata/ownerReferences/0/uid",
            json!("r0"),
            "metadata.ownerReferences has no controlling WorkflowRun with uid r1",
        ),
        (
            "/metadata/ownerReferences/0/controller",
            json!(false),
            "metadata.ownerReferences has no controlling WorkflowRun with uid r1",
        ),
        (
            "/metadata/ownerReferences/0/kind",
            json!("Other"),
            "metadata.ownerReferences has no controlling WorkflowRun with uid r1",
        ),
        (
            "/metadata/labels/oncilla.dev~1run",
            json!(null),
            "metadata.labels has no oncilla.dev/run",
        ),
        (
            "/spec/template/metadata/labels/oncilla.dev~1run-uid",
            json!("r0"),
            "spec.template.metadata.labels has oncilla.dev/run-uid r0, not r1",
        ),
        (
            "/spec/template/metadata/labels/oncilla.dev~1attempt",
            json!(null),
            "spec.template.metadata.labels has no oncilla.dev/attempt, not 2",
        ),
        (
            "/spec/template/metadata/finalizers",
            json!(["other"]),
            "spec.template.metadata.finalizers has no oncilla.dev/evidence",
        ),
        (
            "/spec/template/metadata/finalizers",
            json!(null),
            "spec.template.metadata.finalizers has no oncilla.dev/evidence",
        ),
        (
            &format!("{template}/restartPolicy"),
            json!("OnFailure"),
            "spec.template.spec.restartPolicy is OnFailure, not Never",
        ),
        (
            &format!("{template}/containers/0/restartPolicy"),
            json!("Always"),
            "container main has restartPolicy Always",
        ),
        (
            &format!("{template}/containers/0/restartPolicyRules"),
            json!([{"action": "Restart"}]),
            "container main has restartPolicyRules",
        ),
        (
            &format!("{template}/initContainers/0/restartPolicy"),
            json!("OnFailure"),
            "init container relay has restartPolicy OnFailure",
        ),
        (
            &format!("{template}/initContainers/0/restartPolicyRules"),
            json!([{}]),
            "init container relay has restartPolicyRules",
        ),
        (
            &format!("{template}/containers/0/livenessProbe"),
            json!({"exec": {}}),
            "container main has livenessProbe",
        ),
        (
            &format!("{template}/containers/0/startupProbe"),
            json!({"exec": {}}),
            "container main has startupProbe",
        ),
        (
            &format!("{template}/containers/0/lifecycle"),
            json!({"postStart": {}}),
            "container main has lifecycle.postStart",
        ),
        (
            &format!("{template}/containers/0/terminationMessagePath"),
            json!("/dev/termination-log"),
            "container main has terminationMessagePath /dev/termination-log, not /oncilla/output",
        ),
    ] {
        let mut job = job();
        set(&mut job, at, value);
        let evidence = job_evidence(&job_view(job)).unwrap();
        let wanted = format!("{fault}: an admission webhook or a person may have changed it");
        assert_eq!(evidence.faults, [wanted], "{at}");
    }
    let mut renamed = job();
    set(&mut renamed, &format!("{template}/containers/0/name"), json!("mesh"));
    assert!(
        job_evidence(&job_view(renamed)).unwrap().faults[0].starts_with("spec.template.spec.containers has no main:")
    );
}

#[test]
fn what_others_may_add_is_no_fault() {
    let mut job = job();
    set(&mut job, "/spec/managedBy", json!("kubernetes.io/job-controller"));
    set(&mut job, "/spec/activeDeadlineSeconds", json!(1));
    set(&mut job, "/spec/suspend", json!(true));
    let template = "/spec/template/spec";
    set(
        &mut job,
        &format!("{template}/containers/1"),
        json!({"name": "mesh", "livenessProbe": {"exec": {}}}),
    );
    set(
        &mut job,
        &format!("{template}/containers/0/readinessProbe"),
        json!({"exec": {}}),
    );
    set(
        &mut job,
        &format!("{template}/containers/0/lifecycle"),
        json!({"preStop": {}}),
    );
    let evidence = job_evidence(&job_view(job)).unwrap();
    assert_eq!(evidence.faults, [""; 0]);
    assert!(evidence.closing && evidence.suspended);
}

/// Sets what a JSON pointer names; its parent is there. A label, which is never null, is taken away instead.
fn set(object: &mut Value, at: &str, value: Value) {
    let (parent, last) = at.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Array(list) if last.parse() == Ok(list.len()) => list.push(value),
        Value::Array(list) => list[last.parse::<usize>().unwrap()] = value,
        Value::Object(labels) if value.is_null() && parent.ends_with("labels") => {
            labels.remove(&last.replace("~1", "/"));
        }
        parent => parent[last.replace("~1", "/")] = value,
    }
}

#[test]
fn a_job_ends_by_its_conditions() {
    for (conditions, state) in [
        (json!([]), JobState::Active),
        (json!(null), JobState::Active),
        (json!([{"type": "Suspended", "status": "True"}]), JobState::Active),
        (
            json!([{"type": "SuccessCriteriaMet", "status": "True"}]),
            JobState::Active,
        ),
        (json!([{"type": "FailureTarget", "status": "True"}]), JobState::Active),
        (json!([{"type": "Failed", "status": "False"}]), JobState::Active),
        (
            json!([{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]),
            JobState::Complete,
        ),
        (json!([{"type": "Failed", "status": "True"}]), JobState::Failed),
    ] {
        let mut job = job();
        set(&mut job, "/status/conditions", conditions.clone());
        assert_eq!(job_evidence(&job_view(job)).unwrap().state, state, "{conditions}");
    }
}

#[test]
fn a_job_is_adopted_only_if_run_attempt_and_owner_match() {
    let attempt = ("2f7a3c9d".to_owned(), 2);
    let sound = job_view(job());
    assert!(belongs_to(&sound, "r1", &attempt));
    assert!(!belongs_to(&sound, "r2", &attempt));
    assert!(!belongs_to(&sound, "r1", &("2f7a3c9d".to_owned(), 1)));
    assert!(!belongs_to(&sound, "r1", &("other".to_owned(), 2)));
    let mut orphan = job();
    set(&mut orphan, "/metadata/ownerReferences", json!([]));
    assert!(!belongs_to(&job_view(orphan), "r1", &attempt));
}

#[test]
fn labels_decide_whether_an_object_is_evidence() {
    for (label, value) in [
        ("oncilla.dev~1run-uid", json!("")),
        ("oncilla.dev~1step-hash", json!("")),
        ("oncilla.dev~1attempt", json!("0")),
        ("oncilla.dev~1attempt", json!("-1")),
        ("oncilla.dev~1attempt", json!("02")),
        ("oncilla.dev~1attempt", json!("+2")),
        ("oncilla.dev~1attempt", json!("two")),
        ("oncilla.dev~1attempt", json!("99999999999999999999")),
    ] {
        let (mut job, mut pod) = (job(), pod());
        for object in [&mut job, &mut pod] {
            set(object, &format!("/metadata/labels/{label}"), value.clone());
        }
        assert_eq!(job_evidence(&job_view(job)), None, "{label} {value}");
        assert_eq!(read(pod), None, "{label} {value}");
    }
    let mut unlabelled = pod();
    set(&mut unlabelled, "/metadata/labels", json!(null));
    assert_eq!(read(unlabelled), None);
}

#[test]
fn a_pod_is_read_as_it_stands() {
    let evidence = read(pod()).unwrap();
    assert_eq!(evidence.attempt, ("2f7a3c9d".to_owned(), 2));
    assert_eq!(
        (evidence.phase, evidence.reason.as_str()),
        (PodPhase::Failed, "Evicted")
    );
    assert_eq!(evidence.message, "The node was low on resource: memory.");
    assert_eq!((evidence.generation, evidence.observed_generation), (2, Some(2)));
    assert!(evidence.deleting && evidence.held && !evidence.ended_before_deletion);
    assert_eq!(evidence.node, Node::Named("n1".to_owned()));
    assert_eq!(evidence.start_time, time("2026-11-29T10:00:00Z"));
    assert_eq!(evidence.active_deadline_seconds, Some(300));
    assert_eq!(evidence.disruption.as_deref(), Some("TerminationByKubelet"));
    assert_eq!(evidence.unschedulable, None);
    let kinds: Vec<_> = evidence
        .containers
        .iter()
        .map(|it| (it.name.as_str(), it.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("prepare", ContainerKind::Init),
            ("relay", ContainerKind::Sidecar),
            ("main", ContainerKind::Regular),
            ("mesh", ContainerKind::Regular),
            ("debug", ContainerKind::Ephemeral),
        ]
    );
    let [prepare, relay, main, mesh, debug] = &evidence.containers[..] else {
        panic!()
    };
    assert!(!prepare.ran_before && relay.ran_before && relay.restart_count == 1);
    let crashing = ContainerState::Waiting {
        reason: "CrashLoopBackOff".to_owned(),
        message: String::new(),
    };
    assert_eq!(relay.state, crashing);
    // A container that could not be started has the time zero.
    let killed = Terminated {
        exit_code: 137,
        reason: "Error".to_owned(),
        message: "half".to_owned(),
        started: None,
        finished: time("2026-11-29T10:00:05Z"),
        has_id: true,
    };
    assert_eq!(main.state, ContainerState::Terminated(killed));
    let started = time("2026-11-29T10:00:03Z");
    assert_eq!(mesh.state, ContainerState::Running { started });
    assert_eq!(debug.state, ContainerState::Unreported);
}

#[test]
fn a_pod_without_room_says_for_what() {
    let mut pod = pod();
    let conditions = json!([
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: insufficient cpu"},
        {"type": "DisruptionTarget", "status": "False", "reason": "Old"},
    ]);
    set(&mut pod, "/status/conditions", conditions);
    set(&mut pod, "/spec/nodeName", json!(""));
    set(
        &mut pod,
        "/metadata/finalizers",
        json!(["batch.kubernetes.io/job-tracking"]),
    );
    let evidence = read(pod).unwrap();
    assert_eq!(evidence.unschedulable.as_deref(), Some("0/3 nodes: insufficient cpu"));
    assert_eq!(
        (evidence.disruption, evidence.node, evidence.held),
        (None, Node::None, false)
    );
}

#[test]
fn evidence_does_not_grow_with_what_a_pod_says() {
    let huge = "\u{e9}".repeat(100_000);
    let mut object = pod();
    let at = "/status/containerStatuses/0/state/terminated/message";
    for field in ["/status/reason", "/status/message", at, "/status/conditions/1/reason"] {
        set(&mut object, field, json!(huge));
    }
    let evidence = read(object).unwrap();
    assert!(format!("{evidence:?}").len() < 10_000);

    // What was too long for an output still is.
    let message = |text: String| {
        let mut object = pod();
        set(&mut object, at, json!(text));
        match &read(object).unwrap().containers[2].state {
            ContainerState::Terminated(main) => main.message.clone(),
            other => panic!("{other:?}"),
        }
    };
    let whole = "x".repeat(MAX_TERMINATION_MESSAGE);
    assert_eq!(message(whole.clone()), whole);
    assert_eq!(message(whole.clone() + "y"), whole);
    assert_eq!(message(format!("x{huge}")).len(), MAX_TERMINATION_MESSAGE + 1);
    assert_eq!(message("\u{fffd}".repeat(9000)).len(), 3 * MAX_TERMINATION_MESSAGE);
}

#[test]
fn a_view_keeps_what_is_read_and_drops_the_rest() {
    let view = job_view(job());
    assert_eq!(view.metadata.managed_fields, None);
    assert_eq!(view.metadata.annotations.as_ref().unwrap().len(), 1);
    assert_eq!(view.metadata.labels.as_ref().unwrap().len(), 5);
    assert_eq!(run_of(&view).unwrap().name, "order-1042");

    let run: RunView = serde_json::from_value(json!({
        "metadata": {
            "name": "r", "managedFields": [{"manager": "m"}], "labels": {"team": "shop"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"steps": "of a newer version"},
        "status": {"phase": 7},
    }))
    .unwrap();
    assert_eq!(
        (&run.metadata.managed_fields, &run.metadata.annotations),
        (&None, &None)
    );
    assert_eq!(run.metadata.labels.unwrap()["team"], "shop");
    assert_eq!(run.spec["steps"], "of a newer version");
    assert_eq!(run.status["phase"], 7);
}

#[test]
fn a_view_is_read_from_its_kind() {
    assert_eq!(
        RunView::url_path(&(), Some("shop")),
        "/apis/oncilla.dev/v1alpha1/namespaces/shop/workflowruns"
    );
    assert_eq!(
        JobView::url_path(&(), Some("shop")),
        "/apis/batch/v1/namespaces/shop/jobs"
    );
    assert_eq!(PodView::url_path(&(), None), "/api/v1/pods");
    assert_eq!(EventView::url_path(&(), Some("shop")), "/api/v1/namespaces/shop/events");
    assert_eq!(JobView::kind(&()), "Job");
}

#[test]
fn what_is_missing_or_null_hides_no_object() {
    for object in [json!({}), json!({"metadata": null, "spec": null, "status": null})] {
        assert_eq!(job_evidence(&job_view(object.clone())), None);
        assert_eq!(read(object.clone()), None);
        serde_json::from_value::<RunView>(json!({"metadata": null})).unwrap();
    }
    let mut bare = pod();
    for field in [
        "/spec/containers",
        "/spec/initContainers",
        "/spec/ephemeralContainers",
        "/status/containerStatuses",
        "/status/conditions",
    ] {
        set(&mut bare, field, json!(null));
    }
    set(&mut bare, "/status/startTime", json!("yesterday"));
    let evidence = read(bare).unwrap();
    assert_eq!((evidence.containers.len(), evidence.start_time), (0, None));
}

fn event(reason: &str, message: &str, time: &str) -> EventView {
    serde_json::from_value(json!({
        "metadata": {"name": "e", "creationTimestamp": "2026-11-29T09:00:00Z"},
        "involvedObject": {"kind": "Job", "name": "j", "uid": "j1"},
        "reason": reason, "message": message, "lastTimestamp": time, "eventTime": null,
    }))
    .unwrap()
}

#[test]
fn events_say_in_words_why_a_step_has_not_begun() {
    use StepReason::*;
    for (reason, message, wanted) in [
        (
            "FailedCreate",
            r#"Error creating: pods "x-" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"#,
            QuotaExceeded,
        ),
        (
            "FailedCreate",
            r#"Error creating: pods "x-" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false"#,
            AdmissionDenied,
        ),
        (
            "FailedCreate",
            r#"Error creating: admission webhook "policy.example" denied the request: no"#,
            AdmissionDenied,
        ),
        (
            "FailedCreate",
            r#"Error creating: pods "x-" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
            AdmissionDenied,
        ),
        (
            "FailedCreate",
            r#"Error creating: Internal error occurred: failed calling webhook "policy.example": EOF"#,
            AdmissionDenied,
        ),
        (
            "FailedCreate",
            r#"Error creating: pods "x-" is forbidden: error looking up service account shop/steps: serviceaccount "steps" not found"#,
            ConfigMissing,
        ),
        (
            "FailedCreate",
            r#"Error creating: pods "x-" is forbidden: no PriorityClass with name high was found"#,
            ConfigMissing,
        ),
        (
            "FailedCreate",
            "Error creating: etcdserver: request timed out",
            Starting,
        ),
        (
            "FailedMount",
            r#"MountVolume.SetUp failed for volume "db" : secret "db" not found"#,
            ConfigMissing,
        ),
        (
            "FailedMount",
            r#"MountVolume.SetUp failed for volume "c" : configmap "c" not found"#,
            ConfigMissing,
        ),
        (
            "FailedMount",
            r#"MountVolume.SetUp failed for volume "c" : references non-existent secret key: k"#,
            ConfigMissing,
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"data\" : mount failed: exit status 32",
            Starting,
        ),
        (
            "FailedAttachVolume",
            "Multi-Attach error for volume \"pvc-1\"",
            Starting,
        ),
    ] {
        let waiting = explain_events(&[event(reason, message, "2026-11-29T10:00:00Z")]).unwrap();
        assert_eq!((waiting.reason, waiting.message.as_str()), (wanted, cause(message)));
    }
    let long = explain_events(&[event("FailedCreate", &"a\nb ".repeat(200), "2026-11-29T10:00:00Z")]);
    let message = long.unwrap().message;
    assert_eq!(message.chars().count(), 200);
    assert!(message.starts_with("a b a b ") && message.ends_with('\u{2026}'));
}

#[test]
fn the_latest_event_speaks() {
    let (early, late) = ("2026-11-29T10:00:00Z", "2026-11-29T10:00:01Z");
    let no = |time| event("FailedCreate", "exceeded quota", time);
    let yes = |time| event("SuccessfulCreate", "Created pod: x", time);
    assert_eq!(explain_events(&[]), None);
    assert_eq!(explain_events(&[event("Suspended", "Job suspended", late)]), None);
    assert_eq!(explain_events(&[no(early), yes(late)]), None);
    assert_eq!(explain_events(&[yes(late), no(early)]), None);
    assert!(explain_events(&[no(late), yes(early)]).is_some());
    // A series is as late as its last one.
    let mut series: EventView = no(early);
    series.last_timestamp = None;
    series.series = Some(serde_json::from_value(json!({"lastObservedTime": "2026-11-29T10:00:02.5Z"})).unwrap());
    assert!(explain_events(&[series, yes(late)]).is_some());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_run_is_read_whatever_its_spec_and_status_hold(spec in any_json(), status in any_json()) {
        let object = json!({"metadata": {"name": "r"}, "spec": spec, "status": status});
        let run: RunView = serde_json::from_value(object).unwrap();
        prop_assert_eq!((run.spec, run.status), (spec, status));
    }

    #[test]
    fn fields_of_a_newer_kubernetes_hide_no_object(more in any_json()) {
        let (mut job, mut pod) = (job(), pod());
        for at in ["/newField", "/metadata/newField", "/spec/newField", "/status/newField"] {
            set(&mut job, at, more.clone());
            set(&mut pod, at, more.clone());
        }
        for at in ["/spec/containers/0/newField", "/status/containerStatuses/0/newField"] {
            set(&mut pod, at, more.clone());
        }
        set(&mut job, "/spec/template/spec/containers/0/newField", more.clone());
        prop_assert_eq!(job_evidence(&job_view(job)).unwrap().faults, [""; 0]);
        prop_assert!(read(pod).is_some());
    }
}
