//! Conditions on cells: `rto_min <= rto_max and policy != "failover"`.
//!
//! The grammar, weakest first: `or`; `and`; `not`; comparisons, which may be chained (`1 s <= a < b`); `+`
//! and `-`; `*` and `/`; a minus sign; and numbers with or without a unit, text in quotes, `true`, `false`,
//! names of axes and parentheses. Quantities are in base units: s, bit/s, B, shares.

use anabranch_transport::units;

use super::value::{AxisValue, Kind, base_number};

/// A condition that has been checked: it is about these axes, and compares numbers with numbers.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    node: Node,
    /// Positions of the axes that it mentions.
    axes: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Axis(usize),
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    Flag(bool),
    Negative(Box<Node>),
    Not(Box<Node>),
    Number(f64),
    /// All (`true`) or any of them.
    Several(bool, Vec<Node>),
    /// The first term, and the operations with the others.
    Terms(Box<Node>, Vec<(Operation, Node)>),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Unequal,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Divide,
    Minus,
    Plus,
    Times,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    // The longer operators come first.
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::MoreOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

impl Condition {
    /// Reads a condition on these axes.
    ///
    /// # Errors
    /// What is wrong at which character.
    pub(super) fn parse(text: &str, axes: &[(&str, Kind)]) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0, depth: 0, axes, used: Vec::new() };
        let start = parser.at;
        let (node, kind) = parser.either()?;
        parser.skip_spaces();
        if parser.at < text.len() {
            return Err(parser.wrong("the end, `and`, `or`, a comparison or `+`, `-`, `*`, `/`"));
        }
        if kind != Kind::Flag {
            return Err(parser.at(start, "it is neither true nor false; compare something"));
        }
        let mut used = parser.used;
        used.sort_unstable();
        used.dedup();
        Ok(Self { node, axes: used })
    }

    /// Whether the condition is true in a cell with these values. It does not apply to a cell that lacks one
    /// of its axes.
    pub(super) fn holds(&self, values: &[Option<&AxisValue>]) -> bool {
        self.axes.iter().any(|&axis| values[axis].is_none())
            || matches!(self.node.value(values), Value::Flag(true))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'a> {
    Flag(bool),
    Number(f64),
    Text(&'a str),
}

impl Node {
    /// The parser has checked the kinds.
    fn value<'a>(&'a self, values: &[Option<&'a AxisValue>]) -> Value<'a> {
        match self {
            Self::Axis(axis) => match values[*axis] {
                Some(AxisValue::Flag(flag)) => Value::Flag(*flag),
                Some(AxisValue::Number(number)) => Value::Number(*number),
                Some(AxisValue::Text(text)) => Value::Text(text),
                None => unreachable!("a condition is asked about cells that have its axes"),
            },
            Self::Compare(first, others) => {
                let mut left = first.value(values);
                Value::Flag(others.iter().all(|(comparison, node)| {
                    let right = node.value(values);
                    let is_true = comparison.is_true(left, right);
                    left = right;
                    is_true
                }))
            }
            Self::Flag(flag) => Value::Flag(*flag),
            Self::Negative(node) => Value::Number(-node.number(values)),
            Self::Not(node) => Value::Flag(!node.flag(values)),
            Self::Number(number) => Value::Number(*number),
            Self::Several(true, nodes) => Value::Flag(nodes.iter().all(|node| node.flag(values))),
            Self::Several(false, nodes) => Value::Flag(nodes.iter().any(|node| node.flag(values))),
            Self::Terms(first, others) => {
                Value::Number(others.iter().fold(first.number(values), |left, (operation, node)| {
                    let right = node.number(values);
                    match operation {
                        Operation::Divide => left / right,
                        Operation::Minus => left - right,
                        Operation::Plus => left + right,
                        Operation::Times => left * right,
                    }
                }))
            }
            Self::Text(text) => Value::Text(text),
        }
    }

    fn flag(&self, values: &[Option<&AxisValue>]) -> bool {
        matches!(self.value(values), Value::Flag(true))
    }

    fn number(&self, values: &[Option<&AxisValue>]) -> f64 {
        if let Value::Number(number) = self.value(values) { number } else { f64::NAN }
    }
}

impl Comparison {
    fn is_true(self, left: Value<'_>, right: Value<'_>) -> bool {
        match (self, left, right) {
            (Self::Equal, Value::Number(left), Value::Number(right)) => are_equal(left, right),
            (Self::Equal, left, right) => left == right,
            (Self::Unequal, Value::Number(left), Value::Number(right)) => !are_equal(left, right),
            (Self::Unequal, left, right) => left != right,
            (Self::Less, Value::Number(left), Value::Number(right)) => {
                left < right && !are_equal(left, right)
            }
            (Self::LessOrEqual, Value::Number(left), Value::Number(right)) => {
                left < right || are_equal(left, right)
            }
            (Self::More, Value::Number(left), Value::Number(right)) => {
                left > right && !are_equal(left, right)
            }
            (Self::MoreOrEqual, Value::Number(left), Value::Number(right)) => {
                left > right || are_equal(left, right)
            }
            _ => false,
        }
    }
}

/// Whether numbers are equal except for rounding: 3 times 0.1 s is 0.3 s, though not in binary fractions.
fn are_equal(left: f64, right: f64) -> bool {
    // The difference of equal infinities is not a number, although they are exactly equal.
    #[allow(clippy::float_cmp, reason = "the exact case beside the rounded one")]
    let is_same = left == right;
    is_same || (left - right).abs() < ROUNDING * left.abs().max(right.abs())
}

/// The relative rounding error of values of ranges.
const ROUNDING: f64 = 1e-12;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    axes: &'a [(&'a str, Kind)],
    used: Vec<usize>,
}

