//! How containers end, and what is recorded of it.

use k8s_openapi::api::core::v1::Pod;
use kube::api::EvictParams;
use oncilla::api::words::StepReason::{self, *};
use oncilla::api::words::{RunPhase, StepPhase};
use serde_json::json;

use crate::rig::{Rig, attempts, executions, gated, jobs, message, output, script, spec};
use crate::support::runs::record;

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_badly_is_recorded_with_what_it_said() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("endings").await;
    let hungry = json!({"container": {"resources": {"requests": {"memory": "8Mi"}, "limits": {"memory": "16Mi"}}}});
    let steps = vec![
        script("speaks", "echo 'card refused' > $ONCILLA_OUTPUT; exit 7", json!({})),
        script("silent", "exit 8", json!({})),
        script("killed", "sleep 600 & kill -9 $!; wait $!", json!({})),
        script("hungry", "tail /dev/zero", hungry),
        script("missing", "", json!({"container": {"command": ["/no/such/program"]}})),
        script("hangs", "trap '' TERM; sleep 600", json!({"timeout": "30s"})),
        script(
            "answers-late",
            "trap 'echo late > $ONCILLA_OUTPUT; exit 0' TERM; sleep 600 & wait",
            json!({"timeout": "30s"}),
        ),
    ];
    namespace
        .create_run("endings", spec(steps, json!({"onStepFailure": "Continue"})))
        .await;
    let status = namespace.ends("endings", RunPhase::Failed).await;
    let expected: [(&str, StepReason, Option<i32>, &str); 7] = [
        ("speaks", ExitCode, Some(7), "card refused"),
        ("silent", ExitCode, Some(8), "exit code 8"),
        ("killed", ExitCode, Some(137), "exit code 137"),
        ("hungry", OOMKilled, Some(137), "out of memory"),
        ("missing", ExitCode, Some(128), "/no/such/program"),
        ("hangs", DeadlineExceeded, Some(137), "30 s"),
        ("answers-late", DeadlineExceeded, Some(0), "30 s"),
    ];
    for (step, reason, code, words) in expected {
        let record = record(&status, step);
        assert_eq!(
            (record.phase, record.reason),
            (StepPhase::Failed, Some(reason)),
            "{step}: {record:#?}"
        );
        assert_eq!((record.attempt, record.exit_code), (1, code), "{step}: {record:#?}");
        assert!(message(record).contains(words), "{step}: {}", message(record));
        assert_eq!(record.output, None, "{step}");
    }
    assert_eq!(status.progress.as_deref(), Some("7/7"));
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_whole_or_an_error_and_a_step_with_a_bad_one_is_not_run_again() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("bad-outputs").await;
    let xs = |n| format!("head -c {n} /dev/zero | tr '\\0' x > $ONCILLA_OUTPUT");
    let steps = vec![
        script("full", &xs(4095), json!({})),
        script("too-large", &xs(5000), json!({})),
        script(
            "too-large-for-itself",
            "printf 12345 > $ONCILLA_OUTPUT",
            json!({"output": {"maxBytes": 4}}),
        ),
        script(
            "no-json",
            "echo '{\"a\":' > $ONCILLA_OUTPUT",
            json!({"output": {"format": "JSON"}}),
        ),
        script("no-text", "printf '\\377\\376' > $ONCILLA_OUTPUT", json!({})),
    ];
    let retry = json!({"onStepFailure": "Continue", "defaults": {"retry": {"maxAttempts": 3, "backoff": {"initial": "100ms"}}}});
    namespace.create_run("outputs", spec(steps, retry)).await;
    let status = namespace.ends("outputs", RunPhase::Failed).await;
    assert_eq!(output(record(&status, "full")), "x".repeat(4095));
    for (step, reason, words) in [
        ("too-large", OutputTooLarge, "limit 4095"),
        ("too-large-for-itself", OutputTooLarge, "limit 4"),
        ("no-json", OutputInvalid, "JSON"),
        ("no-text", OutputInvalid, "UTF-8"),
    ] {
        let record = record(&status, step);
        assert_eq!(
            (record.phase, record.reason),
            (StepPhase::Failed, Some(reason)),
            "{step}: {record:#?}"
        );
        assert_eq!((record.attempt, record.exit_code), (1, Some(0)), "{step}: {record:#?}");
        assert!(message(record).contains(words), "{step}: {}", message(record));
    }
    let once = attempts(&["full", "too-large", "too-large-for-itself", "no-json", "no-text"]);
    assert_eq!(executions(&namespace, "outputs").await, once);
    assert_eq!(jobs(&namespace, "outputs").await, once);
    rig.finish(namespace).await;
}

