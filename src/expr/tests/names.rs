//! What an expression refers to.

use super::*;

#[test]
fn roots_are_the_free_variables() {
    for (source, roots) in [
        ("params.a + run.name", &["params", "run"][..]),
        ("params.items.map(i, i.sku)", &["params"]),
        ("params.items.map(i, item.x + i)", &["item", "params"]),
        // The variable of a macro hides a root inside of it, and only there.
        ("params.items.map(run, run.name)", &["params"]),
        ("run.items.map(run, run.name)", &["run"]),
        ("[1].map(steps, steps.charge)", &[]),
        ("params.?a.optMap(steps, steps.b).orValue(run)", &["params", "run"]),
        ("params.l.sortBy(x, x.y)", &["params"]),
        ("type(1) == int && math.abs(-1) == 1", &[]),
        ("optional.of(item).value()", &["item"]),
        ("has(a.b) || c[d]", &["a", "c", "d"]),
        ("{k: v}", &["k", "v"]),
    ] {
        assert_eq!(refs(source).roots, set(roots), "{source}");
    }
}

#[test]
fn steps_and_params_that_are_named_literally() {
    for (source, steps, fields) in [
        ("steps.a.output", &["a"][..], &[("a", &["output"][..])][..]),
        (
            "steps['a-b'].phase == steps.c.reason",
            &["a-b", "c"],
            &[("a-b", &["phase"]), ("c", &["reason"])],
        ),
        ("steps.?a.?output", &["a"], &[("a", &["output"])]),
        ("steps[?'a'][?'output'].orValue(1)", &["a"], &[("a", &["output"])]),
        ("has(steps.a.output)", &["a"], &[("a", &["output"])]),
        ("has(steps.a)", &["a"], &[]),
        ("steps.a", &["a"], &[]),
        ("steps.a.items.map(i, i.output)", &["a"], &[("a", &["items"])]),
        (
            "steps.a.output.b.c[steps.d.attempts]",
            &["a", "d"],
            &[("a", &["output"]), ("d", &["attempts"])],
        ),
    ] {
        let refs = refs(source);
        assert_eq!(refs.steps, set(steps), "{source}");
        let found: Vec<_> = refs
            .step_fields
            .iter()
            .map(|(step, fields)| (step.clone(), fields.clone()))
            .collect();
        let expected: Vec<_> = fields
            .iter()
            .map(|&(step, fields)| (step.to_owned(), set(fields)))
            .collect();
        assert_eq!(found, expected, "{source}");
        assert!(!refs.computed_steps, "{source}");
    }
    assert_eq!(
        refs("params.a + params['b'] + params.?c.orValue(1)").params,
        set(&["a", "b", "c"])
    );
}

#[test]
fn steps_that_only_the_evaluation_can_name() {
    for source in [
        "steps[item]",
        "steps",
        "steps.all(s, true)",
        "'a' in steps",
        "size(steps)",
        "[1].map(i, steps[i])",
    ] {
        assert!(refs(source).computed_steps, "{source}");
    }
    assert!(!refs("[{'a': 1}].map(steps, steps[item])").computed_steps);
}

#[test]
fn a_step_with_a_dash_reads_as_a_subtraction() {
    for (source, found, meant) in [
        (
            "steps.reserve-stock.output",
            "steps.reserve-stock",
            "steps['reserve-stock']",
        ),
        ("1 + steps.a-b-c.output[0]", "steps.a-b-c", "steps['a-b-c']"),
        ("steps.load-2", "steps.load-2", "steps['load-2']"),
        ("steps.a-b.output.map(i, i.x)", "steps.a-b", "steps['a-b']"),
        ("steps.a-b.output.size() > 1", "steps.a-b", "steps['a-b']"),
    ] {
        assert_eq!(refs(source).dashed, [(found.to_owned(), meant.to_owned())], "{source}");
    }
    for source in [
        "steps.a.output - b",
        "steps.a - params.b",
        "params.a - b",
        "[1].map(b, steps.a - b)",
    ] {
        assert!(refs(source).dashed.is_empty(), "{source}");
    }
}

#[test]
fn functions_that_do_not_exist() {
    assert_eq!(
        refs("foo(1) + 'a'.bar() + digest('x') + math.sinus(1)").unknown_functions,
        set(&["bar", "digest", "foo", "math.sinus"])
    );
    assert_eq!(fault("foo(1)").kind, ExprErrorKind::UnknownFunction);
    assert_eq!(fault("false && foo(1)").kind, ExprErrorKind::UnknownFunction);
    // Not deterministic, not bounded, or without a value of their own here.
    for source in [
        "lists.range(3)",
        "'%s'.format([{}])",
        "timestamp('x')",
        "base64.encode(b'x')",
        "now()",
    ] {
        assert!(!refs(source).unknown_functions.is_empty(), "{source}");
    }
}

#[test]
fn the_documentation_has_every_function_and_limit() {
    let page = include_str!("../../../docs/expressions.md");
    for name in function_names() {
        assert!(page.contains(&format!("`{name}")), "{name}");
    }
    assert!(page.contains("1,024 characters") && MAX_SOURCE == 1_024);
    assert!(page.contains("1,000,000") && LIMITS.steps == 1_000_000);
    assert!(page.contains("1 MiB") && LIMITS.bytes == 1 << 20);
}

#[test]
fn functions_in_a_form_they_do_not_have() {
    for (source, usage) in [
        ("'x'.toJson()", "toJson(value)"),
        ("toJson()", "toJson(value)"),
        ("[1].map(x)", "list.map(x, value)"),
        ("has('a', 'b')", "has(value.field)"),
        ("contains('a', 'b')", "text.contains(part)"),
    ] {
        let error = Expr::parse(source).unwrap_err();
        assert_eq!(error.kind, ExprErrorKind::UnknownFunction, "{source}");
        assert!(error.message.contains(usage), "{source}: {error}");
    }
}

#[test]
fn names_that_are_not_in_the_scope() {
    let error = fault("false && parms.a");
    assert_eq!(error.kind, ExprErrorKind::UnknownName);
    assert_eq!(error.message, "there is no parms here; there is params, run, steps");
}
