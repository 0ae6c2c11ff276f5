//! YAML events made into a tree: positions, anchors, merges, duplicate keys.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span, Tag};

use super::resolve::{Scalar, resolve};
use super::{Content, Entry, Finding, Findings, Node, Reading, ScalarNode, explain};

/// Most collections inside each other. No Kubernetes object comes near it.
pub const MAX_DEPTH: usize = 100;

/// How much aliases may add to a document: a node counts as 64, its text as its bytes. Far more than fits an API server, far
/// less than fills the memory.
const ALIAS_BUDGET: usize = 16 << 20;

/// Brackets up to which a text that one parser has refused is given to the other, whose time grows with the square of the
/// open ones.
const MAX_BRACKETS: usize = 2_000;

const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Reads the document at `chunk` of `text`. kubectl reads the first one of a chunk and passes over what follows a `...` line.
pub fn document(text: &str, chunk: Range<usize>, json: bool, reading: &mut Reading) {
    let source = &text[chunk.clone()];
    let built = Builder::new(chunk.start, source, json, &mut reading.findings).build();
    let brackets = || source.bytes().filter(|b| matches!(b, b'[' | b'{')).count();
    let refused = match &built {
        Err(Stop::Refused(finding)) => {
            reading.findings.push(finding.clone());
            return;
        }
        _ if json => None,
        Err(Stop::Syntax(_)) if brackets() > MAX_BRACKETS => None,
        _ => libyaml_refuses(source),
    };
    // The second parser has the same origin as kubectl's. Where it refuses, kubectl does too, in the same words.
    if let Some((message, offset)) = refused {
        let offset = chunk.start + offset.min(source.len());
        reading.findings.push(explain::syntax(text, &chunk, offset, &message));
        return;
    }
    match built {
        // An empty document is no object; kubectl passes it over.
        Ok(root) => reading.documents.extend(root.filter(|root| !root.is_null())),
        Err(Stop::Syntax(error)) => {
            let offset = error.marker().byte_offset().unwrap_or(0);
            let offset = chunk.start + offset.min(source.len());
            reading
                .findings
                .push(explain::syntax(text, &chunk, offset, &error.info()));
        }
        Err(Stop::Refused(_)) => {}
    }
}

/// What libyaml says against the first document of a text, and at which byte. It counts characters.
fn libyaml_refuses(source: &str) -> Option<(String, usize)> {
    let document = serde_yaml::Deserializer::from_str(source).next()?;
    let error = serde::de::IgnoredAny::deserialize(document).err()?;
    let offset = error
        .location()
        .map_or(0, |location| byte_offset(source, location.line(), location.column()));
    let message = error.to_string();
    // The place is shown apart.
    let message = match message.find(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    };
    Some((message, offset))
}

/// The byte at a line and column, both from 1.
fn byte_offset(source: &str, line: usize, column: usize) -> usize {
    let mut start = 0;
    for (number, text) in source.split_inclusive('\n').enumerate() {
        if number + 1 == line {
            let within = text.char_indices().nth(column.saturating_sub(1));
            return start + within.map_or(text.len(), |(offset, _)| offset);
        }
        start += text.len();
    }
    start
}

/// Why a document could not be read to its end.
enum Stop {
    Syntax(granit_parser::ScanError),
    /// A limit of ours, or something that kubectl refuses after parsing.
    Refused(Finding),
}

/// A collection that is not closed yet.
enum Open {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<Slot>,
        index: HashMap<String, usize>,
        key: Option<Node>,
    },
}

/// An entry, and whether it came by a merge.
struct Slot {
    entry: Entry,
    merged: bool,
}

struct Builder<'a, 'f> {
    offset: usize,
    source: &'a str,
    json: bool,
    open: Vec<(usize, usize, Open)>,
    anchors: HashMap<usize, Node>,
    aliased: usize,
    root: Option<Node>,
    findings: &'f mut Findings,
}

