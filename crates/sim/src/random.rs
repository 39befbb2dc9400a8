//! Numbers that look random and are not: one seed, always the same world.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True with a chance of `chance`, 0 to 1.
    pub fn chance(&mut self, chance: f64) -> bool {
        ((self.draw() >> 11) as f64) < chance * (1u64 << 53) as f64
    }

    /// A number from `low` up to `high`, evenly.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of this mean, distributed as waiting times are.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform(0.0, 1.0)).ln()
    }

    /// One of `choices`; there is at least one.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A generator for a part of the world: what is drawn from it changes nothing elsewhere.
    pub fn fork(&mut self) -> Random {
        Random(self.draw())
    }
}
