//! `defaults` under a step: container and pod template merged as Kubernetes merges its own (strategic merge patch).
//!
//! - Objects are merged member by member; a single value of the step replaces the default.
//! - Lists that have a `patchMergeKey` in k8s.io/api core/v1 `types.go` (1.37) are merged by it: see [`merge_key`]. The defaults'
//!   items keep their places, what only the step has comes after them. This holds for init containers too, so those of the
//!   defaults run first.
//! - All other lists are replaced whole: command, args, envFrom, tolerations, the lists in affinity and security contexts.
//! - An item of a list of one-of values is replaced whole and not merged, as a value merged of two sources would be refused: env
//!   (value or valueFrom), and volumes and resourceClaims, for which Kubernetes says the same (`retainKeys`).
//! - `null` in a step takes the default away, as in a patch. The CRD's schema admits no null, so it only comes from clients that
//!   build plans themselves; `null` in the defaults is as good as nothing.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use super::place::{Origins, item, member};

/// What is merged: it decides which lists are merged by which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Container,
    PodTemplate,
    PodSpec,
    /// No list in it has a merge key.
    Plain,
}

/// How the items of a list are matched, and whether a matched one is merged or replaced.
struct ByKey {
    keys: &'static [(&'static str, &'static str)],
    items: Option<Kind>,
}

/// The `patchMergeKey` of list `field`; None: the list is replaced whole. The second of each pair is what a missing key stands
/// for. Ports have two keys, as in server-side apply: by the port alone a patch mixes up TCP and UDP.
fn merge_key(kind: Kind, field: &str) -> Option<ByKey> {
    let merged = |keys, items| {
        Some(ByKey {
            keys,
            items: Some(items),
        })
    };
    let replaced = |keys| Some(ByKey { keys, items: None });
    match (kind, field) {
        (Kind::Container, "env") => replaced(&[("name", "")]),
        (Kind::Container, "ports") => merged(&[("containerPort", ""), ("protocol", "TCP")], Kind::Plain),
        (Kind::Container, "volumeMounts") => merged(&[("mountPath", "")], Kind::Plain),
        (Kind::Container, "volumeDevices") => merged(&[("devicePath", "")], Kind::Plain),
        (Kind::PodSpec, "initContainers") => merged(&[("name", "")], Kind::Container),
        (Kind::PodSpec, "volumes" | "resourceClaims") => replaced(&[("name", "")]),
        (Kind::PodSpec, "imagePullSecrets" | "evictionResponders") => merged(&[("name", "")], Kind::Plain),
        (Kind::PodSpec, "hostAliases") => merged(&[("ip", "")], Kind::Plain),
        (Kind::PodSpec, "topologySpreadConstraints") => merged(&[("topologyKey", "")], Kind::Plain),
        _ => None,
    }
}

/// What member `field` of a value of this kind is.
fn kind_of(kind: Kind, field: &str) -> Kind {
    match (kind, field) {
        (Kind::PodTemplate, "spec") => Kind::PodSpec,
        _ => Kind::Plain,
    }
}

/// A value and the place in the spec where it is written.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub value: &'a Value,
    pub place: &'a str,
}

/// `over` laid over `base`. `origins` learns where each part of the result comes from; `place` is where the result stands.
pub fn merge(kind: Kind, base: Part<'_>, over: Part<'_>, place: &str, origins: &mut Origins) -> Value {
    match (base.value, over.value) {
        (Value::Object(below), Value::Object(above)) => {
            origins.add(place, over.place);
            let mut merged = Map::new();
            for (field, value) in below {
                if !above.contains_key(field) && !value.is_null() {
                    origins.add(&member(place, field), &member(base.place, field));
                    merged.insert(field.clone(), value.clone());
                }
            }
            for (field, value) in above {
                if value.is_null() {
                    continue;
                }
                let (here, above_place) = (member(place, field), member(over.place, field));
                let over = Part {
                    value,
                    place: &above_place,
                };
                let value = match below.get(field) {
                    None | Some(Value::Null) => take(over, &here, origins),
                    Some(value) => {
                        let below_place = member(base.place, field);
                        let base = Part {
                            value,
                            place: &below_place,
                        };
                        match (merge_key(kind, field), value, over.value) {
                            (Some(by_key), Value::Array(below), Value::Array(above)) => {
                                merge_lists(&by_key, (below, base.place), (above, over.place), &here, origins)
                            }
                            _ => merge(kind_of(kind, field), base, over, &here, origins),
                        }
                    }
                };
                merged.insert(field.clone(), value);
            }
            Value::Object(merged)
        }
        _ => take(over, place, origins),
    }
}

fn take(part: Part<'_>, place: &str, origins: &mut Origins) -> Value {
    origins.add(place, part.place);
    part.value.clone()
}

