//! What Oncilla tells a step about itself, and the file in which it wants the answer.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;

use uuid::Uuid;

use crate::fault::Fault;
use crate::say;

/// The largest output that the kubelet hands on whole, in bytes.
const OUTPUT_LIMIT: usize = 4095;

/// The environment, as a value: tests make their own.
#[derive(Debug, Default, Clone)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    pub fn of_process() -> Self {
        Self(
            env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// The value of a variable; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable that the step cannot do without.
    pub fn require(&self, name: &str) -> Result<&str, String> {
        self.get(name).ok_or_else(|| format!("{name} is not set"))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Variables {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }
}

/// The attempt that this process is.
#[derive(Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The same in every attempt of a step, so that the effect can be recognised when it is there already.
    pub key: Uuid,
    /// Counted from 1.
    pub number: i32,
    /// Grows with each attempt: of two writers the one with the smaller fence must lose.
    pub fence: i64,
    pub run: String,
    pub step: String,
    /// The pod that this runs in, which is its host name.
    pub pod: String,
}

impl Attempt {
    pub fn from_variables(variables: &Variables) -> Result<Self, Fault> {
        let mut faults = Vec::new();
        let key = parsed(variables, "ONCILLA_IDEMPOTENCY_KEY", "a UUID", &mut faults);
        let number = parsed(variables, "ONCILLA_ATTEMPT", "a number", &mut faults);
        let fence = parsed(variables, "ONCILLA_FENCE", "a number", &mut faults);
        let (Some(key), Some(number), Some(fence)) = (key, number, fence) else {
            faults.push("run this as a step of a WorkflowRun, or set the variables by hand".to_owned());
            return Err(Fault::Input(faults));
        };
        let name = |variable| variables.get(variable).unwrap_or("by hand").to_owned();
        Ok(Self {
            key,
            number,
            fence,
            run: name("ONCILLA_RUN"),
            step: name("ONCILLA_STEP"),
            pod: host_name(variables),
        })
    }
}

fn parsed<T: std::str::FromStr>(variables: &Variables, name: &str, kind: &str, faults: &mut Vec<String>) -> Option<T> {
    match variables.require(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| faults.push(format!("{name} is {text:?}, not {kind}")))
            .ok(),
        Err(fault) => {
            faults.push(fault);
            None
        }
    }
}

fn host_name(variables: &Variables) -> String {
    variables.get("HOSTNAME").map(str::to_owned).unwrap_or_else(|| {
        fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
    })
}

/// Writes the step's result, or its fault, to the file that Oncilla reads. Without `ONCILLA_OUTPUT` (a call by hand)
/// it is only shown.
pub fn write_output(variables: &Variables, text: &str) -> Result<(), Fault> {
    let Some(path) = variables.get("ONCILLA_OUTPUT") else {
        say(&format!("output: {text}"));
        return Ok(());
    };
    if text.len() > OUTPUT_LIMIT {
        return Err(Fault::Broken(format!(
            "the output has {} bytes, the limit is {OUTPUT_LIMIT}",
            text.len()
        )));
    }
    // The file is a mount of its own: it can be written, but nothing can be renamed onto it.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Fault::Broken(format!("the output cannot be written to {path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Variables {
        Variables::from([
            ("ONCILLA_IDEMPOTENCY_KEY", "7b1c5f6e-98a5-5d1f-8a37-3f1d7c0e2b11"),
            ("ONCILLA_ATTEMPT", "2"),
            ("ONCILLA_FENCE", "1795946400001"),
            ("ONCILLA_RUN", "order-1042"),
            ("ONCILLA_STEP", "charge"),
            ("HOSTNAME", "order-1042-charge-x7k2p"),
        ])
    }

    #[test]
    fn an_attempt_is_read_from_the_environment() {
        let attempt = Attempt::from_variables(&complete()).unwrap();
        assert_eq!((attempt.number, attempt.fence), (2, 1_795_946_400_001));
        assert_eq!((attempt.run.as_str(), attempt.step.as_str()), ("order-1042", "charge"));
        assert_eq!(attempt.pod, "order-1042-charge-x7k2p");
    }

    #[test]
    fn all_faults_of_the_environment_are_named_at_once() {
        let Err(Fault::Input(faults)) = Attempt::from_variables(&Variables::from([
            ("ONCILLA_IDEMPOTENCY_KEY", "order-1042"),
            ("ONCILLA_FENCE", ""),
        ])) else {
            panic!("accepted")
        };
        assert_eq!(
            faults[..3],
            [
                r#"ONCILLA_IDEMPOTENCY_KEY is "order-1042", not a UUID"#,
                "ONCILLA_ATTEMPT is not set",
                "ONCILLA_FENCE is not set",
            ]
        );
    }

    #[test]
    fn the_output_replaces_what_an_earlier_write_left_in_the_same_file() {
        let path = env::temp_dir().join(format!("shop-output-{}", std::process::id()));
        fs::write(&path, "a longer text that was there before").unwrap();
        let variables = Variables::from([("ONCILLA_OUTPUT", path.to_str().unwrap())]);
        write_output(&variables, r#"{"paid":true}"#).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        let too_long = write_output(&variables, &"x".repeat(OUTPUT_LIMIT + 1));
        let kept = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(written, r#"{"paid":true}"#);
        assert_eq!(
            too_long,
            Err(Fault::Broken("the output has 4096 bytes, the limit is 4095".to_owned()))
        );
        assert_eq!(kept, written, "an output that is too long must not be written in part");
    }
}
