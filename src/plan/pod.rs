//! What a step's container and pod template may not say: the fields that Oncilla decides, the names it uses itself, and what only
//! the API server would refuse later, one Job at a time. The CRD's schema keeps most of it out; a client that leaves the schema's
//! validation aside, an older CRD or a default in a webhook would bring it in again.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;
use serde_json::{Map, Value};

use super::fault::near_miss;
use super::fits::{fits, holds_expression};
use super::place::{item, member};
use crate::api::names;

/// Said for each fault: the place within the merged step, and what is wrong.
pub type Tell<'a> = dyn FnMut(String, String) + 'a;

/// Fields of the main container that Oncilla decides, and why.
const MAIN_FIELDS: [(&str, &str); 7] = [
    ("name", "the step's container is always called main"),
    (
        "restartPolicy",
        "a container that starts again inside its pod would run the step twice; use retry",
    ),
    (
        "restartPolicyRules",
        "a container that starts again inside its pod would run the step twice; use retry",
    ),
    (
        "livenessProbe",
        "a step that is killed by a probe may still end with exit code 0; use timeout",
    ),
    (
        "startupProbe",
        "a step that is killed by a probe may still end with exit code 0; use timeout",
    ),
    (
        "terminationMessagePath",
        "it is how the output is read; write the output to the file named by ONCILLA_OUTPUT",
    ),
    ("terminationMessagePolicy", "it is how the output is read"),
];

/// Fields of init containers that Oncilla decides.
const INIT_FIELDS: [(&str, &str); 2] = [
    (
        "restartPolicyRules",
        "only restartPolicy: Always, which makes a sidecar, is supported",
    ),
    ("terminationMessagePath", "it is used for the output"),
];

/// Fields of the pod that Oncilla decides.
const POD_FIELDS: [(&str, &str); 6] = [
    (
        "containers",
        "the step's container stands in container; sidecars are initContainers with restartPolicy: Always",
    ),
    ("ephemeralContainers", "they are added to running pods only"),
    ("restartPolicy", "it is always Never; use retry"),
    ("activeDeadlineSeconds", "it is made of the step's timeout"),
    (
        "nodeName",
        "it would pass the scheduler by; use nodeSelector or affinity",
    ),
    ("schedulingGates", "they are Oncilla's to set and to open"),
];

/// Labels that the Job controller sets itself.
const JOB_LABELS: [&str; 2] = ["controller-uid", "job-name"];

/// Checks a merged container and pod template; the places are `container…` and `podTemplate…`.
pub fn check(container: &Value, pod_template: &Value, tell: &mut Tell<'_>) {
    let volumes = check_pod_template(pod_template, tell);
    let Value::Object(main) = container else {
        return tell("container".into(), "must be an object".into());
    };
    owned(main, "container", &MAIN_FIELDS, tell);
    if main
        .get("lifecycle")
        .is_some_and(|lifecycle| lifecycle.get("postStart").is_some())
    {
        tell(
            "container.lifecycle.postStart".into(),
            "is not supported: a hook that fails kills the step".into(),
        );
    }
    check_container(main, "container", volumes.as_ref(), tell);
    fits::<core::Container>(container, "container", tell);
    if pod_template.is_object() {
        fits::<core::PodTemplateSpec>(pod_template, "podTemplate", tell);
    }
}

