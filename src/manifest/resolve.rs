//! What a scalar means: the rules of the YAML library that kubectl uses, which are those of YAML 1.1 with exceptions of its
//! own. `NO` is false, `0123` is 83, `09` is 9, `1_000` is 1000, `1:30` and `2001-01-01` are strings.

use serde_json::{Number, Value};

/// A scalar's tag as written, resolved to its long form.
const CORE: &str = "tag:yaml.org,2002:";

/// What a scalar is before it becomes JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer that only fits an unsigned 64-bit number.
    BigInt(u64),
    Float(f64),
    String(String),
}

/// Resolves a scalar. `plain`: it is written without quotes and is no block scalar. `tag`: the long form, if one is written.
/// The error says in words why kubectl refuses the value.
pub fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Scalar, String> {
    let core = match tag {
        None if plain => return Ok(implicit(text)),
        None => return Ok(Scalar::String(text.into())),
        Some(tag) => match tag.strip_prefix(CORE) {
            Some(core) => core,
            None => return Ok(Scalar::String(text.into())),
        },
    };
    let resolved = match core {
        "str" => return Ok(Scalar::String(text.into())),
        "binary" => return binary(text),
        "bool" | "int" | "float" | "null" | "timestamp" => implicit(text),
        // Any other type's name is passed over.
        _ => return Ok(Scalar::String(text.into())),
    };
    match (core, resolved) {
        ("bool", value @ Scalar::Bool(_))
        | ("int", value @ (Scalar::Int(_) | Scalar::BigInt(_)))
        | ("float", value @ Scalar::Float(_))
        | ("null", value @ Scalar::Null)
        | ("timestamp", value @ Scalar::String(_)) => Ok(value),
        ("float", Scalar::Int(value)) => Ok(Scalar::Float(value as f64)),
        _ => Err(format!("`{text}` is no !!{core}")),
    }
}

/// Base64 text, as its tag says; kubectl puts the decoded bytes into a string.
fn binary(text: &str) -> Result<Scalar, String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count, mut padding, mut symbols) = (0u32, 0, 0, 0);
    for byte in text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')) {
        symbols += 1;
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return Err("the !!binary value is no base64".into()),
        };
        if padding > 0 {
            return Err("the !!binary value is no base64".into());
        }
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    if symbols % 4 != 0 || padding > 2 {
        return Err("the !!binary value is no base64".into());
    }
    Ok(Scalar::String(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A plain scalar without a tag.
fn implicit(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'.' => fraction(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| is_float(&plain).then(|| float(&plain)).flatten())
        }
        _ => None,
    };
    number.unwrap_or_else(|| Scalar::String(text.into()))
}

/// An integer in any notation of Go: 0x, 0o, 0b, or a leading zero for base 8.
fn integer(text: &str) -> Option<Scalar> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Rust's own parser would take a second sign.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    if let Ok(value) = i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        return Some(Scalar::Int(value));
    }
    // The library takes no sign before an integer that needs the 64th bit.
    let signed = text.starts_with(['+', '-']);
    match u64::from_str_radix(digits, radix) {
        Ok(value) if !signed => Some(Scalar::BigInt(value)),
        _ => None,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    rest = &rest[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = digits(after);
        if whole + fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    } else if whole == 0 {
        return false;
    }
    if let Some(after) = rest.strip_prefix(['e', 'E']) {
        let after = after.strip_prefix(['-', '+']).unwrap_or(after);
        let exponent = digits(after);
        if exponent == 0 {
            return false;
        }
        rest = &after[exponent..];
    }
    rest.is_empty()
}

/// A number that begins with a dot. Here the library asks for a digit on both sides of each underscore.
fn fraction(text: &str) -> Option<Scalar> {
    let bytes = text.as_bytes();
    let digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let separated = (0..bytes.len()).all(|i| bytes[i] != b'_' || (digit(i - 1) && digit(i + 1)));
    let plain = text.replace('_', "");
    (separated && is_float(&plain)).then(|| float(&plain)).flatten()
}

/// A number too large for 64 bits is left a string, as the library does.
fn float(text: &str) -> Option<Scalar> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .map(Scalar::Float)
}

impl Scalar {
    /// The value as the API server reads it from kubectl's JSON: a float without a fraction has become an integer, an
    /// integer beyond 64 bits with a sign has become a float.
    pub fn to_json(&self) -> Result<Value, String> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(*value),
            Scalar::Int(value) => Value::from(*value),
            Scalar::BigInt(value) => Value::from(*value as f64),
            Scalar::String(value) => Value::String(value.clone()),
            Scalar::Float(value) => {
                // JSON in Go is written with an exponent from 1e21 on; until there, digits alone are read as an integer.
                let integral = value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0;
                if integral {
                    Value::from(*value as i64)
                } else {
                    Number::from_f64(*value)
                        .map(Value::Number)
                        .ok_or_else(|| "JSON has no such number".to_owned())?
                }
            }
        })
    }

    /// The scalar as a key: JSON's keys are strings.
    pub fn to_key(&self) -> Result<String, String> {
        Ok(match self {
            Scalar::Null => return Err("an empty or null key".into()),
            Scalar::Bool(value) => value.to_string(),
            Scalar::Int(value) => value.to_string(),
            Scalar::BigInt(_) => return Err("an integer key beyond 64 bits".into()),
            Scalar::Float(value) => float_key(*value as f32),
            Scalar::String(value) => value.clone(),
        })
    }
}

/// A float key as the library writes it: the shortest digits of 32 bits, with an exponent below 1e-4 and from 1e6 on.
fn float_key(value: f32) -> String {
    if value.is_nan() {
        return ".nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
