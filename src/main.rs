//! The `oncilla` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncilla::cli::run()
}
