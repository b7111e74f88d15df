//! The part of Python that scripts use: `assert`, `print`, assignments, and expressions of numbers, names and
//! texts, over the fields of `tcp_info` as they are at that moment.

mod tokens;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use tokens::{Token, tokens};

use crate::verdict::{Step, Stop};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Float(f64),
    Int(i64),
    Text(String),
    Tuple(Vec<Value>),
}

impl Value {
    /// Whether Python treats the value as true.
    fn holds(&self) -> bool {
        match self {
            Self::Float(number) => *number != 0.0,
            Self::Int(number) => *number != 0,
            Self::Text(text) => !text.is_empty(),
            Self::Tuple(values) => !values.is_empty(),
        }
    }

    const fn float(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            Self::Int(number) => Some(*number as f64),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(number) => write!(formatter, "{number}"),
            Self::Int(number) => write!(formatter, "{number}"),
            Self::Text(text) => formatter.write_str(text),
            Self::Tuple(values) => {
                let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(formatter, "({})", texts.join(", "))
            }
        }
    }
}

/// Variables that blocks of a script share.
#[derive(Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, Value>);

/// Runs a block. `lookup` gives the values of names that the script does not set itself. If an assertion does
/// not hold, the error says which values there were.
pub(crate) fn run(text: &str, variables: &mut Variables, lookup: &dyn Fn(&str) -> Option<Value>) -> Step<()> {
    for line in logical_lines(text) {
        let tokens = tokens(&line).ok_or_else(|| unsupported(&line))?;
        if tokens.is_empty() {
            continue;
        }
        if is_too_deep(&tokens) {
            return Err(unsupported(&line));
        }
        let mut reader = Reader { tokens: &tokens, at: 0, variables, lookup, read: Vec::new(), line: &line };
        reader.statement()?;
        if reader.at < tokens.len() {
            return Err(unsupported(&line));
        }
    }
    Ok(())
}

/// The most brackets within each other, or prefixes one after the other, since the reader calls itself for
/// each.
const MOST_NESTED: usize = 32;

fn is_too_deep(tokens: &[Token]) -> bool {
    let (mut open, mut prefixes) = (0_usize, 0_usize);
    tokens.iter().any(|token| {
        let is_prefix = ["-", "~", "not", "print"].into_iter().any(|prefix| token.is(prefix));
        prefixes = if is_prefix { prefixes + 1 } else { 0 };
        if token.is("(") {
            open += 1;
        } else if token.is(")") {
            open = open.saturating_sub(1);
        }
        open.max(prefixes) > MOST_NESTED
    })
}

fn unsupported(line: &str) -> Stop {
    let shown: String = line.trim().chars().take(MOST_SHOWN).collect();
    Stop::needs(format!("Python: {shown}"))
}

/// How many characters of a statement are repeated in a message.
const MOST_SHOWN: usize = 200;

/// Statements: they are separated by `;` and by ends of lines, except within brackets or after a backslash.
/// Comments are dropped.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let (mut depth, mut quote, mut is_comment) = (0_u32, None, false);
    for next in text.replace("\\\n", " ").chars() {
        match (next, quote) {
            ('\n', _) => {
                is_comment = false;
                if depth == 0 {
                    lines.push(String::new());
                    continue;
                }
            }
            _ if is_comment => continue,
            (mark, Some(open)) => quote = (mark != open).then_some(open),
            ('"' | '\'', None) => quote = Some(next),
            ('#', None) => {
                is_comment = true;
                continue;
            }
            ('(' | '[', None) => depth += 1,
            (')' | ']', None) => depth = depth.saturating_sub(1),
            (';', None) if depth == 0 => {
                lines.push(String::new());
                continue;
            }
            _ => {}
        }
        lines.last_mut().expect("there is one").push(next);
    }
    lines
}

/// Reads tokens and computes at the same time.
struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    variables: &'a mut Variables,
    lookup: &'a dyn Fn(&str) -> Option<Value>,
    /// The names that were read, with their values.
    read: Vec<(String, Value)>,
    line: &'a str,
}

/// Operators by how tightly they bind, the loosest first.
const BINARY: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "//", "/", "%"]];

