"""The tool that wraps the comments of Rust files."""

from comment_width import wrapped

CODE = """\
//! A paragraph with a line that is too long for
//! its file.
//!
//! ```text
//! a picture that is far wider than all of this
//! ```
//!
//! | a table | that is far wider |
//! - an item that is too long for its file
//! - another
//! 1. a third one, which is long, too
fn code() { /* is not touched, however long it is */ }
    /// Indented, and a little too long.
    /// Wrapped with the line before.
// short
// lines stay as they are
"""
WRAPPED = """\
//! A paragraph with a line that
//! is too long for its file.
//!
//! ```text
//! a picture that is far wider than all of this
//! ```
//!
//! | a table | that is far wider |
//! - an item that is too long
//!   for its file
//! - another
//! 1. a third one, which is
//!    long, too
fn code() { /* is not touched, however long it is */ }
    /// Indented, and a little
    /// too long. Wrapped with
    /// the line before.
// short
// lines stay as they are
"""


def test_paragraphs_with_a_long_line_are_wrapped() -> None:
    assert wrapped(CODE, 33) == WRAPPED
    assert wrapped(WRAPPED, 33) == WRAPPED