impl<'a, 'f> Builder<'a, 'f> {
    fn new(offset: usize, source: &'a str, json: bool, findings: &'f mut Findings) -> Builder<'a, 'f> {
        Builder {
            offset,
            source,
            json,
            open: Vec::new(),
            anchors: HashMap::new(),
            aliased: 0,
            root: None,
            findings,
        }
    }

    fn build(mut self) -> Result<Option<Node>, Stop> {
        let options = granit_parser::options! {
            emit_comments: false,
            emit_anchor_events: true,
            flow_nesting_limit: MAX_DEPTH + 1,
            block_nesting_limit: MAX_DEPTH + 1,
            bom_inside_document_as_content: true,
        };
        let mut parser = Parser::new_from_str_with_options(self.source, options);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.stop(error))?;
            match event {
                Event::DocumentEnd => {
                    self.tell_about_the_rest(&span);
                    break;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let node = self.scalar(&text, style, tag.as_deref(), &span)?;
                    self.complete(node, anchor)?;
                }
                Event::Anchor(_, name) => self.anchor_name(&name, &span)?,
                Event::Alias(anchor) => {
                    let node = self.alias(anchor, &span)?;
                    self.complete(node, 0)?;
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.push(anchor, &span, Open::Sequence(Vec::new()))?;
                }
                Event::MappingStart(_, anchor, _) => {
                    let mapping = Open::Mapping {
                        entries: Vec::new(),
                        index: HashMap::new(),
                        key: None,
                    };
                    self.push(anchor, &span, mapping)?;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some((start, anchor, open)) = self.open.pop() {
                        let end = self.range(&span).end.max(start);
                        let content = match open {
                            Open::Sequence(items) => Content::Sequence(items),
                            Open::Mapping { entries, .. } => {
                                Content::Mapping(entries.into_iter().map(|slot| slot.entry).collect())
                            }
                        };
                        let at = start..end;
                        self.complete(Node { at, content }, anchor)?;
                    }
                }
                _ => {}
            }
        }
        Ok(self.root)
    }

    fn stop(&self, error: granit_parser::ScanError) -> Stop {
        if *error.kind() != granit_parser::ErrorKind::RecursionLimitExceeded {
            return Stop::Syntax(error);
        }
        let at = error.marker().byte_offset().unwrap_or(0);
        let at = self.offset + at.min(self.source.len());
        Stop::Refused(too_deep(at..at))
    }

    /// Bytes of the file's text.
    fn range(&self, span: &Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(0..0);
        let end = range.end.min(self.source.len());
        let start = range.start.min(end);
        // Block collections and block scalars end where the next token begins.
        let end = match self.source.get(start..end) {
            Some(text) => start + text.trim_end().len(),
            None => end,
        };
        self.offset + start..self.offset + end
    }

    fn push(&mut self, anchor: usize, span: &Span, open: Open) -> Result<(), Stop> {
        let at = self.range(span);
        if self.open.len() == MAX_DEPTH {
            return Err(Stop::Refused(too_deep(at)));
        }
        self.open.push((at.start, anchor, open));
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Result<Node, Stop> {
        let mut at = self.range(span);
        if style == ScalarStyle::DoubleQuoted && !self.json {
            self.escaped_slash(span)?;
        }
        let plain = style == ScalarStyle::Plain;
        let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        let resolved = resolve(text, plain, tag.as_deref()).and_then(|scalar| Ok((scalar.to_json()?, scalar)));
        if let Some(tag_at) = span.tag_start().and_then(|mark| mark.byte_offset()) {
            at.start = at.start.min(self.offset + tag_at);
        }
        let value = match resolved {
            // A merge key is no value; what it stands for is looked up by its text.
            Ok((value, _)) => value,
            Err(message) if self.expects_key() && text != "<<" => {
                return Err(Stop::Refused(Finding::error(at, message)));
            }
            Err(message) => {
                self.findings.push(
                    Finding::error(at.clone(), format!("kubectl refuses the value: {message}"))
                        .help("quote the value, or take out its tag"),
                );
                serde_json::Value::String(text.into())
            }
        };
        let content = Content::Scalar(ScalarNode {
            text: text.into(),
            plain,
            tag,
            value,
        });
        Ok(Node { at, content })
    }

    /// `\/` is an escape of JSON that newer YAML took over; kubectl's has not.
    fn escaped_slash(&self, span: &Span) -> Result<(), Stop> {
        let mut escaped = false;
        for (offset, byte) in span.slice(self.source).unwrap_or_default().bytes().enumerate() {
            if escaped && byte == b'/' {
                let slash = self.range(span).start + offset;
                return Err(Stop::Refused(
                    Finding::error(slash - 1..slash + 1, "this is no YAML: found unknown escape character")
                        .help("a slash needs no backslash"),
                ));
            }
            escaped = byte == b'\\' && !escaped;
        }
        Ok(())
    }

    /// YAML 1.2 lets an anchor hold nearly everything, YAML 1.1 only letters, digits, `-` and `_`: `&a: b` is a key there.
    fn anchor_name(&self, name: &str, span: &Span) -> Result<(), Stop> {
        if name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        {
            return Ok(());
        }
        Err(Stop::Refused(
            Finding::error(
                self.range(span),
                "the name of an anchor has other than letters, digits, `-` and `_`",
            )
            .help("put a blank after the name"),
        ))
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some((_, _, Open::Mapping { key: None, .. })))
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<Node, Stop> {
        let at = self.range(span);
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(Stop::Refused(Finding::error(
                at,
                "the alias stands inside of what it names",
            )));
        };
        let budget = ALIAS_BUDGET.saturating_sub(self.aliased);
        match weight(node, budget, MAX_DEPTH - self.open.len()) {
            Some(weight) => {
                self.aliased += weight;
                Ok(node.clone())
            }
            None => Err(Stop::Refused(
                Finding::error(at, "the aliases of this document make too much of it")
                    .help("write the values out, or use fewer aliases of aliases"),
            )),
        }
    }

    /// Puts a complete node where it belongs.
    fn complete(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            // Kept once more, so an anchor counts like an alias.
            let budget = ALIAS_BUDGET.saturating_sub(self.aliased);
            let Some(weight) = weight(&node, budget, MAX_DEPTH) else {
                return Err(Stop::Refused(Finding::error(
                    node.at,
                    "the anchors of this document make too much of it",
                )));
            };
            self.aliased += weight;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((_, _, Open::Sequence(items))) => items.push(node),
            Some((_, _, Open::Mapping { key: slot @ None, .. })) => *slot = Some(node),
            Some((
                _,
                _,
                Open::Mapping {
                    entries,
                    index,
                    key: slot @ Some(_),
                },
            )) => {
                if let Some(key) = slot.take() {
                    insert(entries, index, key, node, self.findings).map_err(Stop::Refused)?;
                }
            }
        }
        Ok(())
    }

    /// A second document in a chunk can only follow a `...` line.
    fn tell_about_the_rest(&mut self, span: &Span) {
        let from = span.byte_range().map_or(0, |range| range.start);
        let Some(rest) = self.source.get(from..) else {
            return;
        };
        let mut offset = self.offset + from;
        for line in rest.split_inclusive('\n') {
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') && text != "..." {
                let start = offset + (line.len() - line.trim_start().len());
                self.findings.push(
                    Finding::warning(
                        start..start + text.len(),
                        "kubectl does not read what follows a `...` line",
                    )
                    .help("begin the next document with `---`"),
                );
                return;
            }
            offset += line.len();
        }
    }
}

