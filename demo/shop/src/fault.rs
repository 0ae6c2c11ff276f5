//! What can go wrong in a step, and the exit code that tells the workflow what kind it was.

use std::error::Error;
use std::fmt;

/// Why a step did not do its work.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The input is wrong: every fault that was found, not only the first.
    Input(Vec<String>),
    /// The shop does not have what the order asks for.
    OutOfStock(Vec<String>),
    /// A newer attempt of the same step has been at work: this one must not write any more.
    Fenced { ours: i64, newest: i64 },
    /// Nothing was decided; the same call may well succeed later.
    TryAgain(String),
    /// Trying again is not likely to help.
    Broken(String),
}

impl Fault {
    pub fn input(fault: impl Into<String>) -> Self {
        Self::Input(vec![fault.into()])
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Broken(_) => 1,
            Self::Input(_) => 2,
            Self::OutOfStock(_) => 3,
            Self::Fenced { .. } => 4,
            Self::TryAgain(_) => 75,
        }
    }

    /// The word under which the `attempts` table files this end.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Input(_) => "bad input",
            Self::OutOfStock(_) => "out of stock",
            Self::Fenced { .. } => "fenced",
            Self::TryAgain(_) | Self::Broken(_) => "failed",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(faults) => out.write_str(&faults.join("; ")),
            Self::OutOfStock(lines) => write!(out, "not enough stock: {}", lines.join("; ")),
            Self::Fenced { ours, newest } => write!(
                out,
                "an attempt with fence {newest} has written already, this one has {ours}: its work is left to the newer one"
            ),
            Self::TryAgain(why) | Self::Broken(why) => out.write_str(why),
        }
    }
}

impl From<postgres::Error> for Fault {
    fn from(error: postgres::Error) -> Self {
        // The crate's own text for a server's answer is just "db error".
        let text = match error.as_db_error() {
            Some(answer) => format!("the database answered {}: {}", answer.code().code(), answer.message()),
            None => match error.source() {
                Some(cause) => format!("the database cannot be used: {error}: {cause}"),
                None => format!("the database cannot be used: {error}"),
            },
        };
        if worth_another_try(error.code().map(|code| code.code())) {
            Self::TryAgain(text)
        } else {
            Self::Broken(text)
        }
    }
}

/// Whether an SQLSTATE speaks of the moment (a lost connection, a deadlock, a full server) and not of the request.
/// No SQLSTATE at all means that no answer came.
fn worth_another_try(sqlstate: Option<&str>) -> bool {
    let Some(code) = sqlstate else { return true };
    // 08 connection, 40 serialization and deadlock, 53 resources, 55P03 lock timeout, 57 shutdown and statement timeout.
    ["08", "40", "53", "57"].iter().any(|class| code.starts_with(class)) || code == "55P03"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_has_an_exit_code_of_its_own() {
        let faults = [
            (Fault::Broken("no table".into()), 1),
            (Fault::input("no order"), 2),
            (Fault::OutOfStock(vec!["A-7".into()]), 3),
            (Fault::Fenced { ours: 1, newest: 2 }, 4),
            (Fault::TryAgain("refused".into()), 75),
        ];
        for (fault, code) in faults {
            assert_eq!(fault.exit_code(), code, "{fault}");
        }
    }

    #[test]
    fn only_what_speaks_of_the_moment_is_worth_another_try() {
        for code in ["08006", "40001", "40P01", "53300", "55P03", "57014", "57P03"] {
            assert!(worth_another_try(Some(code)), "{code}");
        }
        assert!(worth_another_try(None), "a lost connection");
        for code in ["42P01", "28P01", "23514", "22P02", "55006"] {
            assert!(!worth_another_try(Some(code)), "{code}");
        }
    }
}
