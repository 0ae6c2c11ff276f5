//! The order document: what a sound order looks like, and every fault of one that is not.
//!
//! The document is walked by hand and not deserialised into a type, because a type's first fault would hide the others.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::fault::Fault;

const MAX_LINES: usize = 100;
const MAX_QUANTITY: i64 = 1_000;
/// The dearest single unit, in cents.
const MAX_PRICE: i64 = 100_000_000;

/// An order that has passed every check.
#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    pub number: String,
    /// What the customer pays, in cents: the sum of the lines.
    pub cents: i64,
    pub lines: Vec<Line>,
}

/// So many of one article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub sku: String,
    pub qty: i64,
    /// The price of one, in cents.
    pub cents: i64,
}

impl Order {
    /// Reads a document such as `{"order":"1042","cents":1999,"items":[{"sku":"A-7","qty":2,"cents":750}, …]}`.
    pub fn parse(document: &str) -> Result<Self, Fault> {
        let value = parse_json("the order", document)?;
        let mut faults = Faults::default();
        let Some(fields) = faults.object(&value, "the order") else {
            return Err(faults.into());
        };
        faults.unknown(fields, "", &["order", "cents", "items"]);
        let number = faults.order_number(fields.get("order"), "order");
        let cents = faults.integer(fields.get("cents"), "cents", 1, i64::MAX);
        let lines = faults.lines(fields.get("items"), "items");
        if let (Some(cents), Some(lines)) = (cents, &lines) {
            // Both factors are bounded, so the sum is at most 10^13.
            let sum: i64 = lines.iter().map(|line| line.qty * line.cents).sum();
            if sum != cents {
                faults.add("cents", format!("is {cents}, but the lines come to {sum}"));
            }
        }
        match (faults.0.is_empty(), number, cents, lines) {
            (true, Some(number), Some(cents), Some(lines)) => Ok(Self { number, cents, lines }),
            _ => Err(faults.into()),
        }
    }

    pub fn units(&self) -> i64 {
        self.lines.iter().map(|line| line.qty).sum()
    }
}

/// Reads the lines alone, by the same rules as in a whole order.
pub fn parse_lines(document: &str) -> Result<Vec<Line>, Fault> {
    let value = parse_json("ITEMS", document)?;
    let mut faults = Faults::default();
    match faults.lines(Some(&value), "ITEMS") {
        Some(lines) if faults.0.is_empty() => Ok(lines),
        _ => Err(faults.into()),
    }
}

/// Checks an order number that stands alone: 1 to 12 digits.
pub fn parse_number(text: &str) -> Result<&str, String> {
    if (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(text)
    } else {
        Err(format!("{text:?} is no order number (1 to 12 digits)"))
    }
}

fn parse_json(what: &str, document: &str) -> Result<Value, Fault> {
    serde_json::from_str(document).map_err(|error| Fault::input(format!("{what} is not JSON: {error}")))
}

/// Collects faults as `path: what is wrong`.
#[derive(Default)]
struct Faults(Vec<String>);

impl From<Faults> for Fault {
    fn from(faults: Faults) -> Self {
        Self::Input(faults.0)
    }
}

impl Faults {
    fn add(&mut self, path: &str, fault: impl AsRef<str>) {
        self.0.push(format!("{path}: {}", fault.as_ref()));
    }