/// How deep parentheses and minus signs may be nested. No person writes more, and the stack is large enough
/// for this.
const MOST_DEPTH: u32 = 50;

type Typed = (Node, Kind);

impl<'a> Parser<'a> {
    fn either(&mut self) -> Result<Typed, String> {
        self.several("or", false, Self::both)
    }

    fn both(&mut self) -> Result<Typed, String> {
        self.several("and", true, Self::negation)
    }

    fn several(
        &mut self,
        word: &str,
        all: bool,
        part: fn(&mut Self) -> Result<Typed, String>,
    ) -> Result<Typed, String> {
        let start = self.start();
        let (node, kind) = part(self)?;
        let mut nodes = vec![node];
        while self.take_word(word) {
            if nodes.len() == 1 {
                self.expect(kind, Kind::Flag, start)?;
            }
            let start = self.start();
            let (node, kind) = part(self)?;
            self.expect(kind, Kind::Flag, start)?;
            nodes.push(node);
        }
        Ok(if nodes.len() == 1 { (nodes.remove(0), kind) } else { (Node::Several(all, nodes), Kind::Flag) })
    }

    fn negation(&mut self) -> Result<Typed, String> {
        if !self.take_word("not") {
            return self.comparison();
        }
        let start = self.start();
        let (node, kind) = self.deeper(Self::negation)?;
        self.expect(kind, Kind::Flag, start)?;
        Ok((Node::Not(Box::new(node)), Kind::Flag))
    }

    fn comparison(&mut self) -> Result<Typed, String> {
        let (first, mut left) = self.sum()?;
        let mut others = Vec::new();
        loop {
            let start = self.start();
            let Some(&(_, comparison)) = COMPARISONS.iter().find(|(sign, _)| self.take(sign)) else { break };
            let (node, right) = self.sum()?;
            if left != right {
                return Err(self.at(start, &format!("it compares {} with {}", left.name(), right.name())));
            }
            let is_order = !matches!(comparison, Comparison::Equal | Comparison::Unequal);
            if is_order && left != Kind::Number {
                return Err(self.at(start, &format!("{} has no order; use `==` or `!=`", left.name())));
            }
            left = right;
            others.push((comparison, node));
        }
        if others.is_empty() {
            return Ok((first, left));
        }
        Ok((Node::Compare(Box::new(first), others), Kind::Flag))
    }

    fn sum(&mut self) -> Result<Typed, String> {
        self.terms([("+", Operation::Plus), ("-", Operation::Minus)], Self::product)
    }

