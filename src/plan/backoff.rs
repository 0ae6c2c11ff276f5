//! The wait between two attempts. No clock and no chance: the jitter is a hash of the step's key and the attempt, so every
//! controller that asks gets the same answer.

use super::names::hash;

/// A backoff whose expressions have been evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Milliseconds.
    pub initial: i64,
    pub factor: i64,
    /// Milliseconds, before jitter.
    pub max: i64,
    pub jitter_percent: i64,
}

/// Milliseconds between the end of `attempt` (from 1) and the start of the next:
/// initial x factor^(attempt-1), at most max, plus 0 to jitterPercent of it.
pub fn wait_ms(backoff: Backoff, key: &str, attempt: i64) -> i64 {
    let max = backoff.max.max(0);
    let factor = backoff.factor.max(1);
    let mut wait = backoff.initial.clamp(0, max);
    if wait > 0 && factor > 1 {
        // At most 63 rounds, since the wait at least doubles.
        for _ in 1..attempt {
            wait = wait.saturating_mul(factor).min(max);
            if wait == max {
                break;
            }
        }
    }
    let most = i128::from(wait) * i128::from(backoff.jitter_percent.clamp(0, 100)) / 100;
    let digest = hash("jitter", &[key, &attempt.to_string()]);
    let mut chance = [0; 8];
    chance.copy_from_slice(&digest[..8]);
    let jitter = i128::from(u64::from_be_bytes(chance)) % (most + 1);
    wait.saturating_add(i64::try_from(jitter).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wait_grows_by_the_factor_up_to_max() {
        let plain = |initial, factor, max| Backoff {
            initial,
            factor,
            max,
            jitter_percent: 0,
        };
        for (backoff, waits) in [
            (
                plain(2_000, 2, 60_000),
                [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000],
            ),
            (
                plain(1_000, 3, 300_000),
                [1_000, 3_000, 9_000, 27_000, 81_000, 243_000, 300_000],
            ),
            (plain(5, 1, 1_000), [5; 7]),
            (plain(0, 2, 1_000), [0; 7]),
            (plain(i64::MAX, i64::MAX, i64::MAX), [i64::MAX; 7]),
        ] {
            for (attempt, wait) in (1..).zip(waits) {
                assert_eq!(wait_ms(backoff, "k", attempt), wait, "{backoff:?} {attempt}");
            }
        }
    }

    #[test]
    fn jitter_spreads_keys_and_attempts_and_stays_the_same() {
        let backoff = Backoff {
            initial: 10_000,
            factor: 1,
            max: 10_000,
            jitter_percent: 50,
        };
        let waits = |key: &str| -> Vec<i64> { (1..20).map(|n| wait_ms(backoff, key, n)).collect() };
        let (a, b) = (waits("a"), waits("b"));
        assert_eq!(a, waits("a"));
        assert_ne!(a, b);
        let different: std::collections::BTreeSet<_> = a.iter().chain(&b).collect();
        assert!(different.len() > 30, "{different:?}");
    }

    proptest! {
        #[test]
        fn a_wait_is_between_the_base_and_the_base_with_full_jitter(
            initial in any::<i64>(), factor in any::<i64>(), max in any::<i64>(), jitter in any::<i64>(), attempt in any::<i64>(),
        ) {
            let backoff = Backoff { initial, factor, max, jitter_percent: jitter };
            let base = wait_ms(Backoff { jitter_percent: 0, ..backoff }, "k", attempt);
            let wait = wait_ms(backoff, "k", attempt);
            prop_assert!(base >= 0 && base <= max.max(0));
            prop_assert!(wait >= base && wait <= base.saturating_mul(2));
        }
    }
}
