//! What agents cost: of a node, a lane, a leg, a run. What is not known is said, and counts as no amount.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ids::Leg;
use crate::journal::Record;
use crate::money::{Tokens, Usd};
use crate::schedule::fact::Fact;
use crate::schedule::state::Cost;

/// What agents cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CostView {
    /// What is known to have been spent, in dollars; null where of nothing it is known.
    pub usd: Option<Usd>,
    /// Attempts of which it is not known.
    pub unknown_attempts: u32,
    /// What is known to have been read and written; null where of nothing it is known.
    pub tokens: Option<Tokens>,
}

/// What the agents of one leg cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LegCost {
    /// The leg.
    pub leg: Leg,
    /// What its attempts cost.
    pub cost: CostView,
}

impl From<Cost> for CostView {
    fn from(cost: Cost) -> CostView {
        let is_known = cost.known > Usd::default() || cost.unknown == 0;
        CostView {
            usd: is_known.then_some(cost.known),
            unknown_attempts: cost.unknown,
            tokens: (cost.tokens != Tokens::default()).then_some(cost.tokens),
        }
    }
}

impl std::fmt::Display for CostView {
    /// Writes `$0.42`, `$0.42 and 1 attempt of unknown cost`, or `unknown`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.usd, self.unknown_attempts) {
            (Some(usd), 0) => write!(f, "{usd}"),
            (Some(usd), unknown) => {
                let what = if unknown == 1 { "attempt" } else { "attempts" };
                write!(f, "{usd} and {unknown} {what} of unknown cost")
            }
            (None, _) => f.write_str("unknown"),
        }
    }
}

impl CostView {
    /// Returns it in as few characters as a table has room for: `$0.42`, `$0.42 + ?`, `?`.
    pub fn short(&self) -> String {
        match (self.usd, self.unknown_attempts) {
            (Some(usd), 0) => usd.to_string(),
            (Some(usd), _) => format!("{usd} + ?"),
            (None, _) => "?".into(),
        }
    }
}

/// Returns what the agents of each leg cost, in their order; of a leg without any, nothing.
pub fn by_leg(records: &[Record]) -> Vec<LegCost> {
    let mut legs: BTreeMap<Leg, Cost> = BTreeMap::new();
    for record in records {
        if let Fact::AttemptFinished { agent: Some(agent), .. } = &record.fact {
            let cost = legs.entry(record.leg).or_default();
            *cost = cost.plus(Cost::of(agent));
        }
    }
    legs.into_iter().map(|(leg, cost)| LegCost { leg, cost: cost.into() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_no_zero() {
        let cost = |micros, unknown| {
            CostView::from(Cost { known: Usd::from_micros(micros), unknown, tokens: Tokens::default() })
        };
        for (cost, long, short) in [
            (cost(420_000, 0), "$0.42", "$0.42"),
            (cost(420_000, 1), "$0.42 and 1 attempt of unknown cost", "$0.42 + ?"),
            (cost(420_000, 2), "$0.42 and 2 attempts of unknown cost", "$0.42 + ?"),
            (cost(0, 1), "unknown", "?"),
            (cost(0, 0), "$0.00", "$0.00"),
        ] {
            assert_eq!((cost.to_string().as_str(), cost.short().as_str()), (long, short));
        }
    }
}
