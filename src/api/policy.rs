//! The ValidatingAdmissionPolicies that ship with Oncilla: rules that the API server holds but a CRD cannot say.
//!
//! Both fail closed: an API server that cannot evaluate them refuses. Their match conditions keep everybody else's objects
//! away from that.

use serde_json::{Map, Value, json};

use super::names::{ANNOTATION_CREATE_BEFORE, GROUP, POLICY_CREATE_BEFORE, POLICY_SPEC_FREEZE, VERSION};

/// Fields of a run's spec that may be changed after its start.
const MUTABLE: &[&str] = &["control"];

/// Every policy, each followed by its binding. `spec_fields` names the fields of a WorkflowRun's spec.
pub fn policies<'a>(spec_fields: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let frozen: Vec<&str> = spec_fields
        .into_iter()
        .filter(|field| !MUTABLE.contains(field))
        .collect();
    vec![
        create_before(),
        binding(POLICY_CREATE_BEFORE),
        spec_freeze(&frozen),
        binding(POLICY_SPEC_FREEZE),
    ]
}

/// Refuses a Job whose create-before time has passed: a controller that was paused between its commit and the create would
/// otherwise start an attempt that has been given up in the meantime, or one of a run that is gone.
fn create_before() -> Value {
    let annotated =
        format!("has(object.metadata.annotations) && '{ANNOTATION_CREATE_BEFORE}' in object.metadata.annotations");
    let created = "object.metadata.creationTimestamp";
    let limit = format!("object.metadata.annotations['{ANNOTATION_CREATE_BEFORE}']");
    policy(
        POLICY_CREATE_BEFORE,
        json!({
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["batch"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["jobs"],
            }]},
            "matchConditions": [{"name": "has-create-before", "expression": annotated}],
            "validations": [{
                "expression": format!("timestamp({created}) < timestamp({limit})"),
                "messageExpression": format!(
                    "'too late: the Job had to be created before ' + {limit} + ', and it is ' + string({created})"
                ),
                // A client that only reads the reason would take Invalid for a fault of the Job.
                "reason": "Forbidden",
            }],
        }),
    )
}

/// Freezes the spec of a run that has started. A rule of the CRD could do it too, but would be evaluated at every write of
/// the status, and makes the large ones several times slower.
fn spec_freeze(frozen: &[&str]) -> Value {
    let changed = frozen
        .iter()
        .map(|field| {
            let (new, old) = (format!("object.spec.{field}"), format!("oldObject.spec.{field}"));
            format!("(has({new}) == has({old}) && (!has({new}) || {new} == {old}) ? [] : ['spec.{field}'])")
        })
        .collect::<Vec<_>>()
        .join(" +\n");
    policy(
        POLICY_SPEC_FREEZE,
        json!({
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": ["UPDATE"],
                "resources": ["workflowruns"],
            }]},
            "matchConditions": [{
                "name": "has-started",
                "expression": "has(oldObject.status) && has(oldObject.status.startTime)",
            }],
            "variables": [{"name": "changed", "expression": changed}],
            "validations": [{
                "expression": "size(variables.changed) == 0",
                "messageExpression": format!(
                    "variables.changed.join(', ') + ' cannot be changed any more: the run has started. Only spec.{} can; \
                     for anything else create a new run.'",
                    MUTABLE.join(", spec."),
                ),
            }],
        }),
    )
}

fn policy(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["failurePolicy"] = json!("Fail");
    object("ValidatingAdmissionPolicy", name, spec)
}

fn binding(policy: &str) -> Value {
    object(
        "ValidatingAdmissionPolicyBinding",
        policy,
        json!({"policyName": policy, "validationActions": ["Deny"]}),
    )
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".into(), json!("admissionregistration.k8s.io/v1"));
    object.insert("kind".into(), json!(kind));
    object.insert("metadata".into(), json!({"name": name}));
    object.insert("spec".into(), spec);
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_but_the_mutable_ones_is_frozen() {
        let policies = policies(["control", "params", "steps"]);
        let text = policies[2]["spec"]["variables"][0]["expression"].as_str().unwrap();
        assert!(text.contains("['spec.params']") && text.contains("['spec.steps']"));
        assert!(!text.contains("control"));
    }

    #[test]
    fn every_policy_fails_closed_and_is_bound_to_deny() {
        let policies = policies(["steps"]);
        for pair in policies.chunks(2) {
            assert_eq!(pair[0]["spec"]["failurePolicy"], "Fail");
            assert_eq!(pair[1]["spec"]["policyName"], pair[0]["metadata"]["name"]);
            assert_eq!(pair[1]["spec"]["validationActions"], json!(["Deny"]));
        }
    }
}
