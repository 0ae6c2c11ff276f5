//! The controller's flags, the chart's arguments and the chart's values agree: every flag can be set by a value, and the values'
//! defaults are the flags' own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Every flag of `oncilla controller` with its default, as --help says them.
fn flags() -> BTreeMap<String, Option<String>> {
    let output = Command::new(env!("CARGO_BIN_EXE_oncilla"))
        .args(["controller", "--help"])
        .output()
        .expect("oncilla runs");
    let help = String::from_utf8(output.stdout).expect("help is text");
    let mut flags = BTreeMap::new();
    let mut last = String::new();
    for line in help.lines().map(str::trim) {
        if let Some(at) = line.find("--").filter(|&at| at == 0 || line.starts_with('-')) {
            last = line[at + 2..]
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            flags.insert(last.clone(), None);
        }
        if let Some((_, rest)) = line.split_once("[default: ") {
            let default = rest.split(']').next().unwrap_or_default().to_owned();
            flags.insert(last.clone(), Some(default));
        }
    }
    flags.remove("help");
    assert!(flags.len() > 2, "no flags in:\n{help}");
    flags
}

fn chart(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/oncilla").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_flag_can_be_set_by_a_value_and_none_is_made_up() {
    let template = chart("templates/deployment.yaml");
    let arguments: Vec<&str> = template
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"))
        .map(|argument| argument.split('=').next().unwrap_or_default())
        .collect();
    let mut sorted = arguments.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, flags().keys().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_values_have_the_flags_defaults() {
    let values: Value = serde_yaml::from_str(&chart("values.yaml")).expect("values.yaml is YAML");
    let flags = flags();
    let default = |flag: &str| flags[flag].clone().unwrap_or_default();
    assert_eq!(values["namespace"], default("namespace"));
    assert_eq!(values["concurrency"].to_string(), default("concurrency"));
    assert_eq!(values["requestTimeoutSeconds"].to_string(), default("request-timeout"));
    assert_eq!(
        format!("0.0.0.0:{}", values["health"]["port"]),
        default("health-address")
    );
    // In a cluster, machines read the log; at a shell, people do.
    assert_eq!(
        (values["log"]["format"].as_str(), default("log-format").as_str()),
        (Some("json"), "pretty")
    );
}
