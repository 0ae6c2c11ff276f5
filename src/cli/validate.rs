//! `oncilla validate`: every fault of a manifest before it is applied, without a cluster.
//!
//! Two parties refuse a run: the API server by the CRD's schema, when it is applied, and the controller, when it makes a plan
//! of it. Both are asked here, by the same schema and the same code, and each answer is shown where it stands in the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::api::names::{GROUP, VERSION};
use crate::crdgen;
use crate::manifest::{self, Content, Finding, Findings, Node, Path, Schema, Segment, Severity, Snippets, Style};
use crate::plan::{self, RunInfo};

const KIND: &str = "WorkflowRun";

/// Exit code: something could not be read, so nothing is known about it.
const UNREADABLE: u8 = 2;

#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 all sound, 1 faults found, 2 a file could not be read or the command is wrong.")]
pub struct Args {
    /// Manifests in YAML or JSON; `-` is standard input. Objects of other kinds are passed over.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to report.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Let warnings fail as well.
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people: every finding with its source.
    Text,
    /// One JSON document.
    Json,
}

/// What was found in a file.
pub struct Report {
    /// WorkflowRuns in it.
    pub runs: usize,
    /// In the order of the file.
    pub findings: Vec<Finding>,
    /// At least so many findings beyond those that are told.
    pub more: usize,
}

impl Report {
    /// How many findings of a severity are told.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }
}

pub fn run(args: &Args) -> Result<ExitCode, String> {
    let schema = Schema::new(&crdgen::crd()).map_err(|error| format!("the CRD's schema is unsound: {error}"))?;
    let stdout = io::stdout();
    let style = Style {
        color: stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let mut out = io::BufWriter::new(stdout.lock());
    let mut totals = Totals::default();
    let mut files = Vec::new();
    let mut write = |args: &Args| -> io::Result<()> {
        for path in &args.files {
            let name = name(path);
            match read(path) {
                Ok(bytes) => {
                    let (text, report) = check(&bytes, &schema);
                    totals.add(&report);
                    match args.output {
                        Output::Text => write_text(&name, &text, &report, style, &mut out)?,
                        Output::Json => files.push(file_json(&name, &text, &report)),
                    }
                }
                Err(error) => {
                    totals.unreadable += 1;
                    if args.output == Output::Json {
                        files.push(json!({"file": name, "unreadable": error.to_string()}));
                    }
                    // Text goes out first, so that both streams tell the same order.
                    out.flush()?;
                    writeln!(io::stderr().lock(), "oncilla: cannot read {name}: {error}")?;
                }
            }
        }
        match args.output {
            Output::Text => writeln!(out, "{}", totals.sentence(args.files.len()))?,
            Output::Json => {
                let (errors, warnings) = (totals.errors, totals.warnings);
                let report = json!({"files": files, "errors": errors, "warnings": warnings});
                serde_json::to_writer_pretty(&mut out, &report)?;
                writeln!(out)?;
            }
        }
        out.flush()
    };
    match write(args) {
        // Whoever read it has seen enough; the verdict stands.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            // Not 1, which says that faults were found.
            let _ = writeln!(io::stderr(), "oncilla: cannot write the report: {error}");
            return Ok(ExitCode::from(UNREADABLE));
        }
        _ => {}
    }
    Ok(totals.verdict(args.strict))
}

#[derive(Default)]
struct Totals {
    runs: usize,
    errors: usize,
    warnings: usize,
    faulty_files: usize,
    unreadable: usize,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        let errors = report.count(Severity::Error);
        self.runs += report.runs;
        self.errors += errors;
        self.warnings += report.count(Severity::Warning);
        self.faulty_files += usize::from(errors > 0);
    }

    fn verdict(&self, strict: bool) -> ExitCode {
        if self.unreadable > 0 {
            ExitCode::from(UNREADABLE)
        } else if self.errors > 0 || (strict && self.warnings > 0) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    fn sentence(&self, files: usize) -> String {
        let warnings = match self.warnings {
            0 => String::new(),
            warnings => format!(", {}", counted(warnings, "warning")),
        };
        let unreadable = match self.unreadable {
            0 => String::new(),
            unreadable => format!(", {} unreadable", counted(unreadable, "file")),
        };
        let (runs, files) = (counted(self.runs, "run"), counted(files, "file"));
        match self.errors {
            0 => format!("{runs} in {files}: no errors{warnings}{unreadable}"),
            errors => format!("{runs} in {files}: {}{warnings}{unreadable}", counted(errors, "error")),
        }
    }
}

fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// What a file is called in reports.
fn name(path: &FilePath) -> String {
    match path.to_str() {
        Some("-") => "<stdin>".into(),
        _ => path.display().to_string(),
    }
}

fn read(path: &FilePath) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = manifest::MAX_BYTES as u64 + 1;
    if path.to_str() == Some("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    if bytes.len() > manifest::MAX_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {} MiB",
            manifest::MAX_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// Checks a file. Returns its text, which the findings speak of, as well.
pub fn check(bytes: &[u8], schema: &Schema) -> (String, Report) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) => {
            let start = error.valid_up_to();
            let text = String::from_utf8_lossy(bytes).into_owned();
            let at = start..(start + '\u{fffd}'.len_utf8()).min(text.len());
            let finding = Finding::error(at, "this is no text in UTF-8").help("save the file as UTF-8");
            let findings = vec![finding];
            return (
                text,
                Report {
                    runs: 0,
                    findings,
                    more: 0,
                },
            );
        }
    };
    let reading = manifest::read(&text);
    let mut findings = reading.findings;
    let unread = findings.iter().any(|finding| finding.severity == Severity::Error);
    let mut runs = 0;
    for document in &reading.documents {
        for (object, base) in objects(document) {
            runs += usize::from(check_object(&text, object, &base, schema, &mut findings));
        }
    }
    if runs == 0 && !unread && findings.iter().all(|finding| finding.severity != Severity::Error) {
        findings.push(Finding::warning(0..0, format!("there is no {KIND} in this file")));
    }
    let (findings, more) = findings.into_sorted();
    (text, Report { runs, findings, more })
}

/// A document's objects: itself, or the items of a List, as kubectl takes them.
fn objects(document: &Node) -> Vec<(&Node, Path)> {
    let is_list = document
        .get("kind")
        .and_then(Node::as_str)
        .is_some_and(|kind| kind.ends_with("List"));
    match document.get("items").map(|items| &items.content) {
        Some(Content::Sequence(items)) if is_list => {
            let base = Path::parse("items");
            items
                .iter()
                .enumerate()
                .map(|(index, item)| (item, base.index(index)))
                .collect()
        }
        _ => vec![(document, Path::default())],
    }
}

/// Checks an object, if it is a run; whether it is.
fn check_object(text: &str, object: &Node, base: &Path, schema: &Schema, findings: &mut Findings) -> bool {
    if !is_run(object, base, findings) {
        return false;
    }
    // Faults of other objects must not silence those of this one.
    let mut own = Findings::default();
    let value = schema.check(text, object, base, &mut own);
    if value["spec"].is_object() {
        let said: Vec<Path> = own
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(|finding| Path(Path::parse(&finding.path).0.split_off(base.0.len())))
            .collect();
        let (faults, more) = plan_faults(&value);
        own.count_more(more);
        for fault in faults {
            let path = Path::parse(&fault.path);
            // A container that does not fit Kubernetes' type is one because of what was found in it.
            let whole = matches!(path.0.last(), Some(Segment::Key(key)) if key == "container" || key == "podTemplate");
            let said = said
                .iter()
                .any(|said| path.is_within(said) || (whole && said.is_within(&path)));
            if !said {
                let at = place_of(text, &path, &fault, object);
                let path = Path([base.0.as_slice(), path.0.as_slice()].concat());
                own.push(Finding::error(at, fault.message).at_path(path.to_string()));
            }
        }
    }
    manifest::advise(text, object, base, &mut own);
    findings.append(own);
    true
}

/// Where to show a fault of the plan: at the part of a string that is wrong, at a param's name if that is, else at the whole value.
fn place_of(text: &str, path: &Path, fault: &plan::Fault, object: &Node) -> Range<usize> {
    let (node, at) = path.find(object);
    if let (Some(node), Some(part)) = (node, &fault.part)
        && let Some(at) = node.part(text, part)
    {
        return at;
    }
    match path.0.as_slice() {
        [Segment::Key(spec), Segment::Key(params), Segment::Key(name)]
            if spec == "spec" && params == "params" && !is_param_name(name) =>
        {
            let params = object.get("spec").and_then(|spec| spec.get("params"));
            let entry = params.and_then(|params| params.entry(name));
            entry.map_or(at, |entry| entry.key_at.clone())
        }
        _ => at,
    }
}

