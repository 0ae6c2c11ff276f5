//! What expressions give.

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
