use proptest::prelude::*;

use super::*;
use crate::api::status::OutputType;
use StepReason::*;

/// 2026-11-29T10:00:00Z and so many seconds.
fn at(seconds: i64) -> Option<Time> {
    Some(Time::from_millis(1_795_946_400_000 + seconds * 1000))
}

fn step() -> StepTemplate {
    StepTemplate {
        init_containers: vec![("prepare".to_owned(), false), ("relay".to_owned(), true)],
        output_format: OutputFormat::Auto,
        output_max_bytes: 4095,
    }
}

/// Exit `code` at 10:00:05, with words.
fn exit(code: i32, message: &str) -> ContainerState {
    ContainerState::Terminated(Terminated {
        exit_code: code,
        reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
        message: message.to_owned(),
        started: at(2),
        finished: at(5),
        has_id: true,
    })
}

/// What the kubelet says of a container that it cannot find.
fn unknown() -> ContainerState {
    ContainerState::Terminated(Terminated {
        exit_code: 137,
        reason: STATUS_UNKNOWN.to_owned(),
        message: "The container could not be located when the pod was terminated".to_owned(),
        ..Terminated::default()
    })
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState::Waiting {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started: at(2) }
}

fn container(name: &str, kind: ContainerKind, state: ContainerState) -> ContainerEvidence {
    ContainerEvidence {
        name: name.to_owned(),
        kind,
        state,
        restart_count: 0,
        ran_before: false,
    }
}

/// A pod that did all its work: exit 0 with the output "done".
fn finished() -> PodEvidence {
    PodEvidence {
        attempt: ("2f7a".to_owned(), 1),
        uid: "u1".to_owned(),
        name: "p1".to_owned(),
        phase: PodPhase::Succeeded,
        reason: String::new(),
        message: String::new(),
        generation: 1,
        observed_generation: Some(1),
        deleting: false,
        ended_before_deletion: false,
        held: true,
        node: Node::Named("n1".to_owned()),
        start_time: at(0),
        active_deadline_seconds: None,
        disruption: None,
        unschedulable: None,
        waiting: None,
        containers: vec![
            container("prepare", ContainerKind::Init, exit(0, "")),
            container("relay", ContainerKind::Sidecar, exit(143, "")),
            container("main", ContainerKind::Regular, exit(0, "done")),
        ],
    }
}

/// The same pod while its container runs.
fn in_flight() -> PodEvidence {
    let mut pod = finished();
    pod.phase = PodPhase::Running;
    set(&mut pod, "relay", running());
    set(&mut pod, "main", running());
    pod
}

fn get<'a>(pod: &'a mut PodEvidence, name: &str) -> &'a mut ContainerEvidence {
    pod.containers.iter_mut().find(|it| it.name == name).unwrap()
}

fn set(pod: &mut PodEvidence, name: &str, state: ContainerState) {
    get(pod, name).state = state;
}

fn set_all(pod: &mut PodEvidence, state: &ContainerState) {
    for container in &mut pod.containers {
        container.state = state.clone();
    }
}

/// A verdict in short: what a table can be read by.
fn short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Waiting { waiting, stopping } => {
            let why = waiting
                .as_ref()
                .map_or("-".to_owned(), |it| format!("{}: {}", it.reason, it.message));
            format!("waiting {why}{}", if *stopping { ", stopping" } else { "" })
        }
        Verdict::Running { stopping, .. } => {
            format!("running{}", if *stopping { ", stopping" } else { "" })
        }
        Verdict::NotStopped { .. } => "not stopped".to_owned(),
        Verdict::Success { output, .. } => format!("success {}", output.text),
        Verdict::BadOutput { reason, .. } => format!("bad output {reason}"),
        Verdict::Failure(failure) => {
            let code = failure.exit_code.map_or("-".to_owned(), |it| it.to_string());
            let whose = if failure.disruption { "disrupted" } else { "failed" };
            format!("{whose} {} {code}", failure.reason)
        }
    }
}

/// What one row of a table changes in a pod.
type Change = fn(&mut PodEvidence);

fn check(base: fn() -> PodEvidence, rows: &[(&str, Change, &str)]) {
    for (promise, change, wanted) in rows {
        let mut pod = base();
        change(&mut pod);
        let verdict = verdict(&pod, &step());
        assert_eq!(short(&verdict), *wanted, "{promise}: {verdict:?}");
    }
}

