//! Integer expressions over the fields of a packet, parsed from text.
//!
//! ```text
//!   item(0x1600) / 4096 % 16      an immediate item, constants
//!   (counter >> 3) * size         the heap's counter and size
//! ```
//!
//! | | |
//! |---|---|
//! | values | `12`, `0x1F`, `item(0x1600)`, and the names defined where the expression is used |
//! | operators, loosest first, as in Python | `or`, `and`, `== != < <= > >=`, `\|`, `&`, `<< >>`, `+ -`, `* / %`, unary `-` |
//!
//! Values are signed 64-bit integers. After an overflow, a division by zero, a shift by less than 0 or more than 63, or if an
//! item is missing, the whole expression has no value: the heap is then rejected, never placed by accident. Division rounds
//! towards zero. A comparison is 1 or 0; `and` and `or` take 0 for false and give 1 or 0. Limits: 4096 bytes of text, 32 nested parentheses, 16 values waiting for an operator.

use skyhaul_core::hint::Hint;
use std::fmt;

/// Values of the names, in the order of [`NAMES`].
pub(super) type Values = [i64; NAMES.len()];

/// Names: `counter` and `size` of the heap and the `stream`'s number always have a value; the others only after the rule
/// that computes them.
pub(super) const NAMES: [&str; 6] = ["counter", "size", "stream", "chunk", "index", "offset"];
/// Number of [`NAMES`] with a value in the rule itself.
pub(super) const IN_RULE: usize = 3;

/// Maximum depth of parentheses and signs.
const MAX_DEPTH: usize = 32;
/// Maximum number of values waiting for an operator.
const MAX_STACK: usize = 16;
/// Maximum length of the text in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    text: String,
    ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Constant(i64),
    Name(usize),
    Item(u64),
    Negate,
    Or,
    And,
    Left,
    Right,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Both,
    Either,
}

impl Expr {
    /// An expression in which the first `names` of [`NAMES`] have a value.
    pub(super) fn parse(text: &str, names: usize) -> Result<Expr, ExprError> {
        let mut parser = Parser { text: text.as_bytes(), at: 0, ops: Vec::new(), names, depth: 0 };
        let error = |at, wrong| ExprError { text: text.to_owned(), at, wrong };
        if text.len() > MAX_TEXT_BYTES {
            return Err(error(MAX_TEXT_BYTES, Wrong::TooLong));
        }
        parser.level(0).map_err(|wrong| error(parser.at, wrong))?;
        if parser.peek().is_some() {
            return Err(error(parser.at, Wrong::NoOperator));
        }
        let grow = |op: &Op| match op {
            Op::Constant(_) | Op::Name(_) | Op::Item(_) => 1,
            Op::Negate => 0,
            _ => -1,
        };
        let heights = parser.ops.iter().scan(0isize, |height, op| {
            *height += grow(op);
            Some(*height)
        });
        if heights.max().unwrap_or(0) > MAX_STACK as isize {
            return Err(error(parser.at, Wrong::TooDeep));
        }
        Ok(Expr { text: text.to_owned(), ops: parser.ops })
    }

    /// An expression in which every name has a value: for the fuzz target.
    #[doc(hidden)]
    pub fn with_all_names(text: &str) -> Result<Expr, ExprError> {
        Expr::parse(text, NAMES.len())
    }

    /// Its value, given those of `counter`, `size`, `stream`, `chunk`, `index` and `offset`: for the fuzz target.
    #[doc(hidden)]
    #[must_use]
    pub fn value_of(&self, names: &[i64; NAMES.len()], item: impl Fn(u64) -> Option<u64>) -> Option<i64> {
        self.value(names, item)
    }

    /// Its source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its value; `None` if a part of it has none.
    #[inline]
    pub(super) fn value(&self, names: &Values, item: impl Fn(u64) -> Option<u64>) -> Option<i64> {
        let (mut stack, mut count) = ([0i64; MAX_STACK], 0);
        for &op in &self.ops {
            let value = match op {
                Op::Constant(value) => value,
                Op::Name(name) => names[name],
                Op::Item(id) => i64::try_from(item(id)?).ok()?,
                Op::Negate => {
                    count -= 1;
                    stack[count].checked_neg()?
                }
                _ => {
                    count -= 2;
                    operate(op, stack[count], stack[count + 1])?
                }
            };
            *stack.get_mut(count)? = value;
            count += 1;
        }
        Some(stack[0])
    }
}

fn operate(op: Op, a: i64, b: i64) -> Option<i64> {
    let shift = u32::try_from(b).ok().filter(|&b| b < 64);
    match op {
        Op::Or => Some(a | b),
        Op::And => Some(a & b),
        Op::Left => {
            let shifted = a << shift?;
            (shifted >> shift? == a).then_some(shifted)
        }
        Op::Right => Some(a >> shift?),
        Op::Add => a.checked_add(b),
        Op::Subtract => a.checked_sub(b),
        Op::Multiply => a.checked_mul(b),
        Op::Divide => a.checked_div(b),
        // The only quotient that overflows has remainder 0.
        Op::Remainder => (b != 0).then(|| a.wrapping_rem(b)),
        Op::Equal => Some(i64::from(a == b)),
        Op::Unequal => Some(i64::from(a != b)),
        Op::Less => Some(i64::from(a < b)),
        Op::LessEqual => Some(i64::from(a <= b)),
        Op::Greater => Some(i64::from(a > b)),
        Op::GreaterEqual => Some(i64::from(a >= b)),
        Op::Both => Some(i64::from(a != 0 && b != 0)),
        Op::Either => Some(i64::from(a != 0 || b != 0)),
        Op::Constant(_) | Op::Name(_) | Op::Item(_) | Op::Negate => None,
    }
}