fn merge_lists(
    by_key: &ByKey,
    (below, below_place): (&[Value], &str),
    (above, above_place): (&[Value], &str),
    place: &str,
    origins: &mut Origins,
) -> Value {
    origins.add(place, above_place);
    // For each item of the result: the default's index, the step's index.
    let mut sources: Vec<(Option<usize>, Option<usize>)> = (0..below.len()).map(|i| (Some(i), None)).collect();
    let mut unmatched: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
    for (i, base) in below.iter().enumerate() {
        if let Some(key) = key_of(by_key, base) {
            unmatched.entry(key).or_default().push_back(i);
        }
    }
    for (i, over) in above.iter().enumerate() {
        let matched = key_of(by_key, over)
            .and_then(|key| unmatched.get_mut(&key))
            .and_then(VecDeque::pop_front);
        match matched {
            Some(base) => sources[base].1 = Some(i),
            None => sources.push((None, Some(i))),
        }
    }
    let mut merged = Vec::with_capacity(sources.len());
    for (base, over) in sources {
        let here = item(place, merged.len());
        let below_place = base.map(|i| item(below_place, i)).unwrap_or_default();
        let above_place = over.map(|i| item(above_place, i)).unwrap_or_default();
        let base = base.map(|i| Part {
            value: &below[i],
            place: &below_place,
        });
        let over = over.map(|i| Part {
            value: &above[i],
            place: &above_place,
        });
        merged.push(match (base, over, by_key.items) {
            (Some(base), Some(over), Some(kind)) => merge(kind, base, over, &here, origins),
            (_, Some(part), _) | (Some(part), None, _) => take(part, &here, origins),
            (None, None, _) => continue,
        });
    }
    Value::Array(merged)
}