fn delete(pod: &mut PodEvidence, observed: i64) {
    pod.deleting = true;
    pod.generation = 2;
    pod.observed_generation = Some(observed);
}

fn fail(pod: &mut PodEvidence, reason: &str) {
    pod.phase = PodPhase::Failed;
    pod.reason = reason.to_owned();
}

fn disrupt(pod: &mut PodEvidence, reason: &str) {
    pod.disruption = Some(reason.to_owned());
}

#[test]
fn success_is_exactly_what_the_rule_says() {
    check(
        finished,
        &[
            ("a pod that did its work succeeded", |_| {}, "success done"),
            (
                "no phase, no verdict: the container may start again",
                |pod| pod.phase = PodPhase::Running,
                "running",
            ),
            (
                "a phase that nobody knows is not final",
                |pod| pod.phase = PodPhase::Unknown,
                "running",
            ),
            (
                "a sidecar's exit code does not count",
                |pod| set(pod, "relay", exit(1, "")),
                "success done",
            ),
            (
                "an injected container that fails afterwards does not count",
                |pod| {
                    fail(pod, "");
                    pod.containers
                        .push(container("mesh", ContainerKind::Regular, exit(4, "")));
                },
                "success done",
            ),
            (
                "an injected container may have run twice",
                |pod| {
                    let mut mesh = container("mesh", ContainerKind::Regular, exit(0, ""));
                    mesh.restart_count = 3;
                    pod.containers.push(mesh);
                },
                "success done",
            ),
            (
                "another container's exit 0 is not the step's",
                |pod| get(pod, "main").name = "mesh".to_owned(),
                "disrupted PodLost -",
            ),
            (
                "an init container called main is not the step's",
                |pod| get(pod, "main").kind = ContainerKind::Init,
                "disrupted PodLost -",
            ),
            (
                "an init container of the step that is missing did not do its part",
                |pod| get(pod, "prepare").name = "other".to_owned(),
                "disrupted PodLost 0",
            ),
            (
                "nor one that nobody has seen end",
                |pod| set(pod, "prepare", unknown()),
                "disrupted PodLost 0",
            ),
            (
                "a container that was restarted ran twice",
                |pod| get(pod, "main").restart_count = 1,
                "disrupted PodLost 0",
            ),
            (
                "a container with an earlier state ran twice",
                |pod| get(pod, "main").ran_before = true,
                "disrupted PodLost 0",
            ),
            (
                "exit 0 without a container is no evidence",
                |pod| {
                    let ContainerState::Terminated(main) = &mut get(pod, "main").state else {
                        unreachable!()
                    };
                    main.has_id = false;
                },
                "disrupted PodLost -",
            ),
            (
                "ContainerStatusUnknown is no evidence, whatever stands beside it",
                |pod| {
                    let ContainerState::Terminated(main) = &mut get(pod, "main").state else {
                        unreachable!()
                    };
                    main.reason = STATUS_UNKNOWN.to_owned();
                },
                "disrupted PodLost -",
            ),
            (
                "137 ContainerStatusUnknown is not exit code 137",
                |pod| {
                    fail(pod, "");
                    set(pod, "main", unknown())
                },
                "disrupted PodLost -",
            ),
            (
                "an end for a reason nobody knows is no success",
                |pod| fail(pod, "Odd"),
                "disrupted PodLost 0",
            ),
            (
                "a Succeeded pod whose container failed is a failure",
                |pod| set(pod, "main", exit(3, "")),
                "failed ExitCode 3",
            ),
            (
                "a lost node takes nothing back",
                |pod| pod.node = Node::Lost("n1".to_owned()),
                "success done",
            ),
        ],
    );
}

