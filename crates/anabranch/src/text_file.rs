//! Text files that a user names, read in such a way that a mistake in the name gives an error message and
//! never hangs the program. Without feature `files`, there are only those that this thread was given.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Reads a file of at most `most_megabytes`.
///
/// # Errors
/// One sentence that names the file and says why it cannot be read.
pub fn read(path: &Path, most_megabytes: u64) -> Result<String, String> {
    let error = |what: &dyn std::fmt::Display| format!("cannot read `{}`: {what}", path.display());
    if let Some(text) = given(path) {
        return Ok(text);
    }
    if !cfg!(feature = "files") {
        return Err(error(&"it is not among the files that were handed over"));
    }
    let is = fs::metadata(path).map_err(|cause| error(&cause))?.file_type();
    if is.is_dir() {
        return Err(error(&"it is a folder, not a file"));
    }
    // Opening a pipe would wait for its writer, and reading a device may never end.
    if !is.is_file() {
        return Err(error(&"it is a device or a pipe, not a file"));
    }
    let limit = most_megabytes * 1_000_000;
    let mut bytes = Vec::new();
    // Reads one byte more than allowed to find out: the size stated by the system may be outdated.
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|cause| error(&cause))?;
    if bytes.len() as u64 > limit {
        return Err(error(&format!("it has more than {most_megabytes} MB, which is the most that is read")));
    }
    String::from_utf8(bytes).map_err(|cause| {
        let valid = cause.utf8_error().valid_up_to();
        let line = cause.as_bytes()[..valid].split(|&byte| byte == b'\n').count();
        error(&format!("it is not UTF-8 text (line {line})"))
    })
}

/// The contents of a file; empty if it cannot be read.
pub(crate) fn contents(path: &str) -> Vec<u8> {
    match given(Path::new(path)) {
        Some(text) => text.into_bytes(),
        None if cfg!(feature = "files") => fs::read(path).unwrap_or_default(),
        None => Vec::new(),
    }
}

thread_local! {
    static GIVEN: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// Makes these files available to this thread, by their names, in place of those given before.
pub(crate) fn give(files: BTreeMap<String, String>) {
    GIVEN.set(files);
}

/// A file that this thread was given: the one with whose name the path ends, wherever names start.
fn given(path: &Path) -> Option<String> {
    GIVEN.with_borrow(|files| {
        files.iter().find(|(name, _)| path.ends_with(name)).map(|(_, text)| text.clone())
    })
}

#[cfg(all(test, feature = "files"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_text_file_is_said() {
        let folder = std::env::temp_dir().join(format!("anabranch-text-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        let message = |path: &Path| read(path, 1).unwrap_err();
        assert!(message(&folder).ends_with("it is a folder, not a file"));
        assert!(message(&file).starts_with(&format!("cannot read `{}`: ", file.display())));
        fs::write(&file, "a\nb").unwrap();
        assert_eq!(read(&file, 1).unwrap(), "a\nb");
        fs::write(&file, b"a\n\xff").unwrap();
        assert!(message(&file).ends_with("it is not UTF-8 text (line 2)"));
        fs::write(&file, vec![b'a'; 1_000_000]).unwrap();
        assert_eq!(read(&file, 1).unwrap().len(), 1_000_000);
        fs::write(&file, vec![b'a'; 1_000_001]).unwrap();
        assert!(message(&file).ends_with("it has more than 1 MB, which is the most that is read"));
        #[cfg(unix)]
        assert!(message(Path::new("/dev/zero")).ends_with("it is a device or a pipe, not a file"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