fn too_deep(at: Range<usize>) -> Finding {
    Finding::error(
        at,
        format!("more than {MAX_DEPTH} lists and mappings inside each other"),
    )
}

/// What a copy of the node costs; None if it is more than `budget`, or if it holds more than `depth` collections inside each
/// other.
fn weight(node: &Node, budget: usize, depth: usize) -> Option<usize> {
    let mut left = budget;
    let mut nodes = vec![(node, depth)];
    while let Some((node, depth)) = nodes.pop() {
        let mut cost = 64;
        let inside = depth.checked_sub(1);
        match &node.content {
            Content::Scalar(scalar) => cost += 2 * scalar.text.len(),
            Content::Sequence(items) => {
                let depth = inside?;
                nodes.extend(items.iter().map(|item| (item, depth)));
            }
            Content::Mapping(entries) => {
                let depth = inside?;
                cost += entries.iter().map(|entry| entry.key.len()).sum::<usize>();
                nodes.extend(entries.iter().map(|entry| (&entry.value, depth)));
            }
        }
        left = left.checked_sub(cost)?;
    }
    Some(budget - left)
}

/// Adds an entry. A key that is there already loses its value, as with kubectl, which says nothing about it.
fn insert(
    entries: &mut Vec<Slot>,
    index: &mut HashMap<String, usize>,
    key: Node,
    value: Node,
    findings: &mut Findings,
) -> Result<(), Finding> {
    let Content::Scalar(scalar) = &key.content else {
        return Err(explain::invalid_key(key.at));
    };
    let merges = match scalar.tag.as_deref() {
        None => scalar.plain,
        tag => tag == Some(MERGE_TAG),
    };
    if scalar.text == "<<" && merges {
        return merge(entries, index, key.at, value, findings);
    }
    let name = resolve(&scalar.text, scalar.plain, scalar.tag.as_deref())
        .and_then(|scalar: Scalar| scalar.to_key())
        .map_err(|message| {
            Finding::error(key.at.clone(), format!("kubectl refuses the key: {message}")).help("quote the key")
        })?;
    if let Some(&earlier) = index.get(&name)
        && !entries[earlier].merged
    {
        findings.push(
            Finding::error(
                key.at.clone(),
                format!("the key {name} is there twice: kubectl drops the first value without a word"),
            )
            .help("take one of them out"),
        );
    }
    let entry = Entry {
        key: name,
        key_at: key.at,
        value,
    };
    put(entries, index, entry, false);
    Ok(())
}

