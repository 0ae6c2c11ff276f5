//! The functions that an expression may call: the ones of the language that are deterministic and can be bounded, and ours.
//!
//! The parser rewrites some calls to functions of ours whose names begin with `@`, which no expression can spell:
//! `@keys` gives a loop over a map its keys in order, `@addend` refuses a map behind `+` (the language would append its keys in
//! random order), and `@matches` compiles patterns with a limit on their size.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use cel::common::types::{CelBool, CelList, CelMap, CelString, DYN_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError, extensions};
use regex::{Regex, RegexBuilder};

use super::values;

pub(super) const KEYS: &str = "@keys";
pub(super) const ADDEND: &str = "@addend";
pub(super) const MATCHES: &str = "@matches";

/// The most bytes of a compiled pattern. The time to match a byte grows with it.
const PATTERN_SIZE: usize = 256 << 10;

type Arity = Option<RangeInclusive<usize>>;

/// How a function is called: `f(a)`, `x.f(a)` or both, with how many arguments in each form.
pub(super) struct Signature {
    pub(super) name: &'static str,
    global: Arity,
    member: Arity,
    pub(super) usage: &'static str,
}

const fn global(name: &'static str, args: RangeInclusive<usize>, usage: &'static str) -> Signature {
    Signature {
        name,
        global: Some(args),
        member: None,
        usage,
    }
}

const fn member(name: &'static str, args: RangeInclusive<usize>, usage: &'static str) -> Signature {
    Signature {
        name,
        global: None,
        member: Some(args),
        usage,
    }
}

const fn both(
    name: &'static str,
    global: RangeInclusive<usize>,
    member: RangeInclusive<usize>,
    usage: &'static str,
) -> Signature {
    Signature {
        name,
        global: Some(global),
        member: Some(member),
        usage,
    }
}

/// A macro is gone from the parsed expression, so a call of its name that is still there has the wrong form.
const fn expanded(name: &'static str, usage: &'static str) -> Signature {
    Signature {
        name,
        global: None,
        member: None,
        usage,
    }
}

/// Every function, with the macros. Names with a dot are called by that whole name.
static SIGNATURES: &[Signature] = &[
    expanded("all", "list.all(x, condition)"),
    global("bool", 1..=1, "bool(text)"),
    global("bytes", 1..=1, "bytes(text)"),
    member("charAt", 1..=1, "text.charAt(index)"),
    member("contains", 1..=1, "text.contains(part)"),
    member("distinct", 0..=0, "list.distinct()"),
    global("double", 1..=1, "double(value)"),
    global("dyn", 1..=1, "dyn(value)"),
    member("endsWith", 1..=1, "text.endsWith(part)"),
    expanded("exists", "list.exists(x, condition)"),
    expanded("existsOne", "list.existsOne(x, condition)"),
    expanded("exists_one", "list.exists_one(x, condition)"),
    expanded("filter", "list.filter(x, condition)"),
    member("flatten", 0..=1, "list.flatten()"),
    global("fromJson", 1..=1, "fromJson(text)"),
    expanded("has", "has(value.field)"),
    member("hasValue", 0..=0, "optional.hasValue()"),
    member("indexOf", 1..=2, "text.indexOf(part)"),
    global("int", 1..=1, "int(value)"),
    member("join", 0..=1, "list.join(separator)"),
    member("lastIndexOf", 1..=2, "text.lastIndexOf(part)"),
    member("lowerAscii", 0..=0, "text.lowerAscii()"),
    expanded("map", "list.map(x, value) or list.map(x, condition, value)"),
    both(
        "matches",
        2..=2,
        1..=1,
        "text.matches(pattern) or matches(text, pattern)",
    ),
    global("math.abs", 1..=1, "math.abs(number)"),
    global("math.ceil", 1..=1, "math.ceil(double)"),
    global("math.floor", 1..=1, "math.floor(double)"),
    expanded("math.greatest", "math.greatest(a, b) or math.greatest(list)"),
    global("math.isFinite", 1..=1, "math.isFinite(double)"),
    global("math.isInf", 1..=1, "math.isInf(double)"),
    global("math.isNaN", 1..=1, "math.isNaN(double)"),
    expanded("math.least", "math.least(a, b) or math.least(list)"),
    global("math.round", 1..=1, "math.round(double)"),
    global("math.sign", 1..=1, "math.sign(number)"),
    global("math.trunc", 1..=1, "math.trunc(double)"),
    expanded("optFlatMap", "optional.optFlatMap(x, optional)"),
    expanded("optMap", "optional.optMap(x, value)"),
    global("optional.none", 0..=0, "optional.none()"),
    global("optional.of", 1..=1, "optional.of(value)"),
    global("optional.ofNonZeroValue", 1..=1, "optional.ofNonZeroValue(value)"),
    member("or", 1..=1, "optional.or(optional)"),
    member("orValue", 1..=1, "optional.orValue(value)"),
    member("replace", 2..=3, "text.replace(old, new)"),
    member("reverse", 0..=0, "list.reverse()"),
    both("size", 1..=1, 0..=0, "size(value) or value.size()"),
    member("slice", 2..=2, "list.slice(start, end)"),
    member("sort", 0..=0, "list.sort()"),
    expanded("sortBy", "list.sortBy(x, key)"),
    member("split", 1..=2, "text.split(separator)"),
    member("startsWith", 1..=1, "text.startsWith(part)"),
    global("string", 1..=1, "string(value)"),
    member("substring", 1..=2, "text.substring(start, end)"),
    global("toJson", 1..=1, "toJson(value)"),
    member("trim", 0..=0, "text.trim()"),
    global("type", 1..=1, "type(value)"),
    global("uint", 1..=1, "uint(value)"),
    member("upperAscii", 0..=0, "text.upperAscii()"),
    member("value", 0..=0, "optional.value()"),
];

