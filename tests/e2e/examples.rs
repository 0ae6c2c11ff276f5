//! The runs under examples/, as they stand there, from kubectl apply to what they leave behind.

use oncilla::api::status::WorkflowRunStatus;
use oncilla::api::words::StepReason::{self, *};
use oncilla::api::words::{RunPhase, RunReason, StepPhase};
use serde_json::json;

use crate::rig::{Rig, assert_order, attempts, executions, jobs, message, output};
use crate::support::runs::record;

fn reasons(status: &WorkflowRunStatus, expected: &[(&str, StepReason)]) {
    let steps = status.steps.iter().flatten();
    let mut found: Vec<_> = steps
        .map(|(path, record)| (path.as_str(), record.reason.unwrap()))
        .collect();
    let mut expected = expected.to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn params() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("params").await;
    rig.apply_example(&namespace, "params").await;
    let status = namespace.ends("params", RunPhase::Succeeded).await;
    let expected = json!({
        "text": "Ada owes 1999 cents for A-7 and B-2",
        "lines": 2,
        "large": true,
        "greeting": "Dear Ada, $[[ is no expression",
    });
    assert_eq!(json!(status.outputs), expected);
    assert_eq!(status.params.as_ref().unwrap()["customer"], json!("Ada"));
    assert_eq!(executions(&namespace, "params").await, attempts(&["invoice"]));
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn diamond() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("diamond").await;
    rig.apply_example(&namespace, "diamond").await;
    let status = namespace.ends("diamond", RunPhase::Succeeded).await;
    assert_eq!(json!(status.outputs), json!({"answer": 42}));
    assert_eq!(status.progress.as_deref(), Some("4/4"));
    for (first, then) in [
        ("top", "left"),
        ("top", "right"),
        ("left", "bottom"),
        ("right", "bottom"),
    ] {
        assert_order(&status, first, then);
    }
    let all = attempts(&["top", "left", "right", "bottom"]);
    assert_eq!(executions(&namespace, "diamond").await, all);
    assert_eq!(jobs(&namespace, "diamond").await, all);
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("conditions").await;
    rig.apply_example(&namespace, "conditions").await;
    let status = namespace.ends("conditions", RunPhase::Failed).await;
    assert_eq!(status.reason, Some(RunReason::StepFailed));
    assert_eq!(status.message.as_deref(), Some("check: ExitCode: 2 of 40 tests failed"));
    assert_eq!(
        json!(status.outputs),
        json!({"report": "check: Failed, exit code 3", "published": false})
    );
    let expected = [
        ("build", Completed),
        ("check", ExitCode),
        ("publish", WhenFalse),
        ("announce", NeedSkipped),
        ("deploy", NeedFailed),
        ("clean-up", Completed),
        ("list", Completed),
        ("report", Completed),
    ];
    reasons(&status, &expected);
    assert_order(&status, "check", "clean-up");
    assert_order(&status, "clean-up", "report");
    // What was skipped has never been anything but a record.
    let ran = attempts(&["build", "check", "clean-up", "list", "report"]);
    assert_eq!(executions(&namespace, "conditions").await, ran);
    assert_eq!(jobs(&namespace, "conditions").await, ran);
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("retry").await;
    rig.apply_example(&namespace, "retry").await;
    let status = namespace.ends("retry", RunPhase::Succeeded).await;
    assert_eq!(
        json!(status.outputs),
        json!({"answer": "answered attempt 3", "attempts": 3})
    );
    let flaky = record(&status, "flaky");
    let earlier: Vec<_> = flaky
        .earlier_attempts
        .iter()
        .map(|it| (it.attempt, it.reason, it.exit_code, it.message.as_deref().unwrap()))
        .collect();
    let expected = [
        (1, ExitCode, Some(75), "attempt 1: connection reset"),
        (2, ExitCode, Some(75), "attempt 2: connection reset"),
    ];
    assert_eq!(earlier, expected);
    assert_eq!(flaky.disruptions, 0);
    assert_eq!(
        executions(&namespace, "retry").await,
        attempts(&["flaky", "flaky#2", "flaky#3"])
    );
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("timeouts").await;
    rig.apply_example(&namespace, "timeouts").await;
    let status = namespace.ends("timeouts", RunPhase::Succeeded).await;
    let outputs = json!({"answer": "attempt 2", "reason": "StartDeadlineExceeded"});
    assert_eq!(json!(status.outputs), outputs);
    let hangs = record(&status, "hangs-once");
    assert_eq!((hangs.attempt, hangs.earlier_attempts[0].reason), (2, DeadlineExceeded));
    let never = record(&status, "never-starts");
    assert_eq!(
        (never.phase, never.reason, never.start_time),
        (StepPhase::Failed, Some(StartDeadlineExceeded), None)
    );
    assert!(
        message(never).contains("no-such-image"),
        "it does not say why: {}",
        message(never)
    );
    assert_eq!(output(record(&status, "after")), "went on");
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("failures").await;
    rig.apply_example(&namespace, "failures").await;
    let status = namespace.ends("failures", RunPhase::Failed).await;
    assert_eq!(status.message.as_deref(), Some("bill: ExitCode: card refused"));
    let expected = [
        ("mail", ExitCode),
        ("long-job", SiblingFailed),
        ("bill", ExitCode),
        ("ship", RunStopping),
    ];
    reasons(&status, &expected);
    assert_eq!(record(&status, "bill").exit_code, Some(2));
    assert_order(&status, "mail", "bill");
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("outputs").await;
    rig.apply_example(&namespace, "outputs").await;
    let status = namespace.ends("outputs", RunPhase::Succeeded).await;
    let expected = json!({"inStock": ["A-7"], "code": "0042", "next": 43, "title": "Stock"});
    assert_eq!(json!(status.outputs), expected);
    let of = |step| json!([record(&status, step).output, record(&status, step).output_type]);
    assert_eq!(
        of("stock"),
        json!(["[{\"sku\":\"A-7\",\"left\":3},{\"sku\":\"B-2\",\"left\":0}]\n", "JSON"])
    );
    assert_eq!(of("code"), json!(["0042", "Text"]));
    assert_eq!(of("count"), json!(["42\n", "JSON"]));
    assert_eq!(of("page"), json!(["{\"title\":\"Stock\"}\n", "Text"]));
    rig.finish(namespace).await;
}

