//! Errors of reading and of evaluating, in words.

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
