//! `oncilla validate` offline: YAML is read as kubectl reads it, every fault is shown where it stands, and the exit code is
//! one that scripts can use.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use oncilla::cli::validate::Report;
use oncilla::manifest::{self, Schema, Severity, Snippets, Style};
use proptest::prelude::*;
use serde_json::Value;

/// A file and what kubectl made of it.
struct Case {
    name: &'static str,
    source: String,
    observed: Result<Value, &'static str>,
}

fn kubectl_cases() -> Vec<Case> {
    let text = include_str!("validate/kubectl.txt").replace('␢', "\u{feff}");
    let text: &'static str = text.leak();
    text.split("\n=== ")
        .skip(1)
        .map(|case| {
            let (name, rest) = case.split_once('\n').unwrap();
            let end = rest.rfind("\n--").unwrap() + 1;
            let (source, observed) = rest.split_at(end);
            let source = source.replace('␍', "\r").replace('␁', "\u{1}");
            let source = match name.ends_with("end of the file") {
                true => source.trim_end().to_owned(),
                false => source,
            };
            let observed = match observed.split_once(' ').unwrap() {
                ("-->", json) => Ok(serde_json::from_str(json).unwrap()),
                ("--!", message) => Err(message.trim_end()),
                (mark, _) => panic!("{name}: {mark}"),
            };
            Case { name, source, observed }
        })
        .collect()
}

/// Equal as the API server compares them: 1 and 1.0 are the same number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

