//! Lengths of time as the API writes them: GEP-2257, such as `1h30m` or `250ms`, with milliseconds as the least unit.

/// What a duration looks like, for messages.
pub const FORM: &str = "one to four numbers with h, m, s or ms, such as 90s or 1h30m";

/// Most digits of one number and most numbers of one duration; also their bound, 4 x 99,999 h, far below i64.
const MAX_DIGITS: usize = 5;
const MAX_PARTS: usize = 4;

/// The milliseconds that `text` stands for, if it is `^([0-9]{1,5}(h|m|s|ms)){1,4}$`.
pub fn parse(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut millis = 0;
    for _ in 0..MAX_PARTS {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > MAX_DIGITS {
            return None;
        }
        let (number, after) = rest.split_at(digits);
        let number: i64 = number.parse().ok()?;
        // `ms` before `m`: after a unit there is a digit or the end.
        let (unit, after) = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
            .into_iter()
            .find_map(|(name, unit)| Some((unit, after.strip_prefix(name)?)))?;
        millis += number * unit;
        if after.is_empty() {
            return Some(millis);
        }
        rest = after;
    }
    None
}

/// `millis` in the same form, for messages.
pub fn show(millis: i64) -> String {
    if millis <= 0 {
        return "0s".into();
    }
    [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
        .into_iter()
        .fold((String::new(), millis), |(text, rest), (name, unit)| {
            match rest / unit {
                0 => (text, rest),
                n => (format!("{text}{n}{name}"), rest % unit),
            }
        })
        .0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_the_api_writes_them() {
        for (text, millis) in [
            ("0s", Some(0)),
            ("1ms", Some(1)),
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("1m1ms", Some(60_001)),
            ("1h2m3s4ms", Some(3_723_004)),
            ("99999h", Some(359_996_400_000)),
            ("", None),
            ("1", None),
            ("s", None),
            ("1d", None),
            ("1.5h", None),
            ("-1s", None),
            ("100000s", None),
            ("1h1h1h1h1h", None),
            ("1s ", None),
            ("1S", None),
            ("١s", None),
        ] {
            assert_eq!(parse(text), millis, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 0..99_999i64 * 3_600_000) {
            prop_assert_eq!(parse(&show(millis)), Some(millis));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
