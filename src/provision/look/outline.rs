//! What indentation says: lockfiles of pnpm and yarn are written by programs, one key a line, so that a
//! reader of indented lines reads all of them, several times faster than one of YAML would.

/// A line with what is indented below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Before the colon, or the whole of an item of a list; without quotes.
    pub key: String,
    /// After it, without quotes; empty where there is nothing.
    pub value: String,
    /// What is indented further.
    pub below: Vec<Entry>,
}

impl Entry {
    /// Returns the entry of that name below this one.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.below.iter().find(|entry| entry.key == key)
    }

    /// Returns the entries below the one of that name.
    pub fn list(&self, key: &str) -> &[Entry] {
        self.get(key).map_or(&[], |entry| &entry.below)
    }

    /// Returns the value of the one of that name; empty where there is none.
    pub fn text(&self, key: &str) -> &str {
        self.get(key).map_or("", |entry| &entry.value)
    }
}

/// Returns a text as a tree; of several documents the last. Never fails: what is no such text gives a tree
/// without the keys that its reader asks for.
pub(super) fn parse(text: &str) -> Entry {
    let mut stack: Vec<(usize, Entry)> = vec![(0, Entry::default())];
    for line in text.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let mut indent = line.len() - content.len();
        if indent == 0 && content.trim_end() == "---" {
            stack = vec![(0, Entry::default())];
            continue;
        }
        let mut content = content.trim_end();
        // A key that is too long for one line: `? key`, and its value after `: ` below.
        if let Some(rest) = content.strip_prefix("? ") {
            close(&mut stack, indent);
            let key = scalar(rest).0;
            stack.push((indent, Entry { key, ..Entry::default() }));
            continue;
        }
        if let Some(rest) = content.strip_prefix(": ") {
            indent += 2;
            content = rest.trim_start();
        }
        close(&mut stack, indent);
        let entry = match content.strip_prefix("- ") {
            Some(item) => Entry { key: scalar(item).0, ..Entry::default() },
            None => pair(content),
        };
        stack.push((indent, entry));
    }
    close(&mut stack, 0);
    stack.swap_remove(0).1
}

/// Puts entries that are indented as far or further into those above them.
fn close(stack: &mut Vec<(usize, Entry)>, indent: usize) {
    while stack.len() > 1 && stack[stack.len() - 1].0 >= indent {
        if let Some((_, entry)) = stack.pop()
            && let Some((_, parent)) = stack.last_mut()
        {
            parent.below.push(entry);
        }
    }
}

/// Returns a line as key and value: `key: value`, or `key "value"` as yarn 1 has it.
fn pair(line: &str) -> Entry {
    let (key, rest) = match line.starts_with(['"', '\'']) {
        true => scalar(line),
        false => match line.split_once(": ") {
            Some((key, value)) => (key.to_string(), value.to_string()),
            None if line.ends_with(':') => (line[..line.len() - 1].to_string(), String::new()),
            None => match line.split_once(' ') {
                Some((key, value)) => (key.to_string(), value.to_string()),
                None => (line.to_string(), String::new()),
            },
        },
    };
    // The head of an entry of yarn 1 has several keys, each quoted or not.
    if rest.starts_with(',') {
        let keys = line.trim_end_matches(':').split(", ").map(|key| scalar(key).0);
        return Entry { key: keys.collect::<Vec<_>>().join(", "), ..Entry::default() };
    }
    let value = rest.trim_start_matches(':').trim();
    Entry { key, value: scalar(value).0, below: Vec::new() }
}

/// Returns a scalar without its quotes, and what follows it.
fn scalar(text: &str) -> (String, String) {
    let mut letters = text.char_indices();
    let Some((_, quote @ ('"' | '\''))) = letters.next() else { return (text.to_string(), String::new()) };
    let mut plain = String::new();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if quote == '"' => plain.extend(letters.next().map(|(_, letter)| letter)),
            letter if letter == quote => {
                let rest = &text[at + 1..];
                // A quote in single quotes is doubled.
                if quote == '\'' && rest.starts_with('\'') {
                    plain.push('\'');
                    letters.next();
                    continue;
                }
                return (plain, rest.to_string());
            }
            letter => plain.push(letter),
        }
    }
    (text.to_string(), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_pnpm_writes() {
        let tree = parse(
            "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n      a:\n        specifier: workspace:*\n        version: link:packages/a\n\npackages:\n\n  '@x/y@1.0.0':\n    resolution: {integrity: sha512-a==}\n    cpu: [x64]\n  ? 'long@1.0.0'\n  : dependencies:\n      q: 1.0.0\n    optional: true\nskipped:\n  - /a/1\n  - 'b''c'\n",
        );
        assert_eq!(tree.text("lockfileVersion"), "9.0");
        let importer = tree.get("importers").unwrap().get(".").unwrap();
        assert_eq!(importer.list("dependencies")[0].text("version"), "link:packages/a");
        let packages = tree.list("packages");
        assert_eq!((packages[0].key.as_str(), packages[0].text("cpu")), ("@x/y@1.0.0", "[x64]"));
        assert_eq!((packages[1].key.as_str(), packages[1].text("optional")), ("long@1.0.0", "true"));
        assert_eq!(packages[1].list("dependencies")[0].value, "1.0.0");
        let skipped: Vec<&str> = tree.list("skipped").iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(skipped, ["/a/1", "b'c"]);
    }

    #[test]
    fn it_reads_what_both_yarns_write() {
        let classic = parse(
            "# yarn lockfile v1\n\n\n\"@x/y@^1\", \"@x/y@~1.2\":\n  version \"1.2.3\"\n  dependencies:\n    a \"^1.0\"\n    \"@b/c\" \"2 || 3\"\n\na@^1, a@^1.0:\n  version \"1.0.1\"\n",
        );
        let keys: Vec<&str> = classic.below.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["@x/y@^1, @x/y@~1.2", "a@^1, a@^1.0"]);
        assert_eq!(classic.below[0].text("version"), "1.2.3");
        let needs = classic.below[0].list("dependencies");
        assert_eq!((needs[1].key.as_str(), needs[1].value.as_str()), ("@b/c", "2 || 3"));
        let berry = parse(
            "__metadata:\n  version: 8\n\n\"a@npm:^1, a@npm:^2\":\n  version: 1.0.0\n  resolution: \"a@npm:1.0.0\"\n  dependencies:\n    b: \"npm:^1\"\n",
        );
        assert_eq!(berry.below[1].key, "a@npm:^1, a@npm:^2");
        assert_eq!(berry.below[1].text("resolution"), "a@npm:1.0.0");
        assert_eq!(berry.below[1].list("dependencies")[0].value, "npm:^1");
    }

    #[test]
    fn of_several_documents_the_last_counts() {
        assert_eq!(parse("---\na: 1\n---\nb: 2\n").text("b"), "2");
    }
}