fn is_param_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// What the controller would refuse.
fn plan_faults(object: &Value) -> (Vec<plan::Fault>, usize) {
    let metadata = &object["metadata"];
    let string = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
    let labels: BTreeMap<_, _> = metadata["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let run = RunInfo {
        name: string(&metadata["name"], "run"),
        namespace: string(&metadata["namespace"], "default"),
        // The API server gives it.
        uid: "00000000-0000-0000-0000-000000000000".into(),
        labels,
    };
    plan::faults(&run, &object["spec"], Findings::MAX)
}

/// Whether an object is meant to be a run. Says what is wrong if it is nearly one, and what is passed over if it is not.
fn is_run(object: &Node, base: &Path, findings: &mut Findings) -> bool {
    let wanted = format!("{GROUP}/{VERSION}");
    let (_, place) = Path::default().find(object);
    let field = |name: &str| Path([base.0.as_slice(), &Path::parse(name).0].concat()).to_string();
    if !matches!(object.content, Content::Mapping(_)) {
        findings
            .push(Finding::error(place, "this is no Kubernetes object: it has no fields").at_path(base.to_string()));
        return false;
    }
    let (version, version_at) = Path::parse("apiVersion").find(object);
    let (kind, kind_at) = Path::parse("kind").find(object);
    let (version, kind) = (version.and_then(Node::as_str), kind.and_then(Node::as_str));
    let ours = version.is_some_and(|version| {
        version.split('/').next() == Some(GROUP) || strsim::osa_distance(&clip(version), &wanted) <= 4
    });
    let run = kind.is_some_and(|kind| strsim::osa_distance(&clip(kind), KIND) <= 3);
    match (version, kind) {
        (Some(version), Some(KIND)) if version == wanted => true,
        (Some(version), Some(KIND)) if !ours => {
            let message = format!("this {KIND} is of {version} and is passed over");
            findings.push(Finding::new(Severity::Note, version_at, message).at_path(field("apiVersion")));
            false
        }
        (version, Some(KIND)) => {
            let message = match version {
                Some(_) => format!("must be {wanted}"),
                None => format!("is required and missing: {wanted}"),
            };
            findings.push(Finding::error(version_at, message).at_path(field("apiVersion")));
            true
        }
        (_, Some(_)) if ours && run => {
            let finding = Finding::error(kind_at, format!("{wanted} has no such kind"));
            findings.push(finding.at_path(field("kind")).help(format!("did you mean {KIND}?")));
            true
        }
        (Some(_), Some(kind)) if ours => {
            let finding = Finding::error(kind_at, format!("{wanted} has no kind {}", clip(kind)));
            findings.push(finding.at_path(field("kind")).help(format!("its kind is {KIND}")));
            false
        }
        (Some(version), Some(kind)) => {
            let message = format!("{} of {} is passed over", clip(kind), clip(version));
            findings.push(Finding::new(Severity::Note, kind_at, message).at_path(field("kind")));
            false
        }
        (None, Some(_)) => {
            let finding = Finding::error(place, "is required and missing").at_path(field("apiVersion"));
            findings.push(finding);
            false
        }
        (_, None) => {
            let finding = Finding::error(place, "is required and missing").at_path(field("kind"));
            findings.push(match ours {
                true => finding.help(format!("kind: {KIND}")),
                false => finding,
            });
            ours
        }
    }
}

fn clip(text: &str) -> String {
    text.chars().take(60).collect()
}

fn write_text(name: &str, text: &str, report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let snippets = Snippets::new(name, text);
    for finding in &report.findings {
        snippets.write(finding, style, out)?;
    }
    if report.more > 0 {
        writeln!(out, "note: {name}: and at least {} more\n", report.more)?;
    }
    Ok(())
}

fn file_json(name: &str, text: &str, report: &Report) -> Value {
    let snippets = Snippets::new(name, text);
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            let (start, end) = (snippets.position(finding.at.start), snippets.position(finding.at.end));
            let mut json = json!({
                "severity": finding.severity.as_str(),
                "message": finding.message,
                "line": start.line,
                "column": start.column,
                "endLine": end.line,
                "endColumn": end.column,
            });
            if !finding.path.is_empty() {
                json["path"] = json!(finding.path);
            }
            if let Some(help) = &finding.help {
                json["help"] = json!(help);
            }
            json
        })
        .collect();
    json!({"file": name, "runs": report.runs, "findings": findings, "more": report.more})
}
