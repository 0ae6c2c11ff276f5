//! What the steps promise about their effects, against a real PostgreSQL server: `demo/postgres.sh` must be able to start
//! one, which takes root and Debian's package. Every test has keys, orders and articles of its own, so they can share it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use uuid::Uuid;

/// How a step ended: its exit code, and what it wrote for Oncilla to read.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    code: Option<i32>,
    output: String,
}

/// One step of one run, with a key of its own.
struct Step {
    key: Uuid,
    name: &'static str,
    variables: Vec<(&'static str, String)>,
}

impl Step {
    fn new(name: &'static str, variables: &[(&'static str, &str)]) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        Self {
            key: fresh_key(),
            name,
            variables,
        }
    }

    fn command(&self, arguments: &[&str], attempt: u32, fence: i64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command
            .args(arguments)
            .env_clear()
            .envs(database().iter().cloned())
            .envs(self.variables.iter().cloned())
            .envs([("ONCILLA_RUN", "test"), ("ONCILLA_STEP", self.name)])
            .env("HOSTNAME", format!("{}-{attempt}", self.name))
            .env("ONCILLA_IDEMPOTENCY_KEY", self.key.to_string())
            .env("ONCILLA_ATTEMPT", attempt.to_string())
            .env("ONCILLA_FENCE", fence.to_string());
        command
    }

    fn run(&self, arguments: &[&str], attempt: u32, fence: i64) -> Ended {
        let file = OutputFile::new();
        let status = self
            .command(arguments, attempt, fence)
            .env("ONCILLA_OUTPUT", &file.0)
            .stdout(Stdio::null())
            .status()
            .expect("shop can be started");
        Ended {
            code: status.code(),
            output: file.read(),
        }
    }

    /// What the table of attempts says about this step, oldest first.
    fn attempts(&self) -> String {
        sql(&format!(
            "SELECT string_agg(attempt || ' ' || outcome, ', ' ORDER BY id) FROM attempts WHERE idempotency_key = '{}'",
            self.key
        ))
    }

    fn count(&self, table: &str) -> String {
        sql(&format!(
            "SELECT count(*) FROM {table} WHERE idempotency_key = '{}'",
            self.key
        ))
    }
}

struct OutputFile(PathBuf);

impl OutputFile {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("shop-test-{}", fresh_key())))
    }

    fn read(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn fresh_key() -> Uuid {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid").expect("Linux makes UUIDs");
    text.trim().parse().expect("a UUID")
}

fn postgres(arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../postgres.sh");
    let output = Command::new(script)
        .args(arguments)
        .env("ONCILLA_POSTGRES_DIR", server_folder())
        .env("ONCILLA_POSTGRES_ADDRESS", "127.0.0.1")
        .output()
        .expect("demo/postgres.sh can be started");
    assert!(
        output.status.success(),
        "demo/postgres.sh {arguments:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Unless told otherwise, not the folder of the demo's server: that one may be at work, at another address.
fn server_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("ONCILLA_POSTGRES_DIR") {
        return folder.into();
    }
    let cache = std::env::var_os("ONCILLA_CACHE").map(PathBuf::from);
    let cache =
        cache.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap_or("/root".into())).join(".cache/oncilla"));
    cache.join("postgres/test")
}

/// The server's address and the role "shop", as environment variables. The server is started when first asked for and
/// stays for the next run of the tests.
fn database() -> &'static [(String, String)] {
    static DATABASE: OnceLock<Vec<(String, String)>> = OnceLock::new();
    DATABASE.get_or_init(|| {
        postgres(&["start"]);
        String::from_utf8(postgres(&["env"]).stdout)
            .expect("plain text")
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    })
}

fn sql(statement: &str) -> String {
    database();
    String::from_utf8(postgres(&["psql", "-qAtc", statement]).stdout)
        .expect("plain text")
        .trim()
        .to_owned()
}

fn article_number() -> String {
    format!("T-{}", fresh_key().simple().to_string()[..16].to_uppercase())
}

/// A new article of which so many are there.
fn article(available: u32) -> String {
    let sku = article_number();
    sql(&format!("INSERT INTO stock VALUES ('{sku}', {available})"));
    sku
}

fn available(sku: &str) -> String {
    sql(&format!("SELECT available FROM stock WHERE sku = '{sku}'"))
}

fn done(output: impl Into<String>) -> Ended {
    Ended {
        code: Some(0),
        output: output.into(),
    }
}

#[test]
fn a_charge_that_is_tried_again_is_made_once_and_answers_with_the_same_receipt() {
    let charge = Step::new("charge", &[("ORDER", "7001"), ("CENTS", "1999")]);
    let first = charge.run(&["charge"], 1, 100);
    let second = charge.run(&["charge"], 2, 200);
    let receipt = sql(&format!(
        "SELECT receipt FROM charges WHERE idempotency_key = '{}'",
        charge.key
    ));
    assert_eq!(
        first,
        done(format!(
            r#"{{"cents":1999,"order":"7001","paid":true,"receipt":"{receipt}"}}"#
        ))
    );
    assert_eq!(second, first);
    assert_eq!(charge.attempts(), "1 done, 2 found done");
}