#[test]
fn yaml_is_read_as_kubectl_reads_it() {
    let cases = kubectl_cases();
    assert!(cases.len() > 80, "{}", cases.len());
    let mut wrong = Vec::new();
    for Case { name, source, observed } in &cases {
        let reading = manifest::read(source);
        let errors: Vec<_> = reading
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        match observed {
            Ok(spec) => {
                // The parser with positions does not take this; a blank before the colon is all it asks for.
                if *name == "an alias as a key with a colon" {
                    assert!(!errors.is_empty(), "{name} is no exception any more");
                    continue;
                }
                // kubectl drops a value without a word; nobody wants that.
                let twice = name.starts_with("duplicate keys");
                if errors.is_empty() == twice {
                    wrong.push(format!("{name}: {errors:?}"));
                }
                let read = reading
                    .documents
                    .first()
                    .and_then(|document| document.get("spec"))
                    .map(|spec| spec.to_json());
                if !read.as_ref().is_some_and(|read| equal(read, spec)) {
                    wrong.push(format!(
                        "{name}:\n  kubectl {spec}\n  here    {}",
                        read.unwrap_or_default()
                    ));
                }
            }
            Err(message) => {
                if errors.is_empty() {
                    wrong.push(format!("{name}: kubectl says: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the parser of kubectl says against a file is said here in the same words.
#[test]
fn a_syntax_error_is_told_in_the_words_of_kubectl() {
    let mut told = 0;
    for Case { name, source, observed } in kubectl_cases() {
        let Err(message) = observed else { continue };
        if matches!(name, "an empty key" | "an anchor with a colon") {
            continue;
        }
        let ours = [
            "json: ",
            "unsupported",
            "invalid",
            "cannot decode",
            "!!binary",
            "unknown anchor",
            "anchor 'x'",
            "map merge",
        ];
        if ours.iter().any(|words| message.starts_with(words)) {
            continue;
        }
        let reading = manifest::read(&source);
        let said: Vec<_> = reading
            .findings
            .iter()
            .map(|finding| finding.message.as_str())
            .collect();
        assert!(
            said.iter().any(|said| said.contains(message)),
            "{name}: {message}: {said:?}"
        );
        told += 1;
    }
    assert!(told > 20, "{told}");
}

/// Where the files of these tests are; `oncilla` runs here, so that it names them without a folder.
fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/validate")
}

fn oncilla(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oncilla"))
        .arg("validate")
        .args(arguments)
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What is said about each file of the folder, word by word. `ONCILLA_WRITE_EXPECTED=1` writes the answers anew.
#[test]
fn every_fault_is_shown_where_it_stands() {
    let mut files: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".json"))
        .collect();
    files.sort();
    assert!(files.len() > 10);
    for file in files {
        let output = oncilla(&[&file], "");
        let said = format!(
            "{}exit code {}\n",
            String::from_utf8(output.stdout).unwrap(),
            output.status.code().unwrap()
        );
        let path = folder().join(format!("{file}.out"));
        if std::env::var_os("ONCILLA_WRITE_EXPECTED").is_some() {
            std::fs::write(path, said).unwrap();
        } else {
            let expected = std::fs::read_to_string(&path).unwrap();
            let lines = said.lines().zip(expected.lines());
            let other = lines.enumerate().find(|(_, (said, expected))| said != expected);
            assert!(
                said == expected,
                "{file} is answered otherwise than its .out says, first at {other:?}"
            );
        }
    }
}

/// What people copy has to be above suspicion: no warnings either.
#[test]
fn the_examples_are_sound() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut runs = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let report = check(&std::fs::read(&path).unwrap());
            let told: Vec<_> = report
                .findings
                .iter()
                .filter(|finding| finding.severity != Severity::Note)
                .collect();
            assert!(told.is_empty(), "{}: {told:?}", path.display());
            runs += report.runs;
        }
    }
    assert!(runs > 0);
}

/// The document shows what is really written.
#[test]
fn the_document_shows_real_output() {
    let document = include_str!("../docs/validate.md");
    let expected = std::fs::read_to_string(folder().join("order.yaml.out")).unwrap();
    let output = expected.split("exit code").next().unwrap();
    assert!(output.contains("error: "));
    assert!(document.contains(output), "docs/validate.md has to hold:\n{output}");
}

#[test]
fn exit_codes_are_for_scripts() {
    let code = |arguments: &[&str], stdin: &str| oncilla(arguments, stdin).status.code().unwrap();
    assert_eq!(code(&["sound.yaml", "sound.json"], ""), 0);
    assert_eq!(code(&["sound.yaml", "graph.yaml"], ""), 1);
    assert_eq!(code(&["warnings.yaml"], ""), 0);
    assert_eq!(code(&["--strict", "warnings.yaml"], ""), 1);
    assert_eq!(code(&["--strict", "sound.yaml"], ""), 0);
    assert_eq!(code(&["graph.yaml", "no-such-file.yaml"], ""), 2);
    assert_eq!(code(&["."], ""), 2);
    assert_eq!(code(&[], ""), 2);
    assert_eq!(code(&["--output", "xml", "sound.yaml"], ""), 2);
    let sound = std::fs::read_to_string(folder().join("sound.yaml")).unwrap();
    assert_eq!(code(&["-"], &sound), 0);
    assert_eq!(code(&["-"], "kind: WorkflowRun\n"), 1);
    assert_eq!(code(&["-"], &" ".repeat(manifest::MAX_BYTES)), 0);
    assert_eq!(code(&["-"], &" ".repeat(manifest::MAX_BYTES + 1)), 2);
}

/// A report that could not be written is no verdict.
#[test]
fn a_full_disk_is_no_verdict() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_oncilla"))
        .args(["validate", "graph.yaml"])
        .current_dir(folder())
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn the_report_is_also_json() {
    let output = oncilla(
        &["--output", "json", "graph.yaml", "no-such-file.yaml", "-"],
        "\u{feff}a: b: c",
    );
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["errors"], 8);
    assert_eq!(report["warnings"], 0);
    assert_eq!(
        report["files"][0]["findings"][1],
        serde_json::json!({
            "severity": "error",
            "path": "spec.steps[2].needs[1]",
            "message": "must be lowercase letters, digits and `-`, beginning with a letter and ending with a letter or digit",
            "help": "for example reserve-stock",
            "line": 17,
            "column": 28,
            "endLine": 17,
            "endColumn": 41,
        })
    );
    assert!(report["files"][1]["unreadable"].is_string());
    assert_eq!(report["files"][2]["file"], "<stdin>");
    assert_eq!(report["files"][2]["findings"][0]["line"], 1);
}

/// The verdict is asked of the library, as a program would.
fn check(source: &[u8]) -> Report {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::new(&oncilla::crdgen::crd()).unwrap());
    oncilla::cli::validate::check(source, &SCHEMA).1
}

fn errors(source: &[u8]) -> Vec<String> {
    let report = check(source);
    let errors = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| finding.message.clone()).collect()
}

#[test]
fn bombs_are_refused() {
    let laughs: String = (1..30)
        .map(|i| format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}]\n", i - 1))
        .collect();
    let deep_anchors: String = (1..90)
        .map(|i| format!("a{i}: &a{i} {}*a{}{}\n", "[".repeat(50), i - 1, "]".repeat(50)))
        .collect();
    let merges: String = (1..30)
        .map(|i| format!("a{i}: &a{i} {{<<: [*a{0}, *a{0}], b{i}: *a{0}}}\n", i - 1))
        .collect();
    let long = "x".repeat(1 << 20);
    let copies = "- *a\n".repeat(1000);
    for (bomb, said) in [
        (format!("a0: &a0 x\n{laughs}"), "make too much of it"),
        (format!("a0: &a0 x\n{deep_anchors}"), "make too much of it"),
        (format!("a0: &a0 {{x: y}}\n{merges}"), "make too much of it"),
        (format!("- &a {long}\n{copies}"), "make too much of it"),
        ("[".repeat(100_000), ""),
        ("{a: ".repeat(100_000), ""),
        ("- ".repeat(100_000), ""),
        ("? ".repeat(100_000), ""),
        ((0..3_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect(), ""),
        (format!("a: *b\n{}", "[".repeat(100_000)), ""),
        ("---\n".repeat(manifest::MAX_DOCUMENTS + 1), "documents"),
        (format!("{}1{}", "[".repeat(200), "]".repeat(200)), "inside each other"),
    ] {
        let errors = errors(bomb.as_bytes());
        assert!(
            errors.iter().any(|error| error.contains(said)),
            "{}: {errors:?}",
            bomb.get(..40).unwrap_or(&bomb)
        );
    }
}

