//! A Rust source file as the checks see it: comments and literals blanked out, tests told from code.
//!
//! This is a scanner of characters, not a parser. It knows comments (nested), strings (raw, byte, C), character
//! literals and lifetimes; whatever a macro makes of the rest is not its concern.
//!
//! ```text
//!   let a = "fn {"; // {          becomes          let a =       ;
//! ```

use std::ops::Range;

/// One source file.
pub(crate) struct Source {
    /// The text with every comment and literal blanked; newlines stay, so line numbers hold.
    pub(crate) code: String,
    /// Where the literals are, without comments.
    pub(crate) literals: Vec<Range<usize>>,
    /// How many lines stand before the in-file test module (all, if there is none).
    pub(crate) body_lines: usize,
    /// Names of test modules declared here that lie in files of their own.
    pub(crate) test_modules: Vec<String>,
}

/// A function: its name, the line of its `fn` (from 1), and how many lines of code it has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) code_lines: usize,
}

impl Source {
    /// Scan `text`.
    pub(crate) fn new(text: &str) -> Source {
        let (code, literals) = blank(text);
        let mut body_lines = code.lines().count();
        let mut test_modules = Vec::new();
        let lines: Vec<&str> = code.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            if !(line.trim_start().starts_with("#[cfg(test)]")
                || line.trim_start().starts_with("#[cfg(all(test"))
            {
                continue;
            }
            let tail = lines[n..].join(" ");
            match module_after_attributes(&tail) {
                Some((_, true)) => {
                    body_lines = n;
                    break;
                }
                Some((name, false)) => test_modules.push(name),
                None => {}
            }
        }
        Source { code, literals, body_lines, test_modules }
    }

    /// The code before the test module.
    pub(crate) fn body(&self) -> String {
        self.code.lines().take(self.body_lines).collect::<Vec<_>>().join("\n")
    }

    /// The code with everything blanked that is built for tests only; newlines stay.
    pub(crate) fn outside_tests(&self) -> String {
        let code = self.body();
        let bytes = code.as_bytes();
        let mut out = bytes.to_vec();
        for (at, _) in code.match_indices("#[cfg(test)]").chain(code.match_indices("#[cfg(all(test")) {
            let end = match body_start(bytes, at) {
                Some(open) => matching_brace(bytes, open),
                None => code[at..].find(';').map(|length| at + length),
            };
            let end = end.map_or(out.len(), |last| last + 1);
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Lines of code (not blank, not comment) before the test module.
    pub(crate) fn code_lines(&self) -> usize {
        self.code.lines().take(self.body_lines).filter(|line| !line.trim().is_empty()).count()
    }

    /// Every function before the test module.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let body = self.body();
        let bytes = body.as_bytes();
        words(&body)
            .filter(|&(_, word)| word == "fn")
            .filter_map(|(at, _)| {
                let (name_at, name) = words(&body[at + 2..]).next()?;
                // `fn(u8) -> u8` is a type: no name follows directly.
                if !body[at + 2..at + 2 + name_at].trim().is_empty() {
                    return None;
                }
                let open = body_start(bytes, at + 2 + name_at)?;
                let close = matching_brace(bytes, open)?;
                let code_lines = body[at..=close].lines().filter(|line| !line.trim().is_empty()).count();
                Some(Function { name: name.to_owned(), line: body[..at].lines().count().max(1), code_lines })
            })
            .collect()
    }
}

/// Every identifier or keyword of `code` with its position.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_part)?;
        let end = code[start..].find(|c: char| !is_part(c)).map_or(code.len(), |length| start + length);
        at = end;
        Some((start, &code[start..end]))
    })
}

/// The name of the module that `text` declares after its leading attributes, and whether its body is in line.
fn module_after_attributes(text: &str) -> Option<(String, bool)> {
    let mut rest = text.trim_start();
    while rest.starts_with('#') {
        let mut depth = 0;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ']' && depth == 0
        })?;
        rest = rest[end + 1..].trim_start();
    }
    let mut heads = rest.split_whitespace();
    let mut word = heads.next()?;
    while word.starts_with("pub") {
        word = heads.next()?;
    }
    let name = (word == "mod").then(|| heads.next()).flatten()?;
    Some((name.trim_end_matches([';', '{']).to_owned(), !name.ends_with(';')))
}