impl Reader<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let comes = self.tokens.get(self.at).is_some_and(|token| token.is(text));
        self.at += usize::from(comes);
        comes
    }

    fn fail<T>(&self) -> Step<T> {
        Err(unsupported(self.line))
    }

    fn statement(&mut self) -> Step<()> {
        if self.eat("assert") {
            return self.assertion();
        }
        if let [Token::Name(name), Token::Operator(operator), ..] = self.tokens
            && (operator == "=" || (operator.len() >= 2 && operator.ends_with('=') && is_update(operator)))
        {
            self.at = 2;
            let value = self.expression()?;
            let value = match operator.strip_suffix('=') {
                Some("") | None => value,
                Some(operator) => {
                    let old = self.name(name)?;
                    self.combine(operator, &old, &value)?
                }
            };
            self.variables.0.insert(name.clone(), value);
            return Ok(());
        }
        // The printed text does not matter, but every name in it must be known.
        self.expression().map(drop)
    }

    fn assertion(&mut self) -> Step<()> {
        let condition = self.expression()?;
        let condition_reads = self.read.clone();
        let message = if self.eat(",") { Some(self.expression()?) } else { None };
        if condition.holds() {
            return Ok(());
        }
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in condition_reads {
            let text = format!("{name} = {value}");
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        if let Some(Value::Text(message)) = message {
            seen.push(format!("\"{message}\""));
        }
        Err(Stop::failed(seen.join(", "), "the assertion does not hold"))
    }

    fn expression(&mut self) -> Step<Value> {
        let mut left = self.conjunction()?;
        while self.eat("or") {
            let right = self.conjunction()?;
            left = if left.holds() { left } else { right };
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Step<Value> {
        let mut left = self.negation()?;
        while self.eat("and") {
            let right = self.negation()?;
            left = if left.holds() { right } else { left };
        }
        Ok(left)
    }

    fn negation(&mut self) -> Step<Value> {
        if self.eat("not") {
            let value = self.negation()?;
            return Ok(Value::Int(i64::from(!value.holds())));
        }
        self.comparison()
    }

    /// `1 <= a <= 2` is both.
    fn comparison(&mut self) -> Step<Value> {
        let mut left = self.binary(0)?;
        let mut all = None;
        loop {
            let Some(operator) =
                ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|operator| self.eat(operator))
            else {
                return Ok(all.map_or(left, |all: bool| Value::Int(i64::from(all))));
            };
            let right = self.binary(0)?;
            let order = match (left.float(), right.float()) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => (left == right).then_some(std::cmp::Ordering::Equal),
            };
            let holds = match operator {
                "==" => order == Some(std::cmp::Ordering::Equal),
                "!=" => order != Some(std::cmp::Ordering::Equal),
                "<=" => order.is_some_and(std::cmp::Ordering::is_le),
                ">=" => order.is_some_and(std::cmp::Ordering::is_ge),
                "<" => order.is_some_and(std::cmp::Ordering::is_lt),
                _ => order.is_some_and(std::cmp::Ordering::is_gt),
            };
            all = Some(all.unwrap_or(true) && holds);
            left = right;
        }
    }

    fn binary(&mut self, level: usize) -> Step<Value> {
        let Some(operators) = BINARY.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.eat(operator)) {
            let right = self.binary(level + 1)?;
            left = self.combine(operator, &left, &right)?;
        }
        Ok(left)
    }

    fn combine(&self, operator: &str, left: &Value, right: &Value) -> Step<Value> {
        if let (Value::Text(text), "%") = (left, operator) {
            return formatted(text, right).map(Value::Text).ok_or_else(|| unsupported(self.line));
        }
        if let (Value::Text(left), Value::Text(right), "+") = (left, right, operator) {
            return Ok(Value::Text(format!("{left}{right}")));
        }
        let computed = match (left, right) {
            (&Value::Int(left), &Value::Int(right)) if operator != "/" => match operator {
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "//" => left.checked_div_euclid(right),
                "%" => left.checked_rem_euclid(right),
                "&" => Some(left & right),
                "|" => Some(left | right),
                "^" => Some(left ^ right),
                "<<" => u32::try_from(right).ok().and_then(|bits| left.checked_shl(bits)),
                ">>" => u32::try_from(right).ok().and_then(|bits| left.checked_shr(bits)),
                _ => None,
            }
            .map(Value::Int),
            _ => match (left.float(), right.float(), operator) {
                (Some(left), Some(right), "+") => Some(Value::Float(left + right)),
                (Some(left), Some(right), "-") => Some(Value::Float(left - right)),
                (Some(left), Some(right), "*") => Some(Value::Float(left * right)),
                (Some(left), Some(right), "/") if right != 0.0 => Some(Value::Float(left / right)),
                _ => None,
            },
        };
        computed.ok_or_else(|| unsupported(self.line))
    }

    fn unary(&mut self) -> Step<Value> {
        if self.eat("-") {
            let value = self.unary()?;
            return self.combine("-", &Value::Int(0), &value);
        }
        if self.eat("~") {
            return match self.unary()? {
                Value::Int(number) => Ok(Value::Int(!number)),
                _ => self.fail(),
            };
        }
        self.atom()
    }

    fn atom(&mut self) -> Step<Value> {
        if self.eat("(") {
            let mut values = Vec::new();
            let mut is_tuple = false;
            while !self.eat(")") {
                values.push(self.expression()?);
                if self.eat(",") {
                    is_tuple = true;
                } else if !self.tokens.get(self.at).is_some_and(|token| token.is(")")) {
                    return self.fail();
                }
            }
            return match values.pop() {
                Some(only) if !is_tuple && values.is_empty() => Ok(only),
                last => {
                    values.extend(last);
                    Ok(Value::Tuple(values))
                }
            };
        }
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Float(number)) => Ok(Value::Float(number)),
            Some(Token::Int(number)) => Ok(Value::Int(number)),
            Some(Token::Text(text)) => Ok(Value::Text(text)),
            // The arguments are computed so that an unknown name is noticed.
            Some(Token::Name(name)) if name == "print" => self.atom(),
            Some(Token::Name(name)) => self.name(&name),
            _ => self.fail(),
        }
    }

    fn name(&mut self, name: &str) -> Step<Value> {
        let value = match name {
            "True" => Some(Value::Int(1)),
            "False" => Some(Value::Int(0)),
            _ => self.variables.0.get(name).cloned().or_else(|| (self.lookup)(name)),
        };
        let value = value.ok_or_else(|| Stop::needs(format!("the value {name}")))?;
        self.read.push((name.into(), value.clone()));
        Ok(value)
    }
}

