//! JSON in, JSON out.
//!
//! JSON has one kind of number and CEL has three, so the rule is ours: a whole number is `int`, any other is `double`, in both
//! directions. The API server stores 1.0 as 1; if a whole double stayed a double here, an expression would mean one thing before the
//! value was stored and another after it was read back.

use std::collections::{BTreeMap, HashMap};

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelOptional, CelString, CelType, CelUInt,
};
use cel::common::value::Val;
use serde_json::{Map, Number, Value};

/// Doubles up to here have every integer as a value of their own.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// A JSON value as CEL sees it. `text` makes the strings: borrowed from the input, or copied out of it.
///
/// Fails on an integer that is no 64-bit signed integer, and names it.
pub(super) fn from_json<'a, 'v>(
    value: &'a Value,
    text: &impl Fn(&'a str) -> CelString<'v>,
) -> Result<Box<dyn Val + 'v>, String> {
    Ok(match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(b) => Box::new(CelBool::from(*b)),
        Value::Number(n) => number_in(n)?,
        Value::String(s) => Box::new(text(s)),
        Value::Array(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(|item| from_json(item, text)).collect();
            Box::new(CelList::from(items?))
        }
        Value::Object(fields) => object_in(fields.iter(), text)?,
    })
}

/// An object made of `fields`.
pub(super) fn object_in<'a, 'v>(
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    text: &impl Fn(&'a str) -> CelString<'v>,
) -> Result<Box<dyn Val + 'v>, String> {
    let mut map = HashMap::new();
    for (key, value) in fields {
        map.insert(CelMapKey::String(text(key)), from_json(value, text)?);
    }
    Ok(Box::new(CelMap::from(map)))
}

fn number_in<'v>(number: &Number) -> Result<Box<dyn Val + 'v>, String> {
    if let Some(int) = number.as_i64() {
        return Ok(Box::new(CelInt::from(int)));
    }
    if number.is_u64() {
        return Err(format!("{number} is beyond 64-bit integers; pass it as text"));
    }
    let double = number
        .as_f64()
        .ok_or_else(|| format!("{number} is not a number that can be used"))?;
    Ok(match whole(double) {
        Some(int) => Box::new(CelInt::from(int)),
        None => Box::new(CelDouble::from(double)),
    })
}

/// The integer that `double` is, if it is one and no other integer shares it.
fn whole(double: f64) -> Option<i64> {
    // The range makes the cast exact.
    #[allow(clippy::cast_possible_truncation)]
    (double.fract() == 0.0 && double.abs() <= WHOLE).then_some(double as i64)
}

/// A result as JSON, with the keys of objects in order.
pub(super) fn to_json(value: &dyn Val) -> Result<Value, String> {
    if let Some(text) = value.downcast_ref::<CelString>() {
        return Ok(Value::String(text.inner().to_owned()));
    }
    if let Some(int) = value.downcast_ref::<CelInt>() {
        return Ok(Value::from(*int.inner()));
    }
    if let Some(bool) = value.downcast_ref::<CelBool>() {
        return Ok(Value::Bool(*bool.inner()));
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Ok(Value::Null);
    }
    if let Some(double) = value.downcast_ref::<CelDouble>() {
        return double_out(*double.inner());
    }
    if let Some(uint) = value.downcast_ref::<CelUInt>() {
        return i64::try_from(*uint.inner())
            .map(Value::from)
            .map_err(|_| format!("{} is beyond 64-bit integers", uint.inner()));
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        return list.inner().iter().map(|item| to_json(&**item)).collect();
    }
    if let Some(map) = value.downcast_ref::<CelMap>() {
        // In order, so that of several faults the same one is told every time.
        let mut sorted = BTreeMap::new();
        for (key, value) in map.inner() {
            let CelMapKey::String(key) = key else {
                return Err("a map with keys that are not text is no JSON; use string(key)".to_owned());
            };
            sorted.insert(key.inner(), value);
        }
        let mut fields = Map::new();
        for (key, value) in sorted {
            fields.insert(key.to_owned(), to_json(&**value)?);
        }
        return Ok(Value::Object(fields));
    }
    Err(if value.downcast_ref::<CelOptional>().is_some() {
        "an optional value is no JSON; end it with .orValue(…)".to_owned()
    } else if value.downcast_ref::<CelBytes>().is_some() {
        "bytes are no JSON; use string(bytes)".to_owned()
    } else if value.downcast_ref::<CelType>().is_some() {
        "a type is no JSON; compare it with ==".to_owned()
    } else {
        format!("a value of type {} is no JSON", value.get_type().name())
    })
}

fn double_out(double: f64) -> Result<Value, String> {
    match whole(double) {
        Some(int) => Ok(Value::from(int)),
        None => Number::from_f64(double)
            .map(Value::Number)
            .ok_or_else(|| format!("{double} is no JSON number")),
    }
}