/// The names of the pod's volumes, unless they cannot be told.
fn check_pod_template(template: &Value, tell: &mut Tell<'_>) -> Option<BTreeSet<String>> {
    let Value::Object(template) = template else {
        tell("podTemplate".into(), "must be an object".into());
        return None;
    };
    if let Some(Value::Object(metadata)) = template.get("metadata") {
        check_metadata(metadata, tell);
    }
    let Some(Value::Object(spec)) = template.get("spec") else {
        return Some(BTreeSet::new());
    };
    owned(spec, "podTemplate.spec", &POD_FIELDS, tell);
    let volumes: BTreeSet<String> = items(spec, "volumes")
        .filter_map(|volume| volume.get("name")?.as_str().map(str::to_owned))
        .collect();
    let mut taken = BTreeSet::from([names::MAIN_CONTAINER]);
    for (i, init) in items(spec, "initContainers").enumerate() {
        let place = item("podTemplate.spec.initContainers", i);
        let Value::Object(init) = init else { continue };
        let name_place = member(&place, "name");
        match init.get("name").and_then(Value::as_str) {
            None | Some("") => tell(name_place, "an init container needs a name".into()),
            Some(names::MAIN_CONTAINER) => tell(name_place, "main is the name of the step's own container".into()),
            Some(name) if !taken.insert(name) => {
                tell(name_place, format!("there are two init containers {name}"));
            }
            Some(_) => {}
        }
        if init.get("image").and_then(Value::as_str).is_none_or(str::is_empty) {
            tell(
                member(&place, "image"),
                "an init container needs an image of its own".into(),
            );
        }
        if let Some(policy) = init.get("restartPolicy")
            && policy != "Always"
        {
            tell(
                member(&place, "restartPolicy"),
                "an init container has restartPolicy: Always, which makes it a sidecar, or none".into(),
            );
        }
        owned(init, &place, &INIT_FIELDS, tell);
        check_container(init, &place, Some(&volumes), tell);
    }
    Some(volumes)
}

fn check_metadata(metadata: &Map<String, Value>, tell: &mut Tell<'_>) {
    for field in metadata.keys() {
        if !matches!(field.as_str(), "labels" | "annotations") {
            tell(
                member("podTemplate.metadata", field),
                "a pod template's metadata has labels and annotations only".into(),
            );
        }
    }
    for field in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = metadata.get(field) else {
            continue;
        };
        for key in entries.keys() {
            let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
            let of_oncilla = prefix == names::GROUP || prefix.ends_with(".oncilla.dev");
            let of_jobs = prefix == "batch.kubernetes.io" || (field == "labels" && JOB_LABELS.contains(&key.as_str()));
            if of_oncilla || of_jobs || key == names::LABEL_NO_BACKUP.0 {
                let owner = if of_jobs { "the Job controller" } else { "Oncilla" };
                tell(
                    member(&format!("podTemplate.metadata.{field}"), key),
                    format!("is set by {owner}"),
                );
            }
        }
    }
}

fn check_container(
    container: &Map<String, Value>,
    place: &str,
    volumes: Option<&BTreeSet<String>>,
    tell: &mut Tell<'_>,
) {
    for (i, env) in items(container, "env").enumerate() {
        let place = member(&item(&member(place, "env"), i), "name");
        match env.get("name").and_then(Value::as_str) {
            None | Some("") => tell(place, "a variable needs a name".into()),
            Some(name) if name.starts_with(names::ENV_PREFIX) => {
                tell(
                    place,
                    format!("names that begin with {} are Oncilla's", names::ENV_PREFIX),
                );
            }
            Some(_) => {}
        }
    }
    for (list, field) in [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")] {
        for (i, mount) in items(container, list).enumerate() {
            if mount.get(field).and_then(Value::as_str).is_some_and(hides_output) {
                tell(
                    member(&item(&member(place, list), i), field),
                    "nothing can be mounted at or under /oncilla, where the output is".into(),
                );
            }
        }
    }
    for (i, mount) in items(container, "volumeMounts").enumerate() {
        let place = item(&member(place, "volumeMounts"), i);
        let name = mount.get("name").and_then(Value::as_str);
        if let (Some(name), Some(volumes)) = (name, volumes)
            && !volumes.contains(name)
            && !holds_expression(name)
        {
            // Few enough to compare with each.
            let volumes = volumes.iter().take(100).map(String::as_str);
            let near = near_miss(name, volumes)
                .map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default();
            tell(
                member(&place, "name"),
                format!("there is no volume {name} in podTemplate.spec.volumes{near}"),
            );
        }
    }
}

/// Whether a mount there hides the file that the output is read from, or puts something beside it.
pub fn hides_output(path: &str) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.is_empty() || parts[0] == "oncilla"
}

