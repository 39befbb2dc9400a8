//! Parsers that are attacked alone.

/// One parser, to be given any octets.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name among the fuzz targets.
    pub name: &'static str,
    /// How many times slower than others it is: it gets that many fewer of a run's executions.
    pub weight: u64,
    /// Takes the octets; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Octets that reach deep, to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}
