//! What holds for any expression and any input.

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
