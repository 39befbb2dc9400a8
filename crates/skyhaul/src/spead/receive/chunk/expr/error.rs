//! What is wrong with the text of an expression, and where, in words for who wrote it.

use std::fmt;

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
            Wrong::TooLong => ("the text is too long", "at most 4096 octets"),
        };
        let text: String = self.text.chars().take(200).collect();
        write!(f, "expression '{text}', at {}: {wrong}; hint: {hint}", self.at)
    }
}

impl std::error::Error for ExprError {}