/// Operators, loosest first.
const LEVELS: [&[(&str, Op)]; 8] = [
    &[("or", Op::Either)],
    &[("and", Op::Both)],
    &[
        ("==", Op::Equal),
        ("!=", Op::Unequal),
        ("<=", Op::LessEqual),
        (">=", Op::GreaterEqual),
        ("<", Op::Less),
        (">", Op::Greater),
    ],
    &[("|", Op::Or)],
    &[("&", Op::And)],
    &[("<<", Op::Left), (">>", Op::Right)],
    &[("+", Op::Add), ("-", Op::Subtract)],
    &[("*", Op::Multiply), ("/", Op::Divide), ("%", Op::Remainder)],
];

/// The level of comparisons, which are not chained: `0 <= x < 4` would compare a truth value with 4.
const COMPARISONS: usize = 2;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    ops: Vec<Op>,
    names: usize,
    depth: usize,
}

impl Parser<'_> {
    /// The next octet that is not a space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, token: &str) -> bool {
        self.peek();
        let rest = &self.text[self.at..];
        let found = rest.starts_with(token.as_bytes());
        // A word ends where no letter follows.
        let word = token.as_bytes()[0].is_ascii_alphabetic();
        let longer = word && rest.get(token.len()).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_');
        self.at += if found && !longer { token.len() } else { 0 };
        found && !longer
    }

    fn level(&mut self, level: usize) -> Result<(), Wrong> {
        let Some(operators) = LEVELS.get(level) else { return self.operand() };
        self.level(level + 1)?;
        while let Some(&(_, op)) = operators.iter().find(|(token, _)| self.take(token)) {
            self.level(level + 1)?;
            self.ops.push(op);
            let at = self.at;
            if level == COMPARISONS && operators.iter().any(|(token, _)| self.take(token)) {
                self.at = at;
                return Err(Wrong::Chained);
            }
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), Wrong> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Wrong::TooDeep);
        }
        match self.peek() {
            Some(b'-') => {
                self.at += 1;
                self.operand()?;
                self.ops.push(Op::Negate);
            }
            Some(b'(') => {
                self.at += 1;
                self.level(0)?;
                self.close()?;
            }
            Some(b'0'..=b'9') => {
                let number = self.number()?;
                self.ops.push(Op::Constant(i64::try_from(number).map_err(|_| Wrong::Number)?));
            }
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.name()?,
            _ => return Err(Wrong::NoValue),
        }
        self.depth -= 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Wrong> {
        if self.take(")") {
            Ok(())
        } else {
            Err(if self.peek().is_some() { Wrong::NoOperator } else { Wrong::NotClosed })
        }
    }

    fn word(&mut self) -> &str {
        self.peek();
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|c| !c.is_ascii_alphanumeric() && *c != b'_').unwrap_or(rest.len());
        std::str::from_utf8(&rest[..length]).unwrap_or_default()
    }

    fn number(&mut self) -> Result<u64, Wrong> {
        let word = self.word();
        let length = word.len();
        let number = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => word.parse(),
        };
        let number = number.map_err(|_| Wrong::Number)?;
        self.at += length;
        Ok(number)
    }

    fn name(&mut self) -> Result<(), Wrong> {
        let (names, word) = (self.names, self.word());
        let length = word.len();
        if word == "item" {
            self.at += length;
            if !self.take("(") {
                return Err(Wrong::NoOperator);
            }
            if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
                return Err(Wrong::NoValue);
            }
            let id = self.number()?;
            self.ops.push(Op::Item(id));
            return self.close();
        }
        let name = NAMES[..names].iter().position(|&name| name == word).ok_or(Wrong::Name)?;
        self.at += length;
        self.ops.push(Op::Name(name));
        Ok(())
    }
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Here a value should begin.
    NoValue,
    /// Here an operator, or the end, should stand.
    NoOperator,
    /// A parenthesis that is not closed.
    NotClosed,
    /// A number that has no value of 64 bits.
    Number,
    /// A name that has no value here.
    Name,
    /// A comparison of a comparison.
    Chained,
    /// Too many levels.
    TooDeep,
    /// Too long.
    TooLong,
}

/// A text that is no [`Expr`](super::Expr).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// The text.
    pub text: String,
    /// Octets before the place that is wrong.
    pub at: usize,
    /// What is wrong there.
    pub wrong: Wrong,
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wrong, hint) = match self.wrong {
            Wrong::NoValue => {
                ("a value should begin here", "a number, item(0x1600), counter, size or stream")
            }
            Wrong::NoOperator => {
                ("an operator should stand here", "one of + - * / % & | << >> == != < <= > >= and or")
            }
            Wrong::NotClosed => ("a parenthesis is not closed", "add )"),
            Wrong::Number => ("this is no number of 64 bits", "write 4096 or 0x1000"),
            Wrong::Name => (
                "this name has no value here",
                "counter, size, stream; behind the rule also chunk, index, offset",
            ),
            Wrong::Chained => ("comparisons are not chained", "write 0 <= counter and counter < 4"),
            Wrong::TooDeep => {
                ("too many levels", "at most 32 of parentheses, and 16 values that wait for an operator")
            }
            Wrong::TooLong => ("the text is too long", "at most 4096 bytes"),
        };
        let text: String = self.text.chars().take(200).collect();
        write!(f, "expression '{text}', at {}: {wrong}{}", self.at, Hint(hint))
    }
}

impl std::error::Error for ExprError {}

#[cfg(test)]
mod tests;