fn put(entries: &mut Vec<Slot>, index: &mut HashMap<String, usize>, entry: Entry, merged: bool) {
    match index.get(&entry.key) {
        Some(&earlier) => entries[earlier] = Slot { entry, merged },
        None => {
            index.insert(entry.key.clone(), entries.len());
            entries.push(Slot { entry, merged });
        }
    }
}

/// `<<: *a` or `<<: [*a, *b]`. The library of kubectl lets a merge win over keys that stand before it.
fn merge(
    entries: &mut Vec<Slot>,
    index: &mut HashMap<String, usize>,
    at: Range<usize>,
    value: Node,
    findings: &mut Findings,
) -> Result<(), Finding> {
    let refused = |at| Finding::error(at, "`<<` takes a mapping or a list of mappings");
    let sources = match value.content {
        Content::Mapping(source) => vec![source],
        Content::Sequence(items) => {
            let mut sources = Vec::new();
            for item in items {
                match item.content {
                    Content::Mapping(source) => sources.push(source),
                    _ => return Err(refused(at)),
                }
            }
            // The first one of a list wins.
            sources.reverse();
            sources
        }
        Content::Scalar(_) => return Err(refused(at)),
    };
    for entry in sources.into_iter().flatten() {
        if let Some(&earlier) = index.get(&entry.key)
            && !entries[earlier].merged
        {
            findings.push(
                Finding::warning(
                    entries[earlier].entry.key_at.clone(),
                    format!(
                        "kubectl replaces {} by the merged value, because `<<` stands after it",
                        entry.key
                    ),
                )
                .help("put `<<` first"),
            );
        }
        put(entries, index, entry, true);
    }
    Ok(())
}
