//! Generated files are committed, so that readers, kubectl and the chart find them; each has to say what the code says.

use std::fs;
use std::path::Path;

use oncilla::crdgen;

#[test]
fn every_generated_file_is_what_the_code_generates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    for file in crdgen::files() {
        match fs::read_to_string(root.join(file.path)) {
            Err(error) => faults.push(format!("{}: {error}", file.path)),
            Ok(committed) if committed != file.content => faults.push(format!(
                "{}:{} differs from what the code generates",
                file.path,
                first_difference(&committed, &file.content)
            )),
            Ok(_) => {}
        }
    }
    assert!(
        faults.is_empty(),
        "{}\nRun `make generate` and commit what it changes.",
        faults.join("\n")
    );
}

#[test]
fn the_files_are_written_where_the_check_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    crdgen::write(folder.path()).unwrap();
    for file in crdgen::files() {
        let written = fs::read_to_string(folder.path().join(file.path)).unwrap();
        assert_eq!(written, file.content, "{}", file.path);
    }
}

/// The number of the first line that is not the same.
fn first_difference(a: &str, b: &str) -> usize {
    let same = a.lines().zip(b.lines()).take_while(|(a, b)| a == b);
    same.count() + 1
}
