//! Keys, hashes and Job names. They stand in stored objects and in the databases of other people, so what these functions
//! give is final: the golden tests below may get new rows and never lose or change one.

use sha2::{Digest, Sha256};

/// Most characters of a Job's name: it becomes the value of a label on its pods.
const MAX_NAME: usize = 63;
/// Characters of a hash in hexadecimal: 128 bits.
const HASH: usize = 32;

/// What a step's idempotency key stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage<'a> {
    /// `idempotency.key`: every run with this key in this namespace is the same piece of work.
    Key { namespace: &'a str, key: &'a str },
    /// No key: the run stands for itself.
    Run { uid: &'a str },
}

/// The step's idempotency key: a UUID (version 8) that is the same in every attempt of the step and, with an
/// `idempotency.key`, in every run of the same lineage.
pub fn step_key(lineage: Lineage<'_>, path: &str) -> String {
    let digest = match lineage {
        Lineage::Key { namespace, key } => hash("step-key/lineage", &[namespace, key, path]),
        Lineage::Run { uid } => hash("step-key/run", &[uid, path]),
    };
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// The hash of a step's path, for a label: a path may hold `/` and be longer than a label.
pub fn path_hash(path: &str) -> String {
    hex(&hash("step-path", &[path]))
}

/// The name of an attempt's Job: the run and the step for people, then 128 bits of hash. A shorter hash would sooner or later
/// give two attempts one name, and the second would never run.
pub fn job_name(run_name: &str, step_name: &str, run_uid: &str, path: &str, attempt: i64) -> String {
    let digest = hex(&hash("job-name", &[run_uid, path, &attempt.to_string()]));
    let (run, step) = (label(run_name), label(step_name));
    // What one of the two does not need, the other may have.
    let room = MAX_NAME - HASH - 2;
    let run_room = run.len().min((room - room / 2).max(room.saturating_sub(step.len())));
    let step_room = step.len().min(room - run_room);
    let mut name = String::with_capacity(MAX_NAME);
    for part in [&run[..run_room], &step[..step_room]] {
        let part = part.trim_matches('-');
        if !part.is_empty() {
            name.push_str(part);
            name.push('-');
        }
    }
    name.push_str(&digest);
    name
}

/// What of `text` may stand in a DNS label; a run's name may hold dots.
fn label(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            'a'..='z' | '0'..='9' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '-',
        })
        .collect()
}

/// SHA-256 over what the hash is for and the parts, each with its length before it, so that no two lists of parts are the same
/// bytes.
pub(super) fn hash(purpose: &str, parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in ["oncilla.dev/v1", purpose].iter().chain(parts) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

/// The first 128 bits in hexadecimal.
fn hex(digest: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    digest[..HASH / 2]
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const UID: &str = "0b6a1f0e-58d5-4a70-a7e8-0d5e7c1f9a11";

    #[test]
    fn keys_are_final() {
        let lineage = Lineage::Key {
            namespace: "shop",
            key: "order-1042",
        };
        assert_eq!(step_key(lineage, "charge"), "904ea425-0720-873b-bb41-8020b6abd3c8");
        assert_eq!(
            step_key(lineage, "reserve/0/hold"),
            "1c648901-974d-81b0-aef3-e39a00918569"
        );
        assert_eq!(
            step_key(Lineage::Run { uid: UID }, "charge"),
            "55fdcbeb-f41f-8a76-8af4-c3697115c5b9"
        );
    }

    #[test]
    fn path_hashes_are_final() {
        assert_eq!(path_hash("charge"), "8268e4bb09e51191d9afbf0b36d01a24");
        assert_eq!(path_hash("reserve/0/hold"), "41d6a5263b34a0a164be7f9d9a51fff1");
    }

    #[test]
    fn job_names_are_final() {
        for (run, step, path, attempt, name) in [
            (
                "order-1042",
                "charge",
                "charge",
                1,
                "order-1042-charge-13dade0dcf29fa87ded96131bbe0aeee",
            ),
            (
                "order-1042",
                "charge",
                "charge",
                2,
                "order-1042-charge-8102d23ef635a8a6b1f793de430c9639",
            ),
            (
                "order-1042",
                "hold",
                "reserve/0/hold",
                1,
                "order-1042-hold-f2879a6237eaeab91d4c0d45726a27d9",
            ),
            (
                "nightly.etl.2026",
                "extract",
                "extract",
                1,
                "nightly-etl-2026-extract-462b4f3e83eb6880aba2784aefd369f9",
            ),
            (
                "a-run-whose-name-is-much-longer-than-it-should-be",
                "a-step-whose-name-is-long-as-well",
                "x",
                1,
                "a-run-whose-nam-a-step-whose-n-fcb2155be61a2ab07177b074b671270e",
            ),
            (
                "short",
                "a-step-whose-name-is-long-as-well",
                "x",
                1,
                "short-a-step-whose-name-is-lon-fcb2155be61a2ab07177b074b671270e",
            ),
        ] {
            assert_eq!(job_name(run, step, UID, path, attempt), name);
        }
    }

    #[test]
    fn a_key_depends_on_everything_that_makes_the_work_another() {
        let key = |namespace, key| Lineage::Key { namespace, key };
        let keys = BTreeSet::from([
            step_key(key("shop", "order"), "charge"),
            step_key(key("shop", "order"), "charge/0"),
            step_key(key("shop", "orde"), "rcharge"),
            step_key(key("sho", "porder"), "charge"),
            step_key(Lineage::Run { uid: "shop" }, "charge"),
            step_key(Lineage::Run { uid: "order" }, "charge"),
        ]);
        assert_eq!(keys.len(), 6);
    }

    #[test]
    fn a_key_is_a_uuid_of_version_8() {
        let key: uuid::Uuid = step_key(Lineage::Run { uid: UID }, "charge").parse().unwrap();
        assert_eq!(key.get_version_num(), 8);
        assert_eq!(key.get_variant(), uuid::Variant::RFC4122);
    }

    proptest! {
        #[test]
        fn a_job_name_is_a_dns_label(run in "[a-z0-9]([-a-z0-9.]{0,70}[a-z0-9])?", step in "[a-z]([-a-z0-9]{0,70}[a-z0-9])?", attempt in 0..i64::MAX) {
            let name = job_name(&run, &step, UID, &step, attempt);
            prop_assert!(name.len() <= 63, "{name}");
            prop_assert!(name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')), "{name}");
            prop_assert!(!name.starts_with('-') && !name.ends_with('-'), "{name}");
        }

        #[test]
        fn no_two_attempts_share_a_name(a in (0..3usize, 0..3usize, 1..4i64), b in (0..3usize, 0..3usize, 1..4i64)) {
            let uids = ["u", "u1", "u11"];
            let paths = ["s", "1s", "s/1"];
            let name = |(uid, path, attempt): (usize, usize, i64)| job_name("run", "step", uids[uid], paths[path], attempt);
            prop_assert_eq!(name(a) == name(b), a == b);
        }

        #[test]
        fn names_of_any_text_do_not_panic(run in ".{0,80}", step in ".{0,80}") {
            let name = job_name(&run, &step, UID, &step, 1);
            prop_assert!(name.len() <= 63 && name.is_ascii());
        }
    }
}
