//! A point in time as the journal records it: milliseconds since 1970 UTC, written as RFC 3339.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Milliseconds since 1970-01-01T00:00:00Z. Written with a fraction only if it is not a whole second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(i64);

/// 0001-01-01T00:00:00Z, Go's zero time.
const MIN_MILLIS: i64 = -62_135_596_800_000;
/// 9999-12-30T22:00:00Z, the last second that every time zone can write.
const MAX_MILLIS: i64 = 253_402_207_200_000;

impl Time {
    /// Values out of range are brought to the nearest time that can be written, in the years 1 to 9999.
    pub fn from_millis(millis: i64) -> Time {
        Time(millis.clamp(MIN_MILLIS, MAX_MILLIS))
    }

    pub fn millis(self) -> i64 {
        self.0
    }

    /// This time plus `millis` milliseconds.
    pub fn plus(self, millis: i64) -> Time {
        Time::from_millis(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this time; negative if it is later.
    pub fn since(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(timestamp: jiff::Timestamp) -> Time {
        Time::from_millis(timestamp.as_millisecond())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        match self.0.rem_euclid(1000) {
            0 => write!(f, "{timestamp:.0}"),
            _ => write!(f, "{timestamp:.3}"),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let timestamp: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(timestamp.into())
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The format alone lets times without a zone pass, which nobody could then read.
        json_schema!({
            "type": "string",
            "format": "date-time",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_a_fraction_only_if_it_has_one() {
        assert_eq!(Time::from_millis(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(
            Time::from_millis(1_795_946_400_250).to_string(),
            "2026-11-29T10:00:00.250Z"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 999, 1000, 1_795_946_400_001, -1, i64::MAX, i64::MIN] {
            let time = Time::from_millis(millis);
            let text = serde_json::to_string(&time).unwrap();
            assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time, "{text}");
        }
    }
}
