//! Every WorkflowRun in the documents and under examples/ is one that the API server takes and `oncilla validate` finds sound.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use oncilla::api::WorkflowRun;
use serde::Deserialize;
use serde_json::Value;

use crate::support::cluster::Cluster;
use crate::support::install::install;

/// A manifest, and where it stands.
struct Manifest {
    place: String,
    text: String,
}

/// Markdown files at the top and below docs/ and demo/, and everything below examples/.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let top = std::fs::read_dir(root).expect("the top folder");
    files.extend(top.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    for folder in ["docs", "demo", "examples"] {
        below(&root.join(folder), &mut files);
    }
    files.sort();
    files
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// The WorkflowRuns in a file: the documents of a YAML file, or the blocks of a Markdown file that are marked as YAML.
fn manifests(path: &Path) -> Vec<Manifest> {
    let text = || std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display();
    let blocks = match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => vec![(1, text())],
        Some("md") => yaml_blocks(&text()),
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for (line, block) in blocks {
        for text in block.split("\n---\n") {
            if text.lines().any(is_kind) {
                let (place, text) = (format!("{name}, from line {line}"), text.to_owned());
                found.push(Manifest { place, text });
            }
        }
    }
    // One in another kind of block, or in none, would not be looked at.
    let written = text().lines().filter(|line| is_kind(line.trim_start())).count();
    assert_eq!(found.len(), written, "{name}: WorkflowRuns in yaml blocks, and all");
    found
}

/// Whether the line makes its document a WorkflowRun.
fn is_kind(line: &str) -> bool {
    line.trim_end() == "kind: WorkflowRun"
}

/// The fenced blocks marked yaml, each with the number of its first line and without the indentation of its fence.
fn yaml_blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let words = line.trim_start();
        match &mut open {
            Some((first, _, block)) if words.starts_with("```") => {
                blocks.push((*first, std::mem::take(block)));
                open = None;
            }
            Some((_, indent, block)) => {
                block.push_str(line.get(*indent..).unwrap_or_default());
                block.push('\n');
            }
            None if words.starts_with("```yaml") => {
                open = Some((number + 2, line.len() - words.len(), String::new()));
            }
            None => {}
        }
    }
    blocks
}

/// What `oncilla validate --strict` says of it, if it finds anything.
fn validate(text: &str) -> Result<(), String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oncilla"))
        .args(["validate", "--strict", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("oncilla runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_run_in_the_documents_and_examples_is_accepted() {
    let cluster = Cluster::connect().await;
    install(&cluster).await;
    let namespace = cluster.namespace("documents").await;
    let runs: Api<DynamicObject> = Api::namespaced_with(
        cluster.admin.clone(),
        &namespace.name,
        &ApiResource::erase::<WorkflowRun>(&()),
    );
    let mut accepted = Vec::new();
    let mut refused = Vec::new();
    for manifest in files().iter().flat_map(|path| manifests(path)) {
        let Manifest { place, text } = manifest;
        let answer = async {
            validate(&text)?;
            let object = serde_yaml::Deserializer::from_str(&text);
            let object = DynamicObject::deserialize(object).map_err(|error| error.to_string())?;
            let name = object
                .metadata
                .name
                .clone()
                .or(object.metadata.generate_name.clone())
                .unwrap_or_default();
            let params = PatchParams::apply("tests").dry_run().validation_strict();
            let applied = runs
                .patch(&name, &params, &Patch::Apply(&object))
                .await
                .map_err(|error| error.to_string())?;
            unchanged(&object.data["spec"], &applied.data["spec"])
        };
        match answer.await {
            Ok(()) => accepted.push(place),
            Err(error) => refused.push(format!("{place}:\n{error}")),
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    // That the search finds nothing must not pass for success.
    for needed in ["README.md", "examples/order.yaml", "examples/diamond.yaml"] {
        assert!(
            accepted.iter().any(|place| place.starts_with(needed)),
            "none in {needed}: {accepted:#?}"
        );
    }
    namespace.finish().await;
}

/// The API server must keep what was written.
fn unchanged(before: &Value, after: &Value) -> Result<(), String> {
    if before == after {
        Ok(())
    } else {
        Err(format!("the API server makes\n{after:#}\nof\n{before:#}"))
    }
}

#[test]
fn blocks_are_found_in_lists_too() {
    let text = "a\n```yaml\nkind: A\n```\n- b\n  ```yaml\n  kind: B\n    x: y\n  ```\n```console\nkind: C\n```\n";
    let blocks = yaml_blocks(text);
    assert_eq!(
        blocks,
        [(3, "kind: A\n".to_owned()), (7, "kind: B\n  x: y\n".to_owned())]
    );
}
