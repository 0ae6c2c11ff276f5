use proptest::prelude::*;
use serde_json::Value;

use super::*;
use OutputFormat::{Auto, Json, Text};
use StepReason::{OutputInvalid, OutputLost, OutputTooLarge};

fn read(file: &str, containers: usize, format: OutputFormat, max: usize) -> Result<StepOutput, BadOutput> {
    let main = Terminated {
        message: file.to_owned(),
        ..Terminated::default()
    };
    read_output(&main, containers, format, max)
}

fn ok(text: &str, output_type: OutputType) -> Result<StepOutput, StepReason> {
    Ok(StepOutput {
        text: text.to_owned(),
        output_type,
    })
}

#[test]
fn an_output_is_what_the_step_wrote_and_its_type_is_no_accident_of_the_data() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    for (file, format, wanted) in [
        // Auto: only an object or a list is JSON.
        (r#"{"paid":true}"#, Auto, ok(r#"{"paid":true}"#, OutputType::Json)),
        ("[1]", Auto, ok("[1]", OutputType::Json)),
        (" \n[1.0]\n", Auto, ok(" \n[1.0]\n", OutputType::Json)),
        ("1042", Auto, ok("1042", OutputType::Text)),
        ("0042", Auto, ok("0042", OutputType::Text)),
        ("true", Auto, ok("true", OutputType::Text)),
        ("\"a\"", Auto, ok("\"a\"", OutputType::Text)),
        ("{not json", Auto, ok("{not json", OutputType::Text)),
        // Auto: text loses the line ends at its end and nothing else.
        ("a\nb\r\n\n", Auto, ok("a\nb", OutputType::Text)),
        (" a \n", Auto, ok(" a ", OutputType::Text)),
        ("", Auto, ok("", OutputType::Text)),
        ("\n", Auto, ok("", OutputType::Text)),
        // Auto: JSON that expressions would read as something else stays what it is, a text.
        (r#"{"a":1,"a":2}"#, Auto, ok(r#"{"a":1,"a":2}"#, OutputType::Text)),
        (
            "[12345678901234567890]",
            Auto,
            ok("[12345678901234567890]", OutputType::Text),
        ),
        // JSON: any one value.
        ("1042", Json, ok("1042", OutputType::Json)),
        ("1.0\n", Json, ok("1.0\n", OutputType::Json)),
        ("null", Json, ok("null", OutputType::Json)),
        (
            r#""12345678901234567890""#,
            Json,
            ok(r#""12345678901234567890""#, OutputType::Json),
        ),
        (
            r#"["\"",-9223372036854775808]"#,
            Json,
            ok(r#"["\"",-9223372036854775808]"#, OutputType::Json),
        ),
        ("1e300", Json, ok("1e300", OutputType::Json)),
        (&deep(64), Json, ok(&deep(64), OutputType::Json)),
        ("0042", Json, Err(OutputInvalid)),
        ("", Json, Err(OutputInvalid)),
        (" \n", Json, Err(OutputInvalid)),
        ("{} {}", Json, Err(OutputInvalid)),
        ("{", Json, Err(OutputInvalid)),
        // JSON that cannot be represented.
        ("9223372036854775808", Json, Err(OutputInvalid)),
        (r#"{"a":["x",99999999999999999999999]}"#, Json, Err(OutputInvalid)),
        ("1e400", Json, Err(OutputInvalid)),
        (r#"[{"a":1,"a":1}]"#, Json, Err(OutputInvalid)),
        (r#"{"a":1,"\u0061":1}"#, Json, Err(OutputInvalid)),
        (&deep(65), Json, Err(OutputInvalid)),
        // Text: as it is.
        ("a\n", Text, ok("a\n", OutputType::Text)),
        ("{}", Text, ok("{}", OutputType::Text)),
        // Bytes that are not UTF-8 arrive as U+FFFD.
        ("a\u{fffd}", Auto, Err(OutputInvalid)),
        ("a\u{fffd}", Text, Err(OutputInvalid)),
        ("\"\u{fffd}\"", Json, Err(OutputInvalid)),
        // The kubelet's own words are no output.
        ("Error on reading termination log /var/x: EIO", Text, Err(OutputLost)),
    ] {
        let read = read(file, 1, format, 4095).map_err(|bad| bad.reason);
        assert_eq!(read, wanted, "{file:?} as {format:?}");
    }
}

#[test]
fn an_output_that_fills_its_room_may_have_been_cut_and_is_an_error() {
    for (bytes, containers, max, wanted) in [
        (4095, 1, 4095, None),
        (4095, 3, 4095, None),
        (
            4096,
            1,
            4095,
            Some("the output has at least 4096 bytes, limit 4095 (containers in the pod: 1)"),
        ),
        (3071, 4, 4095, None),
        (
            3072,
            4,
            4095,
            Some("the output has at least 3072 bytes, limit 3071 (containers in the pod: 4)"),
        ),
        (
            4096,
            4,
            100,
            Some("the output has at least 4096 bytes, limit 100 (containers in the pod: 4)"),
        ),
        (100, 1, 100, None),
        (101, 1, 100, Some("the output has 101 bytes, limit 100")),
        (0, 20_000, 4095, None),
        (
            1,
            20_000,
            4095,
            Some("the output has at least 1 bytes, limit 0 (containers in the pod: 20000)"),
        ),
    ] {
        let read = read(&"x".repeat(bytes), containers, Text, max);
        match wanted {
            None => assert_eq!(read.map(|it| it.text.len()), Ok(bytes)),
            Some(message) => assert_eq!(
                read,
                Err(BadOutput {
                    reason: OutputTooLarge,
                    message: message.to_owned()
                })
            ),
        }
    }
}

#[test]
fn a_cut_in_the_middle_of_a_character_is_too_large_and_not_invalid() {
    // The last 4,096 bytes of a longer file of two-byte characters: half a character, then 4,095 bytes.
    let tail = format!("\u{fffd}{}x", "\u{e9}".repeat(2047));
    assert_eq!(read(&tail, 1, Text, 4095).unwrap_err().reason, OutputTooLarge);
    // A short file of bytes that are not UTF-8 is three times as long in the API.
    let garbage = "\u{fffd}".repeat(2000);
    assert_eq!(read(&garbage, 1, Text, 4095).unwrap_err().reason, OutputInvalid);
}

proptest! {
    #[test]
    fn every_output_that_is_accepted_is_read_back_as_it_was_written(file in "\\PC{0,40}|[\\[\\]{}\":,0-9a.eE+\\-\\\\ \n]{0,40}") {
        for format in [Auto, Json, Text] {
            if let Ok(output) = read(&file, 1, format, 4095) {
                prop_assert!(file.starts_with(&output.text));
                if output.output_type == OutputType::Json {
                    prop_assert_eq!(&output.text, &file);
                    prop_assert!(serde_json::from_str::<Value>(&output.text).is_ok());
                }
            }
        }
    }

    #[test]
    fn json_written_from_a_value_is_json(value in json()) {
        let file = value.to_string();
        let output = read(&file, 1, Json, 4095).unwrap();
        prop_assert_eq!(output.output_type, OutputType::Json);
        prop_assert_eq!(serde_json::from_str::<Value>(&output.text).unwrap(), value);
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
