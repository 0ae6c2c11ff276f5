//! What expressions may read, and where they may stand.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_an_expression_reads_must_exist() {
    let at = "spec.steps[2].container.args[0]";
    for (expression, fault) in [
        ("steps.charge.output", None),
        ("steps['reserve-stock'].output.lines[0]", None),
        ("steps.charge.?output.orValue('')", None),
        ("params.order + string(params.cents)", None),
        ("run.name + run.startTime + run.labels['team']", None),
        ("attempt.number", None),
        ("[1].map(x, x + 1)[0]", None),
        (
            "steps.chrage.output",
            Some("there is no step chrage; did you mean steps.charge?"),
        ),
        (
            "steps['reserve_stock'].output",
            Some("there is no step reserve_stock; did you mean steps['reserve-stock']?"),
        ),
        ("steps.refund.output", Some("there is no step refund")),
        (
            "steps.reserve-stock.output",
            Some("steps.reserve-stock is a subtraction; did you mean steps['reserve-stock']?"),
        ),
        (
            "steps.reserve-stok.output",
            Some("steps.reserve-stok is a subtraction; did you mean steps['reserve-stock']?"),
        ),
        (
            "steps.never-heard-of.output",
            Some("steps.never-heard-of is a subtraction; a name with a dash is written steps['never-heard-of']"),
        ),
        ("steps.audit.output", Some("a step cannot read its own result")),
        (
            "steps[params.order].output",
            Some(
                "a step is named literally, as steps.NAME or steps['NAME'], so that it is known what has to run first",
            ),
        ),
        (
            "steps.map(s, s)",
            Some(
                "a step is named literally, as steps.NAME or steps['NAME'], so that it is known what has to run first",
            ),
        ),
        (
            "steps.charge.outptu",
            Some(
                "a step has no outptu, but attempts, exitCode, output, phase and reason; did you mean steps.charge.output?",
            ),
        ),
        (
            "steps['reserve-stock'].lines",
            Some(
                "a step has no lines, but attempts, exitCode, output, phase and reason; what it gave is steps['reserve-stock'].output",
            ),
        ),
        (
            "params.ordr",
            Some("there is no param ordr; did you mean params.order?"),
        ),
        ("params.region", Some("there is no param region")),
        ("order", Some("there is no order here; did you mean params.order?")),
        (
            "charge.output",
            Some("there is no charge here; did you mean steps.charge?"),
        ),
        ("param.order", Some("there is no param here; did you mean params?")),
        (
            "item.sku",
            Some("there is no item here; container and podTemplate can read params, steps, run and attempt"),
        ),
        ("run.nmae", Some("there is no run.nmae; did you mean run.name?")),
        (
            "run.outcome",
            Some("there is no run.outcome; run has labels, name, namespace, startTime and uid"),
        ),
        (
            "attempt.exitCode",
            Some("there is no attempt.exitCode; attempt has number"),
        ),
        (
            "tojson(params)",
            Some("there is no function tojson; did you mean toJson?"),
        ),
        ("frobnicate(1)", Some("there is no function frobnicate")),
    ] {
        let expected: Vec<String> = fault.map(|fault| format!("{at}: {fault}")).into_iter().collect();
        assert_eq!(faults(arg(&format!("$[[ {expression} ]]"))), expected, "{expression}");
    }
}

#[test]
fn what_is_asked_for_first_need_not_exist() {
    for (when, arg) in [
        ("has(params.region)", "params.region"),
        ("params.?region.hasValue()", "params.region"),
        ("'region' in params", "params.region"),
        ("true", "params.?region.orValue('eu')"),
        ("true", "has(params.region) ? params.region : 'eu'"),
        ("[1].all(i, ['region'][0] in params)", "params.region"),
        ("params.exists(name, name == 'region')", "params.region"),
    ] {
        let spec = steps(vec![step(
            "a",
            json!({"when": format!("$[[ {when} ]]"), "container": {"args": [format!("$[[ {arg} ]]")]}}),
        )]);
        assert_eq!(faults(spec), [""; 0], "{when} {arg}");
    }
}

