//! The API server's share: what it refuses when a run is applied, and what it never lets anybody take back.
//!
//! Objects are plain JSON here: a typed client could not even say what is wrong.

use std::collections::BTreeSet;

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use oncilla::answer::is_create_before_refusal;
use oncilla::api::names::{ANNOTATION_CREATE_BEFORE, GROUP, POLICY_SPEC_FREEZE, VERSION};
use oncilla::api::time::Time;
use oncilla::crdgen;
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Namespace, wait_for};
use crate::support::install::install;

/// Owns every field of the statuses that are written here.
const MANAGER: &str = "oncilla-test";
const HOUR: i64 = 3_600_000;

/// A test's namespace, and the runs and Jobs in it.
struct Scratch {
    namespace: Namespace,
    client: Client,
    runs: Api<DynamicObject>,
    jobs: Api<DynamicObject>,
}

impl Scratch {
    async fn new(purpose: &str) -> Scratch {
        let cluster = Cluster::connect().await;
        install(&cluster).await;
        let namespace = cluster.namespace(purpose).await;
        let api = |group, version, kind| {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            Api::namespaced_with(cluster.admin.clone(), &namespace.name, &resource)
        };
        Scratch {
            runs: api(GROUP, VERSION, "WorkflowRun"),
            jobs: api("batch", "v1", "Job"),
            client: cluster.admin.clone(),
            namespace,
        }
    }

    async fn finish(self) {
        self.namespace.finish().await;
    }

    /// What `kubectl create` and the first `kubectl apply` send: a field that the schema does not know is an error.
    async fn create(&self, manifest: &Value) -> Result<Value, Error> {
        let url = format!("{}?fieldValidation=Strict", self.runs.resource_url());
        let request = http::Request::post(url)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(manifest).unwrap());
        self.client.request(request.unwrap()).await
    }

    async fn create_run(&self, name: &str, spec: Value) {
        self.create(&run(name, spec)).await.unwrap();
    }

    /// Writes the whole status, as the owner of every field in it.
    async fn set_status(&self, name: &str, status: Value) {
        self.apply_status(name, status).await.unwrap();
    }

    async fn apply_status(&self, name: &str, status: Value) -> Result<DynamicObject, Error> {
        let mut object = run(name, Value::Null);
        object.as_object_mut().unwrap().remove("spec");
        if !status.is_null() {
            object["status"] = status;
        }
        let params = PatchParams::apply(MANAGER).force().validation_strict();
        self.runs.patch_status(name, &params, &Patch::Apply(object)).await
    }

    async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.runs.get(name).await.unwrap()).unwrap()
    }

    async fn status(&self, name: &str) -> Value {
        self.get(name).await["status"].clone()
    }
}

/// A run with one step, and `spec` on top.
fn run(name: &str, spec: Value) -> Value {
    let mut whole = json!({"steps": [{"name": "only", "container": {"image": "busybox"}}]});
    merge(&mut whole, &spec);
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "WorkflowRun",
        "metadata": {"name": name},
        "spec": whole,
    })
}

fn job(name: &str, create_before: Option<&str>) -> DynamicObject {
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        }}},
    });
    if let Some(time) = create_before {
        job["metadata"]["annotations"] = json!({ANNOTATION_CREATE_BEFORE: time});
    }
    serde_json::from_value(job).unwrap()
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, change) in changes {
        if change.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], change);
        }
    }
}

/// The code and the text of a refusal.
fn refusal<T>(answer: Result<T, Error>, what: &str) -> (u16, String) {
    match answer {
        Err(Error::Api(status)) => (status.code, status.message.clone()),
        Err(error) => panic!("{what}: no answer of the API server: {error}"),
        Ok(_) => panic!("{what}: accepted"),
    }
}

// ---- what is refused when it is applied ----

