//! A finding shown in its source: file, line and column, the line, and the text underlined.

use std::io::{self, Write};

use super::{Finding, Severity};

/// Most columns of a source line that are shown.
const WIDTH: usize = 120;
/// Columns that are kept before the underlined text when a line is cut.
const BEFORE: usize = 40;

/// How findings are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// With the colours of a terminal.
    pub color: bool,
}

/// A file's text, by lines.
pub struct Snippets<'a> {
    name: &'a str,
    text: &'a str,
    lines: Vec<usize>,
}

/// A line and a column, both from 1; columns are counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl<'a> Snippets<'a> {
    /// `name` stands before every line number.
    pub fn new(name: &'a str, text: &'a str) -> Snippets<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(offset, _)| offset + 1)).collect();
        Snippets { name, text, lines }
    }

    /// Where a byte stands.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.floor(offset);
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        Position {
            line,
            column: self.text[start..offset].chars().count() + 1,
        }
    }

    fn floor(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }

    fn line(&self, number: usize) -> &'a str {
        let start = self.lines[number - 1];
        let end = self.lines.get(number).map_or(self.text.len(), |next| next - 1);
        self.text[start..end].trim_end_matches('\r')
    }

    /// Writes a finding: what, where, the source, what to do.
    pub fn write(&self, finding: &Finding, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let (kind, frame, bold, reset) = match (style.color, finding.severity) {
            (false, _) => ("", "", "", ""),
            (true, Severity::Error) => ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"),
            (true, Severity::Warning) => ("\x1b[1;33m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"),
            (true, Severity::Note) => ("\x1b[1;36m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"),
        };
        let at = self.position(finding.at.start);
        let path = match finding.path.as_str() {
            "" => String::new(),
            path => format!("{}: ", visible(path)),
        };
        let severity = finding.severity.as_str();
        writeln!(
            out,
            "{kind}{severity}{reset}{bold}: {path}{}{reset}",
            visible(&finding.message)
        )?;

        let gutter = " ".repeat(at.line.to_string().len());
        let (name, line, column) = (visible(self.name), at.line, at.column);
        writeln!(out, "{gutter}{frame}-->{reset} {name}:{line}:{column}")?;

        let (source, indent, carets) = self.marked(finding, at);
        writeln!(out, "{gutter} {frame}|{reset}")?;
        writeln!(out, "{frame}{line} |{reset} {source}")?;
        writeln!(out, "{gutter} {frame}|{reset} {indent}{kind}{carets}{reset}")?;
        if let Some(help) = &finding.help {
            writeln!(out, "{gutter} {frame}={reset} {bold}help{reset}: {}", visible(help))?;
        }
        writeln!(out)
    }

    /// The line as it is shown, the blanks below it up to the text, and the line that underlines it.
    fn marked(&self, finding: &Finding, at: Position) -> (String, String, String) {
        let line = self.line(at.line);
        let start = self.floor(finding.at.start) - self.lines[at.line - 1];
        let start = start.min(line.len());
        // Text of several lines is underlined on its first.
        let end = (self.floor(finding.at.end.max(finding.at.start)) - self.lines[at.line - 1]).clamp(start, line.len());
        // A line may be the whole file; what is far from the text is not looked at.
        let (head, tail) = (ends(&line[..start], WIDTH), begins(&line[end..], WIDTH));
        let (before, marked, after) = (shown(head), shown(begins(&line[start..end], WIDTH + 1)), shown(tail));
        let far = head.len() < start;

        let (before, cut) =
            match far || width(&before) > BEFORE && width(&before) + width(&marked) + width(&after) > WIDTH {
                true => (last(&before, BEFORE), "…"),
                false => (before, ""),
            };
        let room = WIDTH.saturating_sub(width(&before) + cut.len().min(1));
        let rest = format!("{marked}{after}");
        let rest = match width(&rest) > room {
            true => format!("{}…", first(&rest, room.saturating_sub(1))),
            false => rest,
        };
        let carets = width(&marked).clamp(1, room.max(1));
        (
            format!("{cut}{before}{rest}").trim_end().to_owned(),
            " ".repeat(width(cut) + width(&before)),
            "^".repeat(carets),
        )
    }
}

/// The first characters of a text.
fn begins(text: &str, characters: usize) -> &str {
    text.char_indices()
        .nth(characters)
        .map_or(text, |(end, _)| &text[..end])
}

/// The last characters of a text.
fn ends(text: &str, characters: usize) -> &str {
    text.char_indices()
        .nth_back(characters.saturating_sub(1))
        .map_or(text, |(start, _)| &text[start..])
}

/// Source text with tabs spelt out and nothing that a terminal would obey.
fn shown(text: &str) -> String {
    visible(&text.replace('\t', "    "))
}

/// Control characters, and those that turn the direction of text, made visible.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Columns on a terminal.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

fn first(text: &str, columns: usize) -> String {
    let mut left = columns;
    text.chars()
        .take_while(|c| {
            let fits = char_width(*c) <= left;
            left = left.saturating_sub(char_width(*c));
            fits
        })
        .collect()
}

fn last(text: &str, columns: usize) -> String {
    let reversed: String = text.chars().rev().collect();
    first(&reversed, columns).chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, at: std::ops::Range<usize>) -> String {
        let mut out = Vec::new();
        let finding = Finding::error(at, "wrong").at_path("spec.x").help("do this");
        Snippets::new("f.yaml", text)
            .write(&finding, Style::default(), &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_finding_is_shown_where_it_stands() {
        assert_eq!(
            written("a: 1\nb: two\n", 8..11),
            "error: spec.x: wrong\n --> f.yaml:2:4\n  |\n2 | b: two\n  |    ^^^\n  = help: do this\n\n"
        );
    }

    #[test]
    fn the_underline_fits_tabs_and_wide_characters() {
        let text = "\tä: 漢字 x\n";
        let x = text.find('x').unwrap();
        assert!(written(text, x..x + 1).contains("1 |     ä: 漢字 x\n  |             ^\n"));
        let wide = text.find('漢').unwrap();
        assert!(written(text, wide..wide + 6).contains("\n  |        ^^^^\n"));
    }

    #[test]
    fn long_lines_are_cut_around_the_text() {
        let text = format!("{}HERE{}", "a".repeat(1000), "b".repeat(1000));
        let out = written(&text, 1000..1004);
        let lines: Vec<_> = out.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH + 8), "{out}");
        assert!(lines[3].contains("aHEREb") && lines[3].ends_with('…'), "{out}");
        let column = lines[3].chars().position(|c| c == 'H').unwrap();
        assert_eq!(lines[4].chars().position(|c| c == '^'), Some(column));
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_written() {
        let out = written("a: \u{1b}[2J\u{202e}x\r\n", 3..4);
        assert!(!out.contains(['\u{1b}', '\u{202e}', '\r']), "{out:?}");
    }

    #[test]
    fn every_place_can_be_shown() {
        let text = "é\n\n漢: x";
        for start in 0..=text.len() + 2 {
            for end in start..=text.len() + 2 {
                written(text, start..end);
            }
        }
        written("", 0..0);
    }
}
