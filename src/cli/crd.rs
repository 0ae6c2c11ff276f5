//! `oncilla crd`: prints or writes what is generated from the API's types.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::crdgen;

#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Args {
    /// Print the ValidatingAdmissionPolicies and their bindings.
    #[arg(long)]
    policies: bool,
    /// Print the field reference in Markdown.
    #[arg(long)]
    reference: bool,
    /// Write every generated file into this clone of the repository instead.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode, String> {
    if let Some(root) = &args.write {
        crdgen::write(root)
            .map_err(|error| format!("cannot write the generated files below {}: {error}", root.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match args {
        Args { policies: true, .. } => crdgen::policies_yaml(),
        Args { reference: true, .. } => crdgen::reference_markdown(),
        _ => crdgen::crd_yaml(),
    };
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        result => result
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("cannot write to standard output: {error}")),
    }
}
