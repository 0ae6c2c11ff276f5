//! When a request is sent again: the only place that decides it.
//!
//! Used for reads, and for effects that do no more when repeated (close, delete, release). Never for the create of a Job
//! or a commit: when their answer is lost, the API server is asked what happened before anything else is sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::answer::{self, Answer};

/// How often, and after what wait, a request whose outcome is unknown is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Most times it is sent, the first included.
    pub tries: u32,
    /// The wait after the first try; doubled after each further one.
    pub first: Duration,
    /// The longest wait, also if the API server asks for a longer one.
    pub cap: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            tries: 4,
            first: Duration::from_millis(100),
            cap: Duration::from_secs(5),
        }
    }
}

/// What to do after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send it again after this time.
    Wait(Duration),
    /// The answer stands.
    Stop,
}

impl Retry {
    /// What to do when try number `tried` (from 1) was answered so. `seed` sets the jitter: up to a quarter of the wait is
    /// added, so that clients that were turned away together do not come back together.
    pub fn next(&self, answer: &Answer, tried: u32, seed: u64) -> Next {
        let Answer::Unknown { retry_after, .. } = answer else {
            return Next::Stop;
        };
        if tried >= self.tries {
            return Next::Stop;
        }
        let doubled = self.first.saturating_mul(1 << tried.saturating_sub(1).min(16));
        let wait = retry_after.unwrap_or_default().max(doubled).min(self.cap);
        let mut hasher = DefaultHasher::new();
        (seed, tried).hash(&mut hasher);
        let share = (hasher.finish() % 1024) as u32;
        Next::Wait(wait + wait * share / 4096)
    }

    /// Calls `send` until its answer stands. `what` names the request; it sets the jitter.
    pub async fn run<T, F>(&self, what: &str, mut send: impl FnMut() -> F) -> Result<T, kube::Error>
    where
        // Not an async closure: the compiler cannot yet tell that the future of one may move between threads.
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut hasher = DefaultHasher::new();
        (what, std::process::id()).hash(&mut hasher);
        let seed = hasher.finish();
        let mut tried = 1;
        loop {
            let result = send().await;
            match self.next(&answer::classify(&result), tried, seed) {
                Next::Stop => return result,
                Next::Wait(wait) => {
                    if let Err(error) = &result {
                        tracing::debug!(what, tried, ?wait, %error, "sending it again");
                    }
                    tokio::time::sleep(wait).await;
                    tried += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        tries: 4,
        first: Duration::from_millis(100),
        cap: Duration::from_secs(5),
    };

    fn unknown(retry_after: Option<u64>) -> Answer {
        Answer::Unknown {
            message: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn wait(answer: &Answer, tried: u32) -> Duration {
        match RETRY.next(answer, tried, 7) {
            Next::Wait(wait) => wait,
            Next::Stop => panic!("stopped after {tried} tries"),
        }
    }

    #[test]
    fn the_wait_doubles_and_the_jitter_adds_at_most_a_quarter() {
        for (tried, millis) in [(1, 100), (2, 200), (3, 400)] {
            let wait = wait(&unknown(None), tried).as_millis();
            assert!((millis..=millis * 5 / 4).contains(&wait), "{tried}: {wait}");
        }
        let waits: std::collections::BTreeSet<_> = (0..64)
            .map(|seed| format!("{:?}", RETRY.next(&unknown(None), 3, seed)))
            .collect();
        assert!(waits.len() > 32, "the seed spreads the waits: {waits:?}");
    }

    #[test]
    fn it_waits_as_long_as_the_server_asks_up_to_the_cap() {
        assert!(wait(&unknown(Some(2)), 1) >= Duration::from_secs(2));
        assert!(wait(&unknown(Some(3600)), 1) <= RETRY.cap * 5 / 4);
    }

    #[test]
    fn it_ends_and_what_is_known_is_not_asked_again() {
        assert_eq!(RETRY.next(&unknown(None), 4, 7), Next::Stop);
        for answer in [
            Answer::Acknowledged,
            Answer::Gone,
            Answer::Conflict { message: String::new() },
            Answer::Invalid { message: String::new() },
        ] {
            assert_eq!(RETRY.next(&answer, 1, 7), Next::Stop, "{answer:?}");
        }
    }

    #[test]
    fn many_tries_do_not_overflow() {
        let patient = Retry {
            tries: u32::MAX,
            ..RETRY
        };
        assert!(matches!(patient.next(&unknown(None), u32::MAX - 1, 7), Next::Wait(w) if w <= RETRY.cap * 5 / 4));
    }
}
