//! What people see and do with kubectl.

use oncilla::api::words::{RunPhase, StepPhase, StepReason};
use serde_json::json;

use crate::rig::{Rig, gated, script, spec};
use crate::support::cluster::wait_for;

/// The cells of a table as kubectl prints it, for cells without spaces but the last.
fn cells(table: &str, columns: usize) -> Vec<Vec<String>> {
    let rows = table.lines().map(|line| {
        let mut words = line.split_whitespace();
        let mut row: Vec<String> = words.by_ref().take(columns - 1).map(str::to_owned).collect();
        row.push(words.collect::<Vec<_>>().join(" "));
        row
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_runs_and_waits_for_them() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("kubectl").await;
    let kubectl = async |line: &str| rig.kubectl_in(&namespace, line).await;
    let steps = vec![
        script("first", &gated("echo 1 > $ONCILLA_OUTPUT"), json!({})),
        script(
            "second",
            "echo 'no such account' > $ONCILLA_OUTPUT; exit 3",
            json!({"needs": ["first"]}),
        ),
    ];
    let more = json!({"idempotency": {"key": "shown"}, "params": {"n": 1}});
    namespace.create_run("shown", spec(steps, more)).await;
    namespace
        .stands("shown", "first", StepPhase::Running, StepReason::Started)
        .await;
    let table = cells(&kubectl("get wfr").await, 5);
    assert_eq!(table[0], ["NAME", "PHASE", "STEPS", "AGE", "MESSAGE"]);
    assert_eq!(table[1][..3], ["shown", "Running", "0/2"]);

    // A started spec is frozen, and the answer says what may be changed.
    let edit = r#"patch wfr shown --type=merge -p {"spec":{"params":{"n":2}}}"#;
    let edit = format!("-n {} {edit}", namespace.name);
    let refused = rig.try_kubectl(&edit, "").await.unwrap_err();
    assert!(
        refused.contains("oncilla-spec-freeze") && refused.contains("control"),
        "{refused}"
    );

    rig.open_gate(&namespace, "shown", "first").await;
    kubectl("wait --for=condition=Finished --timeout=120s wfr/shown").await;
    namespace.ends("shown", RunPhase::Failed).await;
    let table = cells(&kubectl("get workflowruns.oncilla.dev").await, 5);
    assert_eq!(table[1][..3], ["shown", "Failed", "2/2"]);
    assert_eq!(table[1][4], "second: ExitCode: no such account");
    let wide = kubectl("get wfr -o wide").await;
    let head: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        head,
        ["NAME", "PHASE", "STEPS", "AGE", "STARTED", "FINISHED", "KEY", "MESSAGE"]
    );
    assert!(kubectl("get oncilla").await.contains("shown"), "the category");

    // Events are written beside the run, not before it goes on.
    wait_for("describe tells the end", async || {
        let described = kubectl("describe wfr shown").await;
        let events = described
            .split_once("Events:")
            .map_or("", |(_, events)| events)
            .to_owned();
        match events.contains("StepFailed") && events.contains("second") {
            true => Ok(()),
            false => Err(described),
        }
    })
    .await;
    let said = kubectl("explain wfr.spec.steps.retry.maxAttempts").await;
    assert!(said.contains("the first included"), "{said}");
    rig.finish(namespace).await;
}