    fn product(&mut self) -> Result<Typed, String> {
        self.terms([("*", Operation::Times), ("/", Operation::Divide)], Self::factor)
    }

    fn terms(
        &mut self,
        operations: [(&str, Operation); 2],
        part: fn(&mut Self) -> Result<Typed, String>,
    ) -> Result<Typed, String> {
        let start = self.start();
        let (first, kind) = part(self)?;
        let mut others = Vec::new();
        while let Some(&(_, operation)) = operations.iter().find(|(sign, _)| self.take(sign)) {
            if others.is_empty() {
                self.expect(kind, Kind::Number, start)?;
            }
            let start = self.start();
            let (node, kind) = part(self)?;
            self.expect(kind, Kind::Number, start)?;
            others.push((operation, node));
        }
        if others.is_empty() {
            return Ok((first, kind));
        }
        Ok((Node::Terms(Box::new(first), others), Kind::Number))
    }

    fn factor(&mut self) -> Result<Typed, String> {
        if self.take("-") {
            let start = self.start();
            let (node, kind) = self.deeper(Self::factor)?;
            self.expect(kind, Kind::Number, start)?;
            return Ok((Node::Negative(Box::new(node)), Kind::Number));
        }
        if self.take("(") {
            let inner = self.deeper(Self::either)?;
            return if self.take(")") { Ok(inner) } else { Err(self.wrong("`)`")) };
        }
        for quote in ['"', '\''] {
            if self.rest().starts_with(quote) {
                let Some(length) = self.rest()[1..].find(quote) else {
                    return Err(self.at(self.at, &format!("the text has no second {quote}")));
                };
                let text = self.rest()[1..=length].to_owned();
                self.at += length + 2;
                return Ok((Node::Text(text), Kind::Text));
            }
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        for flag in [true, false] {
            if self.take_word(if flag { "true" } else { "false" }) {
                return Ok((Node::Flag(flag), Kind::Flag));
            }
        }
        self.axis()
    }

    /// A number, with its unit if one follows.
    fn number(&mut self) -> Result<Typed, String> {
        let start = self.at;
        let rest = self.rest();
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let mut end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
        if let Some(exponent) = rest[end..].strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if count > 0 {
                end += 1 + exponent.len() - digits.len() + count;
            }
        }
        self.at += end;
        self.skip_spaces();
        if let Some(unit) = units::unit_at(self.rest())
            && !self.rest()[unit.len()..].starts_with(is_of_a_name)
        {
            self.at += unit.len();
        } else {
            self.at = start + end;
        }
        let text = &self.text[start..self.at];
        let number = base_number(text).ok_or_else(|| self.at(start, &format!("`{text}` is not a number")))?;
        Ok((Node::Number(number), Kind::Number))
    }

