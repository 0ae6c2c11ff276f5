//! Whether a container or a pod template fits Kubernetes' own types, and holds expressions only where they can be read.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::place::{item, member};
use super::pod::Tell;

/// Fields of Kubernetes' own types that hold integers or booleans, where no expression can stand.
const NOT_TEXT: [&str; 47] = [
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "containerPort",
    "defaultMode",
    "enableServiceLinks",
    "expirationSeconds",
    "failureThreshold",
    "fsGroup",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostUsers",
    "initialDelaySeconds",
    "maxSkew",
    "minDomains",
    "mode",
    "optional",
    "periodSeconds",
    "priority",
    "privileged",
    "readOnly",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "stdin",
    "stdinOnce",
    "successThreshold",
    "supplementalGroups",
    "terminationGracePeriodSeconds",
    "timeoutSeconds",
    "tolerationSeconds",
    "tty",
    "weight",
    // Names and enums of Kubernetes, by which things find each other.
    "effect",
    "imagePullPolicy",
    "mountPropagation",
    "operator",
    "protocol",
    "recursiveReadOnly",
    "restartPolicy",
    "whenUnsatisfiable",
    // By these mounts are merged, and one must not hide the output.
    "devicePath",
    "mountPath",
];

/// Maps whose keys are the user's own words.
const FREE_MAPS: [&str; 10] = [
    "annotations",
    "labels",
    "limits",
    "matchAttributes",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "volumeAttributes",
];

/// What marks an expression.
const OPEN: &str = "$[[";

/// Whether `text` holds an expression, and not only a literal `$[[` (written `$$[[`).
pub(super) fn holds_expression(text: &str) -> bool {
    text.replace("$$[[", "").contains(OPEN)
}

/// Checks that `value` is a `T` and has no expression in a key, a name, an enum, an integer or a boolean.
pub(super) fn fits<T: DeserializeOwned>(value: &Value, place: &str, tell: &mut Tell<'_>) {
    // An expression in an integer does not fit the type either; one fault is enough.
    if plain(value, place, false, tell) {
        typed::<T>(value, place, tell);
    }
}

/// Finds expressions where none can stand: in keys, names, enums, integers and booleans. Answers whether there are none. In a
/// `free` map every value may hold one.
fn plain(value: &Value, place: &str, free: bool, tell: &mut Tell<'_>) -> bool {
    let mut sound = true;
    match value {
        Value::Object(members) => {
            // Other names refer to objects outside the pod (a ConfigMap, a claim) and may well be made by an expression.
            let is_named_item = is_list_of_names(place);
            for (key, value) in members {
                let here = member(place, key);
                if holds_expression(key) {
                    sound = false;
                    tell(here.clone(), "a key cannot hold an expression; only values can".into());
                }
                let written_out = NOT_TEXT.contains(&key.as_str()) || (key == "name" && is_named_item);
                sound &= if written_out && !free {
                    no_expression(value, &here, tell)
                } else {
                    plain(value, &here, FREE_MAPS.contains(&key.as_str()), tell)
                };
            }
        }
        Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                sound &= plain(value, &item(place, i), false, tell);
            }
        }
        _ => {}
    }
    sound
}

/// Whether `place` is an item of a list whose names are identities within the pod.
fn is_list_of_names(place: &str) -> bool {
    let Some((list, _)) = place.strip_suffix(']').and_then(|place| place.rsplit_once('[')) else {
        return false;
    };
    matches!(
        list.rsplit('.').next().unwrap_or(list),
        "env" | "ports" | "volumes" | "volumeMounts" | "volumeDevices" | "initContainers" | "resourceClaims" | "claims"
    )
}

fn no_expression(value: &Value, place: &str, tell: &mut Tell<'_>) -> bool {
    match value {
        Value::String(text) if holds_expression(text) => {
            tell(
                place.to_owned(),
                "cannot hold an expression: names, enums, integers and booleans are written out".into(),
            );
            false
        }
        Value::Array(values) => values.iter().enumerate().fold(true, |sound, (i, value)| {
            no_expression(value, &item(place, i), tell) && sound
        }),
        _ => true,
    }
}