fn owned(object: &Map<String, Value>, place: &str, fields: &[(&str, &str)], tell: &mut Tell<'_>) {
    for (field, why) in fields {
        if object.contains_key(*field) {
            tell(member(place, field), format!("is not supported: {why}"));
        }
    }
}

fn items<'a>(object: &'a Map<String, Value>, field: &str) -> impl Iterator<Item = &'a Value> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(container: Value, pod_template: Value) -> Vec<String> {
        let mut faults = Vec::new();
        check(&container, &pod_template, &mut |place, message| {
            faults.push(format!("{place}: {message}"));
        });
        faults
    }

    /// The places of the faults of a container, and of a pod template.
    fn places(container: Value, pod_template: Value) -> Vec<String> {
        let mut places = Vec::new();
        check(&container, &pod_template, &mut |place, _| places.push(place));
        places
    }

    #[test]
    fn a_sound_step_has_no_faults() {
        let container = json!({
            "image": "a", "command": ["x", "$[[ params.y ]]"], "workingDir": "/w",
            "env": [{"name": "A", "value": "$[[ params.a ]]"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "$[[ params.s ]]", "key": "k"}}}],
            "volumeMounts": [{"name": "v", "mountPath": "/data"}],
            "resources": {"limits": {"cpu": 1, "memory": "$[[ params.m ]]"}},
            "readinessProbe": {"httpGet": {"port": "$[[ params.port ]]"}},
            "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
        });
        let template = json!({
            "metadata": {"labels": {"team": "shop", "app.kubernetes.io/name": "$[[ run.name ]]"}, "annotations": {"a": "b"}},
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1000}}, {"name": "c", "configMap": {"name": "$[[ params.c ]]"}}],
                "initContainers": [{"name": "relay", "image": "relay:2", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["x"]}}}],
                "serviceAccountName": "$[[ params.account ]]",
            }
        });
        assert_eq!(faults(container, template), [""; 0]);
    }

    #[test]
    fn what_oncilla_decides_is_refused() {
        for field in [
            "name",
            "restartPolicy",
            "livenessProbe",
            "startupProbe",
            "restartPolicyRules",
            "terminationMessagePath",
            "terminationMessagePolicy",
        ] {
            let value = match field {
                "restartPolicyRules" => json!([]),
                "livenessProbe" | "startupProbe" => json!({}),
                _ => json!("main"),
            };
            assert_eq!(places(json!({field: value}), json!({})), [format!("container.{field}")]);
        }
        assert_eq!(
            places(json!({"lifecycle": {"postStart": {}}}), json!({})),
            ["container.lifecycle.postStart"]
        );
        for (field, value) in [
            ("containers", json!([])),
            ("ephemeralContainers", json!([])),
            ("restartPolicy", json!("Never")),
            ("activeDeadlineSeconds", json!(1)),
            ("nodeName", json!("n1")),
            ("schedulingGates", json!([])),
        ] {
            assert_eq!(
                places(json!({}), json!({"spec": {field: value}})),
                [format!("podTemplate.spec.{field}")]
            );
        }
    }

    #[test]
    fn names_that_oncilla_uses_are_refused() {
        let init = |extra: Value| {
            let mut init = json!({"name": "a", "image": "i"});
            init.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"spec": {"initContainers": [init]}})
        };
        for (what, container, template, expected) in [
            (
                "a variable",
                json!({"env": [{"name": "A"}, {"name": "ONCILLA_FENCE"}]}),
                json!({}),
                "container.env[1].name: names that begin with ONCILLA_ are Oncilla's",
            ),
            (
                "a variable of an init container",
                json!({}),
                init(json!({"env": [{"name": "ONCILLA_X"}]})),
                "podTemplate.spec.initContainers[0].env[0].name: names that begin with ONCILLA_ are Oncilla's",
            ),
            (
                "a mount",
                json!({"volumeMounts": [{"name": "v", "mountPath": "/a/../oncilla/"}]}),
                json!({"spec": {"volumes": [{"name": "v"}]}}),
                "container.volumeMounts[0].mountPath: nothing can be mounted at or under /oncilla, where the output is",
            ),
            (
                "a device",
                json!({"volumeDevices": [{"name": "v", "devicePath": "/oncilla/output"}]}),
                json!({"spec": {"volumes": [{"name": "v"}]}}),
                "container.volumeDevices[0].devicePath: nothing can be mounted at or under /oncilla, where the output is",
            ),
            (
                "a label",
                json!({}),
                json!({"metadata": {"labels": {"oncilla.dev/run": "x"}}}),
                "podTemplate.metadata.labels['oncilla.dev/run']: is set by Oncilla",
            ),
            (
                "a label of Jobs",
                json!({}),
                json!({"metadata": {"labels": {"job-name": "x"}}}),
                "podTemplate.metadata.labels.job-name: is set by the Job controller",
            ),
            (
                "an annotation",
                json!({}),
                json!({"metadata": {"annotations": {"oncilla.dev/step-path": "x"}}}),
                "podTemplate.metadata.annotations['oncilla.dev/step-path']: is set by Oncilla",
            ),
            (
                "the pod's name",
                json!({}),
                json!({"metadata": {"name": "x"}}),
                "podTemplate.metadata.name: a pod template's metadata has labels and annotations only",
            ),
            (
                "finalizers",
                json!({}),
                json!({"metadata": {"finalizers": ["x/y"]}}),
                "podTemplate.metadata.finalizers: a pod template's metadata has labels and annotations only",
            ),
            (
                "main",
                json!({}),
                init(json!({"name": "main"})),
                "podTemplate.spec.initContainers[0].name: main is the name of the step's own container",
            ),
            (
                "a double name",
                json!({}),
                json!({"spec": {"initContainers": [{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]}}),
                "podTemplate.spec.initContainers[1].name: there are two init containers a",
            ),
            (
                "no name",
                json!({}),
                init(json!({"name": ""})),
                "podTemplate.spec.initContainers[0].name: an init container needs a name",
            ),
            (
                "no image",
                json!({}),
                init(json!({"image": ""})),
                "podTemplate.spec.initContainers[0].image: an init container needs an image of its own",
            ),
            (
                "a restart policy",
                json!({}),
                init(json!({"restartPolicy": "OnFailure"})),
                "podTemplate.spec.initContainers[0].restartPolicy: an init container has restartPolicy: Always, which makes it a sidecar, or none",
            ),
            (
                "restart rules",
                json!({}),
                init(json!({"restartPolicyRules": []})),
                "podTemplate.spec.initContainers[0].restartPolicyRules: is not supported: only restartPolicy: Always, which makes a sidecar, is supported",
            ),
            (
                "a message path",
                json!({}),
                init(json!({"terminationMessagePath": "/x"})),
                "podTemplate.spec.initContainers[0].terminationMessagePath: is not supported: it is used for the output",
            ),
            (
                "a variable without a name",
                json!({"env": [{"value": "x"}]}),
                json!({}),
                "container.env[0].name: a variable needs a name",
            ),
            (
                "a volume that is not there",
                json!({"volumeMounts": [{"name": "wrok", "mountPath": "/w"}]}),
                json!({"spec": {"volumes": [{"name": "work"}]}}),
                "container.volumeMounts[0].name: there is no volume wrok in podTemplate.spec.volumes; did you mean work?",
            ),
        ] {
            assert_eq!(faults(container, template), [expected], "{what}");
        }
    }

    #[test]
    fn a_mount_hides_the_output_at_and_under_its_folder() {
        for (path, hides) in [
            ("/oncilla", true),
            ("/oncilla/", true),
            ("/oncilla/output", true),
            ("//oncilla/x", true),
            ("/./oncilla", true),
            ("/x/../oncilla", true),
            ("/", true),
            ("/oncillas", false),
            ("/data/oncilla", false),
            ("/oncilla/../data", false),
        ] {
            assert_eq!(hides_output(path), hides, "{path}");
        }
    }
}
