//! The bound on the cost, and the other limits.

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