#[test]
fn to_use_all_params_is_not_to_ask_for_one() {
    for whole in ["toJson(params)", "params['or' + 'der']", "string(size(params))"] {
        let spec = json!({
            "params": {"order": "1"},
            "steps": [step("a", json!({"container": {"args": [format!("$[[ {whole} ]]"), "$[[ params.ordr ]]"]}}))],
        });
        assert_eq!(
            faults(spec),
            ["spec.steps[0].container.args[1]: there is no param ordr; did you mean params.order?"],
            "{whole}"
        );
    }
}

#[test]
fn each_place_reads_what_is_known_there() {
    let spec = |extra: Value| {
        let mut spec = json!({"params": {"p": "1s"}, "steps": [step("charge", json!({})), step("a", extra)]});
        overlay(&mut spec, json!({}));
        spec
    };
    for (what, spec, expected) in [
        (
            "when knows no attempt",
            spec(json!({"when": "$[[ attempt.number > 1 ]]"})),
            vec![
                "spec.steps[1].when: there is no attempt here; when, a time limit or retry can read params, steps and run",
            ],
        ),
        (
            "nor do limits",
            spec(json!({"timeout": "$[[ attempt.number ]]", "retry": {"maxAttempts": "$[[ steps.nope.output ]]"}})),
            vec![
                "spec.steps[1].retry.maxAttempts: there is no step nope",
                "spec.steps[1].timeout: there is no attempt here; when, a time limit or retry can read params, steps and run",
            ],
        ),
        (
            "the key knows nothing of steps and start",
            json!({"idempotency": {"key": "$[[ steps.charge.output ]]-$[[ run.startTime ]]"}, "steps": [step("charge", json!({}))]}),
            vec![
                "spec.idempotency.key: there is no steps here; idempotency.key can read params and run",
                "spec.idempotency.key: there is no run.startTime; run has labels, name, namespace and uid",
            ],
        ),
        (
            "outputs know all steps, however they are named",
            json!({"params": {"s": "charge"}, "outputs": {"a": "$[[ steps[params.s].output ]]", "b": "$[[ steps.map(s, s).size() ]]"}, "steps": [step("charge", json!({}))]}),
            vec![],
        ),
        (
            "but no attempt, and only steps that exist",
            json!({"outputs": {"a": {"b": ["$[[ steps.chrage.output ]]", "$[[ attempt.number ]]"]}}, "steps": [step("charge", json!({}))]}),
            vec![
                "spec.outputs.a.b[0]: there is no step chrage; did you mean steps.charge?",
                "spec.outputs.a.b[1]: there is no attempt here; outputs can read params, steps and run",
            ],
        ),
    ] {
        assert_eq!(faults(spec), expected, "{what}");
    }
}