/// The example says that it passes the restricted Pod Security Standard.
#[tokio::test(flavor = "multi_thread")]
async fn pod() {
    let rig = Rig::ready().await;
    let namespace = rig.restricted_namespace("pod").await;
    rig.apply_example(&namespace, "pod").await;
    let status = namespace.ends("pod", RunPhase::Succeeded).await;
    assert_eq!(json!(status.outputs), json!({"greeting": "written for fetch of pod"}));
    assert_eq!(executions(&namespace, "pod").await, attempts(&["fetch"]));
    let limits =
        "get pods -l team=shop,oncilla.dev/step=fetch -o jsonpath={.items[*].spec.containers[*].resources.limits.cpu}";
    assert_eq!(rig.kubectl_in(&namespace, limits).await, "1");
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("control").await;
    rig.apply_example(&namespace, "control").await;
    let status = namespace
        .until("control", "suspended", |status| status.phase == RunPhase::Suspended)
        .await;
    assert_eq!(status.progress.as_deref(), Some("0/3"));
    assert_eq!(jobs(&namespace, "control").await, []);

    rig.kubectl_in(
        &namespace,
        r#"patch wfr control --type=merge -p {"spec":{"control":{"suspend":false}}}"#,
    )
    .await;
    namespace.stands("control", "long", StepPhase::Running, Started).await;
    rig.kubectl_in(
        &namespace,
        r#"patch wfr control --type=merge -p {"spec":{"control":{"cancel":"Graceful"}}}"#,
    )
    .await;

    let status = namespace.ends("control", RunPhase::Cancelled).await;
    reasons(
        &status,
        &[("quick", Completed), ("long", RunCancelled), ("never", RunStopping)],
    );
    assert_eq!(output(record(&status, "quick")), "done");
    assert_eq!(jobs(&namespace, "control").await, attempts(&["quick", "long"]));
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("idempotency").await;
    let mut runs = Vec::new();
    // Made, deleted and made again: another object, the same piece of work.
    for _ in 0..2 {
        rig.apply_example(&namespace, "idempotency").await;
        let status = namespace.ends("idempotency", RunPhase::Succeeded).await;
        assert_eq!(status.idempotency.as_ref().unwrap().key, "payment-1042");
        runs.push(status.outputs.unwrap());
        rig.kubectl_in(&namespace, "delete wfr idempotency").await;
    }
    assert_eq!(runs[0]["key"], runs[1]["key"]);
    assert!(runs[0]["fence"].as_i64() < runs[1]["fence"].as_i64(), "{runs:?}");
    rig.finish(namespace).await;
}

/// A new file under examples/ needs a test here.
#[test]
fn every_example_is_run() {
    let tests = [include_str!("examples.rs"), include_str!("order.rs")].concat();
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap();
    let mut names: Vec<_> = folder
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".yaml")?.to_owned()))
        .collect();
    names.retain(|name| !tests.contains(&format!("apply_example(&namespace, \"{name}\")")));
    assert_eq!(names, [""; 0]);
}