#[test]
fn a_pod_that_was_told_to_stop_has_not_succeeded_and_one_that_had_ended_has() {
    check(
        finished,
        &[
            (
                "ended, then deleted: the kubelet had not heard of it",
                |pod| delete(pod, 1),
                "success done",
            ),
            (
                "ended, then drained: eviction marks ended pods too",
                |pod| {
                    delete(pod, 1);
                    disrupt(pod, "EvictionByEvictionAPI");
                },
                "success done",
            ),
            ("deleted, then exit 0", |pod| delete(pod, 2), "disrupted PodDeleted 0"),
            (
                "drained, then exit 0",
                |pod| {
                    delete(pod, 2);
                    disrupt(pod, "EvictionByEvictionAPI");
                },
                "disrupted Drained 0",
            ),
            (
                "deleted under a kubelet that does not say what it has seen",
                |pod| {
                    delete(pod, 1);
                    pod.observed_generation = None
                },
                "disrupted PodDeleted 0",
            ),
            (
                "an edit after the deletion hides what the kubelet knew",
                |pod| {
                    delete(pod, 2);
                    pod.generation = 3
                },
                "disrupted PodDeleted 0",
            ),
            (
                "an edit before the deletion",
                |pod| {
                    delete(pod, 1);
                    pod.generation = 3
                },
                "disrupted PodDeleted 0",
            ),
            (
                "read as ended before the deletion: a restarted kubelet cannot take that back",
                |pod| {
                    delete(pod, 2);
                    pod.ended_before_deletion = true;
                },
                "success done",
            ),
            (
                "a stale DisruptionTarget on a pod that succeeded",
                |pod| disrupt(pod, "EvictionByEvictionAPI"),
                "success done",
            ),
            (
                "DisruptionTarget on a Failed pod counts",
                |pod| {
                    fail(pod, "");
                    disrupt(pod, "PreemptionByScheduler");
                },
                "disrupted Preempted 0",
            ),
            (
                "also if it had ended unaware",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    disrupt(pod, "DeletionByPodGC");
                },
                "disrupted NodeLost 0",
            ),
            (
                "a failure before the deletion is the step's own",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    set(pod, "main", exit(3, ""))
                },
                "failed ExitCode 3",
            ),
            (
                "a failure after it is not",
                |pod| {
                    fail(pod, "");
                    delete(pod, 2);
                    set(pod, "main", exit(143, ""))
                },
                "disrupted PodDeleted 143",
            ),
        ],
    );
}

#[test]
fn a_deadline_counts_unless_everything_had_ended_before_it() {
    fn late(pod: &mut PodEvidence, seconds: i64) {
        fail(pod, "DeadlineExceeded");
        pod.active_deadline_seconds = Some(seconds);
    }
    check(
        finished,
        &[
            (
                "exit 0 on SIGTERM at the deadline is no success",
                |pod| late(pod, 5),
                "failed DeadlineExceeded 0",
            ),
            (
                "ended a second before it, reported after it",
                |pod| late(pod, 6),
                "success done",
            ),
            (
                "a failure before it is a failure",
                |pod| {
                    late(pod, 6);
                    set(pod, "main", exit(3, ""))
                },
                "failed ExitCode 3",
            ),
            (
                "a sidecar that ended after it: nobody knows what stopped the step",
                |pod| {
                    late(pod, 6);
                    let ContainerState::Terminated(relay) = &mut get(pod, "relay").state else {
                        unreachable!()
                    };
                    relay.finished = at(7);
                },
                "failed DeadlineExceeded 0",
            ),
            (
                "a container without an end",
                |pod| {
                    late(pod, 6);
                    set(pod, "relay", unknown())
                },
                "failed DeadlineExceeded 0",
            ),
            (
                "a pod that nobody accepted",
                |pod| {
                    late(pod, 6);
                    pod.start_time = None
                },
                "failed DeadlineExceeded 0",
            ),
            (
                "a deadline of which the pod knows nothing",
                |pod| fail(pod, "DeadlineExceeded"),
                "failed DeadlineExceeded 0",
            ),
            (
                "a deadline while the image was pulled",
                |pod| {
                    late(pod, 5);
                    set_all(pod, &unknown())
                },
                "failed DeadlineExceeded -",
            ),
            (
                "a deadline before anything was reported",
                |pod| {
                    late(pod, 5);
                    set_all(pod, &ContainerState::Unreported)
                },
                "failed DeadlineExceeded -",
            ),
            ("a deadline beyond all time", |pod| late(pod, i64::MAX), "success done"),
        ],
    );
}

