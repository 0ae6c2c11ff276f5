//! What the client adds to kube, and what it takes out of it, seen from the other end of the wire.

mod support;

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::WatchParams;
use kube::{Api, Client};
use oncilla::answer::{Answer, CommitMeaning, CreateMeaning, EffectMeaning};
use oncilla::answer::{classify, commit, create, effect};
use oncilla::client::meter::{Key, Meter, Outcome};
use oncilla::client::request::Verb;
use oncilla::client::{Options, connect, connect_through, read, write};
use serde_json::{Value, json};

use support::faults::{Fault, Faults};
use support::gate::Gate;
use support::scripted::{Reply, Scripted};

/// Short, because the tests wait for it to pass; no test needs an answer that is slower.
const SHORT: Duration = Duration::from_millis(300);
/// Never reached.
const LONG: Duration = Duration::from_secs(600);

async fn client(server: &Scripted, deadline: Duration) -> (Client, Meter) {
    let options = Options {
        config: Some(server.config()),
        deadline,
    };
    connect(options).await.unwrap()
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message,
           "code": code})
}

fn not_found(kind: &str, name: &str) -> Value {
    let mut status = status(404, "NotFound", &format!("{kind} \"{name}\" not found"));
    status["details"] = json!({"kind": kind, "name": name});
    status
}

#[tokio::test]
async fn a_lost_answer_is_unknown_once_its_deadline_has_passed() {
    let server = Scripted::start(|_, _| Reply::Silence).await;
    let (client, meter) = client(&server, SHORT).await;

    let result = write::create_job(&client, "shop", &json!({})).await;

    let answer = classify(&result);
    assert!(
        matches!(&answer, Answer::Unknown { message, .. } if message.contains("did not answer within 300 ms")),
        "{answer:?}"
    );
    assert!(matches!(create(answer), CreateMeaning::Unknown { .. }));
    assert_eq!(server.seen().len(), 1);
    assert_eq!(meter.count(|key| key.outcome == Outcome::Timeout), 1);
}

