//! The target for the expressions of chunk rules, held against a reading of the same language made apart from it: a tree,
//! and integers that do not overflow.
//!
//! ```text
//!   first octet: what names and items are worth        the rest: the text
//! ```

use skyhaul::spead::receive::chunk::{Expr, Wrong};

/// What names and items may be worth.
const VALUES: [i64; 8] = [0, 1, -1, 7, 64, 4096, i64::MAX, i64::MIN];
const NAMES: [&str; 6] = ["counter", "size", "stream", "chunk", "index", "offset"];
/// Operators, loosest first.
const LEVELS: [&[&str]; 8] =
    [&["or"], &["and"], &COMPARISONS, &["|"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];
/// The longer ones first.
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "item(0x1600) / 4096 % 16",
        "(counter >> 3) * size",
        "chunk * 100 + index * 10 + offset + stream",
        "1 << 62 | -9223372036854775807 - 1",
        "- (2 - 5) & 0xFF << 4",
        "((((((1))))))+-(-(-(-counter)))",
        "1 / (counter - 7) % item ( 2 )",
        "item(1) << 63 >> 63 * size",
        "counter & 3 == 3 and index <= 3 or size != 4096",
        "(1 < 2) + (offset > chunk) >= stream",
    ]
    .iter()
    .enumerate()
    .map(|(n, text)| [&[n as u8], text.as_bytes()].concat())
    .collect()
}

pub(crate) fn run(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let names = [0, 1, 2, 3, 4, 5].map(|name| VALUES[usize::from(choice).wrapping_add(name) % VALUES.len()]);
    let item = |id: u64| match id % 4 {
        0 => None,
        1 => Some(u64::MAX),
        _ => Some(id.wrapping_mul(u64::from(choice))),
    };
    let mut reader = Reader { text: text.as_bytes(), at: 0, levels: 0 };
    match Expr::with_all_names(&text) {
        Ok(expr) => {
            let tree = reader.whole().expect("what is no expression was read as one");
            let exact = tree.value(&names, &item).map(|value| i64::try_from(value).expect("held to 64 bits"));
            assert_eq!(expr.value_of(&names, item), exact, "{text:?}");
            assert_eq!(expr.text(), text);
        }
        Err(why) => {
            assert!(why.at <= text.len() && why.to_string().contains("hint: "), "{why:?}");
            match why.wrong {
                Wrong::TooLong => assert!(text.len() > 4096),
                // 16 values that wait need 15 operators, 33 levels as many parentheses or signs.
                Wrong::TooDeep => assert!(operators(&text) >= 15, "{text:?} is not deep"),
                // Deeper than the reader of expressions goes, this one need not go either.
                _ if operators(&text) < 1000 => {
                    assert!(reader.whole().is_none(), "{text:?} is refused: {why}")
                }
                _ => {}
            }
        }
    }
}

fn operators(text: &str) -> usize {
    let signs = text.bytes().filter(|octet| b"(-+*/%&|<>=!".contains(octet)).count();
    signs + text.matches("or").count() + text.matches("and").count()
}

enum Tree {
    Value(i128),
    Name(usize),
    Item(u64),
    Negate(Box<Tree>),
    Both(&'static str, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// Exact; none where it, or a part of it, has no value of 64 bits.
    fn value(&self, names: &[i64; 6], item: &dyn Fn(u64) -> Option<u64>) -> Option<i128> {
        let exact = match self {
            Tree::Value(value) => *value,
            Tree::Name(name) => names[*name].into(),
            Tree::Item(id) => item(*id)?.into(),
            Tree::Negate(tree) => -tree.value(names, item)?,
            Tree::Both(operator, left, right) => {
                let (a, b) = (left.value(names, item)?, right.value(names, item)?);
                let power = (0..64).contains(&b).then(|| 1i128 << b);
                match *operator {
                    "|" => a | b,
                    "&" => a & b,
                    "<<" => a * power?,
                    ">>" => a.div_euclid(power?),
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    "/" if b != 0 => a / b,
                    "%" if b != 0 => a % b,
                    "==" => (a == b).into(),
                    "!=" => (a != b).into(),
                    "<" => (a < b).into(),
                    "<=" => (a <= b).into(),
                    ">" => (a > b).into(),
                    ">=" => (a >= b).into(),
                    "and" => (a != 0 && b != 0).into(),
                    "or" => (a != 0 || b != 0).into(),
                    _ => return None,
                }
            }
        };
        (i128::from(i64::MIN)..=i128::from(i64::MAX)).contains(&exact).then_some(exact)
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    levels: usize,
}

impl Reader<'_> {
    fn whole(&mut self) -> Option<Tree> {
        let tree = self.level(0)?;
        self.space();
        (self.at == self.text.len()).then_some(tree)
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn token(&mut self, token: &str) -> bool {
        self.space();
        let letters = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
        let rest = self.text[self.at..].strip_prefix(token.as_bytes());
        let ends = |rest: &[u8]| !token.bytes().all(|c| letters(&c)) || !rest.first().is_some_and(letters);
        let found = rest.is_some_and(ends);
        self.at += usize::from(found) * token.len();
        found
    }

    fn level(&mut self, level: usize) -> Option<Tree> {
        let Some(operators) = LEVELS.get(level) else { return self.operand() };
        let mut tree = self.level(level + 1)?;
        let mut compared = false;
        while let Some(operator) = operators.iter().find(|token| self.token(token)) {
            // One comparison is not compared with another.
            if COMPARISONS.contains(operator) && compared {
                return None;
            }
            compared = true;
            tree = Tree::Both(operator, Box::new(tree), Box::new(self.level(level + 1)?));
        }
        Some(tree)
    }

    fn operand(&mut self) -> Option<Tree> {
        // As deep as the other may go, so that this one does not run out of stack.
        self.levels += 1;
        let tree = if self.levels > 1000 {
            None
        } else if self.token("-") {
            Some(Tree::Negate(Box::new(self.operand()?)))
        } else if self.token("(") {
            let tree = self.level(0)?;
            self.token(")").then_some(tree)
        } else {
            let word = self.word();
            if word == "item" {
                let id = self.token("(").then(|| self.word()).and_then(|word| number(&word));
                self.token(")").then_some(Tree::Item(u64::try_from(id?).ok()?))
            } else if word.starts_with(|c: char| c.is_ascii_digit()) {
                number(&word).filter(|&n| n <= i64::MAX as u128).map(|n| Tree::Value(n as i128))
            } else {
                NAMES.iter().position(|name| *name == word).map(Tree::Name)
            }
        };
        self.levels -= 1;
        tree
    }

    fn word(&mut self) -> String {
        self.space();
        let rest = &self.text[self.at..];
        let word: Vec<u8> =
            rest.iter().copied().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').collect();
        self.at += word.len();
        String::from_utf8_lossy(&word).into_owned()
    }
}

/// Digits, of 64 bits at most.
fn number(word: &str) -> Option<u128> {
    let (digits, base) = match word.get(..2) {
        Some("0x" | "0X") => (&word[2..], 16),
        _ => (word, 10),
    };
    let value = digits.chars().try_fold(0u128, |value, digit| {
        let value = value * u128::from(base) + u128::from(digit.to_digit(base)?);
        (value <= u64::MAX.into()).then_some(value)
    });
    value.filter(|_| !digits.is_empty())
}