#[test]
fn a_failure_names_its_cause_and_whether_the_step_is_to_blame() {
    check(
        finished,
        &[
            (
                "the step's own exit code",
                |pod| {
                    fail(pod, "");
                    set(pod, "main", exit(3, ""))
                },
                "failed ExitCode 3",
            ),
            (
                "out of memory",
                |pod| {
                    fail(pod, "");
                    set(pod, "main", exit(137, ""));
                    let ContainerState::Terminated(main) = &mut get(pod, "main").state else {
                        unreachable!()
                    };
                    main.reason = "OOMKilled".to_owned();
                },
                "failed OOMKilled 137",
            ),
            (
                "an init container's exit code",
                |pod| {
                    fail(pod, "");
                    set(pod, "prepare", exit(2, ""));
                    set(pod, "main", waiting("PodInitializing", ""))
                },
                "failed ExitCode 2",
            ),
            (
                "its own disk use",
                |pod| {
                    fail(pod, "Evicted");
                    set(pod, "main", exit(137, ""))
                },
                "failed Evicted 137",
            ),
            (
                "a node under pressure",
                |pod| {
                    fail(pod, "Evicted");
                    disrupt(pod, "TerminationByKubelet");
                    set(pod, "main", exit(137, ""));
                },
                "disrupted Evicted 137",
            ),
            (
                "a node that shuts down",
                |pod| {
                    fail(pod, "Terminated");
                    disrupt(pod, "TerminationByKubelet")
                },
                "disrupted Drained 0",
            ),
            (
                "a critical pod",
                |pod| {
                    fail(pod, "Preempting");
                    disrupt(pod, "TerminationByKubelet")
                },
                "disrupted Preempted 0",
            ),
            (
                "a taint",
                |pod| {
                    fail(pod, "");
                    delete(pod, 2);
                    disrupt(pod, "DeletionByTaintManager")
                },
                "disrupted NodeLost 0",
            ),
            (
                "a node that was deleted",
                |pod| {
                    fail(pod, "");
                    delete(pod, 2);
                    disrupt(pod, "DeletionByPodGC")
                },
                "disrupted NodeLost 0",
            ),
            (
                "a cause of a newer Kubernetes",
                |pod| {
                    fail(pod, "");
                    disrupt(pod, "Odd")
                },
                "disrupted PodDeleted 0",
            ),
            (
                "a node that refused the pod",
                |pod| {
                    fail(pod, "OutOfcpu");
                    set_all(pod, &ContainerState::Unreported)
                },
                "disrupted Evicted -",
            ),
            (
                "a pod without evidence",
                |pod| {
                    fail(pod, "");
                    set_all(pod, &unknown())
                },
                "disrupted PodLost -",
            ),
        ],
    );
}

#[test]
fn a_final_phase_is_not_believed_while_something_may_run() {
    check(
        in_flight,
        &[
            (
                "the pod garbage collector wrote Failed, the process goes on",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    disrupt(pod, "DeletionByPodGC");
                },
                "not stopped",
            ),
            (
                "any container that runs counts",
                |pod| {
                    pod.phase = PodPhase::Succeeded;
                    set(pod, "main", exit(0, ""))
                },
                "not stopped",
            ),
            (
                "an ephemeral one too",
                |pod| {
                    *pod = finished();
                    pod.containers
                        .push(container("debug", ContainerKind::Ephemeral, running()));
                },
                "not stopped",
            ),
            (
                "unless its node is lost",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    disrupt(pod, "DeletionByPodGC");
                    pod.node = Node::Lost("n1".to_owned());
                },
                "disrupted NodeLost -",
            ),
            (
                "a container that was waiting may have begun since",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    disrupt(pod, "DeletionByPodGC");
                    set_all(pod, &waiting("ContainerCreating", ""));
                },
                "not stopped",
            ),
            (
                "also before the collector's delete has arrived",
                |pod| {
                    fail(pod, "");
                    disrupt(pod, "DeletionByPodGC");
                    set_all(pod, &waiting("ContainerCreating", ""));
                },
                "not stopped",
            ),
            (
                "also on a node that is out of service, where the collector gives no reason",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    set_all(pod, &ContainerState::Unreported);
                },
                "not stopped",
            ),
            (
                "until the kubelet has heard of the deletion",
                |pod| {
                    fail(pod, "");
                    delete(pod, 2);
                    disrupt(pod, "DeletionByPodGC");
                    set_all(pod, &waiting("ContainerCreating", ""));
                },
                "disrupted NodeLost -",
            ),
            (
                "an init container that failed leaves the others waiting for good",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    set(pod, "prepare", exit(1, ""));
                    set(pod, "relay", waiting("PodInitializing", ""));
                    set(pod, "main", waiting("PodInitializing", ""));
                },
                "failed ExitCode 1",
            ),
            (
                "a pod that never had a node ran nothing",
                |pod| {
                    fail(pod, "");
                    delete(pod, 1);
                    pod.node = Node::None;
                    set_all(pod, &ContainerState::Unreported);
                },
                "disrupted PodLost -",
            ),
        ],
    );
}