/// Reads `value` as Kubernetes' own type, for what is of the wrong type.
fn typed<T: DeserializeOwned>(value: &Value, place: &str, tell: &mut Tell<'_>) {
    // Quantities may be numbers, which the Rust types do not know.
    let mut value = value.clone();
    quantities_to_text(&mut value);
    if let Err(error) = serde_json::from_value::<T>(value) {
        tell(place.to_owned(), format!("does not fit Kubernetes' type: {error}"));
    }
}

fn quantities_to_text(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), &mut *value) {
                    ("limits" | "requests" | "overhead", Value::Object(quantities)) => {
                        for quantity in quantities.values_mut().filter(|q| q.is_number()) {
                            *quantity = Value::String(quantity.to_string());
                        }
                    }
                    ("sizeLimit" | "divisor", Value::Number(number)) => {
                        *value = Value::String(number.to_string());
                    }
                    _ => quantities_to_text(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(quantities_to_text),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;
    use serde_json::json;

    use super::*;

    /// The places of the faults of a container, and of a pod template.
    fn places(container: Value, pod_template: Value) -> Vec<String> {
        let mut places = Vec::new();
        let mut tell = |place, _| places.push(place);
        fits::<core::Container>(&container, "container", &mut tell);
        fits::<core::PodTemplateSpec>(&pod_template, "podTemplate", &mut tell);
        places
    }

    #[test]
    fn expressions_stand_in_values_only() {
        let x = "$[[ params.x ]]";
        for (container, template, place) in [
            (json!({"env": [{"name": x}]}), json!({}), "container.env[0].name"),
            (
                json!({"volumeMounts": [{"name": x, "mountPath": "/x"}]}),
                json!({}),
                "container.volumeMounts[0].name",
            ),
            (
                json!({"volumeMounts": [{"name": "v", "mountPath": x}]}),
                json!({"spec": {"volumes": [{"name": "v"}]}}),
                "container.volumeMounts[0].mountPath",
            ),
            (
                json!({}),
                json!({"spec": {"volumes": [{"name": x}]}}),
                "podTemplate.spec.volumes[0].name",
            ),
            (
                json!({}),
                json!({"metadata": {"labels": {x: "y"}}}),
                "podTemplate.metadata.labels['$[[ params.x ]]']",
            ),
            (json!({"imagePullPolicy": x}), json!({}), "container.imagePullPolicy"),
            (
                json!({"ports": [{"containerPort": x}]}),
                json!({}),
                "container.ports[0].containerPort",
            ),
            (
                json!({}),
                json!({"spec": {"securityContext": {"supplementalGroups": [x]}}}),
                "podTemplate.spec.securityContext.supplementalGroups[0]",
            ),
        ] {
            assert_eq!(places(container, template), [place]);
        }
        // What is no expression may stand anywhere, and so may keys that are the user's own words.
        assert_eq!(
            places(
                json!({}),
                json!({"metadata": {"labels": {"priority": x}}, "spec": {"nodeSelector": {"mode": x}}})
            ),
            [""; 0]
        );
        assert_eq!(places(json!({"env": [{"name": "A$$[[ x ]]"}]}), json!({})), [""; 0]);
    }

    #[test]
    fn what_does_not_fit_kubernetes_types_is_a_fault() {
        for (container, template, place) in [
            (json!({"args": "x"}), json!({}), "container"),
            (json!({"tty": "yes"}), json!({}), "container"),
            (json!([]), json!({}), "container"),
            (json!({}), json!({"spec": {"hostNetwork": 1}}), "podTemplate"),
            (json!({}), json!("x"), "podTemplate"),
        ] {
            assert_eq!(places(container, template), [place]);
        }
    }
}
