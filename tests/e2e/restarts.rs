//! The controller's pod goes away while runs go on.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use oncilla::api::words::StepReason::*;
use oncilla::api::words::{RunPhase, StepPhase};
use serde_json::json;

use crate::rig::{CONTROLLER, Rig, SYSTEM, attempts, executions, gated, jobs, output, script, spec};
use crate::support::cluster::{Namespace, wait_for, watch_until};
use crate::support::runs::record;

/// While this lives there is no controller.
struct Away<'a>(&'a Rig);

impl Away<'_> {
    /// Waits until the controller's pod is gone.
    async fn begin(rig: &Rig) -> Away<'_> {
        let away = Away(rig);
        rig.kubectl(&format!("-n {SYSTEM} scale deployment/oncilla --replicas=0"))
            .await;
        let pods: Api<Pod> = Api::namespaced(rig.cluster.admin.clone(), SYSTEM);
        wait_for("the controller is gone", async || {
            let left = pods.list(&ListParams::default().labels(CONTROLLER)).await;
            match left.map_err(|error| error.to_string())?.items.len() {
                0 => Ok(()),
                n => Err(format!("{n} pods")),
            }
        })
        .await;
        away
    }
}

impl Drop for Away<'_> {
    /// Also when the test fails: the other tests need the controller.
    fn drop(&mut self) {
        let back = format!("-n {SYSTEM} scale deployment/oncilla --replicas=1");
        let mut kubectl = self.0.kubectl_command(&back);
        assert!(
            kubectl.status().is_ok_and(|status| status.success()),
            "the controller is not back"
        );
    }
}

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

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_no_controller_is_there_is_recorded_when_it_is_back() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("away").await;
    let names = ["unseen", "deleted-later", "orphaned", "killed", "job-deleted"];
    // Those that are cut short do better the second time.
    let ends = format!(
        "[ $ONCILLA_ATTEMPT -gt 1 ] || {{ {}; }}; echo attempt $ONCILLA_ATTEMPT > $ONCILLA_OUTPUT",
        gated("true")
    );
    let mut steps: Vec<_> = names.iter().map(|name| script(name, &ends, json!({}))).collect();
    steps.push(script(
        "after",
        "echo \"$UNSEEN\" > $ONCILLA_OUTPUT",
        json!({
            "container": {"env": [{"name": "UNSEEN", "value": "$[[ steps.unseen.output ]]"}]},
        }),
    ));
    namespace.create_run("away", spec(steps, json!({}))).await;
    for step in names {
        namespace.stands("away", step, StepPhase::Running, Started).await;
    }
    let mut pods = Vec::new();
    for step in names {
        pods.push(rig.running_pod(&namespace, "away", step).await);
    }
    let job = |step: &str| format!("-l oncilla.dev/run=away,oncilla.dev/step={step}");

    let away = Away::begin(&rig).await;
    rig.kubectl_in(
        &namespace,
        &format!("delete job {} --cascade=orphan --wait=false", job("orphaned")),
    )
    .await;
    for pod in &pods[..3] {
        rig.exec(&namespace, pod, "touch /tmp/go").await;
        phase(&namespace, pod, "Succeeded").await;
    }
    rig.kubectl_in(&namespace, &format!("delete pod {} --wait=false", pods[1]))
        .await;
    rig.kubectl_in(&namespace, &format!("delete pod {} --wait=false", pods[3]))
        .await;
    rig.kubectl_in(&namespace, &format!("delete job {} --wait=false", job("job-deleted")))
        .await;
    for pod in &pods[3..] {
        phase(&namespace, pod, "Failed").await;
    }
    drop(away);

    let status = namespace.ends("away", RunPhase::Succeeded).await;
    for (step, attempt) in [
        ("unseen", 1),
        ("deleted-later", 1),
        ("orphaned", 1),
        ("killed", 2),
        ("job-deleted", 2),
    ] {
        let record = record(&status, step);
        assert_eq!(
            (record.attempt, record.disruptions),
            (attempt, attempt - 1),
            "{step}: {record:#?}"
        );
        assert_eq!(output(record), format!("attempt {attempt}"), "{step}");
        let earlier: Vec<_> = record.earlier_attempts.iter().map(|it| it.reason).collect();
        assert_eq!(earlier, vec![PodDeleted; earlier.len()], "{step}");
    }
    assert_eq!(output(record(&status, "after")), "attempt 1");
    rig.finish(namespace).await;
}

/// Waits until the pod says that it is in this phase.
async fn phase(namespace: &Namespace, pod: &str, phase: &str) {
    watch_until(&format!("{pod} is {phase}"), &namespace.api::<Pod>(), pod, |pod| {
        let status = pod.and_then(|pod| pod.status.clone());
        let is = status
            .as_ref()
            .is_some_and(|status| status.phase.as_deref() == Some(phase));
        if is { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
}
