//! Strings and documents with expressions in them.

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
