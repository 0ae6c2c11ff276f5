//! The step programs of the order workflow: `shop validate | charge | reserve | receipt | summary`.
//!
//! Each one is an ordinary program that happens to be safe to run again. It reads its input from arguments and the
//! environment, does its one piece of work under the idempotency key that Oncilla hands it, writes its result as one
//! line of JSON to the file named by `ONCILLA_OUTPUT`, and tells people on stdout what it did. When it fails, the same
//! file gets the explanation instead.
//!
//! | exit code | meaning                                                                    |
//! |-----------|----------------------------------------------------------------------------|
//! | 0         | done, or found done by an earlier attempt with the same key                |
//! | 1         | something that no new attempt is likely to mend (a missing table, no output file) |
//! | 2         | bad input: the arguments, the environment or the order itself              |
//! | 3         | refused: not enough stock                                                  |
//! | 4         | refused: a newer attempt of this step has written already                  |
//! | 75        | try again: the database cannot be reached or was busy (`EX_TEMPFAIL`)      |

mod attempt;
mod fault;
mod ledger;
mod order;
mod steps;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::attempt::{Variables, write_output};
use crate::fault::Fault;

const USAGE: &str = "\
usage: shop validate                  checks the order document in ORDER_JSON
       shop charge                    charges CENTS for ORDER, once per idempotency key
       shop reserve ORDER             reserves the stock of every line in ITEMS, all or nothing
       shop receipt RECEIPT           puts the receipt of ORDER into the outbox
       shop summary ORDER             sums up the outputs in CHARGED, RESERVED and MAILED
The database is named by PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE.";

fn main() -> ExitCode {
    let variables = Variables::of_process();
    let arguments: Vec<String> = env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    match run(&arguments, &variables).and_then(|output| write_output(&variables, &output.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            say(&format!("failed: {fault}"));
            // The text becomes the step's message. Without the file, stdout has it all the same.
            if let Err(second) = write_output(&variables, &fault.to_string()) {
                say(&format!("and could not report it: {second}"));
            }
            ExitCode::from(fault.exit_code())
        }
    }
}

fn run(arguments: &[String], variables: &Variables) -> Result<serde_json::Value, Fault> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["validate"] => steps::validate::run(variables),
        ["charge"] => steps::charge::run(variables),
        ["reserve", order] => steps::reserve::run(variables, order),
        ["receipt", receipt] => steps::receipt::run(variables, receipt),
        ["summary", order] => steps::summary::run(variables, order),
        _ => Err(Fault::input(USAGE)),
    }
}

/// One line for people, on stdout. A closed stdout must not decide whether a charge succeeds, so a failure is ignored.
fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
