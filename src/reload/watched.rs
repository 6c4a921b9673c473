//! Have these files changed, and has the change come to rest?
//!
//! By polling: it sees what every file system and every way of replacing a file does (an editor, a
//! rename, a mounted secret whose directory link is turned), and asks nothing of the platform.
//! A file that is being written is not at rest: half a configuration may be a valid one.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What tells a file from itself after a change; `None`: it is not there, or is no plain file.
type Stamp = Option<[i64; 7]>;

/// Files that are looked at.
#[derive(Debug)]
pub(super) struct Files {
    paths: Vec<PathBuf>,
    /// As they were when they were last read; `None`: not read yet.
    read: Option<Vec<Stamp>>,
    /// As the last look saw them.
    seen: Vec<Stamp>,
}

impl Files {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, read: None, seen: Vec::new() }
    }

    /// Whether they differ from what was read, and have not changed since the last look.
    pub(super) fn have_changed(&mut self) -> bool {
        let now: Vec<_> = self.paths.iter().map(|path| stamp(path)).collect();
        let at_rest = now == self.seen;
        let differ = self.read.as_ref() != Some(&now);
        self.seen = now;
        at_rest && differ
    }

    /// They are read now: to be called before, so that a change during the reading is seen.
    pub(super) fn note_reading(&mut self) {
        self.read = Some(self.paths.iter().map(|path| stamp(path)).collect());
    }

    /// Looks at these from now on; those that were looked at before count as read.
    pub(super) fn follow(&mut self, paths: Vec<PathBuf>) {
        let known = |path: &PathBuf| self.paths.iter().position(|known| known == path);
        let read = self.read.as_ref().map(|read| {
            paths.iter().map(|path| known(path).map_or_else(|| stamp(path), |at| read[at])).collect()
        });
        self.read = read;
        self.seen = paths.iter().map(|path| known(path).and_then(|at| *self.seen.get(at)?)).collect();
        self.paths = paths;
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some([
        metadata.dev().cast_signed(),
        metadata.ino().cast_signed(),
        metadata.size().cast_signed(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_once(paths: &[&Path]) -> Files {
        let mut files = Files::new(paths.iter().map(|path| (*path).to_owned()).collect());
        files.note_reading();
        files.have_changed();
        files
    }

    #[test]
    fn a_change_counts_once_it_has_come_to_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let mut files = read_once(&[&path]);
        assert!(!files.have_changed());
        std::fs::write(&path, "half").unwrap();
        assert!(!files.have_changed(), "just seen");
        std::fs::write(&path, "half and half").unwrap();
        assert!(!files.have_changed(), "still being written");
        assert!(files.have_changed(), "at rest");
        files.note_reading();
        assert!(!files.have_changed());
    }

    #[test]
    fn files_that_come_go_and_are_replaced_have_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        let mut files = read_once(&[&path]);
        let steps: [&dyn Fn(); 3] = [
            &|| std::fs::write(&path, "one").unwrap(),
            &|| {
                std::fs::write(&other, "two").unwrap();
                std::fs::rename(&other, &path).unwrap();
            },
            &|| std::fs::remove_file(&path).unwrap(),
        ];
        for step in steps {
            step();
            files.have_changed();
            assert!(files.have_changed());
            files.note_reading();
            assert!(!files.have_changed());
        }
    }

    #[test]
    fn what_was_never_read_counts_as_changed() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::new(vec![directory.path().join("none")]);
        files.have_changed();
        assert!(files.have_changed());
    }

    #[test]
    fn files_that_are_followed_on_keep_what_is_known_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&two, "2").unwrap();
        let mut files = read_once(&[&one]);
        std::fs::write(&one, "changed").unwrap();
        files.follow(vec![two, one]);
        files.have_changed();
        assert!(files.have_changed(), "one had changed before");
    }
}