    fn object<'a>(&mut self, value: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
        let object = value.as_object();
        if object.is_none() {
            self.add(path, format!("must be an object, not {}", kind(value)));
        }
        object
    }

    fn unknown(&mut self, fields: &Map<String, Value>, path: &str, known: &[&str]) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let place = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            self.add(&place, format!("is unknown; known are {}", known.join(", ")));
        }
    }

    fn present<'a>(&mut self, value: Option<&'a Value>, path: &str) -> Option<&'a Value> {
        if value.is_none() {
            self.add(path, "is missing");
        }
        value
    }

    fn text<'a>(&mut self, value: Option<&'a Value>, path: &str) -> Option<&'a str> {
        let value = self.present(value, path)?;
        let text = value.as_str();
        if text.is_none() {
            self.add(path, format!("must be a string, not {}", kind(value)));
        }
        text
    }

    fn integer(&mut self, value: Option<&Value>, path: &str, least: i64, most: i64) -> Option<i64> {
        let value = self.present(value, path)?;
        match value.as_i64() {
            Some(number) if (least..=most).contains(&number) => Some(number),
            Some(number) if number < least => {
                self.add(path, format!("is {number}, the least is {least}"));
                None
            }
            Some(number) => {
                self.add(path, format!("is {number}, the most is {most}"));
                None
            }
            None => {
                self.add(path, format!("must be a whole number, not {}", kind(value)));
                None
            }
        }
    }

    fn order_number(&mut self, value: Option<&Value>, path: &str) -> Option<String> {
        let text = self.text(value, path)?;
        parse_number(text)
            .map(str::to_owned)
            .map_err(|fault| self.add(path, fault))
            .ok()
    }

    fn lines(&mut self, value: Option<&Value>, path: &str) -> Option<Vec<Line>> {
        let value = self.present(value, path)?;
        let Some(items) = value.as_array() else {
            self.add(path, format!("must be a list, not {}", kind(value)));
            return None;
        };
        if items.is_empty() {
            self.add(path, "is empty: an order has at least one line");
        }
        if items.len() > MAX_LINES {
            self.add(path, format!("has {} lines, the most is {MAX_LINES}", items.len()));
            return None;
        }
        let lines: Vec<Option<Line>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.line(item, &format!("{path}[{index}]")))
            .collect();
        let mut seen = BTreeMap::new();
        for (index, line) in lines.iter().enumerate() {
            let Some(line) = line else { continue };
            if let Some(first) = seen.insert(line.sku.as_str(), index) {
                self.add(
                    &format!("{path}[{index}].sku"),
                    format!("{:?} is in {path}[{first}] already", line.sku),
                );
            }
        }
        lines.into_iter().collect()
    }

    fn line(&mut self, item: &Value, path: &str) -> Option<Line> {
        let fields = self.object(item, path)?;
        self.unknown(fields, path, &["sku", "qty", "cents"]);
        let sku = self.sku(fields.get("sku"), &format!("{path}.sku"));
        let qty = self.integer(fields.get("qty"), &format!("{path}.qty"), 1, MAX_QUANTITY);
        let cents = self.integer(fields.get("cents"), &format!("{path}.cents"), 0, MAX_PRICE);
        Some(Line {
            sku: sku?,
            qty: qty?,
            cents: cents?,
        })
    }

    fn sku(&mut self, value: Option<&Value>, path: &str) -> Option<String> {
        let text = self.text(value, path)?;
        let sound = (1..=32).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-');
        if !sound {
            self.add(
                path,
                format!("{text:?} is no article number (1 to 32 of A-Z, 0-9 and -)"),
            );
        }
        sound.then(|| text.to_owned())
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(document: &str) -> Vec<String> {
        match Order::parse(document) {
            Err(Fault::Input(faults)) => faults,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sound_order_is_read() {
        let order = Order::parse(
            r#"{"order":"1042","cents":1999,"items":[{"sku":"A-7","qty":2,"cents":750},{"sku":"B-2","qty":1,"cents":499}]}"#,
        )
        .unwrap();
        assert_eq!(
            (order.number.as_str(), order.cents, order.lines.len(), order.units()),
            ("1042", 1999, 2, 3)
        );
    }

    #[test]
    fn all_faults_are_named_at_once_with_their_paths() {
        assert_eq!(
            faults(
                r#"{"order":"10-42","cent":1999,"items":[
                    {"sku":"a7","qty":0,"cents":750},{"sku":"B-2","qty":1.5},7,{"sku":"B-2","qty":1,"cents":-1}]}"#
            ),
            [
                "cent: is unknown; known are order, cents, items",
                r#"order: "10-42" is no order number (1 to 12 digits)"#,
                "cents: is missing",
                r#"items[0].sku: "a7" is no article number (1 to 32 of A-Z, 0-9 and -)"#,
                "items[0].qty: is 0, the least is 1",
                "items[1].qty: must be a whole number, not a number with a fraction",
                "items[1].cents: is missing",
                "items[2]: must be an object, not a number",
                "items[3].cents: is -1, the least is 0",
            ]
        );
    }

    #[test]
    fn the_total_must_be_the_sum_of_the_lines() {
        assert_eq!(
            faults(r#"{"order":"1","cents":1999,"items":[{"sku":"A-7","qty":2,"cents":750}]}"#),
            ["cents: is 1999, but the lines come to 1500"]
        );
    }

    #[test]
    fn an_article_stands_in_one_line_only() {
        assert_eq!(
            faults(
                r#"{"order":"1","cents":20,"items":[{"sku":"A-7","qty":1,"cents":10},{"sku":"A-7","qty":1,"cents":10}]}"#
            ),
            [r#"items[1].sku: "A-7" is in items[0] already"#]
        );
    }

    #[test]
    fn what_is_no_order_at_all_is_refused() {
        assert_eq!(faults(r#"["order"]"#), ["the order: must be an object, not a list"]);
        assert!(faults(r#"{"order":"#)[0].starts_with("the order is not JSON: "));
        assert_eq!(
            faults(r#"{"order":"1","cents":1,"items":[]}"#)[0],
            "items: is empty: an order has at least one line"
        );
        assert_eq!(
            faults(r#"{"order":"1","cents":1,"items":{}}"#),
            ["items: must be a list, not an object"]
        );
    }

    #[test]
    fn the_largest_order_adds_up_without_overflow() {
        let items: Vec<Value> = (0..MAX_LINES)
            .map(|n| serde_json::json!({"sku": format!("A-{n}"), "qty": MAX_QUANTITY, "cents": MAX_PRICE}))
            .collect();
        let order = serde_json::json!({"order": "1", "cents": 10_000_000_000_000_i64, "items": items});
        assert_eq!(Order::parse(&order.to_string()).unwrap().cents, 10_000_000_000_000);
    }
}
