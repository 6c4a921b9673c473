//! The keys that were set, for telling two configurations apart without holding what they say.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::secret_ref::FILE_PREFIX;
use super::tree::{Step, show_key};

/// So much of a file that a key refers to is compared; no secret is longer.
const COMPARED_BYTES: u64 = 1024 * 1024;

type Print = [u8; 32];

/// Every key that the file or the environment sets, with the digest of its value; for `file:PATH`
/// that of what the file held, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    prints: BTreeMap<String, Print>,
    files: Vec<PathBuf>,
}

impl Keys {
    pub(super) fn of(tree: &DeTable<'_>) -> Self {
        let mut keys = Self::default();
        keys.note_table(tree, &mut Vec::new());
        keys.files.sort();
        keys.files.dedup();
        keys
    }

    /// The keys that are set in one of the two only, or to something else, in order.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let mut differing: Vec<_> = self
            .prints
            .iter()
            .filter(|(key, print)| other.prints.get(*key) != Some(print))
            .map(|(key, _)| key.clone())
            .collect();
        differing.extend(other.prints.keys().filter(|key| !self.prints.contains_key(*key)).cloned());
        differing.sort();
        differing
    }

    /// The files that secrets are kept in, and certificates for where we connect.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    fn note_table(&mut self, table: &DeTable<'_>, path: &mut Vec<Step>) {
        for (key, value) in table {
            path.push(Step::Key(key.get_ref().to_string()));
            self.note(value, path);
            path.pop();
        }
    }

    fn note(&mut self, value: &Spanned<DeValue<'_>>, path: &mut Vec<Step>) {
        let text = match value.get_ref() {
            DeValue::Table(table) => return self.note_table(table, path),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    self.note(item, path);
                    path.pop();
                }
                return;
            }
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(time) => time.to_string(),
        };
        let key = show_key(path);
        let mut print = Sha256::new_with_prefix(&text);
        let file = text.strip_prefix(FILE_PREFIX).or_else(|| is_peer_file(&key).then_some(&*text));
        if let Some(file) = file {
            print.update(contents(Path::new(file)));
            self.files.push(file.into());
        }
        self.prints.insert(key, print.finalize().into());
    }
}

/// Whether a key names a file by its path alone. Those of listeners are not among them: who listens looks
/// after them.
fn is_peer_file(key: &str) -> bool {
    let is_ours = key.starts_with("destination[") || key.starts_with("source[");
    is_ours && ["].tls.ca", "].tls.certificate", "].tls.key"].iter().any(|end| key.ends_with(end))
}

/// What a file that cannot be read holds is nothing: who needs it says so.
fn contents(file: &Path) -> Vec<u8> {
    let mut contents = Vec::new();
    // A pipe would give what it holds only once.
    let is_plain = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    if is_plain && let Ok(file) = File::open(file) {
        let _unread = file.take(COMPARED_BYTES).read_to_end(&mut contents);
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Environment};
    use super::*;

    fn keys(text: &str, environment: &[(&str, &str)]) -> Keys {
        let environment = environment.iter().copied().collect::<Environment>();
        Config::parse("test.toml", text, &environment).expect("valid").keys
    }

    #[test]
    fn what_differs_is_named_wherever_it_was_set() {
        let old = keys("[http]\nmax_body_bytes = 1000\n[log]\nlevel = \"info\"\n", &[]);
        let new = keys(
            "[http]\nmax_body_bytes = 2000\n[[source]]\nname = \"a\"\nverify = { scheme = \"none\" }\n",
            &[("HOOKLATCH__INBOX__WRITERS", "2")],
        );
        let expected = [
            "http.max_body_bytes",
            "inbox.writers",
            "log.level",
            "source[0].name",
            "source[0].verify.scheme",
        ];
        assert_eq!(old.differing(&new), expected);
        assert_eq!(new.differing(&old), expected);
        assert!(old.differing(&old.clone()).is_empty());
    }

    #[test]
    fn another_secret_in_the_same_file_is_a_difference() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let text = format!("[admin]\ntoken = \"file:{}\"\n", file.display());
        std::fs::write(&file, "one").unwrap();
        let old = keys(&text, &[]);
        std::fs::write(&file, "two").unwrap();
        let new = keys(&text, &[]);
        assert_eq!(old.differing(&new), ["admin.token"]);
        assert_eq!(new.files(), [file]);
        assert!(!format!("{new:?}").contains("two"), "values are not kept");
    }
}
