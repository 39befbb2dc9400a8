//! Parsers that are attacked alone.

/// One parser, which is given arbitrary bytes.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name among the fuzz targets.
    pub name: &'static str,
    /// How many times slower than others it is: it gets that many fewer of a run's executions.
    pub weight: u64,
    /// Parses the bytes; panics if a guarantee is broken.
    pub run: fn(&[u8]),
    /// Initial inputs that reach deep into the parser.
    pub seeds: fn() -> Vec<Vec<u8>>,
}