/// The `{` that opens a function's body, or none for a declaration that ends in `;`.
fn body_start(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (n, &byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(n),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching_brace(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (n, &byte) in bytes.iter().enumerate().skip(open) {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth == 0 {
            return Some(n);
        }
    }
    None
}

/// `text` with comments and literals replaced by spaces of the same length, and where the literals were.
fn blank(text: &str) -> (String, Vec<Range<usize>>) {
    let mut literals = Vec::new();
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' | b'b' | b'c' if !preceded_by_word(bytes, at) => prefixed_end(bytes, at),
            b'\'' => character_end(text, at),
            _ => at,
        };
        if end == at {
            at += 1;
            continue;
        }
        if bytes[at] != b'/' {
            literals.push(at..end);
        }
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Whole literals and comments were replaced, so no character was cut; anything else is a bug here.
    (String::from_utf8_lossy(&out).into_owned(), literals)
}

fn preceded_by_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut n) = (0usize, at);
    while n + 1 < bytes.len() {
        match &bytes[n..n + 2] {
            b"/*" => (depth, n) = (depth + 1, n + 2),
            b"*/" if depth == 1 => return n + 2,
            b"*/" => (depth, n) = (depth - 1, n + 2),
            _ => n += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], quote: usize) -> usize {
    let mut n = quote + 1;
    while n < bytes.len() {
        match bytes[n] {
            b'\\' => n += 2,
            b'"' => return n + 1,
            _ => n += 1,
        }
    }
    bytes.len()
}

/// The end of `b"…"`, `c"…"`, `r#"…"#`, `br"…"`, `b'…'`; `at` itself if none begins here.
fn prefixed_end(bytes: &[u8], at: usize) -> usize {
    let letters = bytes[at..].iter().take(2).take_while(|b| matches!(b, b'r' | b'b' | b'c')).count();
    let raw = bytes[at..at + letters].contains(&b'r');
    let hashes = bytes[at + letters..].iter().take_while(|&&b| b == b'#').count();
    let quote = at + letters + hashes;
    match bytes.get(quote) {
        Some(b'"') if raw => {
            let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
            let found = bytes[quote + 1..].windows(close.len()).position(|window| window == close);
            found.map_or(bytes.len(), |n| quote + 1 + n + close.len())
        }
        Some(b'"') if hashes == 0 => string_end(bytes, quote),
        _ => at,
    }
}

/// The end of a character literal; `at` itself where the quote opens a lifetime.
fn character_end(text: &str, at: usize) -> usize {
    let mut inside = text[at + 1..].char_indices();
    match inside.next() {
        Some((_, '\\')) => text[at + 3..].find('\'').map_or(text.len(), |n| at + 3 + n + 1),
        Some(_) => match inside.next() {
            Some((n, '\'')) => at + 1 + n + 1,
            _ => at,
        },
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank() {
        let text = r##"let a = "fn {"; /* { /* } */ */ let b = r#"" {"#; let c: &'a str = b"\"{"; '{' '\'' '\u{7b}' // {"##;
        let (code, literals) = blank(text);
        assert_eq!(literals.len(), 6);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains('{') && !code.contains('}'), "{code}");
        assert!(code.contains("&'a str"), "{code}");
    }

    #[test]
    fn functions_are_counted_without_comments() {
        let source = Source::new(
            "impl A {\n    fn one(\n        &self, f: fn(u8) -> u8,\n    ) -> [u8; 2] {\n        // why\n\n        two(\"}\")\n    }\n}\ntrait T { fn gone(&self); }\n",
        );
        assert_eq!(source.functions(), [Function { name: "one".into(), line: 2, code_lines: 5 }]);
    }

    #[test]
    fn a_test_module_ends_the_body() {
        let source = Source::new(
            "fn a() {}\n#[cfg(test)]\nmod model;\nfn b() {}\n#[cfg(test)]\n#[allow(x[1])]\nmod tests {\n    fn c() {}\n}\n",
        );
        assert_eq!(source.test_modules, ["model"]);
        assert_eq!(source.functions().len(), 2);
        assert_eq!(source.code_lines(), 4);
    }

    #[test]
    fn a_test_only_function_does_not_end_the_body() {
        assert_eq!(Source::new("#[cfg(test)]\nfn a() {}\nfn b() {}\n").body_lines, 3);
    }
}
