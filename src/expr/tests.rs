//! What the expression language promises, shown through its public functions.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn scope() -> Scope {
    Scope::new()
        .with(
            "params",
            json!({
                "order": "1042", "cents": 1999, "rate": 1.5, "one": 1.0, "notify": true, "nothing": null,
                "items": [{"sku": "A-7", "qty": 2}, {"sku": "B-1", "qty": 1}],
                "labels": {"zone": "a", "app": "shop", "tier": "web"},
                "in": "kept",
            }),
        )
        .with(
            "steps",
            json!({
                "charge": {"phase": "Succeeded", "output": {"receipt": "r-1", "paid": true}},
                "reserve-stock": {"phase": "Succeeded", "output": [1, 2]},
                "skipped": {"phase": "Skipped"},
            }),
        )
        .with("run", json!({"name": "order-1042"}))
}

fn eval(source: &str) -> Value {
    Expr::parse(source)
        .and_then(|expr| expr.eval(&scope()))
        .unwrap_or_else(|error| panic!("{source}: {error:?}"))
}

fn fault(source: &str) -> ExprError {
    match Expr::parse(source).and_then(|expr| expr.eval(&scope())) {
        Ok(value) => panic!("{source} gave {value}"),
        Err(error) => error,
    }
}

fn refs(source: &str) -> Refs {
    Expr::parse(source)
        .unwrap_or_else(|error| panic!("{source}: {error:?}"))
        .refs()
        .clone()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

mod values {
    use super::*;

    #[test]
    fn inputs_results_and_numbers() {
        for (source, expected) in [
            ("params.order", json!("1042")),
            ("params.cents + 1", json!(2000)),
            ("-params.cents", json!(-1999)),
            ("params.cents % 2", json!(1)),
            ("params.rate * 2.0", json!(3)),
            ("params.rate + 0.25", json!(1.75)),
            ("params.one + 1", json!(2)),
            ("[1, 2].map(i, i + params.cents)", json!([2000, 2001])),
            ("double(params.cents) / 2.0", json!(999.5)),
            ("params.nothing", json!(null)),
            ("params.notify && steps.charge.output.paid", json!(true)),
            ("{'b': 1, 'a': [true, null]}", json!({"a": [true, null], "b": 1})),
            ("uint(3)", json!(3)),
            ("steps['reserve-stock'].output[1]", json!(2)),
            ("params['in']", json!("kept")),
            ("string(params.cents) + '!'", json!("1999!")),
        ] {
            assert_eq!(eval(source), expected, "{source}");
        }
        assert_eq!(eval("{'b': 1, 'a': 2}").to_string(), r#"{"a":2,"b":1}"#);
    }

    #[test]
    fn a_field_that_may_be_missing() {
        for (source, expected) in [
            ("has(steps.charge.output)", json!(true)),
            ("has(steps.skipped.output)", json!(false)),
            ("steps.skipped.?output.orValue('none')", json!("none")),
            ("steps.charge.?output.?receipt.orValue('none')", json!("r-1")),
            ("steps.charge[?'output'].hasValue()", json!(true)),
            ("steps.skipped.?output.optMap(o, o.x).orValue(7)", json!(7)),
            ("[?steps.skipped.?output, 1]", json!([1])),
        ] {
            assert_eq!(eval(source), expected, "{source}");
        }
    }

    #[test]
    fn integers_beyond_64_bits_are_refused() {
        let scope = Scope::new().with("params", json!({"big": u64::MAX, "small": 1}));
        let expr = Expr::parse("params.big").unwrap();
        let error = expr.eval(&scope).unwrap_err();
        assert_eq!(error.kind, ExprErrorKind::BadInput);
        assert!(error.message.contains("18446744073709551615"), "{error}");
        // Only what is named has to have a value.
        assert_eq!(Expr::parse("params.small").unwrap().eval(&scope), Ok(json!(1)));
        assert_eq!(
            fault("fromJson('18446744073709551615')").kind,
            ExprErrorKind::Evaluation
        );
    }

    #[test]
    fn results_that_are_no_json() {
        for source in [
            "b'abc'",
            "type(1)",
            "1.0 / 0.0",
            "0.0 / 0.0",
            "{1: 'a'}",
            "optional.of(1)",
            "steps.skipped.?output",
            "18446744073709551615u",
        ] {
            assert_eq!(fault(source).kind, ExprErrorKind::BadResult, "{source}");
        }
    }

    #[test]
    fn json_text() {
        for (source, expected) in [
            ("toJson(params.items[0])", json!(r#"{"qty":2,"sku":"A-7"}"#)),
            ("toJson({'b': 2.0, 'a': 'x\"y'})", json!(r#"{"a":"x\"y","b":2}"#)),
            ("toJson(null)", json!("null")),
            ("fromJson('{\"a\": [1, 2.5, 3.0]}').a.map(x, x)", json!([1, 2.5, 3])),
            ("fromJson('3.0') + 1", json!(4)),
            ("fromJson(toJson(params)) == params", json!(true)),
        ] {
            assert_eq!(eval(source), expected, "{source}");
        }
        let error = fault("fromJson('{a')");
        assert_eq!(error.kind, ExprErrorKind::Evaluation);
        assert!(error.message.contains("no JSON"), "{error}");
    }

    #[test]
    fn functions_of_text_and_lists() {
        for (source, expected) in [
            ("'a,b'.split(',').map(p, p + '!').join(';')", json!("a!;b!")),
            ("'aXa'.replace('X', '-').upperAscii()", json!("A-A")),
            ("' x '.trim().size()", json!(1)),
            ("'abc'.substring(1) + 'abc'.charAt(0)", json!("bca")),
            ("'abcabc'.lastIndexOf('b')", json!(4)),
            ("[3, 1, 2].sort().reverse()", json!([3, 2, 1])),
            ("[[1], [2]].flatten().distinct()", json!([1, 2])),
            ("params.items.sortBy(i, i.qty).map(i, i.sku)", json!(["B-1", "A-7"])),
            ("math.greatest(1, 5, 3) + math.abs(-2)", json!(7)),
            ("math.ceil(1.2)", json!(2)),
            ("'a-1'.matches('^[a-z]-[0-9]$') && matches('b', 'b')", json!(true)),
            ("params.items.exists_one(i, i.qty == 2)", json!(true)),
            ("params.items.map(i, i.qty > 1, i.sku)", json!(["A-7"])),
            ("'zone' in params.labels && 2 in [1, 2]", json!(true)),
            ("[1, 2] + [3]", json!([1, 2, 3])),
            ("[1] + params.items.map(i, i.qty)", json!([1, 2, 1])),
        ] {
            assert_eq!(eval(source), expected, "{source}");
        }
    }

    #[test]
    fn a_loop_over_a_map_takes_its_keys_in_order() {
        let literal = "{'d': 1, 'a': 2, 'c': 3, 'b': 4, 'e': 5, 'g': 6, 'f': 7}";
        for _ in 0..50 {
            assert_eq!(eval("params.labels.map(k, k)"), json!(["app", "tier", "zone"]));
            assert_eq!(eval(&format!("{literal}.map(k, k).join('')")), json!("abcdefg"));
            assert_eq!(eval(&format!("{literal}.filter(k, k != 'b')[1]")), json!("c"));
            // The first fault in order is the one that is told.
            let error = fault("params.labels.map(k, {'x': 1}[k])");
            assert!(error.message.contains("'app'"), "{error}");
        }
        assert_eq!(eval("{2: 'b', 1: 'a'}.map(k, k)"), json!([1, 2]));
        let error = fault("[1] + params.labels");
        assert_eq!(error.kind, ExprErrorKind::Evaluation);
        assert!(error.message.contains("map cannot be added"), "{error}");
    }
}

mod names {
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
        let page = include_str!("../../docs/expressions.md");
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
}

mod faults {
    use super::*;

    #[test]
    fn syntax_in_one_line_with_its_place() {
        for (source, offset, part) in [
            ("params.a +", Some(10), "ends too early"),
            ("", Some(0), "empty"),
            ("params.a & b", Some(9), "'&&'"),
            ("params.a = 1", Some(9), "'=='"),
            ("'ü' + + 1", Some(7), "unexpected '+'"),
            ("steps.in.output", Some(6), "['in']"),
            ("steps.true", Some(6), "['true']"),
            ("for + 1", Some(0), "'for' is a reserved word"),
            ("'abc", Some(0), "not closed"),
            ("a b", Some(2), "unexpected 'b'"),
            (".params", None, "write params"),
            ("a.`b`", None, "`"),
            ("Foo{a: 1}", None, "no type Foo"),
            ("'x'.matches('(')", None, "pattern is not valid"),
            ("[1].map(1, 2)", None, "name"),
            ("1 2", Some(2), "unexpected '2'"),
            ("99999999999999999999", Some(0), "invalid int"),
        ] {
            let error = Expr::parse(source).unwrap_err();
            assert_eq!(error.kind, ExprErrorKind::Syntax, "{source}: {error:?}");
            assert!(error.message.contains(part), "{source}: {error:?}");
            assert!(error.message.len() < 200 && !error.message.contains('\n'), "{error}");
            if offset.is_some() {
                assert_eq!(error.offset, offset, "{source}: {error:?}");
            }
        }
    }

    #[test]
    fn nesting_is_limited() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{1:", "}"), ("size(", ")"), ("[].map(x,", ")")] {
            let source = format!("{}1{}", open.repeat(100), close.repeat(100));
            assert!(source.len() <= MAX_SOURCE);
            let error = Expr::parse(&source).unwrap_err();
            assert_eq!(error.kind, ExprErrorKind::Syntax);
            assert!(error.message.contains("nested too deeply"), "{source}: {error}");
            assert!(error.message.len() < 200);
        }
        assert_eq!(eval(&format!("{}1{}", "(".repeat(20), ")".repeat(20))), json!(1));
    }

    #[test]
    fn an_evaluation_says_what_failed() {
        for (source, part) in [
            ("steps.charge.output.reciept", "steps.charge.output has no 'reciept'"),
            ("steps['reserve-stok'].output", "steps has no 'reserve-stok'"),
            ("params.items[9]", "no element number 9"),
            ("params.cents + 1.5", "+ cannot be used with int and"),
            ("params.cents + '€'", "+ cannot be used with int and string"),
            ("params.cents / 0", "division by zero"),
            ("9223372036854775807 + 1", "64 bits"),
            ("!params.cents", "! cannot be used with int"),
            ("params.order < 3", "cannot be used with string and int"),
            ("{'a': 1, 'a': 2}", "same key twice"),
            ("params.order.all(x, true)", "string"),
            ("params.cents ? 1 : 2", "bool"),
            ("'a'.substring(7)", "substring"),
            ("params.order.matches(params.order + '(')", "pattern is not valid"),
            ("int('x')", "int"),
        ] {
            let error = fault(source);
            assert_eq!(error.kind, ExprErrorKind::Evaluation, "{source}: {error:?}");
            assert!(error.message.contains(part), "{source}: {error}");
        }
        assert_eq!(fault("1 + steps.charge.output.reciept").offset, Some(23));
    }

    #[test]
    fn faults_do_not_depend_on_the_order_of_a_map() {
        let sources = [
            "params.labels + 1",
            "params.labels < params.labels",
            "params.labels[params.labels]",
            "params.labels ? 1 : 2",
        ];
        for source in sources {
            let first = fault(source);
            for _ in 0..20 {
                assert_eq!(fault(source), first);
            }
        }
    }
}

mod limits {
    use super::*;

    fn too_dear(source: &str, scope: &Scope) -> (Resource, u64, u64) {
        let error = Expr::parse(source).unwrap().eval(scope).unwrap_err();
        match error.kind {
            ExprErrorKind::TooDear { resource, bound, limit } => {
                assert!(error.message.contains(&bound.to_string()), "{error}");
                assert!(error.message.contains(&limit.to_string()), "{error}");
                assert!(bound > limit);
                (resource, bound, limit)
            }
            other => panic!("{source}: {other:?}"),
        }
    }

    fn numbers(count: usize) -> Scope {
        Scope::new().with("params", json!({"l": vec![1; count], "s": "x".repeat(count)}))
    }

    #[test]
    fn text_and_lists_that_double() {
        let source = format!("['xxxxxxxxxx']{}", ".map(a,a+a)".repeat(26));
        assert!(source.len() <= 310);
        assert_eq!(too_dear(&source, &numbers(1)).0, Resource::Bytes);
        let source = format!("size([[1]]{}[0])", ".map(a,a+a)".repeat(24));
        assert_eq!(too_dear(&source, &numbers(1)).0, Resource::Bytes);
        let source = format!("size([1]{})", ".map(a,[a,a])".repeat(24));
        assert_eq!(too_dear(&source, &numbers(1)).0, Resource::Bytes);
        let source = format!("size('x'{})", ".replace('x','xx')".repeat(24));
        assert_eq!(too_dear(&source, &numbers(1)).0, Resource::Bytes);
        let source = format!("size({}1{})", "toJson(toJson(".repeat(15), "))".repeat(15));
        assert_eq!(too_dear(&source, &numbers(1)).0, Resource::Bytes);
    }

    #[test]
    fn loops_in_loops() {
        let scope = numbers(300);
        let source = "params.l.all(a, params.l.all(b, params.l.all(c, a + b + c > 0)))";
        assert_eq!(too_dear(source, &scope).0, Resource::Steps);
        let ten = "[0,1,2,3,4,5,6,7,8,9]";
        let source = (0..6).fold("1".to_owned(), |body, depth| format!("{ten}.map(i{depth}, {body})"));
        too_dear(&source, &scope);
        assert_eq!(
            Expr::parse("params.l.all(a, params.l.all(b, a == b))")
                .unwrap()
                .eval(&scope),
            Ok(json!(true))
        );
    }

    #[test]
    fn long_sums() {
        let sum = |terms: usize| vec!["1"; terms].join("+");
        assert_eq!(eval(&sum(500)), json!(500));
        let error = Expr::parse(&sum(2_000)).unwrap_err();
        assert_eq!(
            error.kind,
            ExprErrorKind::TooLong {
                characters: 3_999,
                limit: 1_024
            }
        );
        assert!(error.message.contains("3999") && error.message.contains("1024"));
        // Characters are counted, not bytes.
        assert_eq!(eval(&format!("size('{}')", "ü".repeat(1_000))), json!(1_000));
        assert_eq!(eval(&format!("{}1", "- ".repeat(500))), json!(1));
        assert_eq!(eval(&format!("{}true", "!".repeat(1_000))), json!(true));
        assert_eq!(
            eval(&format!("[{}]", vec!["params.one"; 90].join(","))),
            json!(vec![1; 90])
        );
    }

    #[test]
    fn patterns() {
        let scope = numbers(300);
        let source = "params.l.all(i, (params.s + 'y').matches(params.s + '(a{100}){2}'))";
        assert_eq!(too_dear(source, &scope).0, Resource::Steps);
        for pattern in ["(a{1000}){1000}", "((a{100}){100}){100}", r"\\w{1000}"] {
            let error = Expr::parse(&format!("'a'.matches('{pattern}')")).unwrap_err();
            assert!(error.message.contains("too large"), "{pattern}: {error}");
        }
        assert_eq!(
            Expr::parse("params.l.all(i, params.s.matches('^(x+x+)+y?$'))")
                .unwrap()
                .eval(&numbers(100)),
            Ok(json!(true))
        );
    }

    #[test]
    fn what_people_write_is_within_the_limits() {
        let lines: Vec<_> = (0..1_000)
            .map(|i| json!({"sku": format!("A-{i}"), "qty": i % 7, "price": 1.5, "tags": ["a", "b"]}))
            .collect();
        let scope = Scope::new().with(
            "params",
            json!({"items": lines, "text": "word ".repeat(800), "doc": json!(lines[..40]).to_string()}),
        );
        for source in [
            "params.items",
            "params.items.map(i, i.sku)",
            "params.items.filter(i, i.qty > 3).map(i, {'sku': i.sku, 'n': i.qty})",
            "params.items.filter(i, 'a' in i.tags)[0].sku",
            "params.items.map(i, i.sku).join(',')",
            "params.items.exists(i, i.sku.startsWith('A-9') && i.price * 2.0 > 1.0)",
            "size(params.items) > 0 ? params.items[0].tags : []",
            "params.text.split(' ').map(w, w.upperAscii())",
            "fromJson(params.doc).map(i, i.sku + '/' + string(i.qty))",
            "toJson(params.items)",
            "params.items.sortBy(i, i.qty)[0]",
            "params.text.matches('^[a-z ]+$')",
        ] {
            let expr = Expr::parse(source).unwrap();
            expr.eval(&scope).unwrap_or_else(|error| panic!("{source}: {error}"));
        }
    }

    /// The places where a value grows most for what it is made of.
    #[test]
    fn bounds_hold_where_values_grow_most() {
        let scope = Scope::new().with(
            "params",
            json!({
                "quotes": "\"".repeat(50), "control": "\u{1}".repeat(100), "commas": ",".repeat(50), "long": "y".repeat(300),
                "list": vec!["z"; 50], "sparse": {"a": [1, {"b": null}]}, "exponents": "[1e15,2e15,1E9]", "min": i64::MIN,
                "floats": [1e-300, 1.234_567_890_123_456_7e-300, 1e15],
            }),
        );
        for source in [
            "toJson(params.quotes)",
            "toJson(toJson(params.quotes))",
            "toJson(params.control)",
            "toJson([params.quotes, params.control, params.floats])",
            "params.list.join(params.long)",
            "params.commas.split('').map(t, t)",
            "params.commas.split(',').map(t, t)",
            "params.commas.split(params.list[0] + 'q').map(t, t)",
            "params.quotes.split(toJson(1)).map(t, t + t)",
            "params.commas.replace(',', params.quotes)",
            "params.commas.replace('', params.quotes)",
            "params.list.map(t, t.replace(t, params.long))",
            "string(params.floats[0]) + string(params.floats[1])",
            "params.floats.map(t, string(t))",
            "[string(-1.7976931348623157e308), string(5e-324)]",
            "string(bytes(params.control))",
            "string(b'\\x01\\x01\\x01')",
            "fromJson(params.exponents)",
            "fromJson('[1e15,2e15' + ',1e15]')",
            "fromJson('[' + params.list.map(t, '1e9').join(',') + ']')",
            "params.list.map(t, params.min)",
            "params.list.map(t, params.min - 0)",
            "params.list.map(t, [t, t])",
            "params.list.filter(t, true) + params.list",
            "params.sparse.map(k, params.sparse[k])",
            "{'a': params.list, 'b': {'c': params.quotes}}.map(k, k)",
            "[params.list, params.list].flatten()",
            "params.long.reverse() + params.quotes.reverse()",
            "[true ? params.long : 'x', 1 == 1 ? params.list : []]",
            "optional.of(params.list).optMap(l, l + l).orValue([])",
            "params.?list.orValue(params.long)",
            "params.list.sortBy(t, size(t)).map(t, params.quotes)",
            "[?params.?quotes, ?params.?nope]",
        ] {
            let expr = Expr::parse(source).unwrap();
            let value = expr.eval(&scope).unwrap_or_else(|error| panic!("{source}: {error}"));
            let size = value.to_string().len() as u64;
            let bound = with_stack(|| expr.inner.bound(&scope)).result;
            assert!(size < bound, "{source}: {size} bytes, and the bound is {bound}");
        }
    }

    #[test]
    fn the_expressions_of_a_document_share_the_limits() {
        let scope = Scope::new().with("params", json!({"s": "x".repeat(300_000)}));
        let text = "$[[ params.s ]]";
        assert!(Template::parse(text).unwrap().render(&scope).is_ok());
        let error = Template::parse(&text.repeat(4)).unwrap().render(&scope).unwrap_err();
        assert!(matches!(error.kind, ExprErrorKind::TooDear { .. }), "{error:?}");
        let (path, error) = Tree::parse(&json!(vec![text; 4])).unwrap().render(&scope).unwrap_err();
        assert_eq!(path, "[3]");
        assert!(matches!(error.kind, ExprErrorKind::TooDear { .. }), "{error:?}");
    }

    /// Expressions that are as deep or as long as they can be, in each way.
    fn deep() -> Vec<String> {
        let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        let mut sources = Vec::new();
        for part in [1, 3, 10] {
            sources.extend([
                nested("(", ")", 90 / part),
                nested("[", "]", 90 / part),
                // Brackets in a string close nothing.
                nested("(')'+", ")", 90 / part),
                vec!["a"; 200 / part].join("\nin\n"),
                nested("size(", ")", 90 / part),
                nested("[1].map(x,", ")", 80 / part),
                nested("{1:", "}", 90 / part),
                vec!["1"; 512 / part].join("+"),
                vec!["1"; 250 / part].join(" < "),
                vec!["a"; 200 / part].join(" in "),
                vec!["true"; 170 / part].join("&&"),
                "-1".repeat(500 / part),
                format!("{}true", "!-".repeat(500 / part)),
                format!("params{}", ".a".repeat(500 / part)),
                format!("params{}", ".?a".repeat(330 / part)),
                format!("params{}", "[0]".repeat(330 / part)),
                format!("'a'{}", ".trim()".repeat(140 / part)),
                format!("[1]{}", ".map(a,[a])".repeat(90 / part)),
                format!("{}1", "true?1:".repeat(140 / part)),
            ]);
        }
        sources
    }

    fn try_on_a_stack_of(bytes: usize, source: String) {
        // Whether it succeeds does not matter here; that it comes back does.
        let work = move || {
            if let Ok(expr) = Expr::parse(&source) {
                let _ = expr.eval(&scope());
            }
        };
        std::thread::Builder::new()
            .stack_size(bytes)
            .spawn(work)
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn a_small_stack_is_made_larger() {
        for source in deep() {
            try_on_a_stack_of(256 << 10, source);
        }
    }

    #[test]
    fn a_stack_that_is_found_large_enough_is() {
        for source in deep() {
            assert!(source.len() <= MAX_SOURCE);
            // The thread itself takes a little.
            try_on_a_stack_of(stack::needed(&source) + (32 << 10), source);
        }
    }
}

mod templates {
    use super::*;

    fn render(text: &str) -> Value {
        Template::parse(text)
            .and_then(|template| template.render(&scope()))
            .unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    #[test]
    fn text_and_values() {
        for (text, expected) in [
            ("", json!("")),
            (
                "plain $ text $[ ] ]] {{ }} ${x}",
                json!("plain $ text $[ ] ]] {{ }} ${x}"),
            ),
            ("$[[ params.cents ]]", json!(1999)),
            ("$[[params.items[0]]]", json!({"sku": "A-7", "qty": 2})),
            (" $[[ params.cents ]]", json!(" 1999")),
            ("a$[[ params.order ]]b$[[ params.notify ]]c", json!("a1042btruec")),
            ("$[[ params.one ]]/$[[ params.rate ]]/$[[ 2.0 ]]", json!("1/1.5/2")),
            ("$$[[ params.order ]]", json!("$[[ params.order ]]")),
            ("$$$[[x $$[[ $[[ 1 ]]", json!("$$[[x $[[ 1")),
            ("$[[ '$[[ 1 ]]' ]]", json!("$[[ 1 ]]")),
            (
                "$[[ toJson(params.labels) ]]!",
                json!(r#"{"app":"shop","tier":"web","zone":"a"}!"#),
            ),
        ] {
            assert_eq!(render(text), expected, "{text}");
        }
    }

    #[test]
    fn the_end_is_found_by_reading_the_expression() {
        for (text, expected) in [
            ("$[[ [[1, 2]][0][1] ]]", json!(2)),
            ("$[[ {'a': [1]}['a'][0] ]]x", json!("1x")),
            ("$[[ ']]' ]]", json!("]]")),
            (r#"$[[ "]]\"]]" ]]"#, json!("]]\"]]")),
            (r"$[[ r'\' + ']]' ]]", json!("\\]]")),
            (r"$[[ r'\' ]]$[[ ']]' ]]", json!("\\]]")),
            ("$[[ '''a']]b''' ]]", json!("a']]b")),
            ("$[[ string(b']]') ]]", json!("]]")),
            ("$[[ 1 // ]] not yet\n+ 1 ]]", json!(2)),
            ("$[[ [params.items[0].qty]]]", json!([2])),
        ] {
            assert_eq!(render(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_put_in_is_not_read_again() {
        let scope = Scope::new().with("params", json!({"x": "$[[ params.y ]] $$[["}));
        let rendered = Template::parse("<$[[ params.x ]]>").unwrap().render(&scope);
        assert_eq!(rendered, Ok(json!("<$[[ params.y ]] $$[[>")));
    }

    #[test]
    fn faults_have_their_place_in_the_text() {
        for (text, kind, offset) in [
            ("ü $[[ params.a ", ExprErrorKind::Unterminated, 3),
            ("$[[ 'abc ]]", ExprErrorKind::Unterminated, 4),
            ("$[[ 'a\n' ]]", ExprErrorKind::Unterminated, 4),
            ("$[[ (1 ]]", ExprErrorKind::Syntax, 7),
            ("$[[ [1 ]]", ExprErrorKind::Syntax, 8),
            ("$[[ [1 ", ExprErrorKind::Unterminated, 0),
            ("$[[ 1 ] ]]", ExprErrorKind::Syntax, 6),
            ("$[[ ) ]]", ExprErrorKind::Syntax, 4),
            ("a $[[ ]]", ExprErrorKind::Syntax, 5),
            ("a $[[ 1 ]] $[[  1 + ]]", ExprErrorKind::Syntax, 19),
            ("a $[[ 1 ]] $[[  1 1 ]]", ExprErrorKind::Syntax, 18),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(
                (error.kind.clone(), error.offset),
                (kind, Some(offset)),
                "{text}: {error}"
            );
        }
        let error = Template::parse("ab $[[  params.nope ]]")
            .unwrap()
            .render(&scope())
            .unwrap_err();
        assert_eq!(error.offset, Some(14), "{error}");
    }

    #[test]
    fn only_text_numbers_and_truth_values_go_into_text() {
        for (text, what) in [
            ("x $[[ params.nothing ]]", "null"),
            ("x $[[ params.items ]]", "a list"),
            ("x $[[ params.labels ]]", "an object"),
        ] {
            let error = Template::parse(text).unwrap().render(&scope()).unwrap_err();
            assert_eq!(error.kind, ExprErrorKind::NotText);
            assert!(
                error.message.contains(what) && error.message.contains("toJson()"),
                "{error}"
            );
            assert_eq!(error.offset, Some(6));
        }
    }

    #[test]
    fn exactly_one_expression() {
        assert_eq!(Template::parse_value("$[[ a ]]").unwrap().source(), "a");
        for text in ["", "a == 1", "$$[[ a ]]", "$[[ a ]] ", "$[[ a ]]$[[ b ]]"] {
            let error = Template::parse_value(text).unwrap_err();
            assert_eq!(error.kind, ExprErrorKind::NotAnExpression, "{text}");
        }
    }

    #[test]
    fn documents() {
        let document = json!({
            "image": "shop:$$[[1",
            "env": [{"name": "A", "value": "$[[ params.order ]]"}, {"name": "B", "value": "b$[[ params.cents ]]"}],
            "labels": {"a.b/c": "$[[ params.items ]]"},
            "$[[ kept ]]": 1,
            "ports": [80, null],
        });
        let tree = Tree::parse(&document).unwrap();
        assert_eq!(
            tree.render(&scope()).unwrap(),
            json!({
                "image": "shop:$[[1",
                "env": [{"name": "A", "value": "1042"}, {"name": "B", "value": "b1999"}],
                "labels": {"a.b/c": [{"sku": "A-7", "qty": 2}, {"sku": "B-1", "qty": 1}]},
                "$[[ kept ]]": 1,
                "ports": [80, null],
            })
        );
        let paths: Vec<_> = tree
            .exprs_with_paths()
            .into_iter()
            .map(|(path, expr)| (path, expr.source().to_owned()))
            .collect();
        let expected = [
            ("env[0].value", "params.order"),
            ("env[1].value", "params.cents"),
            ("labels['a.b/c']", "params.items"),
        ];
        assert_eq!(
            paths,
            expected.map(|(path, source)| (path.to_owned(), source.to_owned()))
        );
        let Tree::Object(fields) = tree else {
            panic!("not an object")
        };
        assert_eq!(fields["ports"], Tree::Constant(json!([80, null])));
        assert!(fields["image"].is_constant() && !fields["env"].is_constant());
    }

    #[test]
    fn all_faults_of_a_document_with_their_paths() {
        let faults = Tree::parse(&json!({"a": ["$[[", "ok", "$[[ 1 + ]]"], "b": {"c": "$[[ ) ]]"}})).unwrap_err();
        let paths: Vec<_> = faults.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a[0]", "a[2]", "b.c"]);
        let faults = Tree::parse(&json!("$[[")).unwrap_err();
        assert_eq!(faults[0].0, "");
        let tree = Tree::parse(&json!({"a": {"b": ["$[[ params.nope ]]"]}})).unwrap();
        let (path, error) = tree.render(&scope()).unwrap_err();
        assert_eq!(path, "a.b[0]");
        assert_eq!(error.kind, ExprErrorKind::Evaluation);
    }
}

mod properties {
    use super::*;

    /// Pieces that are likely to make something of an expression.
    const PIECES: &[&str] = &[
        "params",
        "steps",
        ".",
        "?",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "'",
        "\"",
        "'''",
        "\\",
        "r'",
        "b'",
        "+",
        "-",
        "*",
        "/",
        "%",
        "&&",
        "||",
        "!",
        "==",
        "<",
        " in ",
        "1",
        "2u",
        "1.5",
        "1e308",
        "'a'",
        "\"b\"",
        "true",
        "null",
        "items",
        "labels",
        "order",
        "charge",
        "output",
        ".map(i, ",
        ".filter(i, ",
        ".all(i, ",
        "i",
        "has(",
        "size(",
        "toJson(",
        "fromJson(",
        ".?",
        "[?",
        "]]",
        "$[[",
        "$$[[",
        " ",
        "\n",
        "//",
        "ü",
        "\u{1}",
        "`",
        ".orValue(",
        ".matches('",
        "@",
    ];

    fn pieces() -> impl Strategy<Value = String> {
        proptest::collection::vec(proptest::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
    }

    /// What expressions of a type are made of; a letter in angle brackets is a hole for an expression of that type: T text, N number,
    /// B truth value, L list of texts, M map, A anything. Loops over lists of texts call their variable `t`.
    const FORMS: &[(char, &[&str])] = &[
        (
            'T',
            &[
                "params.order",
                "'a\\u0001\"x'",
                "''",
                "'a,b,,c'",
                "t",
                "t",
                "(<T> + <T>)",
                "(<T> + <T>)",
                "toJson(<A>)",
                "string(<N>)",
                "string(double(<N>))",
                "string(bytes(<T>))",
                "string(bytes(<T>) + bytes(<T>))",
                "<L>.join(<T>)",
                "<L>.join()",
                "<T>.replace(<T>, <T>)",
                "<T>.replace('a', <T>)",
                "<T>.replace('', <T>, 3)",
                "<T>.upperAscii()",
                "<T>.lowerAscii()",
                "<T>.trim()",
                "<T>.reverse()",
                "<T>.substring(0)",
                "(<T> + 'x').charAt(0)",
                "(<B> ? <T> : <T>)",
                "(['x'] + <L>)[0]",
                "steps.charge.?output.?receipt.orValue(<T>)",
                "<M>.?a.orValue(<T>)",
                "fromJson(toJson(<T>))",
                "optional.of(<T>).value()",
            ],
        ),
        (
            'N',
            &[
                "params.cents",
                "params.one",
                "1",
                "-7",
                "(<N> + <N>)",
                "(<N> - <N>)",
                "(<N> * 3)",
                "size(<T>)",
                "size(<L>)",
                "size(<M>)",
                "<T>.indexOf(<T>)",
                "math.greatest(<N>, <N>)",
                "math.abs(<N>)",
                "(<B> ? <N> : <N>)",
                "int(string(<N>))",
                "fromJson('1e15')",
                "fromJson(toJson(<N>))",
                "int(2.5e10)",
            ],
        ),
        (
            'B',
            &[
                "true",
                "params.notify",
                "(<N> < <N>)",
                "(<A> == <A>)",
                "(<B> && <B>)",
                "(<B> || <B>)",
                "!<B>",
                "(<T> in <L>)",
                "<L>.all(t, <B>)",
                "<L>.exists(t, <B>)",
                "<L>.exists_one(t, <B>)",
                "<M>.all(t, <B>)",
                "<T>.contains(<T>)",
                "<T>.startsWith(<T>)",
                "<T>.matches('a+')",
                "has(<M>.a)",
                "<M>.?b.hasValue()",
                "(<T> < <T>)",
            ],
        ),
        (
            'L',
            &[
                "[]",
                "['x', 'yy']",
                "[<T>, <T>]",
                "params.items.map(i, i.sku)",
                "(<L> + <L>)",
                "<L>.map(t, <T>)",
                "<L>.map(t, <T>)",
                "<L>.map(t, <B>, <T>)",
                "<L>.filter(t, <B>)",
                "<M>.map(t, <T>)",
                "<M>.filter(t, <B>)",
                "<T>.split(<T>)",
                "<T>.split(',')",
                "<T>.split('')",
                "params.order.split('0')",
                "<L>.reverse()",
                "<L>.sort()",
                "<L>.distinct()",
                "[<L>, <L>].flatten()",
                "<L>.slice(0, 0)",
                "<L>.sortBy(t, <T>)",
                "(<B> ? <L> : <L>)",
                "fromJson(toJson(<L>))",
                "[?<M>.?a].map(t, toJson(t))",
            ],
        ),
        (
            'M',
            &[
                "{}",
                "params.labels",
                "{'a': <A>, 'b': <A>}",
                "{<T>: <A>}",
                "{'x' + <T>: <A>, 'y': <T>}",
                "params.items[0]",
                "(<B> ? <M> : <M>)",
                "fromJson(toJson(<M>))",
                "{?'a': <M>.?b}",
            ],
        ),
        (
            'A',
            &[
                "<T>",
                "<N>",
                "<B>",
                "<L>",
                "<M>",
                "null",
                "params.items",
                "params.rate",
                "[<A>, <A>]",
                "<L>.map(t, <A>)",
                "<M>.map(t, <A>)",
                "[<M>, <M>].flatten()",
                "fromJson(toJson(<A>))",
                "optional.of(<A>).optMap(t, <A>).orValue(<A>)",
                "[<A>].map(t, [t, t])",
                "[<A>, <A>].distinct()",
                "fromJson('[1e15, {\"a\": [2.5e10]}]')",
                "<M>.?a.orValue(<A>)",
            ],
        ),
    ];

    /// An expression of type `wanted`, chosen by `choices`; when they run out, or at the bottom, the first of its forms.
    fn expression(wanted: char, depth: usize, choices: &mut impl Iterator<Item = u8>) -> String {
        let forms = FORMS
            .iter()
            .find(|(kind, _)| *kind == wanted)
            .map_or(&[""][..], |(_, forms)| *forms);
        let choice = if depth == 0 { 0 } else { choices.next().unwrap_or(0) };
        let form = forms[usize::from(choice) % forms.len()];
        let mut source = String::new();
        let mut pieces = form.split('<').peekable();
        source.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            match piece.split_once('>') {
                Some((hole, rest)) if hole.len() == 1 => {
                    source.push_str(&expression(
                        hole.chars().next().unwrap_or('A'),
                        depth.saturating_sub(1),
                        choices,
                    ));
                    source.push_str(rest);
                }
                _ => {
                    source.push('<');
                    source.push_str(piece);
                }
            }
        }
        source
    }

    fn expressions() -> impl Strategy<Value = String> {
        proptest::collection::vec(any::<u8>(), 1..60).prop_map(|choices| {
            let body = expression('A', 6, &mut choices.into_iter());
            // The variable of the loops exists everywhere, so that most expressions have a value.
            format!("['x', params.order].map(t, {body})")
        })
    }

    proptest! {
        #[test]
        fn text_never_panics(text in prop_oneof![pieces(), any::<String>()]) {
            for text in [text.clone(), format!("$[[{text}]]"), format!("x$[[ {text} ]]y")] {
                if let Ok(expr) = Expr::parse(&text) {
                    let _ = expr.eval(&scope());
                }
                match Template::parse(&text) {
                    Ok(template) => {
                        let _ = template.render(&scope());
                    }
                    Err(error) => {
                        let on_boundary = error.offset.is_none_or(|offset| text.is_char_boundary(offset));
                        prop_assert!(on_boundary, "{text:?}: {error:?}");
                        prop_assert!(error.message.len() < 600, "{}", error.message);
                    }
                }
            }
        }

        #[test]
        fn a_result_is_within_its_bound_and_always_the_same(source in expressions()) {
            let Ok(expr) = Expr::parse(&source) else { return Ok(()) };
            let scope = scope();
            let first = expr.eval(&scope);
            if let Ok(value) = &first {
                let cost = expr.cost(&scope);
                let bound = with_stack(|| expr.inner.bound(&scope).result);
                let size = value.to_string().len() as u64;
                prop_assert!(size < bound, "{source}: {size} bytes, and the bound is {bound}");
                prop_assert!(bound <= cost.bytes);
                prop_assert!(cost.bytes <= LIMITS.bytes && cost.steps <= LIMITS.steps);
            }
            prop_assert_eq!(format!("{:?}", expr.eval(&scope)), format!("{first:?}"));
        }
    }

    /// The property above says something only while most of its expressions have a value.
    #[test]
    fn most_generated_expressions_have_a_value() {
        let choices = |seed: u32| {
            (0..60).map(move |i: u32| (seed.wrapping_mul(2_654_435_761).wrapping_add(i * i * 40_503) >> 13) as u8)
        };
        let with_value = (0..200)
            .filter(|&seed| {
                let body = expression('A', 6, &mut choices(seed));
                Expr::parse(&format!("['x', params.order].map(t, {body})"))
                    .and_then(|expr| expr.eval(&scope()))
                    .is_ok()
            })
            .count();
        assert!(with_value > 100, "{with_value} of 200");
    }
}