/// The classic accident: the effect has happened, and its pod is gone before it could say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_deleted_before_it_answers_is_tried_again_with_the_same_key() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("accident").await;
    // The ledgers are on the node and outlive the pod, as a database would. The last step takes this one away.
    let ledger = json!({
        "container": {
            "env": [{"name": "LEDGER", "value": format!("/ledgers/{}", namespace.name)}],
            "volumeMounts": [{"name": "ledgers", "mountPath": "/ledgers"}],
        },
        "podTemplate": {"spec": {"volumes": [{
            "name": "ledgers",
            "hostPath": {"path": "/tmp/oncilla-e2e", "type": "DirectoryOrCreate"},
        }]}},
    });
    let charge = "
        key=$ONCILLA_IDEMPOTENCY_KEY
        mkdir -p $LEDGER
        echo \"$ONCILLA_ATTEMPT $key $ONCILLA_FENCE\" >> $LEDGER/attempts
        if [ -e $LEDGER/$key ]; then echo 'found it' > $LEDGER/outcome; else touch $LEDGER/$key; fi
        [ $ONCILLA_ATTEMPT -gt 1 ] || sleep 600
        { ls $LEDGER | grep -c -- '-.*-'; cat $LEDGER/outcome $LEDGER/attempts; } > $ONCILLA_OUTPUT";
    let clean = script("clean", "rm -r $LEDGER", json!({"needs": ["charge"]}));
    // A deleted pod is no failure of the step's own, so the one attempt that it has is still to come.
    let charge = script(
        "charge",
        charge,
        json!({"retry": {"maxAttempts": 1, "backoff": {"initial": "100ms"}}}),
    );
    namespace
        .create_run("accident", spec(vec![charge, clean], json!({"defaults": ledger})))
        .await;
    let pod = rig.running_pod(&namespace, "accident", "charge").await;
    rig.exec(&namespace, &pod, "until [ -s $LEDGER/attempts ]; do sleep 0.1; done")
        .await;
    rig.kubectl_in(
        &namespace,
        &format!("delete pod {pod} --grace-period=0 --force --wait=false"),
    )
    .await;

    let status = namespace.ends("accident", RunPhase::Succeeded).await;
    let charge = record(&status, "charge");
    assert_eq!(
        (charge.attempt, charge.disruptions, charge.earlier_attempts[0].reason),
        (2, 1, PodDeleted)
    );
    let lines: Vec<&str> = output(charge).lines().collect();
    assert_eq!((lines.len(), lines[0], lines[1]), (4, "1", "found it"), "{lines:?}");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = (words(lines[2]), words(lines[3]));
    assert_eq!((first[0].as_str(), second[0].as_str()), ("1", "2"));
    assert_eq!(first[1], second[1], "the key");
    assert!(
        first[2].parse::<i64>().unwrap() < second[2].parse().unwrap(),
        "the fence: {lines:?}"
    );
    assert_eq!(
        jobs(&namespace, "accident").await,
        attempts(&["charge", "charge#2", "clean"])
    );
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_pod_is_tried_again_and_counts_for_nothing() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("evicted").await;
    let once = "[ $ONCILLA_ATTEMPT -gt 1 ] || sleep 600; echo ok > $ONCILLA_OUTPUT";
    namespace
        .create_run("evicted", spec(vec![script("a", once, json!({}))], json!({})))
        .await;
    let pod = rig.running_pod(&namespace, "evicted", "a").await;
    namespace
        .api::<Pod>()
        .evict(&pod, &EvictParams::default())
        .await
        .unwrap();
    let status = namespace.ends("evicted", RunPhase::Succeeded).await;
    let a = record(&status, "a");
    assert_eq!(
        (a.attempt, a.disruptions, a.earlier_attempts[0].reason),
        (2, 1, Drained)
    );
    assert_eq!(output(a), "ok");
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_user_writes_its_output_and_an_unrestricted_pod_is_refused_in_words() {
    let rig = Rig::ready().await;
    let namespace = rig.restricted_namespace("restricted").await;
    let restricted = json!({"defaults": {
        "container": {"securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        }},
        "podTemplate": {"spec": {"securityContext": {
            "runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"},
        }}},
    }});
    let who = script("who", "echo \"$(id -u):$(id -g)\" > $ONCILLA_OUTPUT", json!({}));
    namespace.create_run("restricted", spec(vec![who], restricted)).await;
    let status = namespace.ends("restricted", RunPhase::Succeeded).await;
    assert_eq!(output(record(&status, "who")), "10001:10001");

    namespace
        .create_run("root", spec(vec![script("who", &gated("true"), json!({}))], json!({})))
        .await;
    let waits = namespace
        .stands("root", "who", StepPhase::Pending, AdmissionDenied)
        .await;
    assert!(message(&waits).contains("PodSecurity"), "{}", message(&waits));
    assert_eq!(executions(&namespace, "root").await, []);
    rig.finish(namespace).await;
}