/// What identifies an item; None if it has not even the first of its keys.
fn key_of(by_key: &ByKey, item: &Value) -> Option<String> {
    let mut key = String::new();
    for (i, (name, missing)) in by_key.keys.iter().enumerate() {
        match item.get(name) {
            Some(value) => key.push_str(&value.to_string()),
            None if i == 0 => return None,
            None => key.push_str(&Value::from(*missing).to_string()),
        }
        key.push(' ');
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(kind: Kind, base: Value, over: Value) -> Value {
        let part = |value, place| Part { value, place };
        merge(kind, part(&base, "d"), part(&over, "s"), "m", &mut Origins::default())
    }

    #[test]
    fn a_container_is_merged_as_kubernetes_merges_it() {
        for (what, base, over, expected) in [
            (
                "single values are replaced",
                json!({"image": "a", "workingDir": "/w"}),
                json!({"image": "b"}),
                json!({"image": "b", "workingDir": "/w"}),
            ),
            (
                "env by name, replaced whole, in the defaults' order",
                json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}),
                json!({"env": [{"name": "C", "value": "3"}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}),
                json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]}),
            ),
            (
                "mounts by path, merged",
                json!({"volumeMounts": [{"mountPath": "/a", "name": "x", "readOnly": true}]}),
                json!({"volumeMounts": [{"mountPath": "/b", "name": "x"}, {"mountPath": "/a", "name": "y"}]}),
                json!({"volumeMounts": [{"mountPath": "/a", "name": "y", "readOnly": true}, {"mountPath": "/b", "name": "x"}]}),
            ),
            (
                "devices by path",
                json!({"volumeDevices": [{"devicePath": "/a", "name": "x"}]}),
                json!({"volumeDevices": [{"devicePath": "/a", "name": "y"}]}),
                json!({"volumeDevices": [{"devicePath": "/a", "name": "y"}]}),
            ),
            (
                "ports by number and protocol, which is TCP if it is not said",
                json!({"ports": [{"containerPort": 53, "name": "tcp"}, {"containerPort": 53, "protocol": "UDP", "name": "udp"}]}),
                json!({"ports": [{"containerPort": 53, "protocol": "TCP", "name": "dns"}]}),
                json!({"ports": [{"containerPort": 53, "protocol": "TCP", "name": "dns"}, {"containerPort": 53, "protocol": "UDP", "name": "udp"}]}),
            ),
            (
                "command, args and envFrom are replaced",
                json!({"command": ["a"], "args": ["x", "y"], "envFrom": [{"secretRef": {"name": "s"}}]}),
                json!({"args": ["z"], "envFrom": []}),
                json!({"command": ["a"], "args": ["z"], "envFrom": []}),
            ),
            (
                "resources and security contexts are merged member by member, their lists replaced",
                json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "securityContext": {"runAsUser": 1, "capabilities": {"drop": ["ALL"]}}}),
                json!({"resources": {"limits": {"cpu": 2}}, "securityContext": {"capabilities": {"drop": ["CHOWN"]}}}),
                json!({"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}, "securityContext": {"runAsUser": 1, "capabilities": {"drop": ["CHOWN"]}}}),
            ),
            (
                "null takes a default away, and is nothing in the defaults",
                json!({"image": "a", "command": ["x"], "tty": null}),
                json!({"command": null}),
                json!({"image": "a"}),
            ),
            (
                "an item without its key is one of its own",
                json!({"env": [{"value": "1"}]}),
                json!({"env": [{"value": "2"}]}),
                json!({"env": [{"value": "1"}, {"value": "2"}]}),
            ),
            (
                "a value of another type replaces",
                json!({"env": "x", "args": {"a": 1}}),
                json!({"env": [{"name": "A"}], "args": []}),
                json!({"env": [{"name": "A"}], "args": []}),
            ),
        ] {
            assert_eq!(merged(Kind::Container, base, over), expected, "{what}");
        }
    }

    #[test]
    fn a_pod_template_is_merged_as_kubernetes_merges_it() {
        for (what, base, over, expected) in [
            (
                "labels and annotations member by member",
                json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
                json!({"metadata": {"labels": {"b": "3"}, "annotations": {"c": "4"}}}),
                json!({"metadata": {"labels": {"a": "1", "b": "3"}, "annotations": {"c": "4"}}}),
            ),
            (
                "volumes by name, replaced whole",
                json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}}),
                json!({"spec": {"volumes": [{"name": "a", "configMap": {"name": "c"}}]}}),
                json!({"spec": {"volumes": [{"name": "a", "configMap": {"name": "c"}}, {"name": "b", "emptyDir": {}}]}}),
            ),
            (
                "resource claims by name, replaced whole",
                json!({"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "x"}]}}),
                json!({"spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "y"}]}}),
                json!({"spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "y"}]}}),
            ),
            (
                "init containers by name, merged as containers; the defaults' come first",
                json!({"spec": {"initContainers": [{"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}]}]}}),
                json!({"spec": {"initContainers": [{"name": "b", "image": "j"}, {"name": "a", "env": [{"name": "Y", "value": "2"}]}]}}),
                json!({"spec": {"initContainers": [{"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}, {"name": "b", "image": "j"}]}}),
            ),
            (
                "pull secrets by name, aliases by address, spread by key",
                json!({"spec": {"imagePullSecrets": [{"name": "a"}], "hostAliases": [{"ip": "1", "hostnames": ["x"]}],
                    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}}),
                json!({"spec": {"imagePullSecrets": [{"name": "b"}, {"name": "a"}], "hostAliases": [{"ip": "1", "hostnames": ["y"]}],
                    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2}]}}),
                json!({"spec": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}], "hostAliases": [{"ip": "1", "hostnames": ["y"]}],
                    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}]}}),
            ),
            (
                "tolerations are replaced",
                json!({"spec": {"tolerations": [{"key": "a"}], "nodeSelector": {"x": "1"}}}),
                json!({"spec": {"tolerations": [{"key": "b"}], "nodeSelector": {"y": "2"}}}),
                json!({"spec": {"tolerations": [{"key": "b"}], "nodeSelector": {"x": "1", "y": "2"}}}),
            ),
        ] {
            assert_eq!(merged(Kind::PodTemplate, base, over), expected, "{what}");
        }
    }

    #[test]
    fn every_part_knows_where_it_was_written() {
        let base = json!({"image": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "resources": {"limits": {"cpu": 1}}});
        let over = json!({"env": [{"name": "C", "value": "3"}, {"name": "B", "value": "4"}], "args": ["x"], "resources": {"limits": {"memory": 1}}});
        let mut origins = Origins::default();
        merge(
            Kind::Container,
            Part {
                value: &base,
                place: "spec.defaults.container",
            },
            Part {
                value: &over,
                place: "spec.steps[4].container",
            },
            "container",
            &mut origins,
        );
        for (place, origin) in [
            ("container.image", "spec.defaults.container.image"),
            ("container.env[0].value", "spec.defaults.container.env[0].value"),
            ("container.env[1].value", "spec.steps[4].container.env[1].value"),
            ("container.env[2].value", "spec.steps[4].container.env[0].value"),
            ("container.args[0]", "spec.steps[4].container.args[0]"),
            (
                "container.resources.limits.cpu",
                "spec.defaults.container.resources.limits.cpu",
            ),
            (
                "container.resources.limits.memory",
                "spec.steps[4].container.resources.limits.memory",
            ),
            ("container.workingDir", "spec.steps[4].container.workingDir"),
        ] {
            assert_eq!(origins.of(place), origin, "{place}");
        }
    }
}
