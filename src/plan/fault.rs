//! What is wrong with a spec: all of it, in the spec's order, each once, and never more than a status can hold.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use crate::expr::ExprError;

/// Most faults that are told one by one; the others are counted.
pub const MAX_FAULTS: usize = 50;
/// Most characters of a fault's path and of its message.
pub const MAX_CHARS: usize = 300;

/// Bytes of path and message that each fault has on average, so that 50 faults fit into the 32 KiB of a condition's message in any
/// alphabet.
const ROOM: usize = 600;

/// Something that keeps a run from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, as the API server writes it: `spec.steps[2].when`.
    pub path: String,
    /// What is wrong and what to do, in one line.
    pub message: String,
    /// Which part of the string at `path` is wrong, in bytes; None if it is all of it or no string. It may be empty, where
    /// something is missing.
    pub part: Option<Range<usize>>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Gathers faults.
#[derive(Debug)]
pub struct Faults {
    most: usize,
    /// Bytes left for further faults.
    room: usize,
    seen: BTreeSet<(String, String)>,
    told: Vec<Fault>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::telling(MAX_FAULTS)
    }
}

impl Faults {
    /// Tells at most so many one by one.
    pub fn telling(most: usize) -> Self {
        Self {
            most,
            room: most * ROOM,
            seen: BTreeSet::new(),
            told: Vec::new(),
        }
    }

    /// What is wrong with the whole of what stands at `path`.
    pub fn add(&mut self, path: impl Into<String>, message: impl AsRef<str>) {
        self.push(path.into(), message.as_ref(), None);
    }

    /// What is wrong with the bytes `part` of the string at `path`.
    pub fn add_in(&mut self, path: impl Into<String>, part: Range<usize>, message: impl AsRef<str>) {
        self.push(path.into(), message.as_ref(), Some(part));
    }

    /// What is wrong with an expression in the string at `path`.
    pub fn add_error(&mut self, path: impl Into<String>, error: &ExprError) {
        self.push(path.into(), &error.message, error.part());
    }

    fn push(&mut self, path: String, message: &str, part: Option<Range<usize>>) {
        let (path, message) = (shorten(&path), shorten(message));
        // What defaults have wrong is found again in every step.
        if !self.seen.insert((path.clone(), message.clone())) || self.is_full() {
            return;
        }
        // With what stands between two faults.
        match self.room.checked_sub(path.len() + message.len() + 4) {
            Some(room) => {
                self.room = room;
                self.told.push(Fault { path, message, part });
            }
            // None of the later ones is told before this one.
            None => self.room = 0,
        }
    }

    /// Whether further faults are only counted.
    fn is_full(&self) -> bool {
        self.told.len() >= self.most || self.room == 0
    }

    /// The one of `names` that was probably meant by `name`. None as well when the next fault is only counted: nobody would read it,
    /// and a large spec that is all wrong must not take long.
    pub fn near_miss<'a>(&self, name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        match self.is_full() {
            true => None,
            false => near_miss(name, names),
        }
    }

    /// How many there are so far, told or counted.
    pub fn count(&self) -> usize {
        self.seen.len()
    }

    /// `value` if there are no faults.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        match self.seen.is_empty() {
            true => Ok(value),
            false => Err(self),
        }
    }

    /// Those that are told, and how many more there are.
    pub fn into_parts(self) -> (Vec<Fault>, usize) {
        let more = self.seen.len() - self.told.len();
        (self.told, more)
    }

    /// Those that are told, and if there are more, how many.
    pub fn into_list(self) -> Vec<Fault> {
        let (mut told, more) = self.into_parts();
        if more > 0 {
            told.push(Fault {
                path: "spec".into(),
                message: match more {
                    1 => "and 1 more fault".into(),
                    more => format!("and {more} more faults"),
                },
                part: None,
            });
        }
        told
    }
}

/// One line of at most MAX_CHARS characters.
fn shorten(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(MAX_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        short.pop();
        short.push('…');
    }
    short
}

