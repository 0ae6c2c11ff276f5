//! The controller's pod goes away while runs go on.

use oncilla::api::words::StepReason::*;
use oncilla::api::words::{RunPhase, StepPhase};
use serde_json::json;

use crate::rig::{CONTROLLER, Rig, SYSTEM, attempts, executions, gated, jobs, output, script, spec};
use crate::support::runs::record;

/// Deletes the controller's pod as a lost node would: without a word. Its Deployment makes another.
async fn kill_controller(rig: &Rig) {
    let delete = format!("-n {SYSTEM} delete pod -l {CONTROLLER} --grace-period=0 --force --wait=false");
    rig.kubectl(&delete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_and_nothing_runs_twice() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("restarts").await;
    let retry = json!({"defaults": {"retry": {"maxAttempts": 3, "backoff": {"initial": "100ms"}}}});
    let steps = vec![
        script("first", &gated("echo 1 > $ONCILLA_OUTPUT"), json!({})),
        script("beside", &gated("echo b > $ONCILLA_OUTPUT"), json!({})),
        script(
            "second",
            &gated("echo $((FIRST + 1)) > $ONCILLA_OUTPUT"),
            json!({
                "container": {"env": [{"name": "FIRST", "value": "$[[ steps.first.output ]]"}]},
            }),
        ),
        script(
            "third",
            "echo $((SECOND + 1)) > $ONCILLA_OUTPUT",
            json!({
                "container": {"env": [{"name": "SECOND", "value": "$[[ steps.second.output ]]"}]},
            }),
        ),
    ];
    // While nothing has been recorded yet, or the first commit is under way.
    namespace.create_run("restarts", spec(steps, retry)).await;
    kill_controller(&rig).await;
    // While containers run, and one of them ends unseen.
    namespace.stands("restarts", "first", StepPhase::Running, Started).await;
    kill_controller(&rig).await;
    rig.open_gate(&namespace, "restarts", "first").await;
    namespace
        .stands("restarts", "second", StepPhase::Running, Started)
        .await;
    // Just after a step has ended, while the next one is made.
    rig.open_gate(&namespace, "restarts", "second").await;
    kill_controller(&rig).await;
    namespace
        .stands("restarts", "third", StepPhase::Succeeded, Completed)
        .await;
    kill_controller(&rig).await;
    rig.open_gate(&namespace, "restarts", "beside").await;

    let status = namespace.ends("restarts", RunPhase::Succeeded).await;
    assert_eq!(output(record(&status, "third")), "3");
    for (path, record) in status.steps.as_ref().unwrap() {
        assert_eq!((record.attempt, record.disruptions), (1, 0), "{path}: {record:#?}");
    }
    let once = attempts(&["first", "beside", "second", "third"]);
    assert_eq!(executions(&namespace, "restarts").await, once);
    assert_eq!(jobs(&namespace, "restarts").await, once);
    rig.finish(namespace).await;
}