#[tokio::test]
async fn an_answer_that_never_ends_hits_the_deadline_too() {
    let server = Scripted::start(|_, _| Reply::HalfBody(r#"{"kind":"#.into())).await;
    let (client, meter) = client(&server, SHORT).await;

    let body = json!({});
    let call = write::patch_status(&client, "shop", "order", &body);
    let result = tokio::time::timeout(LONG / 10, call)
        .await
        .expect("the deadline ends it");

    let meaning = commit(classify(&result));
    assert!(
        matches!(&meaning, CommitMeaning::Unknown { message } if message.contains("did not answer")),
        "{meaning:?}"
    );
    assert_eq!(meter.count(|key| key.outcome == Outcome::Timeout), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_is_unknown() {
    let server = Scripted::start(|_, _| Reply::HangUp).await;
    let (client, meter) = client(&server, LONG).await;

    let result = write::create_job(&client, "shop", &json!({})).await;

    assert!(matches!(classify(&result), Answer::Unknown { .. }));
    assert_eq!(meter.count(|key| key.outcome == Outcome::Error), 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_unknown() {
    let server = Scripted::start(|_, _| Reply::Answer(201, &[], "<html>".into())).await;
    let (client, _) = client(&server, LONG).await;
    let result = write::create_job(&client, "shop", &json!({})).await;
    assert!(matches!(classify(&result), Answer::Unknown { .. }));
}

#[tokio::test]
async fn a_watch_outlives_the_deadline() {
    let gate = Gate::closed();
    let opened = gate.clone();
    let server = Scripted::start(move |_, request| match request.path.contains("watch=true") {
        true => Reply::StreamAfter(
            opened.clone(),
            json!({"type": "ADDED", "object": {"metadata": {"name": "p-1"}}}).to_string(),
        ),
        false => Reply::Silence,
    })
    .await;
    let (client, meter) = client(&server, SHORT).await;

    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    let watch = pods.watch(&WatchParams::default(), "0").await.unwrap();
    pin_mut!(watch);
    // A request that begins after the watch and meets its deadline: the same time has passed for the watch.
    let lost = write::create_job(&client, "shop", &json!({})).await;
    assert!(lost.is_err());
    gate.open();

    let event = watch.try_next().await.unwrap().unwrap();
    assert!(matches!(event, kube::api::WatchEvent::Added(pod) if pod.metadata.name.as_deref() == Some("p-1")));
    assert!(watch.next().await.is_none());
    assert_eq!(meter.count(|key| key.verb == Verb::Watch), 1);
}

#[tokio::test]
async fn a_throttled_request_is_not_repeated_behind_our_back() {
    for code in [429, 503, 504] {
        // Whoever came again would be let in.
        let turned_away = Mutex::new(HashSet::new());
        let server = Scripted::start(move |_, request| {
            let asked = (request.method.clone(), request.path.clone());
            match turned_away.lock().unwrap().insert(asked) {
                true => Reply::Answer(code, &["retry-after: 0"], "later".into()),
                false => Reply::json(200, json!({})),
            }
        })
        .await;
        let (client, meter) = client(&server, LONG).await;

        // kube's own typed calls go through the same client.
        let jobs: Api<Job> = Api::namespaced(client.clone(), "shop");
        assert!(jobs.get("j").await.is_err());
        assert_eq!(server.seen().len(), 1, "{code}");

        assert!(write::create_job(&client, "shop", &json!({})).await.is_err());
        assert_eq!(server.seen().len(), 2, "{code}");
        assert!(write::patch_status(&client, "shop", "order", &json!({})).await.is_err());
        assert_eq!(server.seen().len(), 3, "{code}");
        assert_eq!(meter.count(|_| true), 3, "{code}");
    }
}

#[tokio::test]
async fn a_read_and_an_effect_are_sent_again_until_they_are_answered() {
    let server = Scripted::start(|n, _| match n % 3 {
        0 => Reply::Answer(429, &[], "later".into()),
        1 => Reply::HangUp,
        _ => Reply::json(200, json!({"metadata": {"name": "j"}})),
    })
    .await;
    let (client, meter) = client(&server, LONG).await;

    let job: Option<Value> = read::get_job(&client, "shop", "j").await.unwrap();
    assert_eq!(job.unwrap()["metadata"]["name"], "j");
    assert_eq!(server.seen().len(), 3);

    let closed = write::close_job(&client, "shop", "j", "uid-1").await;
    assert_eq!(effect(classify(&closed)), EffectMeaning::Done);
    assert_eq!(server.seen().len(), 6);
    assert_eq!(meter.count(|_| true), 6, "each try is counted");
}

#[tokio::test]
async fn a_read_gives_up_after_its_tries() {
    let server = Scripted::start(|_, _| Reply::json(500, status(500, "InternalError", "no"))).await;
    let (client, _) = client(&server, LONG).await;
    let result: Result<Option<Value>, _> = read::get_job(&client, "shop", "j").await;
    assert!(result.is_err());
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn requests_are_counted_by_what_they_ask_and_how_they_end() {
    let server = Scripted::start(|_, request| match request.method.as_str() {
        "GET" => Reply::json(404, not_found("jobs", "j")),
        _ => Reply::json(200, json!({})),
    })
    .await;
    let (client, meter) = client(&server, LONG).await;

    write::patch_status(&client, "shop", "order", &json!({})).await.unwrap();
    write::create_job(&client, "shop", &json!({})).await.unwrap();
    write::create_job(&client, "shop", &json!({})).await.unwrap();
    write::delete_pod(&client, "shop", "p", "uid-1").await.unwrap();
    let _: Option<Value> = read::get_job(&client, "shop", "j").await.unwrap();

    let key = |resource: &str, subresource: &str, verb, outcome| Key {
        resource: resource.into(),
        subresource: subresource.into(),
        verb,
        outcome,
    };
    assert_eq!(
        meter.snapshot(),
        [
            (key("jobs.batch", "", Verb::Get, Outcome::ClientError), 1),
            (key("jobs.batch", "", Verb::Create, Outcome::Success), 2),
            (key("pods", "", Verb::Delete, Outcome::Success), 1),
            (
                key("workflowruns.oncilla.dev", "status", Verb::Patch, Outcome::Success),
                1
            ),
        ]
    );
    assert_eq!(meter.count(|key| key.verb.is_write()), 4);
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_is_counted() {
    let server = Scripted::start(|_, _| Reply::Silence).await;
    let (client, meter) = client(&server, LONG).await;

    let body = json!({});
    let mut request = Box::pin(write::create_job(&client, "shop", &body));
    tokio::select! {
        _ = &mut request => panic!("there is no answer"),
        () = server.received(1) => {}
    }
    drop(request);
    assert_eq!(meter.count(|key| key.outcome == Outcome::Abandoned), 1);
}

#[tokio::test]
async fn a_commit_tells_when_the_server_acknowledged_it() {
    let server = Scripted::start(|n, _| match n {
        0 => Reply::Answer(
            200,
            &["date: Sun, 29 Nov 2026 20:00:34 GMT"],
            json!({"metadata": {"resourceVersion": "7"}}).to_string(),
        ),
        _ => Reply::json(200, json!({})),
    })
    .await;
    let (client, _) = client(&server, LONG).await;

    let patch = json!({"metadata": {"resourceVersion": "6"}, "status": {"revision": 3}});
    let (stored, date) = write::patch_status(&client, "shop", "order", &patch).await.unwrap();
    assert_eq!(stored["metadata"]["resourceVersion"], "7");
    assert_eq!(date.unwrap().to_string(), "2026-11-29T20:00:34Z");
    let (_, date) = write::patch_status(&client, "shop", "order", &patch).await.unwrap();
    assert_eq!(date, None, "a server that does not tell the time");

    let seen = &server.seen()[0];
    assert_eq!(seen.method, "PATCH");
    assert_eq!(
        seen.path,
        "/apis/oncilla.dev/v1alpha1/namespaces/shop/workflowruns/order/status?fieldManager=oncilla&fieldValidation=Strict"
    );
    assert_eq!(seen.header("content-type"), Some("application/merge-patch+json"));
    assert_eq!(
        seen.header("user-agent"),
        Some(concat!("oncilla/", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), patch);
}

#[tokio::test]
async fn effects_name_the_object_by_uid_and_nothing_more_than_they_must() {
    let server = Scripted::start(|_, _| Reply::json(200, json!({}))).await;
    let (client, _) = client(&server, LONG).await;
    write::create_job(&client, "shop", &json!({"kind": "Job"}))
        .await
        .unwrap();
    write::close_job(&client, "shop", "j", "u").await.unwrap();
    write::release_pod(&client, "shop", "p", "u").await.unwrap();
    write::delete_job(&client, "shop", "j", "u").await.unwrap();
    write::delete_pod(&client, "shop", "p", "u").await.unwrap();

    let query = "?fieldManager=oncilla&fieldValidation=Strict";
    let job = "/apis/batch/v1/namespaces/shop/jobs";
    let pod = "/api/v1/namespaces/shop/pods/p";
    let background = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                            "preconditions": {"uid": "u"}});
    let expected = [
        ("POST", format!("{job}{query}"), json!({"kind": "Job"})),
        (
            "PATCH",
            format!("{job}/j{query}"),
            json!({"metadata": {"uid": "u"}, "spec": {"activeDeadlineSeconds": 1}}),
        ),
        (
            "PATCH",
            format!("{pod}{query}"),
            json!({"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": ["oncilla.dev/evidence"]}}),
        ),
        ("DELETE", format!("{job}/j"), background.clone()),
        ("DELETE", pod.to_string(), background),
    ];
    let seen = server.seen();
    assert_eq!(seen.len(), expected.len());
    for (seen, (method, path, body)) in seen.iter().zip(expected) {
        assert_eq!((seen.method.as_str(), &seen.path), (method, &path));
        assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), body, "{path}");
    }
    assert_eq!(
        seen[2].header("content-type"),
        Some("application/strategic-merge-patch+json")
    );
}

#[tokio::test]
async fn only_the_servers_word_about_that_object_proves_absence() {
    let server = Scripted::start(|_, request| {
        if request.path.ends_with("/gone") {
            Reply::json(404, not_found("jobs", "gone"))
        } else {
            Reply::Answer(404, &[], "404 page not found".into())
        }
    })
    .await;
    let (client, _) = client(&server, LONG).await;
    let gone: Option<Value> = read::get_job(&client, "shop", "gone").await.unwrap();
    assert_eq!(gone, None);
    let other: Result<Option<Value>, _> = read::get_job(&client, "shop", "other").await;
    assert!(other.is_err());
}

#[tokio::test]
async fn a_live_list_is_read_to_its_end() {
    let server = Scripted::start(|n, _| match n {
        0 => Reply::json(
            200,
            json!({"metadata": {"continue": "a=b"}, "items": [{"n": 1}, {"n": 2}]}),
        ),
        _ => Reply::json(200, json!({"metadata": {}, "items": [{"n": 3}]})),
    })
    .await;
    let (client, _) = client(&server, LONG).await;
    let pods: Vec<Value> = read::list_pods(&client, Some("shop"), "oncilla.dev/attempt=1")
        .await
        .unwrap();
    assert_eq!(pods, [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})]);
    let paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    let first = "/api/v1/namespaces/shop/pods?limit=500&labelSelector=oncilla.dev%2Fattempt%3D1";
    assert_eq!(paths, [first.to_string(), format!("{first}&continue=a%3Db")]);
}

/// The faults that later tests inject lie where the wire is: below the deadline and the meter.
#[tokio::test]
async fn injected_faults_look_like_the_network() {
    let server = Scripted::start(|_, _| Reply::json(200, json!({}))).await;
    let faults = Faults::default();
    let options = Options {
        config: Some(server.config()),
        deadline: SHORT,
    };
    let (client, meter) = connect_through(options, &faults).await.unwrap();
    let create = async || write::create_job(&client, "shop", &json!({})).await;
    let is_create = |asked: &oncilla::client::request::Request| asked.verb == Verb::Create;

    faults.inject(1, Fault::NotSent, is_create);
    faults.inject(1, Fault::Refused(503, "ServiceUnavailable"), is_create);
    faults.inject(1, Fault::AnswerLost, is_create);
    faults.inject(1, Fault::Silence, is_create);
    let mut reached = Vec::new();
    for _ in 0..4 {
        let answer = classify(&create().await);
        assert!(matches!(answer, Answer::Unknown { .. }), "{answer:?}");
        reached.push(server.seen().len());
    }
    assert_eq!(reached, [0, 0, 1, 2], "what reaches the server");
    assert_eq!(faults.left(), 0);
    let ends: Vec<(Outcome, u64)> = meter.snapshot().iter().map(|(key, n)| (key.outcome, *n)).collect();
    let expected = [(Outcome::ServerError, 1), (Outcome::Timeout, 1), (Outcome::Error, 2)];
    assert_eq!(ends, expected);

    // Held back beyond its deadline it arrives all the same, late.
    let gate = Gate::closed();
    faults.inject(1, Fault::HeldBack(gate.clone()), is_create);
    assert!(matches!(classify(&create().await), Answer::Unknown { .. }));
    assert_eq!(server.seen().len(), 2);
    gate.open();
    server.received(3).await;

    assert_eq!(classify(&create().await), Answer::Acknowledged);
}