    /// The name of an axis: the longest one that fits here.
    fn axis(&mut self) -> Result<Typed, String> {
        let rest = self.rest();
        let is_here =
            |name: &str| rest.strip_prefix(name).is_some_and(|after| !after.starts_with(is_of_a_name));
        let names = self.axes.iter().enumerate().filter(|(_, (name, _))| is_here(name));
        let Some((index, (name, kind))) = names.max_by_key(|(_, (name, _))| name.len()) else {
            let end = rest.find(|c| !is_of_a_name(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(self.wrong("an axis, a number, text in quotes, `not`, `-` or `(`"));
            }
            let names = self.axes.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let which = if names.is_empty() { "there are none".into() } else { format!("there are {names}") };
            let message = format!("`{}` is not an axis; {which}; text stands in quotes", &rest[..end]);
            return Err(self.at(self.at, &message));
        };
        self.at += name.len();
        self.used.push(index);
        Ok((Node::Axis(index), *kind))
    }

    fn deeper(&mut self, part: fn(&mut Self) -> Result<Typed, String>) -> Result<Typed, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(self.at(self.at, &format!("more than {MOST_DEPTH} parentheses within each other")));
        }
        let typed = part(self);
        self.depth -= 1;
        typed
    }

    fn expect(&self, found: Kind, wanted: Kind, start: usize) -> Result<(), String> {
        if found == wanted {
            return Ok(());
        }
        Err(self.at(start, &format!("{} stands where {} is needed", found.name(), wanted.name())))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// The start of the next part.
    fn start(&mut self) -> usize {
        self.skip_spaces();
        self.at
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip_spaces();
        let is_here = self.rest().starts_with(sign);
        if is_here {
            self.at += sign.len();
            self.skip_spaces();
        }
        is_here
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let is_here = self.rest().strip_prefix(word).is_some_and(|after| !after.starts_with(is_of_a_name));
        is_here && self.take(word)
    }

    fn wrong(&self, allowed: &str) -> String {
        let found = match self.rest().chars().next() {
            Some(c) => format!("`{c}`"),
            None => "the end".to_owned(),
        };
        self.at(self.at, &format!("{found} stands where {allowed} is needed"))
    }

    fn at(&self, at: usize, what: &str) -> String {
        let character = self.text[..at].chars().count() + 1;
        format!("`{}`, character {character}: {what}", self.text)
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AXES: [(&str, Kind); 5] = [
        ("rto", Kind::Number),
        ("rto-max", Kind::Number),
        ("policy", Kind::Text),
        ("on", Kind::Flag),
        ("n", Kind::Number),
    ];

    fn values() -> [AxisValue; 5] {
        let number = AxisValue::Number;
        [number(0.5), number(10.0), AxisValue::Text("failover".into()), AxisValue::Flag(true), number(3.0)]
    }

    fn holds(text: &str) -> bool {
        let values = values();
        let values: Vec<_> = values.iter().map(Some).collect();
        Condition::parse(text, &AXES).unwrap_or_else(|error| panic!("{error}")).holds(&values)
    }

    #[test]
    fn conditions_are_true_or_false() {
        for text in [
            "rto < 1 s",
            "rto == 500ms",
            "rto<=rto-max",
            "rto - n == -2.5",
            "100 ms <= rto < rto-max",
            "policy == \"failover\" and not (n > 3 or n < 3)",
            "policy != 'delay_centric'",
            "on",
            "on == true",
            "not on or n * 2 + 1 == 7 and n / 2 == 1.5",
            "1 Mbit/s == 1e6 and 2 % == 0.02 and 1.5 kB == 1500 and 1 min == 60",
            "- -n == 3",
            "n - 1 - 1 == 1 and n / 3 / 3 * 3 == 1",
        ] {
            assert!(holds(text), "{text}");
            assert!(!holds(&format!("not ({text})")), "{text}");
        }
        assert!(!holds("n / 0 < n / 0 or 0 / 0 == 0 / 0"), "what is not a number compares with nothing");
    }

    #[test]
    fn rounding_decides_nothing() {
        for text in [
            "0.1 s * 3 == 300 ms",
            "0.1 s * 3 <= 300 ms",
            "not 0.1 s * 3 > 300 ms",
            "not 0.1 s * 3 != 300 ms",
            "300 ms >= 0.1 s + 0.2 s",
            "0.1 s + 0.2 s < 300.000001 ms",
            "0.300000000001 != 0.3",
            "1 / 0 == 2 / 0 and 1 / 0 > 5 and -1 / 0 < 1 / 0",
            "0 == -0 and 0 < 1e-300",
        ] {
            assert!(holds(text), "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_character_and_what_is_allowed() {
        let message = |text: &str| Condition::parse(text, &AXES).unwrap_err();
        let names = "`rto`, `rto-max`, `policy`, `on`, `n`";
        assert_eq!(
            message("rto <= rto_max"),
            format!(
                "`rto <= rto_max`, character 8: `rto_max` is not an axis; there are {names}; text stands in quotes"
            )
        );
        assert_eq!(message("rto < 'a'"), "`rto < 'a'`, character 5: it compares a number with text");
        assert_eq!(
            message("policy < 'a'"),
            "`policy < 'a'`, character 8: text has no order; use `==` or `!=`"
        );
        assert_eq!(
            message("µ < 1"),
            "`µ < 1`, character 1: `µ` stands where an axis, a number, text in quotes, `not`, `-` or `(` is needed"
        );
        assert!(message("n <").ends_with(
            "character 4: the end stands where an axis, a number, text in quotes, `not`, `-` or `(` is needed"
        ));
        assert!(message("(n < 3").ends_with("character 7: the end stands where `)` is needed"));
        assert!(message("n < 3 4").contains("character 7: `4` stands where the end,"));
        assert!(message("n = 3").contains("character 3: `=` stands where the end,"));
        assert!(message("n + 3").contains("character 1: it is neither true nor false"));
        assert!(message("n and on").contains("character 1: a number stands where a truth value is needed"));
        assert!(message("on and n").contains("character 8: a number stands where a truth value is needed"));
        assert!(message("on + 1 < 2").contains("character 1: a truth value stands where a number is needed"));
        assert!(message("not n").contains("character 5: a number stands"));
        assert!(message("policy == 'a").contains("character 11: the text has no second '"));
        assert!(message("n < 1 parsec").contains("character 7"));
        assert!(message("n < 1.2.3").contains("`1.2.3` is not a number"));
        assert!(message("n < 1000 %").contains("`1000 %` is not a number"));
        assert!(message(&format!("{}on{}", "(".repeat(99), ")".repeat(99))).contains("more than 50"));
        assert!(message(&format!("n < {}1", "-".repeat(99_999))).contains("more than 50"));
        assert!(message("").contains("the end stands where"));
    }

    /// Numbers as a tree, and as text with every operation in parentheses.
    fn number() -> impl Strategy<Value = (String, f64)> {
        let leaf = prop_oneof![
            (0_u32..100).prop_map(|number| (number.to_string(), f64::from(number))),
            (1_u32..100).prop_map(|number| (format!("{number} s"), f64::from(number))),
            Just(("n".to_owned(), 3.0)),
            Just(("rto-max".to_owned(), 10.0)),
        ];
        leaf.prop_recursive(4, 24, 2, |inner| {
            (inner.clone(), inner, 0..5_u8).prop_map(|((a, x), (b, y), operation)| match operation {
                0 => (format!("({a} + {b})"), x + y),
                1 => (format!("({a} - {b})"), x - y),
                2 => (format!("({a}*{b})"), x * y),
                3 => (format!("({a} / {b})"), x / y),
                _ => (format!("-{a}"), -x),
            })
        })
    }

    fn flag() -> impl Strategy<Value = (String, bool)> {
        let leaf = prop_oneof![
            (number(), number(), 0..4_u8).prop_map(|((a, x), (b, y), comparison)| match comparison {
                0 => (format!("{a} < {b}"), x < y && !are_equal(x, y)),
                1 => (format!("{a}>={b}"), x > y || are_equal(x, y)),
                2 => (format!("{a} == {b}"), are_equal(x, y)),
                _ => (format!("{a} != {b}"), !are_equal(x, y)),
            }),
            Just(("on".to_owned(), true)),
            Just(("policy == 'x'".to_owned(), false)),
        ];
        leaf.prop_recursive(4, 24, 2, |inner| {
            (inner.clone(), inner, 0..3_u8).prop_map(|((a, x), (b, y), operation)| match operation {
                0 => (format!("({a} and {b})"), x && y),
                1 => (format!("({a} or {b})"), x || y),
                _ => (format!("(not {a})"), !x),
            })
        })
    }

    proptest! {
        #[test]
        fn text_means_what_the_tree_means((text, expected) in flag()) {
            prop_assert_eq!(holds(&text), expected, "{}", text);
        }

        /// Without parentheses, a condition is an `or` of `and`s of comparisons of sums of products.
        #[test]
        fn operations_bind_as_usual(a in 1_i32..9, b in 1_i32..9, c in 1_i32..9, d in 1_i32..9) {
            let text = format!("{a} + {b} * {c} - {d} > 20 or {a} < {b} and not {c} < {d}");
            prop_assert_eq!(holds(&text), a + b * c - d > 20 || a < b && c >= d);
        }

        #[test]
        fn no_text_panics(text in "\\PC*", like in "[a-z0-9 ()<>=!'\"+*/.%-]*") {
            let _ = Condition::parse(&text, &AXES);
            let _ = Condition::parse(&like, &AXES);
        }
    }
}