#[test]
fn a_charge_that_dies_between_its_commit_and_its_answer_is_found_by_the_next_attempt() {
    let charge = Step::new(
        "charge",
        &[("ORDER", "7002"), ("CENTS", "500"), ("DEMO_PAUSE_AFTER_COMMIT", "600")],
    );
    let file = OutputFile::new();
    let mut first = charge
        .command(&["charge"], 1, 100)
        .env("ONCILLA_OUTPUT", &file.0)
        .stdout(Stdio::null())
        .spawn()
        .expect("shop can be started");
    while charge.count("charges") != "1" {
        assert_eq!(
            first.try_wait().expect("a child"),
            None,
            "the first attempt ended before its commit was seen"
        );
    }
    first.kill().expect("a child");
    assert!(!first.wait().expect("a child").success());
    assert_eq!(file.read(), "", "the first attempt answered");
    // The second attempt has the same environment and is not to wait.
    let second = charge.run(&["charge"], 2, 200);
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(
        (charge.count("charges").as_str(), charge.attempts().as_str()),
        ("1", "1 done, 2 found done")
    );
}

#[test]
fn an_older_fence_loses() {
    let charge = Step::new("charge", &[("ORDER", "7003"), ("CENTS", "500")]);
    assert_eq!(charge.run(&["charge"], 2, 200).code, Some(0));
    let late = charge.run(&["charge"], 1, 100);
    assert_eq!(
        (late.code, late.output.as_str()),
        (
            Some(4),
            "an attempt with fence 200 has written already, this one has 100: its work is left to the newer one"
        )
    );
    assert_eq!(charge.attempts(), "2 done, 1 fenced");
}

#[test]
fn a_key_cannot_be_used_for_another_sum() {
    let mut charge = Step::new("charge", &[("ORDER", "7004"), ("CENTS", "500")]);
    assert_eq!(charge.run(&["charge"], 1, 100).code, Some(0));
    charge.variables = vec![("ORDER", "7004".to_owned()), ("CENTS", "501".to_owned())];
    let other = charge.run(&["charge"], 2, 200);
    assert_eq!(other.code, Some(2));
    assert!(
        other
            .output
            .ends_with("has charged 500 cents for order 7004, and cannot charge 501 for order 7004 too")
    );
    assert_eq!(charge.attempts(), "1 done, 2 bad input");
}

#[test]
fn stock_is_taken_once_for_all_lines() {
    let (plenty, more) = (article(10), article(10));
    let items = format!(r#"[{{"sku":"{plenty}","qty":2,"cents":750}},{{"sku":"{more}","qty":1,"cents":499}}]"#);
    let reserve = Step::new("reserve", &[("ITEMS", &items)]);
    let first = reserve.run(&["reserve", "7005"], 1, 100);
    assert_eq!(first, done(r#"{"lines":2,"order":"7005","units":3}"#));
    assert_eq!(reserve.run(&["reserve", "7005"], 2, 200), first);
    assert_eq!((available(&plenty).as_str(), available(&more).as_str()), ("8", "9"));
    assert_eq!(reserve.attempts(), "1 done, 2 found done");
}

#[test]
fn an_order_that_cannot_be_filled_takes_nothing() {
    let (plenty, none, unknown) = (article(10), article(0), article_number());
    let items = format!(
        r#"[{{"sku":"{plenty}","qty":2,"cents":1}},{{"sku":"{none}","qty":1,"cents":1}},{{"sku":"{unknown}","qty":1,"cents":1}}]"#
    );
    let reserve = Step::new("reserve", &[("ITEMS", &items)]);
    let refused = reserve.run(&["reserve", "7006"], 1, 100);
    assert_eq!(refused.code, Some(3));
    assert!(
        refused.output.contains(&format!("{none}: 1 asked for, 0 there")),
        "{refused:?}"
    );
    assert!(
        refused.output.contains(&format!("{unknown}: no such article")),
        "{refused:?}"
    );
    assert_eq!(available(&plenty), "10");
    assert_eq!(
        (reserve.count("reservations").as_str(), reserve.attempts().as_str()),
        ("0", "1 out of stock")
    );

    sql(&format!(
        "INSERT INTO stock VALUES ('{none}', 1), ('{unknown}', 1) ON CONFLICT (sku) DO UPDATE SET available = 1"
    ));
    assert_eq!(
        reserve.run(&["reserve", "7006"], 2, 200).code,
        Some(0),
        "goods have come in"
    );
    assert_eq!((available(&plenty).as_str(), available(&none).as_str()), ("8", "0"));
}

#[test]
fn a_receipt_goes_into_the_outbox_once_and_only_for_a_charge() {
    let charge = Step::new("charge", &[("ORDER", "7007"), ("CENTS", "1905")]);
    assert_eq!(charge.run(&["charge"], 1, 100).code, Some(0));
    let number = sql(&format!(
        "SELECT receipt FROM charges WHERE idempotency_key = '{}'",
        charge.key
    ));
    let receipt = Step::new("receipt", &[("ORDER", "7007")]);
    let first = receipt.run(&["receipt", &number], 1, 100);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(receipt.run(&["receipt", &number], 2, 200), first);
    assert_eq!(receipt.count("outbox"), "1");

    let stranger = Step::new("receipt", &[("ORDER", "7008")]);
    let refused = stranger.run(&["receipt", &number], 1, 100);
    assert_eq!(
        (refused.code, stranger.count("outbox").as_str()),
        (Some(2), "0"),
        "{refused:?}"
    );
}

#[test]
fn a_database_that_cannot_be_reached_is_worth_another_try() {
    let mut charge = Step::new("charge", &[("ORDER", "7009"), ("CENTS", "500")]);
    // Port 9 is "discard"; nobody listens there.
    charge.variables.push(("PGPORT", "9".to_owned()));
    let ended = charge.run(&["charge"], 1, 100);
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(
        ended
            .output
            .starts_with("the database cannot be used: error connecting to server: "),
        "{ended:?}"
    );
}
