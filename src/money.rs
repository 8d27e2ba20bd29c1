//! What an agent's work cost: dollars and tokens, counted exactly.

use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Micro-dollars in a dollar.
const MICROS: u64 = 1_000_000;
/// Micro-dollars in a cent.
const CENT: u64 = MICROS / 100;

/// An amount of US dollars in whole micro-dollars. Invariant: at most [`Usd::MAX`], so that each amount is
/// exact as a JSON number of dollars too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    /// The greatest amount: a thousand million dollars.
    pub const MAX: Usd = Usd(1_000_000_000 * MICROS);

    /// Returns `micros` micro-dollars, [`Usd::MAX`] where that is more.
    pub fn from_micros(micros: u64) -> Usd {
        Usd(micros).min(Usd::MAX)
    }

    /// Returns `dollars` to the nearest micro-dollar; `None` where it is negative, no number, or past
    /// [`Usd::MAX`].
    pub fn from_dollars(dollars: f64) -> Option<Usd> {
        // NaN is in no range.
        (0.0..=1e9).contains(&dollars).then(|| Usd((dollars * MICROS as f64).round() as u64))
    }

    /// Returns the amount in micro-dollars.
    pub fn micros(self) -> u64 {
        self.0
    }

    /// Returns the sum, [`Usd::MAX`] where it is more.
    pub fn plus(self, other: Usd) -> Usd {
        Usd::from_micros(self.0.saturating_add(other.0))
    }

    /// Returns the difference, zero where `other` is more.
    pub fn less(self, other: Usd) -> Usd {
        Usd(self.0.saturating_sub(other.0))
    }

    /// Returns the amount as a plain number of dollars, without needless zeros: `1.5`, `0.000001`, `3`.
    pub fn decimal(self) -> String {
        let text = format!("{}.{:06}", self.0 / MICROS, self.0 % MICROS);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(amounts: I) -> Usd {
        amounts.fold(Usd::default(), Usd::plus)
    }
}

/// To the cent: `$12.00`; what is less than a cent is shown exactly: `$0.0042`.
impl fmt::Display for Usd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 && self.0 < CENT {
            return write!(out, "${}", self.decimal());
        }
        let cents = (self.0 + CENT / 2) / CENT;
        write!(out, "${}.{:02}", cents / 100, cents % 100)
    }
}

/// A number of dollars: `0.0123`.
impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / MICROS as f64)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Usd::from_dollars(dollars)
            .ok_or_else(|| de::Error::custom(format!("{dollars} is no amount of dollars from 0 to 1e9")))
    }
}

/// Tokens that a model read and wrote. What came from a cache and what went into one is not in `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read by the model, neither from a cache nor into one.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Read and put into a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Returns the sum of both, kind by kind.
    pub fn plus(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_to_the_micro() {
        let cases = [
            (0.0, Some(0)),
            (0.0123, Some(12_300)),
            (0.1 + 0.2, Some(300_000)),
            (0.000_000_4, Some(0)),
            (0.000_000_5, Some(1)),
            (3.0, Some(3_000_000)),
            (1e9, Some(1_000_000_000_000_000)),
            (1.1e9, None),
            (-0.01, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
        ];
        for (dollars, micros) in cases {
            assert_eq!(Usd::from_dollars(dollars).map(Usd::micros), micros, "{dollars}");
        }
    }

    #[test]
    fn amounts_are_shown() {
        let cases = [
            (0, "$0.00", "0"),
            (1, "$0.000001", "0.000001"),
            (4_200, "$0.0042", "0.0042"),
            (9_999, "$0.009999", "0.009999"),
            (10_000, "$0.01", "0.01"),
            (14_999, "$0.01", "0.014999"),
            (15_000, "$0.02", "0.015"),
            (420_000, "$0.42", "0.42"),
            (1_500_000, "$1.50", "1.5"),
            (12_000_000, "$12.00", "12"),
            (999_999_999, "$1000.00", "999.999999"),
        ];
        for (micros, shown, decimal) in cases {
            assert_eq!(Usd::from_micros(micros).to_string(), shown);
            assert_eq!(Usd::from_micros(micros).decimal(), decimal);
        }
    }

    #[test]
    fn json_holds_them_exactly() {
        for micros in [0, 1, 12_300, 100_000, 333_333, 1_000_001, 29_999_999, Usd::MAX.micros() - 1] {
            let amount = Usd::from_micros(micros);
            let text = serde_json::to_string(&amount).unwrap();
            assert_eq!(serde_json::from_str::<Usd>(&text).unwrap(), amount, "{text}");
        }
        assert_eq!(serde_json::to_string(&Usd::from_micros(12_300)).unwrap(), "0.0123");
        for (text, micros) in
            [("3", Some(3_000_000)), ("3.0", Some(3_000_000)), ("-1", None), ("\"3\"", None)]
        {
            assert_eq!(serde_json::from_str::<Usd>(text).ok().map(Usd::micros), micros, "{text}");
        }
    }

    #[test]
    fn sums_stay_in_range() {
        let (one, two) = (Usd::from_micros(1), Usd::from_micros(2));
        assert_eq!([one, two, two].into_iter().sum::<Usd>().micros(), 5);
        assert_eq!(Usd::MAX.plus(one), Usd::MAX);
        assert_eq!(Usd::from_micros(u64::MAX), Usd::MAX);
        assert_eq!((one.less(two), two.less(one)), (Usd::default(), one));
        let tokens = Tokens { input: 1, output: 2, cache_read: 3, cache_write: u64::MAX };
        let expected = Tokens { input: 2, output: 4, cache_read: 6, cache_write: u64::MAX };
        assert_eq!(tokens.plus(tokens), expected);
    }
}
