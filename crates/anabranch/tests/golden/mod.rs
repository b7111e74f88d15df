//! Tables of results under version control: a change of a protocol or of a message shows in the diff.
//! `ANABRANCH_GOLDEN=write cargo test -p anabranch` writes them anew.

use std::path::Path;

/// Compares text with the file of this name in `tests/golden`, or writes it.
pub(crate) fn assert_golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("ANABRANCH_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&file, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    for (number, (known, found)) in known.lines().zip(text.lines()).enumerate() {
        assert_eq!(known, found, "{name}, line {}; see CONTRIBUTING.md, \"Golden tables\"", number + 1);
    }
    let (known, found) = (known.lines().count(), text.lines().count());
    assert_eq!(known, found, "number of lines of {name}; see CONTRIBUTING.md, \"Golden tables\"");
}
