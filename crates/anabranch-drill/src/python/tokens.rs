//! Tokens of Python.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Float(f64),
    Int(i64),
    Name(String),
    Operator(String),
    Text(String),
}

impl Token {
    /// Whether the token is this operator or word.
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self, Self::Name(name) | Self::Operator(name) if name == text)
    }
}

/// Operators, the longest first.
const OPERATORS: [&str; 33] = [
    "//=", "<<=", ">>=", "==", "!=", "<=", ">=", "<<", ">>", "//", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
    "^=", "(", ")", ",", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "=",
];

/// The tokens of a line; [`None`] if there is something else in it.
pub(super) fn tokens(line: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if first.is_ascii_alphabetic() || first == '_' {
            length = rest.find(|character: char| !is_word(character)).unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..length].into()));
        } else if first.is_ascii_digit() {
            length =
                rest.find(|character: char| !is_word(character) && character != '.').unwrap_or(rest.len());
            let text = &rest[..length];
            let whole = match text.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            };
            tokens.push(match whole {
                Some(number) => Token::Int(number),
                None => Token::Float(text.parse().ok()?),
            });
        } else if first == '"' || first == '\'' {
            let inner = &rest[1..];
            let end = inner.find(first)?;
            tokens.push(Token::Text(inner[..end].into()));
            length = end + 2;
        } else {
            let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator))?;
            tokens.push(Token::Operator((*operator).into()));
            length = operator.len();
        }
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

const fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