#[test]
fn a_pod_that_has_not_ended_says_how_far_it_is() {
    check(
        in_flight,
        &[
            ("running", |_| {}, "running"),
            ("running and told to stop", |pod| delete(pod, 1), "running, stopping"),
            (
                "its work is done, its sidecar goes on",
                |pod| set(pod, "main", exit(0, "done")),
                "running",
            ),
            (
                "its node is lost",
                |pod| pod.node = Node::Lost("n1".to_owned()),
                "disrupted NodeLost -",
            ),
            (
                "on its way",
                |pod| set(pod, "main", waiting("ContainerCreating", "")),
                "waiting -",
            ),
            (
                "on its way and told to stop",
                |pod| {
                    delete(pod, 1);
                    set(pod, "main", waiting("ContainerCreating", ""))
                },
                "waiting -, stopping",
            ),
            (
                "nothing reported",
                |pod| set_all(pod, &ContainerState::Unreported),
                "waiting -",
            ),
            (
                "no room",
                |pod| {
                    pod.node = Node::None;
                    pod.unschedulable = Some("0/3 nodes:\ninsufficient memory".to_owned());
                    set_all(pod, &ContainerState::Unreported);
                },
                "waiting Unschedulable: 0/3 nodes: insufficient memory",
            ),
            (
                "no image",
                |pod| set(pod, "main", waiting("ImagePullBackOff", "Back-off pulling image \"x\"")),
                "waiting ImagePullFailing: main: Back-off pulling image \"x\"",
            ),
            (
                "a bad image name",
                |pod| set(pod, "main", waiting("InvalidImageName", "")),
                "waiting ImagePullFailing: main: InvalidImageName",
            ),
            (
                "the first container that cannot begin, not those that wait for it",
                |pod| {
                    set(pod, "prepare", waiting("ErrImagePull", "not found"));
                    set(pod, "relay", waiting("PodInitializing", ""));
                    set(pod, "main", waiting("PodInitializing", ""));
                },
                "waiting ImagePullFailing: prepare: not found",
            ),
            (
                "no secret",
                |pod| {
                    set(
                        pod,
                        "main",
                        waiting("CreateContainerConfigError", "secret \"db\" not found"),
                    )
                },
                "waiting ConfigMissing: main: secret \"db\" not found",
            ),
            (
                "anything else, in its own words",
                |pod| set(pod, "main", waiting("CreateContainerError", "name taken")),
                "waiting Starting: main: name taken",
            ),
            (
                "a volume that cannot be mounted shows in events only",
                |pod| {
                    set(pod, "main", waiting("ContainerCreating", ""));
                    pod.waiting = Some(Waiting::new(ConfigMissing, "no volume"));
                },
                "waiting ConfigMissing: no volume",
            ),
            (
                "deleted before it had a node: it will not get one",
                |pod| {
                    delete(pod, 1);
                    pod.node = Node::None;
                    set_all(pod, &ContainerState::Unreported);
                },
                "disrupted PodDeleted -",
            ),
        ],
    );
}