#[test]
fn what_is_no_expression_is_a_fault_where_it_stands() {
    for (what, spec, place) in [
        (
            "a bare when",
            steps(vec![step("a", json!({"when": "true"}))]),
            "spec.steps[0].when",
        ),
        (
            "an empty when",
            steps(vec![step("a", json!({"when": ""}))]),
            "spec.steps[0].when",
        ),
        (
            "text around when",
            steps(vec![step("a", json!({"when": "not $[[ true ]]"}))]),
            "spec.steps[0].when",
        ),
        (
            "two in when",
            steps(vec![step("a", json!({"when": "$[[ true ]]$[[ true ]]"}))]),
            "spec.steps[0].when",
        ),
        ("not CEL", arg("$[[ params. ]]"), "spec.steps[2].container.args[0]"),
        ("not closed", arg("$[[ params.order"), "spec.steps[2].container.args[0]"),
        (
            "too long",
            arg(&format!("$[[ '{}' ]]", "x".repeat(2_000))),
            "spec.steps[2].container.args[0]",
        ),
        (
            "in a pod template",
            steps(vec![step(
                "a",
                json!({"podTemplate": {"metadata": {"annotations": {"a/b": "$[[ ( ]]"}}}}),
            )]),
            "spec.steps[0].podTemplate.metadata.annotations['a/b']",
        ),
        (
            "in a duration",
            steps(vec![step("a", json!({"timeout": "x$[[ 1 ]]"}))]),
            "spec.steps[0].timeout",
        ),
        (
            "in a count",
            steps(vec![step("a", json!({"retry": {"maxAttempts": "3"}}))]),
            "spec.steps[0].retry.maxAttempts",
        ),
        (
            "in outputs",
            json!({"outputs": {"a": ["$[[ ( ]]"]}, "steps": [step("a", json!({}))]}),
            "spec.outputs.a[0]",
        ),
        (
            "in a key of outputs",
            json!({"outputs": {"a": {"$[[ 1 ]]": 1}}, "steps": [step("a", json!({}))]}),
            "spec.outputs.a['$[[ 1 ]]']",
        ),
        (
            "in the name of an output",
            json!({"outputs": {"$[[ 1 ]]": 1}, "steps": [step("a", json!({}))]}),
            "spec.outputs['$[[ 1 ]]']",
        ),
        (
            "in the key",
            json!({"idempotency": {"key": "$[[ ( ]]"}, "steps": [step("a", json!({}))]}),
            "spec.idempotency.key",
        ),
        (
            "in params",
            json!({"params": {"a": ["$[[ 1 ]]"]}, "steps": [step("a", json!({}))]}),
            "spec.params.a[0]",
        ),
        (
            "in the name of a variable",
            steps(vec![step(
                "a",
                json!({"container": {"env": [{"name": "$[[ run.name ]]"}]}}),
            )]),
            "spec.steps[0].container.env[0].name",
        ),
    ] {
        let faults = build(&run(), &spec).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(places, [place], "{what}: {faults:?}");
    }
}

#[test]
fn one_broken_expression_hides_no_other_fault() {
    let spec = json!({
        "params": {"order": "1"},
        "idempotency": {"key": "$[[ 1 + ]]-$[[ params.ordr ]]-$[[ frobnicate(1) ]]"},
        "outputs": {"a": ["$[[ 1 + ]]", "$[[ steps.nope.output ]]"]},
        "steps": [
            step("a", json!({
                "when": "$[[ nope ]] $[[ ( ]]",
                "container": {"args": [
                    "$[[ 1 + ]]", "$[[ params.nope ]]", "$[[ steps.b.output ]]",
                    "$[[ 1 + ]] $[[ params.ordr ]] $[[ f(x) ]]",
                    "$[[ (] ]] $[[ params.other ]]",
                    "$[[ size(1, 2) + steps.nope.output.matches('(') + toJson() ]]",
                ]},
            })),
            step("b", json!({"needs": ["a"]})),
        ],
    });
    assert_eq!(
        faults(spec),
        [
            "spec.idempotency.key: the expression ends too early",
            "spec.idempotency.key: there is no param ordr; did you mean params.order?",
            "spec.idempotency.key: there is no function frobnicate",
            "spec.steps[0].when: an '(' is not closed before this ']'",
            "spec.steps[0].container.args[0]: the expression ends too early",
            "spec.steps[0].container.args[3]: the expression ends too early",
            "spec.steps[0].container.args[4]: an '(' is not closed before this ']'",
            "spec.steps[0].container.args[5]: size is called as size(value) or value.size()",
            "spec.steps[0].container.args[5]: the pattern is not valid: unclosed group",
            "spec.steps[0].container.args[5]: toJson is called as toJson(value)",
            "spec.steps[0].when: there is no nope here; when, a time limit or retry can read params, steps and run",
            "spec.steps[0].container.args[1]: there is no param nope",
            "spec.steps[0].container.args[3]: there is no param ordr; did you mean params.order?",
            "spec.steps[0].container.args[3]: there is no x here; container and podTemplate can read params, steps, run and attempt",
            "spec.steps[0].container.args[3]: there is no function f",
            "spec.steps[0].container.args[4]: there is no param other",
            "spec.steps[0].container.args[5]: there is no step nope",
            "spec.outputs.a[0]: the expression ends too early",
            "spec.outputs.a[1]: there is no step nope",
            "spec.steps[0]: steps that need each other can never start: a -> b -> a",
        ]
    );
}

