//! The command line: one module a subcommand.

mod controller;
mod crd;
pub mod validate;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs workflows on Kubernetes; a step that is recorded as succeeded never runs again.
#[derive(Parser)]
#[command(name = "oncilla", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print what is generated from the API's types: the CustomResourceDefinition, unless an option asks for something else.
    Crd(crd::Args),
    /// Run the controller: in a pod with a service account, or with KUBECONFIG from a shell.
    Controller(controller::Args),
    /// Check manifests as the API server and the controller would, without a cluster.
    Validate(validate::Args),
}

/// Runs the command that the process was started with. The exit code is 0 if it did what was asked, 1 if not, and 2 if it was
/// called wrongly.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Crd(args) => crd::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Validate(args) => validate::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            // If even this cannot be written, the exit code is all that is left to say.
            let _ = writeln!(std::io::stderr(), "oncilla: {message}");
            ExitCode::FAILURE
        }
    }
}