#[test]
fn the_next_attempt_waits_for_what_may_still_run() {
    let rows: &[(&str, Change, bool)] = &[
        ("ended", |pod| *pod = finished(), true),
        ("running", |_| {}, false),
        (
            "Failed by the collector, still running",
            |pod| {
                fail(pod, "");
                delete(pod, 1)
            },
            false,
        ),
        ("on a lost node", |pod| pod.node = Node::Lost("n1".to_owned()), true),
        (
            "without a node it may still get one",
            |pod| pod.node = Node::None,
            false,
        ),
        (
            "without a node and deleted it gets none",
            |pod| {
                pod.node = Node::None;
                pod.deleting = true
            },
            true,
        ),
        (
            "without a node and ended",
            |pod| {
                pod.node = Node::None;
                fail(pod, "");
                set_all(pod, &ContainerState::Unreported)
            },
            true,
        ),
        ("being deleted", |pod| delete(pod, 2), false),
    ];
    for (promise, change, wanted) in rows {
        let mut pod = in_flight();
        change(&mut pod);
        assert_eq!(stopped(&pod), *wanted, "{promise}");
    }
}

#[test]
fn a_failed_container_speaks_for_itself() {
    let message = |code: i32, words: &str| {
        let mut pod = finished();
        fail(&mut pod, "");
        set(&mut pod, "main", exit(code, words));
        match verdict(&pod, &step()) {
            Verdict::Failure(failure) => failure.message,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(message(3, ""), "exit code 3");
    assert_eq!(message(3, "no such order\n"), "no such order");
    assert_eq!(message(3, "Error on reading termination log /x: EIO"), "exit code 3");
    let long = message(1, &"\u{e9}".repeat(2000));
    assert!(long.len() <= 1024 && long.ends_with("\u{e9}\u{2026}"), "{long}");

    let mut pod = finished();
    fail(&mut pod, "");
    set(&mut pod, "prepare", exit(2, "no volume"));
    set(&mut pod, "main", waiting("PodInitializing", ""));
    let Verdict::Failure(failure) = verdict(&pod, &step()) else {
        panic!()
    };
    assert_eq!(failure.message, "init container prepare: no volume");

    let mut pod = finished();
    fail(&mut pod, "OutOfcpu");
    pod.message = "Node didn't have enough resource: cpu".to_owned();
    set_all(&mut pod, &ContainerState::Unreported);
    let Verdict::Failure(failure) = verdict(&pod, &step()) else {
        panic!()
    };
    assert_eq!(
        failure.message,
        "node n1 refused the pod: OutOfcpu: Node didn't have enough resource: cpu"
    );
}

#[test]
fn a_success_carries_its_output_and_its_times() {
    let mut pod = finished();
    set(&mut pod, "main", exit(0, "{\"paid\":true}"));
    let success = |output: &str, output_type| Verdict::Success {
        output: StepOutput {
            text: output.to_owned(),
            output_type,
        },
        times: Times {
            started: at(2),
            finished: at(5),
        },
    };
    assert_eq!(verdict(&pod, &step()), success("{\"paid\":true}", OutputType::Json));

    // A container that joins the pod, an ephemeral one too, takes room from the output.
    set(&mut pod, "main", exit(0, &"x".repeat(3071)));
    assert_eq!(short(&verdict(&pod, &step())), format!("success {}", "x".repeat(3071)));
    set(&mut pod, "main", exit(0, &"x".repeat(3072)));
    assert!(matches!(verdict(&pod, &step()), Verdict::Success { .. }));
    pod.containers
        .push(container("debug", ContainerKind::Ephemeral, exit(0, "")));
    let verdict = verdict(&pod, &step());
    assert_eq!(short(&verdict), "bad output OutputTooLarge");
    let Verdict::BadOutput { times, .. } = verdict else {
        panic!()
    };
    assert_eq!(
        times,
        Times {
            started: at(2),
            finished: at(5)
        }
    );
}

fn any_state() -> impl Strategy<Value = ContainerState> {
    let time = || prop::option::of((0i64..10).prop_map(|s| at(s).unwrap()));
    prop_oneof![
        Just(ContainerState::Unreported),
        Just(waiting("ContainerCreating", "")),
        time().prop_map(|started| ContainerState::Running { started }),
        (
            prop_oneof![4 => Just(0), 1 => any::<i32>()],
            prop_oneof![4 => Just("Completed"), 1 => Just(STATUS_UNKNOWN), 1 => Just("OOMKilled")],
            "\\PC{0,9}",
            time(),
            time(),
            prop::bool::weighted(0.8)
        )
            .prop_map(|(exit_code, reason, message, started, finished, has_id)| {
                ContainerState::Terminated(Terminated {
                    exit_code,
                    reason: reason.to_owned(),
                    message,
                    started,
                    finished,
                    has_id,
                })
            }),
    ]
}

fn any_container() -> impl Strategy<Value = ContainerEvidence> {
    let name = prop_oneof![Just("main"), Just("prepare"), Just("relay"), Just("mesh")];
    let kind = prop_oneof![
        Just(ContainerKind::Regular),
        Just(ContainerKind::Init),
        Just(ContainerKind::Sidecar),
        Just(ContainerKind::Ephemeral)
    ];
    let few = prop_oneof![4 => Just(0i64), 1 => any::<i64>()];
    (name, kind, any_state(), few, prop::bool::weighted(0.1)).prop_map(
        |(name, kind, state, restart_count, ran_before)| ContainerEvidence {
            name: name.to_owned(),
            kind,
            state,
            restart_count,
            ran_before,
        },
    )
}

prop_compose! {
    /// A pod near one that succeeded, so that not every one is refused for its first oddity.
    fn any_pod()(
        phase in prop_oneof![
            2 => Just(PodPhase::Succeeded), 2 => Just(PodPhase::Failed),
            1 => Just(PodPhase::Running), 1 => Just(PodPhase::Pending), 1 => Just(PodPhase::Unknown)
        ],
        reason in prop_oneof![4 => Just(""), 1 => Just("DeadlineExceeded"), 1 => Just("Evicted"), 1 => Just("Odd")],
        generation in 0i64..4,
        observed_generation in prop::option::of(0i64..4),
        deleting in prop::bool::weighted(0.3),
        ended_before_deletion in prop::bool::weighted(0.1),
        node in prop_oneof![
            1 => Just(Node::None), 4 => Just(Node::Named("n".to_owned())), 1 => Just(Node::Lost("n".to_owned()))
        ],
        start_time in prop::option::of((0i64..10).prop_map(|s| at(s).unwrap())),
        active_deadline_seconds in prop::option::of(prop_oneof![0i64..10, any::<i64>()]),
        disruption in prop::option::weighted(0.2, prop_oneof![Just("DeletionByPodGC"), Just("EvictionByEvictionAPI"), Just("Odd")]),
        odd in prop::collection::vec((0usize..3, any_container()), 0..3),
        more in prop::collection::vec(any_container(), 0..2),
    ) -> PodEvidence {
        let mut pod = finished();
        for (at, container) in odd {
            pod.containers[at] = container;
        }
        pod.containers.extend(more);
        PodEvidence {
            phase,
            reason: reason.to_owned(),
            generation,
            observed_generation,
            deleting,
            ended_before_deletion,
            node,
            start_time,
            active_deadline_seconds,
            disruption: disruption.map(str::to_owned),
            ..pod
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn success_is_never_claimed_for_a_pod_that_does_not_prove_it(pod in any_pod()) {
        let verdict = verdict(&pod, &step());
        let has_run = matches!(verdict, Verdict::Success { .. } | Verdict::BadOutput { .. });
        if has_run {
            prop_assert!(pod.is_terminal());
            prop_assert!(!told_to_stop(&pod));
            prop_assert!(stopped(&pod));
            let running = |it: &ContainerEvidence| matches!(it.state, ContainerState::Running { .. });
            prop_assert!(!pod.containers.iter().any(running));
            let main = main(&pod).unwrap();
            prop_assert_eq!((main.restart_count, main.ran_before), (0, false));
            let result = terminated(main).unwrap();
            prop_assert!(result.has_id && result.exit_code == 0 && result.reason != STATUS_UNKNOWN);
        }
        // What has a final verdict lets the next attempt start, and the other way round.
        let is_final = has_run || matches!(verdict, Verdict::Failure(_));
        prop_assert_eq!(is_final, stopped(&pod));
        if let Verdict::Failure(failure) = &verdict {
            prop_assert!(failure.message.len() <= MAX_MESSAGE && !failure.message.is_empty());
            prop_assert!(failure.disruption == failure.reason.is_disruption() || failure.reason == Evicted);
        }
    }
}