/// A fault says which part of its string it is about.
#[test]
fn a_fault_has_its_part_of_the_string() {
    for (arg, part) in [
        ("é $[[ params.ordr ]]", "params.ordr"),
        (
            "$[[ 1 ]] $[[ 2 + steps['reserve_stock'].output ]]",
            "steps['reserve_stock']",
        ),
        ("$[[ steps.charge.outptu ]]", "steps.charge.outptu"),
        ("$[[ steps.reserve-stock.output ]]", "steps.reserve-stock"),
        ("$[[ steps.audit.output ]]", "steps.audit"),
        ("$[[ steps.charge == steps[params.order] ]]", "steps"),
        ("$[[ run.nmae ]]", "run.nmae"),
        ("$[[ 'nope' + nope ]]", "nope"),
        ("$[[ tojsn(params) ]]", "tojsn"),
        ("$[[ 'x'.foo() ]]", "foo"),
        ("$[[ 1 + ]]", ""),
        ("$[[ params..order ]]", "."),
        ("$[[ 1 2 ]]", "2"),
        ("a $[[ 1", "$[["),
        ("$[[ 'x ]]", "'"),
        ("$[[ 1 + (2] ]]", "]"),
        ("$[[ 'a'.matches('(') ]]", "matches"),
    ] {
        let faults = build(&run(), &self::arg(arg)).unwrap_err();
        let parts: Vec<_> = faults.iter().map(|fault| &arg[fault.part.clone().unwrap()]).collect();
        assert_eq!(parts, [part], "{arg}: {faults:?}");
    }
    let bomb = format!("$[[ ['x']{} ]]", ".map(a, a + a)".repeat(30));
    let faults = build(&run(), &arg(&bomb)).unwrap_err();
    assert_eq!(&bomb[faults[0].part.clone().unwrap()], &bomb[4..bomb.len() - 3]);
    // What is wrong with all of a value has no part.
    let faults = build(&run(), &steps(vec![step("a", json!({"timeout": "x"}))])).unwrap_err();
    assert_eq!(faults[0].part, None);
}

#[test]
fn what_is_too_dear_whatever_the_steps_give_is_a_fault() {
    let bomb = format!("['xxxxxxxxxx']{}", ".map(a, a + a)".repeat(26));
    for (what, spec, place) in [
        (
            "alone",
            arg(&format!("$[[ {bomb} ]]")),
            "spec.steps[2].container.args[0]",
        ),
        (
            "with these params",
            json!({"params": {"list": vec![1; 400]}, "steps": [step("a", json!({"when": "$[[ params.list.all(a, params.list.all(b, params.list.all(c, a + b + c > 0))) ]]"}))]}),
            "spec.steps[0].when",
        ),
        (
            "in outputs",
            json!({"outputs": {"a": format!("$[[ {bomb} ]]")}, "steps": [step("a", json!({}))]}),
            "spec.outputs.a",
        ),
    ] {
        let faults = build(&run(), &spec).unwrap_err();
        assert!(!faults.is_empty(), "{what}");
        for fault in faults {
            assert_eq!(fault.path, place, "{what}");
            assert!(
                fault.message.starts_with("too dear: with these params it may"),
                "{what}: {}",
                fault.message
            );
            assert!(
                fault.message.contains("and the limit is 1"),
                "{what}: {}",
                fault.message
            );
        }
    }
}

#[test]
fn expressions_of_one_container_share_the_limit() {
    let list = json!(vec![1; 100]);
    let dear = "$[[ string(params.list.all(a, params.list.all(b, a + b > 0))) ]]";
    let spec = |n: usize| json!({"params": {"list": list}, "steps": [step("a", json!({"container": {"args": vec![dear; n]}}))]});
    assert_eq!(faults(spec(1)), [""; 0]);
    let faults = faults(spec(20));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("too dear"), "{faults:?}");
}
