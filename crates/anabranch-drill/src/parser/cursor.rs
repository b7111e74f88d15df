//! A position in a text, and the small steps that the parser makes.

/// A mistake in a script: one sentence, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, from 1.
    pub line: u32,
    /// What was found and what is allowed.
    pub message: String,
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

pub(super) type Parsed<T> = Result<T, ScriptError>;

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) at: usize,
    /// A place before `at`, and its line.
    mark: (usize, u32),
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, mark: (0, 1) }
    }

    /// Remembers the line here, so that those of later places are not counted from the beginning of the text.
    pub(super) fn mark_line(&mut self) {
        self.mark = (self.at, self.line());
    }

    /// The text that has not been read yet.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    pub(super) fn line(&self) -> u32 {
        let (place, line) = self.mark;
        line + self.text[place..self.at].bytes().filter(|&byte| byte == b'\n').count() as u32
    }

    /// The error that `wanted` should stand here and something else does.
    pub(super) fn expected<T>(&self, wanted: &str) -> Parsed<T> {
        let found: String = self.rest().chars().take_while(|character| *character != '\n').take(30).collect();
        let found = if found.trim().is_empty() {
            "the script ends".into()
        } else {
            format!("\"{}\" stands", found.trim())
        };
        Err(ScriptError { line: self.line(), message: format!("{found} where {wanted} is expected") })
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips white space and comments.
    pub(super) fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.len() - rest.trim_start().len()
            };
            if length == 0 {
                return;
            }
            self.at += length;
        }
    }

    /// Reads `wanted`, with the space before it, if it comes next; gives whether it did.
    pub(super) fn eat(&mut self, wanted: &str) -> bool {
        let mut ahead = *self;
        ahead.skip_space();
        let comes = ahead.rest().starts_with(wanted);
        if comes {
            self.at = ahead.at + wanted.len();
        }
        comes
    }

    /// The same as [`Self::eat`] for a word that ends there.
    pub(super) fn eat_word(&mut self, wanted: &str) -> bool {
        let mut ahead = *self;
        ahead.skip_space();
        let comes = ahead.word() == Some(wanted);
        if comes {
            self.at = ahead.at;
        }
        comes
    }

    pub(super) fn need(&mut self, wanted: &str) -> Parsed<()> {
        if self.eat(wanted) {
            return Ok(());
        }
        self.skip_space();
        self.expected(&format!("\"{wanted}\""))
    }

    /// Letters, digits and underscores from here on.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let length = rest.find(|character: char| !is_word(character)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// The text up to `end`, which is read as well.
    pub(super) fn until(&mut self, end: &str) -> Parsed<&'a str> {
        match self.rest().find(end) {
            Some(length) => {
                let text = &self.rest()[..length];
                self.at += length + end.len();
                Ok(text)
            }
            None => self.expected(&format!("a text that ends with {end}")),
        }
    }

    /// A number without sign, decimal or hexadecimal.
    pub(super) fn whole<T: TryFrom<u64>>(&mut self, what: &str) -> Parsed<T> {
        self.skip_space();
        let start = *self;
        let number = self.word().and_then(|word| match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        });
        match number.and_then(|number| T::try_from(number).ok()) {
            Some(number) => Ok(number),
            None => start.expected(what),
        }
    }
}

pub(super) const fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
