//! What only a reader of the text can tell: values that are sound but are probably not what their writer meant, because YAML
//! or a shell makes something else of them.

use serde_json::Value;

use super::path::Path;
use super::words::number_words;
use super::{Content, Entry, Finding, Findings, Node, ScalarNode, Severity};

/// Looks through an object's spec. Where a place has an error already, its help is made better instead of a warning added.
pub fn advise(text: &str, object: &Node, base: &Path, findings: &mut Findings) {
    let Some(spec) = object.get("spec") else {
        return;
    };
    let path = Path([base.0.as_slice(), Path::parse("spec").0.as_slice()].concat());
    let mut advice = Advice { text, findings };
    advice.walk(spec, &path);
    let defaults = spec.get("defaults").and_then(|defaults| defaults.get("container"));
    if let Some(Content::Sequence(steps)) = spec.get("steps").map(|steps| &steps.content) {
        let steps_path = path.key("steps");
        for (index, step) in steps.iter().enumerate() {
            if let Some(container) = step.get("container") {
                let path = steps_path.index(index).key("container");
                advice.shell(container, defaults, &path);
            }
        }
    }
}

struct Advice<'a> {
    text: &'a str,
    findings: &'a mut Findings,
}

impl Advice<'_> {
    fn warn(&mut self, path: &Path, at: std::ops::Range<usize>, message: String, help: String) {
        if self.findings.is_full(Severity::Warning) {
            return self.findings.push(Finding::warning(at, message));
        }
        let path = path.to_string();
        let told = self
            .findings
            .iter_mut()
            .filter(|finding| finding.severity == Severity::Error)
            .find(|finding| finding.path == path || finding.at == at);
        match told {
            Some(error) => {
                error.help.get_or_insert(help);
            }
            None => self
                .findings
                .push(Finding::warning(at, message).at_path(path).help(help)),
        }
    }

    fn walk(&mut self, node: &Node, path: &Path) {
        match &node.content {
            Content::Scalar(scalar) => self.scalar(node, scalar, path),
            Content::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(item, &path.index(index));
                }
            }
            Content::Mapping(entries) => {
                for entry in entries {
                    let path = path.key(&entry.key);
                    self.key(entry, &path);
                    self.walk(&entry.value, &path);
                }
            }
        }
    }

    fn key(&mut self, entry: &Entry, path: &Path) {
        let written = self.text.get(entry.key_at.clone()).unwrap_or_default();
        let quoted = written.starts_with(['"', '\'', '*', '&', '!', '?']);
        if !quoted && written != entry.key {
            self.warn(
                path,
                entry.key_at.clone(),
                format!("YAML reads the key {written} as {}", entry.key),
                format!("quote it if it is meant as text: \"{written}\""),
            );
        }
    }

    fn scalar(&mut self, node: &Node, scalar: &ScalarNode, path: &Path) {
        let written = scalar.text.as_str();
        if scalar.plain && scalar.tag.is_none() {
            if self.cut_by_comment(node, scalar, path) {
                return;
            }
            let read = match &scalar.value {
                Value::Bool(value) if !written.eq_ignore_ascii_case(&value.to_string()) => value.to_string(),
                Value::Number(value) if number_words(value) != written && value.to_string() != written => {
                    format!("the number {}", number_words(value))
                }
                _ => String::new(),
            };
            if !read.is_empty() {
                self.warn(
                    path,
                    node.at.clone(),
                    format!("YAML reads {written} as {read}"),
                    format!("quote it if it is meant as text: \"{written}\""),
                );
            }
        }
        if written.contains("${{") && !written.contains("$[[") {
            self.warn(
                path,
                node.at.clone(),
                "`${{ }}` is plain text here".into(),
                "an expression is written $[[ … ]]".into(),
            );
        }
    }

    /// ` #` begins a comment, also inside an expression. The value that is left looks as if its end were forgotten.
    fn cut_by_comment(&mut self, node: &Node, scalar: &ScalarNode, path: &Path) -> bool {
        let open = scalar
            .text
            .rfind("$[[")
            .is_some_and(|start| !scalar.text[start..].contains("]]"));
        let odd = |quote| scalar.text.matches(quote).count() % 2 == 1;
        if !open && !odd('\'') && !odd('"') {
            return false;
        }
        let rest = self.text.get(node.at.end..).unwrap_or_default();
        let rest = rest.lines().next().unwrap_or_default().trim_end();
        if !rest.trim_start().starts_with('#') || !rest.starts_with([' ', '\t']) {
            return false;
        }
        let whole = format!("{}{rest}", scalar.text);
        let quoted = match whole.contains(['"', '\\']) {
            true => format!("'{}'", whole.replace('\'', "''")),
            false => format!("\"{whole}\""),
        };
        let help = format!("YAML takes what follows ` #` for a comment: write {quoted}");
        let at = node.at.start..node.at.end + rest.len();
        let path_text = path.to_string();
        let told = self
            .findings
            .iter_mut()
            .find(|finding| finding.severity == Severity::Error && finding.path == path_text);
        match told {
            Some(error) => {
                error.help = Some(help);
                error.at = at;
            }
            None => self.warn(path, at, "the value ends before ` #`".into(), help),
        }
        true
    }

    /// `[sh, -c, "… $[[ x ]] …"]`: what the expression gives becomes a part of the program.
    fn shell(&mut self, container: &Node, defaults: Option<&Node>, path: &Path) {
        let list = |field: &str| -> (Vec<(Option<Path>, &Node)>, bool) {
            let (holder, own) = match container.get(field) {
                Some(list) => (Some(list), true),
                None => (defaults.and_then(|defaults| defaults.get(field)), false),
            };
            let items = match holder.map(|list| &list.content) {
                Some(Content::Sequence(items)) => items.as_slice(),
                _ => &[],
            };
            let path = path.key(field);
            let items = items
                .iter()
                .enumerate()
                .map(|(index, item)| (own.then(|| path.index(index)), item))
                .collect();
            (items, own)
        };
        let (mut words, _) = list("command");
        words.extend(list("args").0);
        let Some(flag) = words.iter().position(|(_, word)| word.as_str().is_some_and(runs_text)) else {
            return;
        };
        let Some((Some(path), script)) = words.get(flag + 1) else {
            return;
        };
        let text = script.as_str().unwrap_or_default();
        // An escaped `$$[[` is text.
        let Some(start) = first_expression(text) else {
            return;
        };
        let end = text[start..].find("]]").map_or(text.len(), |end| start + end + 2);
        let expression = match &text[start..end] {
            short if end - start <= 60 && !short.contains(['"', '\n']) => short,
            _ => "$[[ … ]]",
        };
        let at = script.part(self.text, &(start..end)).unwrap_or(script.at.clone());
        self.warn(
            path,
            at,
            "the value of the expression becomes a part of the script, and can end a quote or begin a command".into(),
            format!("give it to the script by the environment: env: [{{name: VALUE, value: \"{expression}\"}}], and \"$VALUE\" in the script"),
        );
    }
}

/// Where the first expression in `text` begins, its `$[[` included.
fn first_expression(text: &str) -> Option<usize> {
    let mut found = text.match_indices("$[[").map(|(at, _)| at);
    found.find(|at| !text[..*at].ends_with('$'))
}

/// `-c`, alone or with other letters as in `-ec`: what follows is a program.
fn runs_text(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|letters| {
        letters.ends_with('c') && letters.len() <= 6 && letters.bytes().all(|b| b.is_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_expression_is_text() {
        assert_eq!(first_expression("echo $[[ params.x ]]"), Some(5));
        assert_eq!(first_expression("echo $$[[ a ]]"), None);
        assert_eq!(first_expression("echo $$[[ a $[[ params.x ]]"), Some(12));
    }
}