#[tokio::test]
async fn all_faults_of_a_manifest_come_in_one_answer() {
    let scratch = Scratch::new("faults").await;
    let manifest = run(
        "faults",
        json!({
            "onStepFailure": "Explode",
            "defaults": {"timeout": "5 minutes"},
            "steps": [
                {"name": "twice", "container": {}, "when": "!params.dryRun"},
                {"name": "twice", "container": {}, "when": ""},
                {"name": "", "container": {}},
                {"name": "Reserve_Stock", "container": {}, "startTimeout": "1d"},
                {"name": "0", "container": {}},
                {"name": "no-container"},
                {"name": "in-bounds", "container": {"resources": {"limits": {"cpu": true}}},
                 "retry": {"maxAttempts": 0, "backoff": {"factor": 0, "jitterPercent": 101}},
                 "output": {"maxBytes": 4096}},
                {"name": "bare", "container": {}, "retry": {"maxAttempts": "params.attempts"}},
                {"name": "sidecar", "container": {}, "podTemplate": {"spec": {"initContainers": [
                    {"name": "a", "restartPolicy": "OnFailure"}]}}},
            ],
        }),
    );
    let (code, message) = refusal(scratch.create(&manifest).await, "faults");
    assert_eq!(code, 422, "{message}");
    for part in [
        "spec.onStepFailure",
        "spec.defaults.timeout",
        "spec.steps[0].when",
        "spec.steps[1]: Duplicate value",
        "spec.steps[1].when",
        "spec.steps[2].name",
        "spec.steps[3].name",
        "spec.steps[3].startTimeout",
        "spec.steps[4].name",
        "spec.steps[5].container: Required value",
        "spec.steps[6].container.resources.limits.cpu",
        "spec.steps[6].retry.maxAttempts",
        "spec.steps[6].retry.backoff.factor",
        "spec.steps[6].retry.backoff.jitterPercent",
        "spec.steps[6].output.maxBytes",
        "spec.steps[7].retry.maxAttempts",
        "spec.steps[8].podTemplate.spec.initContainers[0].restartPolicy",
    ] {
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
    scratch.finish().await;
}

#[tokio::test]
async fn every_field_that_a_step_may_not_set_is_named_in_one_answer() {
    let scratch = Scratch::new("unknown").await;
    let manifest = run(
        "misspelt",
        json!({
            "stepz": [],
            "steps": [{
                "name": "a",
                "wehn": "x",
                "approval": {"message": "two kinds of step"},
                "container": {"name": "mine", "restartPolicy": "Always", "restartPolicyRules": [], "livenessProbe": {},
                              "lifecycle": {}, "terminationMessagePath": "/tmp/x"},
                "podTemplate": {"spec": {"nodeName": "n1", "restartPolicy": "OnFailure", "containers": [],
                                         "activeDeadlineSeconds": 1, "schedulingGates": []}},
            }],
        }),
    );
    let (code, message) = refusal(scratch.create(&manifest).await, "misspelt");
    assert_eq!(code, 400, "{message}");
    for field in [
        "stepz",
        "steps[0].wehn",
        "steps[0].approval",
        "steps[0].container.name",
        "steps[0].container.restartPolicy",
        "steps[0].container.restartPolicyRules",
        "steps[0].container.livenessProbe",
        "steps[0].container.lifecycle",
        "steps[0].container.terminationMessagePath",
        "steps[0].podTemplate.spec.nodeName",
        "steps[0].podTemplate.spec.restartPolicy",
        "steps[0].podTemplate.spec.containers",
        "steps[0].podTemplate.spec.activeDeadlineSeconds",
        "steps[0].podTemplate.spec.schedulingGates",
    ] {
        let part = format!("unknown field \"spec.{field}\"");
        assert!(message.contains(&part), "{part} is not in:\n{message}");
    }
    scratch.finish().await;
}

#[tokio::test]
async fn a_run_needs_a_step_and_a_name_that_fits_a_label() {
    let scratch = Scratch::new("names").await;
    let long = "a".repeat(64);
    for (name, spec, part) in [
        ("none", json!({"steps": []}), "spec.steps"),
        ("null", json!({"steps": null}), "spec.steps: Required value"),
        (long.as_str(), json!({}), "at most 63 characters"),
    ] {
        let (code, message) = refusal(scratch.create(&run(name, spec)).await, part);
        assert_eq!(code, 422, "{message}");
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
    scratch.create_run(&"a".repeat(63), json!({})).await;
    scratch.finish().await;
}

#[tokio::test]
async fn a_sound_manifest_is_stored_as_it_was_written() {
    let scratch = Scratch::new("sound").await;
    let spec = json!({
        "params": {"order": "1042", "cents": 1999, "items": [{"sku": "A-7", "qty": 2}], "ratio": 0.5},
        "idempotency": {"key": "order-$[[ params.order ]]"},
        "onStepFailure": "Continue",
        "defaults": {
            "timeout": "1h30m", "startTimeout": "$[[ params.wait ]]",
            "retry": {"maxAttempts": "$[[ params.attempts ]]",
                      "backoff": {"initial": "500ms", "factor": 3, "max": "1m", "jitterPercent": 0}},
            "container": {"image": "shop:1", "envFrom": [{"secretRef": {"name": "db"}}]},
            "podTemplate": {"metadata": {"labels": {"team": "shop"}}, "spec": {"serviceAccountName": "shop"}},
        },
        "steps": [{
            "name": "charge", "description": "Takes the money.", "needs": ["only"], "needsPolicy": "AllFinished",
            "when": "$[[ params.cents > 0 ]]",
            "container": {"command": ["charge", "$[[ params.order ]]"],
                          "env": [{"name": "ORDER", "value": "$[[ params.order ]]"}],
                          "resources": {"limits": {"cpu": 1, "memory": "128Mi"},
                                        "requests": {"cpu": "100m", "memory": "$[[ params.memory ]]"}}},
            "podTemplate": {
                "metadata": {"annotations": {"a": "b"}},
                "spec": {
                    "initContainers": [{"name": "relay", "image": "relay:2", "restartPolicy": "Always",
                                        "startupProbe": {"tcpSocket": {"port": 25}, "periodSeconds": 1}}],
                    "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                },
            },
            "output": {"from": "File", "format": "JSON", "maxBytes": 4095},
            "retry": {"maxAttempts": 3}, "timeout": "10s", "failurePolicy": "Ignore",
        }, {"name": "only", "container": {}}],
        "outputs": {"receipt": "$[[ steps.charge.output.receipt ]]"},
        "control": {"suspend": true, "cancel": "Graceful"},
    });
    scratch.create_run("sound", spec.clone()).await;
    let stored = scratch.get("sound").await;
    // The schema adds nothing, or a newer CRD would change what an old manifest means.
    assert_eq!(stored["spec"], spec);
    assert_eq!(
        stored["status"],
        json!({"observedGeneration": -1, "phase": "Pending", "revision": 0}),
        "tools must see at once that nobody has looked at the run yet"
    );
    scratch.finish().await;
}

// ---- what is never taken back ----

/// A started run: one step succeeded, one has a Job and a pod, one is recorded and has nothing yet, one has failed.
fn started() -> Value {
    json!({
        "observedGeneration": 1,
        "phase": "Running",
        "startTime": "2026-11-29T10:00:00Z",
        "revision": 5,
        "steps": {
            "done": {"phase": "Succeeded", "reason": "Completed", "attempt": 1, "fence": 100, "exitCode": 0,
                     "output": "{\"ok\":true}", "outputType": "JSON", "jobUID": "j1", "podUID": "p1"},
            "going": {"phase": "Running", "attempt": 2, "fence": 200, "jobName": "going-2", "jobUID": "j2", "podUID": "p2"},
            "named": {"phase": "Pending", "attempt": 1, "fence": 300, "jobName": "named-1"},
            "bad": {"phase": "Failed", "attempt": 3, "fence": 400, "exitCode": 1},
        },
    })
}

/// A change of the status as a JSON merge patch, and what the refusal says.
struct Change {
    what: &'static str,
    patch: Value,
    refused_with: &'static str,
}

fn change(what: &'static str, patch: Value, refused_with: &'static str) -> Change {
    Change {
        what,
        patch,
        refused_with,
    }
}

/// Tries to change the status of the run in every way that a client has, and puts it back if one of them was let through.
async fn attempt(
    scratch: &Scratch,
    name: &str,
    before: &Value,
    change: &Change,
) -> Vec<(&'static str, Result<(), Error>)> {
    let params = PatchParams::default();
    let mut answers = Vec::new();

    let patch = json!({"status": change.patch});
    let answer = scratch.runs.patch_status(name, &params, &Patch::Merge(&patch)).await;
    answers.push(("merge patch", answer.map(drop)));

    let mut whole = scratch.get(name).await;
    merge(&mut whole["status"], &change.patch);
    let object: DynamicObject = serde_json::from_value(whole.clone()).unwrap();
    let answer = scratch.runs.replace_status(name, &PostParams::default(), &object).await;
    answers.push(("update", answer.map(drop)));

    // The manager that owns every field leaves some out, or forces its own value.
    let mut status = before.clone();
    merge(&mut status, &change.patch);
    answers.push(("server-side apply", scratch.apply_status(name, status).await.map(drop)));
    answers
}

#[tokio::test]
async fn what_is_recorded_is_never_taken_back() {
    let scratch = Scratch::new("ratchet").await;
    let final_step = "a succeeded step is final";
    let removed = "no record of a step may be removed";
    let changes = [
        change(
            "the status is dropped",
            Value::Null,
            "records of the steps may not be removed",
        ),
        change(
            "all records are dropped",
            json!({"revision": 6, "steps": null}),
            "records of the steps may not be removed",
        ),
        change(
            "a succeeded step is dropped",
            json!({"revision": 6, "steps": {"done": null}}),
            removed,
        ),
        change(
            "a step that is only named is dropped",
            json!({"revision": 6, "steps": {"named": null}}),
            removed,
        ),
        change(
            "a failed step is dropped",
            json!({"revision": 6, "steps": {"bad": null}}),
            removed,
        ),
        change(
            "a success is taken back",
            json!({"revision": 6, "steps": {"done": {"phase": "Pending"}}}),
            final_step,
        ),
        change(
            "an output is changed",
            json!({"revision": 6, "steps": {"done": {"output": "{}"}}}),
            final_step,
        ),
        change(
            "an output is dropped",
            json!({"revision": 6, "steps": {"done": {"output": null}}}),
            final_step,
        ),
        change(
            "a success gets an unknown field",
            json!({"revision": 6, "steps": {"done": {"note": "x"}}}),
            final_step,
        ),
        change(
            "a succeeded step has another attempt",
            json!({"revision": 6, "steps": {"done": {"phase": "Pending", "attempt": 2, "fence": 500}}}),
            final_step,
        ),
        change(
            "an attempt goes back",
            json!({"revision": 6, "steps": {"going": {"attempt": 1}}}),
            "never go back",
        ),
        change(
            "an attempt is dropped",
            json!({"revision": 6, "steps": {"going": {"attempt": null}}}),
            "attempt: Required value",
        ),
        change(
            "a fence goes back",
            json!({"revision": 6, "steps": {"going": {"fence": 199}}}),
            "never go back",
        ),
        change(
            "a fence goes back under another attempt",
            json!({"revision": 6, "steps": {"going": {"attempt": 3, "fence": 199}}}),
            "never go back",
        ),
        change(
            "a Job is forgotten",
            json!({"revision": 6, "steps": {"going": {"jobUID": null}}}),
            "once set, stay",
        ),
        change(
            "a Job is exchanged",
            json!({"revision": 6, "steps": {"going": {"jobUID": "j3"}}}),
            "once set, stay",
        ),
        change(
            "a pod is forgotten",
            json!({"revision": 6, "steps": {"going": {"podUID": null}}}),
            "once set, stay",
        ),
        change(
            "a pod is exchanged",
            json!({"revision": 6, "steps": {"going": {"podUID": "p3"}}}),
            "once set, stay",
        ),
        change(
            "the start is moved",
            json!({"revision": 6, "startTime": "2026-11-29T11:00:00Z"}),
            "startTime is set once",
        ),
        change(
            "the start is dropped",
            json!({"revision": 6, "startTime": null}),
            "startTime is set once",
        ),
        change(
            "the revision stands still",
            json!({"message": "x"}),
            "revision has to grow",
        ),
        change(
            "the revision goes back",
            json!({"revision": 4, "message": "x"}),
            "revision has to grow",
        ),
        change("the revision is dropped", json!({"revision": null}), "revision"),
    ];
    scratch.create_run("ratchet", json!({})).await;
    scratch.set_status("ratchet", started()).await;
    let before = scratch.status("ratchet").await;
    assert_eq!(before, started());
    for change in &changes {
        for (how, answer) in attempt(&scratch, "ratchet", &started(), change).await {
            let what = format!("{} by {how}", change.what);
            let (code, message) = refusal(answer, &what);
            assert_eq!(code, 422, "{what}: {message}");
            assert!(message.contains(change.refused_with), "{what}: {message}");
            assert_eq!(scratch.status("ratchet").await, before, "{what}");
        }
    }
    scratch.finish().await;
}

#[tokio::test]
async fn a_succeeded_run_stays_succeeded() {
    let scratch = Scratch::new("succeeded").await;
    scratch.create_run("done", json!({})).await;
    let status = json!({"observedGeneration": 1, "phase": "Succeeded", "revision": 1, "steps": {}});
    scratch.set_status("done", status.clone()).await;
    for (what, patch) in [
        ("it fails", json!({"phase": "Failed", "revision": 2})),
        ("its phase is dropped", json!({"phase": null, "revision": 2})),
    ] {
        let change = change(what, patch, "a succeeded run stays succeeded");
        for (how, answer) in attempt(&scratch, "done", &status, &change).await {
            let (code, message) = refusal(answer, &format!("{what} by {how}"));
            assert_eq!(code, 422, "{message}");
            assert!(message.contains(change.refused_with), "{message}");
        }
    }
    scratch.finish().await;
}

#[tokio::test]
async fn the_journal_can_go_on() {
    let scratch = Scratch::new("journal").await;
    scratch.create_run("goes-on", json!({})).await;
    scratch.set_status("goes-on", started()).await;
    let mut expected = started();
    let steps = [
        json!({"named": {"jobUID": "j4"}}),
        json!({"named": {"podUID": "p4"}}),
        json!({"going": {"phase": "Succeeded", "exitCode": 0, "output": "done", "jobName": null}}),
        json!({"bad": {"phase": "Pending", "attempt": 4, "fence": 401}}),
        // Another attempt has another Job and another pod.
        json!({"named": {"phase": "Pending", "attempt": 2, "fence": 301, "jobUID": null, "podUID": null}}),
        json!({"new": {"phase": "Skipped", "attempt": 0, "fence": 0}}),
        // A controller may be older than the one that wrote the record, and so may the CRD.
        json!({"named": {"fieldOfTheFuture": {"a": [1]}}}),
    ];
    for (n, change) in steps.into_iter().enumerate() {
        let patch = json!({"revision": 6 + n, "steps": change});
        let params = PatchParams::default().validation_strict();
        let answer = scratch
            .runs
            .patch_status("goes-on", &params, &Patch::Merge(&json!({"status": patch})))
            .await;
        answer.unwrap_or_else(|error| panic!("{patch}: {error}"));
        merge(&mut expected, &patch);
        assert_eq!(scratch.status("goes-on").await, expected);
    }
    scratch.finish().await;
}

#[tokio::test]
async fn a_long_journal_stays_within_the_cost_of_the_rules() {
    let scratch = Scratch::new("long").await;
    scratch.create_run("long", json!({})).await;
    let record = |n: usize| {
        json!({"phase": "Succeeded", "reason": "Completed", "attempt": 1, "fence": 1_795_946_400_000_u64 + n as u64,
               "startTime": "2026-11-29T10:00:01Z", "completionTime": "2026-11-29T10:00:03Z", "exitCode": 0,
               "output": "{\"ok\":true}", "outputType": "JSON",
               "jobUID": "5d1c8a52-7a7c-4a5e-9b56-0f8f0b1e2d3c"})
    };
    let records: Value = (0..1000).map(|n| (format!("step-{n}"), record(n))).collect();
    scratch
        .set_status("long", json!({"revision": 1, "steps": records}))
        .await;
    let patch = json!({"status": {"revision": 2, "steps": {"last": record(1000)}}});
    let params = PatchParams::default();
    scratch
        .runs
        .patch_status("long", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    let patch = json!({"status": {"revision": 3, "steps": {"step-500": {"output": "x"}}}});
    let answer = scratch.runs.patch_status("long", &params, &Patch::Merge(&patch)).await;
    let (code, message) = refusal(answer, "an output is changed");
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("a succeeded step is final"), "{message}");
    scratch.finish().await;
}

#[tokio::test]
async fn only_the_status_subresource_writes_the_status() {
    let scratch = Scratch::new("forged").await;
    let mut manifest = run("forged", json!({}));
    manifest["status"] = started();
    scratch.create(&manifest).await.unwrap();
    let unobserved = json!({"observedGeneration": -1, "phase": "Pending", "revision": 0});
    assert_eq!(scratch.status("forged").await, unobserved);
    let patch = json!({"status": started(), "spec": {"params": {"a": 1}}});
    let params = PatchParams::default();
    scratch
        .runs
        .patch("forged", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(scratch.status("forged").await, unobserved);
    // And the other way round.
    let patch = json!({"status": started(), "spec": {"params": {"a": 2}}});
    scratch
        .runs
        .patch_status("forged", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(scratch.get("forged").await["spec"]["params"], json!({"a": 1}));
    scratch.finish().await;
}

// ---- the policies ----

#[tokio::test]
async fn the_spec_freezes_when_the_run_starts() {
    let scratch = Scratch::new("freeze").await;
    let params = PatchParams::default();
    let full = json!({
        "params": {"a": {"b": [1, 2]}},
        "idempotency": {"key": "k"},
        "onStepFailure": "Continue",
        "defaults": {"timeout": "5m"},
        "outputs": {"o": "$[[ steps.only.output ]]"},
    });
    // Each field is added to a run that has none, and changed and dropped in one that has all.
    let others = json!({
        "params": {"a": {"b": [1, 3]}},
        "idempotency": {"key": "l"},
        "onStepFailure": "Cancel",
        "defaults": {"timeout": "6m"},
        "outputs": {"o": "$[[ steps.only.exitCode ]]"},
        "steps": [{"name": "only", "container": {"image": "busybox"}}, {"name": "more", "container": {}}],
    });
    let schema = &crdgen::crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let all: BTreeSet<&str> = schema["properties"]["spec"]["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let tried: BTreeSet<&str> = others
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let free: Vec<&&str> = all.difference(&tried).collect();
    assert_eq!(free, [&"control"], "every other field has to be tried here");

    // A policy takes effect a moment after it is stored.
    scratch.create_run("frozen", json!({})).await;
    scratch.set_status("frozen", started()).await;
    let change = json!({"spec": {"params": {"a": 1}}});
    wait_for("started specs are frozen", async || {
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        match scratch.runs.patch("frozen", &dry, &Patch::Merge(&change)).await {
            Err(Error::Api(status)) if status.message.contains(POLICY_SPEC_FREEZE) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    for (name, spec) in [("full", full), ("empty", json!({}))] {
        scratch.create_run(name, spec).await;
        // Nothing is frozen before the start: an unsound run is repaired by an edit.
        let edit = json!({"spec": {"params": {"before": true}}});
        scratch.runs.patch(name, &params, &Patch::Merge(&edit)).await.unwrap();
        let undo = match name {
            "full" => json!({"spec": {"params": {"before": null, "a": {"b": [1, 2]}}}}),
            _ => json!({"spec": {"params": null}}),
        };
        scratch.runs.patch(name, &params, &Patch::Merge(&undo)).await.unwrap();
        scratch.set_status(name, started()).await;
        let before = scratch.get(name).await["spec"].clone();
        for field in &tried {
            let mut values = vec![others[field].clone()];
            if !before[field].is_null() && *field != "steps" {
                values.push(Value::Null);
            }
            for value in values {
                let what = format!("{name}: {field} = {value}");
                let patch = json!({"spec": {*field: value}});
                let answer = scratch.runs.patch(name, &params, &Patch::Merge(&patch)).await;
                let (code, message) = refusal(answer, &what);
                assert_eq!(code, 422, "{what}: {message}");
                assert!(message.contains(POLICY_SPEC_FREEZE), "{what}: {message}");
                assert!(
                    message.contains(&format!("spec.{field} cannot be changed any more")),
                    "{what}: {message}"
                );
                assert_eq!(scratch.get(name).await["spec"], before, "{what}");
            }
        }
        let forced = run(name, json!({"onStepFailure": "Stop", "params": {"other": 1}}));
        let apply = PatchParams::apply("somebody-else").force();
        let (_, message) = refusal(scratch.runs.patch(name, &apply, &Patch::Apply(&forced)).await, "forced");
        assert!(
            message.contains("spec.onStepFailure, spec.params cannot be changed"),
            "{message}"
        );
        // What is meant for hands and tools stays free.
        let edit =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"control": {"suspend": true, "cancel": "Graceful"}}});
        scratch.runs.patch(name, &params, &Patch::Merge(&edit)).await.unwrap();
    }
    scratch.finish().await;
}

#[tokio::test]
async fn a_job_that_comes_too_late_is_refused() {
    let scratch = Scratch::new("late").await;
    let now = Time::from_millis(jiff::Timestamp::now().as_millisecond());
    let create = async |name: &str, create_before: Option<&str>| {
        scratch
            .jobs
            .create(&PostParams::default(), &job(name, create_before))
            .await
    };
    let (code, message) = refusal(create("late", Some(&now.plus(-HOUR).to_string())).await, "late");
    assert_eq!(code, 403, "{message}");
    assert!(is_create_before_refusal(&message), "{message}");
    assert!(message.contains("too late"), "{message}");

    create("in-time", Some(&now.plus(HOUR).to_string())).await.unwrap();
    create("with-millis", Some(&now.plus(HOUR).plus(1).to_string()))
        .await
        .unwrap();
    create("of-somebody-else", None).await.unwrap();

    // What cannot be read is no permission.
    let (_, message) = refusal(create("unreadable", Some("tomorrow")).await, "unreadable");
    assert!(is_create_before_refusal(&message), "{message}");
    scratch.finish().await;
}