fn is_update(operator: &str) -> bool {
    BINARY
        .iter()
        .flat_map(|operators| operators.iter())
        .any(|known| operator.strip_suffix('=') == Some(known))
}

/// Python's `%` on a text: `%d`, `%u`, `%s`, `%x`, `%f`.
fn formatted(text: &str, arguments: &Value) -> Option<String> {
    let arguments = match arguments {
        Value::Tuple(values) => values.clone(),
        other => vec![other.clone()],
    };
    let mut arguments = arguments.into_iter();
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        let kind = rest.by_ref().find(|character| character.is_ascii_alphabetic() || *character == '%')?;
        match (kind, if kind == '%' { None } else { arguments.next() }) {
            ('%', None) => out.push('%'),
            ('x', Some(Value::Int(number))) => {
                write!(out, "{number:x}").ok()?;
            }
            ('d' | 'i' | 'u' | 's' | 'f', Some(value)) => out.push_str(&value.to_string()),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Step<()> {
        let lookup = |name: &str| match name {
            "tcpi_snd_cwnd" => Some(Value::Int(10)),
            "tcpi_options" => Some(Value::Int(0b10_0101)),
            _ => None,
        };
        run(text, &mut Variables::default(), &lookup)
    }

    #[test]
    fn what_is_nested_too_deeply_is_not_read() {
        for deep in ["(", "-", "~", "not ", "print "] {
            let outcome = outcome(&deep.repeat(100_000));
            assert!(matches!(outcome, Err(Stop::Needs(_))), "{deep}: {outcome:?}");
        }
    }

    #[test]
    fn what_holds_holds() {
        for text in [
            "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
            "cwnd = 4; cwnd += 6\nassert cwnd == tcpi_snd_cwnd, 'cwnd=%d of %s' % (cwnd, 'it')",
            "assert (tcpi_options & 0x20) != 0, tcpi_options",
            "assert 9 <= tcpi_snd_cwnd <= 11 # in between",
            "print(tcpi_snd_cwnd); assert not tcpi_snd_cwnd < 10 and (1 or 0)",
            "assert 7 // 2 == 3 and 7 % 4 == 3 and 1 << 4 == 16 and -2 + 3 * 2 == 4 and 1 / 2 == 0.5",
            "assert (tcpi_snd_cwnd ==\n  10), \\\n 'a; b'",
            "",
        ] {
            assert_eq!(outcome(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_does_not_hold_says_the_values() {
        let failed = Err(Stop::failed("tcpi_snd_cwnd = 10, \"cwnd 10\"", "the assertion does not hold"));
        assert_eq!(outcome("assert tcpi_snd_cwnd == 7, 'cwnd %d' % tcpi_snd_cwnd"), failed);
        assert!(matches!(outcome("assert 10 <= tcpi_snd_cwnd <= 9"), Err(Stop::Failed { .. })));
    }

    #[test]
    fn what_is_not_known_is_needed() {
        assert_eq!(outcome("assert tcpi_fackets == 1"), Err(Stop::needs("the value tcpi_fackets")));
        assert_eq!(outcome("import os"), Err(Stop::needs("the value import")));
        assert_eq!(outcome("assert 1 ? 2"), Err(Stop::needs("Python: assert 1 ? 2")));
        assert_eq!(outcome("assert 1 / 0"), Err(Stop::needs("Python: assert 1 / 0")));
        assert_eq!(outcome("assert ((1)"), Err(Stop::needs("Python: assert ((1)")));
    }
}