/// What the macros of the language put into a parsed expression.
const INTERNAL: [&str; 3] = ["@sortByAssociatedKeys", "math.@max", "math.@min"];

/// What a call is, seen from its name and form.
pub(super) enum Call {
    Known,
    Misused(&'static Signature),
    Unknown,
}

/// Judges the call of `name` with `args` arguments; a function with a dot in its name is called as a global one.
pub(super) fn judge(name: &str, is_member: bool, args: usize) -> Call {
    if INTERNAL.contains(&name) {
        return Call::Known;
    }
    let Some(signature) = SIGNATURES.iter().find(|s| s.name == name) else {
        return Call::Unknown;
    };
    let arity = if is_member {
        &signature.member
    } else {
        &signature.global
    };
    if arity.as_ref().is_some_and(|arity| arity.contains(&args)) {
        Call::Known
    } else {
        Call::Misused(signature)
    }
}

/// Whether some function's name begins with `namespace` and a dot.
pub(super) fn is_namespace(namespace: &str) -> bool {
    matches!(namespace, "math" | "optional")
}

/// The names of all functions and macros, sorted: for "did you mean" and for the documentation.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().map(|s| s.name)
}

/// The environment of every expression, built once.
pub(super) fn environment() -> &'static Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut env = Env::stdlib();
        let text = || vec![STRING_TYPE];
        env.add_extension(extensions::strings)
            .and_then(|()| env.add_extension(extensions::lists))
            .and_then(|()| env.add_extension(extensions::math))
            .and_then(|()| env.add_overload(KEYS, "keys", vec![DYN_TYPE], keys))
            .and_then(|()| env.add_overload(ADDEND, "addend", vec![DYN_TYPE], addend))
            .and_then(|()| env.add_overload(MATCHES, "bounded_matches", vec![STRING_TYPE, STRING_TYPE], matches))
            .and_then(|()| env.add_overload("toJson", "to_json", vec![DYN_TYPE], to_json))
            .and_then(|()| env.add_overload("fromJson", "from_json", text(), from_json))
            .expect("every name is declared once");
        Arc::new(env)
    })
}

fn keys<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let range = take(&mut args)?;
    let Some(map) = range.downcast_ref::<CelMap>() else {
        return Ok(range);
    };
    let mut keys: Vec<_> = map.inner().keys().collect();
    keys.sort();
    let keys: Vec<_> = keys.into_iter().map(|key| key.inner().clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

fn addend<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let addend = take(&mut args)?;
    if addend.downcast_ref::<CelMap>().is_some() {
        return Err(ExecutionError::function_error("+", "a map cannot be added"));
    }
    Ok(addend)
}

fn to_json<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = take(&mut args)?;
    values::to_json(value.as_ref())
        .map(|json| CowVal::owned(CelString::from(json.to_string())))
        .map_err(|message| ExecutionError::function_error("toJson", message))
}

fn from_json<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = take(&mut args)?;
    let text = string(&text)?;
    let json: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| ExecutionError::function_error("fromJson", format!("the text is no JSON: {error}")))?;
    values::from_json(&json, &|text| CelString::from(text.to_owned()))
        .map(CowVal::Owned)
        .map_err(|message| ExecutionError::function_error("fromJson", message))
}

fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [text, pattern] = args.as_slice() else {
        return Err(ExecutionError::invalid_argument_count(2, args.len()));
    };
    let (text, pattern) = (string(text)?, string(pattern)?);
    let matched = PATTERNS.with_borrow_mut(|patterns| {
        if let Some(regex) = patterns.get(pattern) {
            return Ok(regex.is_match(text));
        }
        let regex = compile(pattern).map_err(|message| ExecutionError::function_error("matches", message))?;
        let matched = regex.is_match(text);
        // Patterns that are computed come and go; starting afresh now and then costs the literal ones little.
        if patterns.len() >= CACHED_PATTERNS {
            patterns.clear();
        }
        patterns.insert(pattern.to_owned(), regex);
        Ok(matched)
    })?;
    Ok(CowVal::owned(CelBool::from(matched)))
}

/// More literal patterns than this do not fit into a source.
const CACHED_PATTERNS: usize = 128;

thread_local! {
    /// The patterns of the evaluation that runs on this thread, so that one that is written as a literal is compiled once and not
    /// for every item of a loop.
    static PATTERNS: RefCell<BTreeMap<String, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

/// Forgets the patterns of the evaluation that has ended.
pub(super) fn forget_patterns() {
    PATTERNS.with_borrow_mut(BTreeMap::clear);
}

/// A pattern within the limit on its size, or what is wrong with it in one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_SIZE)
        .nest_limit(50)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("the pattern is too large: compiled, it has more than {limit} bytes")
            }
            // The library draws the pattern over several lines; its last line says what is wrong.
            other => {
                let text = other.to_string();
                let line = text.lines().last().unwrap_or_default();
                format!("the pattern is not valid: {}", line.trim_start_matches("error: "))
            }
        })
}

fn take<'b, 'v>(args: &mut Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    args.pop().ok_or_else(ExecutionError::missing_argument_or_target)
}

fn string<'a>(value: &'a CowVal<'_, '_>) -> Result<&'a str, ExecutionError> {
    value
        .downcast_ref::<CelString>()
        .map(|text| text.inner())
        .ok_or_else(|| ExecutionError::UnexpectedType {
            got: value.get_type().name().to_owned(),
            want: "string".to_owned(),
        })
}