#[test]
fn a_file_of_faults_is_told_in_part() {
    let fields: String = (0..5_000)
        .map(|i| format!("  unknown{i}: &x {{a: 1, a: 2}}\n"))
        .collect();
    let source = format!("apiVersion: oncilla.dev/v1alpha1\nkind: WorkflowRun\nmetadata: {{name: a}}\nspec:\n{fields}");
    let report = check(source.as_bytes());
    assert_eq!(report.findings.len(), manifest::Findings::MAX);
    assert!(report.more > 4_000, "{}", report.more);
}

/// The controller has to be brief; this has not.
#[test]
fn all_faults_of_the_controller_are_told_or_counted() {
    let steps: String = (0..250)
        .map(|i| format!("  - {{name: s{i}, container: {{image: a, args: [\"$[[ params.nope{i} ]]\"]}}}}\n"))
        .collect();
    let head = "apiVersion: oncilla.dev/v1alpha1\nkind: WorkflowRun\nmetadata: {name: a}\nspec:\n  steps:\n";
    let report = check(format!("{head}{steps}").as_bytes());
    assert_eq!((report.findings.len(), report.more), (manifest::Findings::MAX, 50));
    assert_eq!(report.findings[199].message, "there is no param nope199");
}

#[test]
fn many_notes_hide_no_error() {
    let others = "kind: ConfigMap\napiVersion: v1\n---\n".repeat(manifest::Findings::MAX + 1);
    let report = check(format!("{others}kind: WorkflowRun\n").as_bytes());
    assert_eq!(report.count(Severity::Note), manifest::Findings::MAX);
    assert!(report.count(Severity::Error) > 0);
}

#[test]
fn text_that_is_not_utf8_is_a_fault() {
    let report = check(b"a: \xff\n");
    assert_eq!(report.findings[0].at, 3..6);
    assert!(report.findings[0].message.contains("UTF-8"));
    assert_eq!(report.count(Severity::Error), 1);
}

/// Lines of a manifest, sound and broken, from which files are put together.
fn lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "apiVersion: oncilla.dev/v1alpha1",
        "kind: WorkflowRun",
        "kind: List",
        "items:",
        "metadata: {name: a}",
        "spec:",
        "steps:",
        "- name: a",
        "- &x {name: b, needs: [a], <<: *x}",
        "name: NO",
        "when: $[[ params.a ? 'x' : steps.b.output #1 ]]",
        "container: &c {image: x, command: [sh, -c, \"$[[ a\"]}",
        "container: *c",
        "<<: *c",
        "params: {a: 0123, on: .nan, ~: 1}",
        "retry: {maxAttempts: $[[ 1 ]]}",
        "timeout: |",
        "---",
        "...",
        "? [a]",
        ": b",
        "\t- x",
        "\"open",
        "# é漢\u{1f600}\u{feff}",
        "!!binary x: !y",
    ]);
    let indent = prop::sample::select(vec!["", "", "  ", "    ", "      "]);
    prop::collection::vec((indent, line), 0..30).prop_map(|lines| {
        lines
            .into_iter()
            .map(|(indent, line)| format!("{indent}{line}\n"))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever stands in a file, there is an answer, the same each time, and it speaks of places that are there.
    #[test]
    fn every_file_has_an_answer(
        source in prop_oneof![lines(), "[ -~\n\t]{0,200}", "\\PC{0,80}", "[\\[\\]{}:,&*!|>'\"#%@`a \n-]{0,120}"],
        cut in any::<prop::sample::Index>(),
    ) {
        let mut end = cut.index(source.len() + 1);
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        for source in [&source[..], &source[..end]] {
            let report = check(source.as_bytes());
            prop_assert_eq!(&report.findings, &check(source.as_bytes()).findings);
            for finding in &report.findings {
                prop_assert!(finding.at.start <= finding.at.end, "{finding:?}");
                prop_assert!(source.get(finding.at.clone()).is_some(), "{finding:?}");
                let mut out = Vec::new();
                Snippets::new("f", source).write(finding, Style { color: true }, &mut out).unwrap();
            }
        }
    }
}