/// Longer words are no slips of the hand, and comparing them costs the square of their length.
const MAX_COMPARED: usize = 100;

/// The one of `names` that was probably meant by `name`, if one is near.
pub fn near_miss<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_COMPARED {
        return None;
    }
    // A third of the letters may be wrong: more would suggest names that have nothing to do with it. A name of one or two letters is
    // as near to any other as to the right one.
    let letters = name.chars().count();
    names
        .into_iter()
        .filter(|candidate| *candidate != name && candidate.len() <= MAX_COMPARED && !candidate.is_empty())
        .map(|candidate| {
            // Dashes and underscores are what people mix up most, and capitals next.
            let plain = |text: &str| text.replace(['-', '_'], "").to_lowercase();
            (strsim::osa_distance(&plain(name), &plain(candidate)), candidate)
        })
        .filter(|(distance, candidate)| *distance <= letters.min(candidate.chars().count()) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_in_order_and_once() {
        let mut faults = Faults::default();
        faults.add("spec.b", "x");
        faults.add("spec.a", "y");
        faults.add("spec.b", "x");
        let faults: Vec<_> = faults.into_list().iter().map(Fault::to_string).collect();
        assert_eq!(faults, ["spec.b: x", "spec.a: y"]);
    }

    #[test]
    fn faults_beyond_the_bound_are_counted() {
        let mut faults = Faults::default();
        for i in 0..73 {
            faults.add(format!("spec.steps[{i}]"), "no");
            faults.add(format!("spec.steps[{i}]"), "no");
        }
        let faults = faults.into_list();
        assert_eq!(faults.len(), MAX_FAULTS + 1);
        assert_eq!(faults[MAX_FAULTS].to_string(), "spec: and 23 more faults");
    }

    #[test]
    fn all_faults_together_fit_into_a_condition() {
        let mut faults = Faults::default();
        for i in 0..73 {
            faults.add(
                format!("{i}{}", "\u{1f600}".repeat(MAX_CHARS)),
                "\u{1f600}".repeat(MAX_CHARS),
            );
        }
        faults.add("spec", "short");
        let list: Vec<_> = faults.into_list().iter().map(Fault::to_string).collect();
        assert!(list.join("; ").len() <= 32_768);
        assert!(list.len() > 10, "{}", list.len());
        assert_eq!(
            list[list.len() - 1],
            format!("spec: and {} more faults", 75 - list.len())
        );
    }

    #[test]
    fn a_fault_is_one_line_of_bounded_length() {
        let mut faults = Faults::default();
        faults.add("é".repeat(MAX_CHARS + 1), format!("a\nb\u{7}{}", "é".repeat(1000)));
        let fault = &faults.into_list()[0];
        assert_eq!(fault.path.chars().count(), MAX_CHARS);
        assert_eq!(fault.message.chars().count(), MAX_CHARS);
        assert!(fault.message.starts_with("a b é"), "{}", fault.message);
        assert!(fault.message.ends_with('…'));
    }

    #[test]
    fn a_near_miss_is_near() {
        let names = ["reserve-stock", "charge", "audit"];
        for (name, near) in [
            ("reserve_stock", Some("reserve-stock")),
            ("reservestock", Some("reserve-stock")),
            ("chrage", Some("charge")),
            ("charg", Some("charge")),
            ("audits", Some("audit")),
            ("refund", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(near_miss(name, names), near, "{name}");
        }
        for (name, names, near) in [
            // A letter is no slip of the hand for another, nor for none.
            ("x", vec!["", "y", "ab", "xy"], None),
            ("A", vec!["a"], Some("a")),
            ("ab", vec!["cd", "a", "abc", "ac"], None),
            ("abc", vec!["ab"], None),
            ("env", vec!["enb"], Some("enb")),
            ("a-b", vec!["ab"], Some("ab")),
        ] {
            assert_eq!(near_miss(name, names.iter().copied()), near, "{name}");
        }
    }
}
