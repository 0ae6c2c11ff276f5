//! The order workflow of examples/order.yaml against a real PostgreSQL server, with the programs of the demo's shop.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use oncilla::api::words::{RunPhase, StepReason};
use serde_json::json;
use tokio::process::Command;

use crate::rig::{Rig, assert_order, attempts, executions};
use crate::support::runs::record;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A database server of this test's own on this machine, at an address that pods reach.
struct Database {
    address: String,
    folder: PathBuf,
}

impl Database {
    async fn start() -> Database {
        let given =
            ["ONCILLA_E2E_ADDRESS", "ONCILLA_POSTGRES_ADDRESS"].map(|name| std::env::var(name).unwrap_or_default());
        let address = given.into_iter().find(|address| !address.is_empty()).expect(
            "ONCILLA_E2E_ADDRESS is not set: the order workflow needs a database that pods can reach. `make test` sets it for its \
             own cluster; for another one say in ONCILLA_POSTGRES_ADDRESS under which address its pods reach this machine.",
        );
        let cache = std::env::var("ONCILLA_CACHE").unwrap_or_else(|_| {
            let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
            format!("{home}/.cache/oncilla")
        });
        // Tests on another cluster of this machine have a server of their own.
        let database = Database {
            folder: PathBuf::from(cache).join(format!("postgres/e2e-{address}")),
            address,
        };
        database.script(&["start"]).await;
        database
    }

    /// What demo/postgres.sh prints.
    async fn script(&self, arguments: &[&str]) -> String {
        let network = std::env::var("ONCILLA_POSTGRES_NETWORK").unwrap_or_else(|_| {
            let net = self.address.rsplit_once('.').map_or("", |(net, _)| net);
            format!("{net}.0/24")
        });
        let output: Output = Command::new(format!("{ROOT}/demo/postgres.sh"))
            .args(arguments)
            .env("ONCILLA_POSTGRES_ADDRESS", &self.address)
            .env("ONCILLA_POSTGRES_DIR", &self.folder)
            .env("ONCILLA_POSTGRES_NETWORK", network)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap_or_else(|error| panic!("demo/postgres.sh: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "demo/postgres.sh {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    async fn query(&self, sql: &str) -> String {
        self.script(&["psql", "-qtA", "-F", " ", "-c", sql])
            .await
            .trim()
            .to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_charged_reserved_and_receipted_once() {
    let rig = Rig::ready().await;
    let namespace = rig.restricted_namespace("order").await;
    let database = Database::start().await;
    let access = database.script(&["env"]).await;
    let secret = format!(
        "-n {} create secret generic shop-db --from-env-file=/dev/stdin",
        namespace.name
    );
    rig.kubectl_reads(&secret, &access).await;
    rig.apply_example(&namespace, "order").await;

    let status = namespace.ends("order-1042", RunPhase::Succeeded).await;
    let once = attempts(&["validate", "charge", "reserve", "receipt", "summary"]);
    assert_eq!(executions(&namespace, "order-1042").await, once);
    for step in ["charge", "reserve"] {
        assert_order(&status, "validate", step);
        assert_order(&status, step, "receipt");
    }
    assert_order(&status, "receipt", "summary");
    let outputs = status.outputs.as_ref().unwrap();
    let receipt = outputs["receipt"].as_str().unwrap();
    let key = database
        .query(&format!(
            "SELECT idempotency_key FROM charges WHERE receipt = '{receipt}'"
        ))
        .await;
    let of_key = |columns: &str, table: &str, key: &str| {
        format!("SELECT {columns} FROM {table} WHERE idempotency_key = '{key}'")
    };
    assert_eq!(
        database.query(&of_key("order_number, cents", "charges", &key)).await,
        "1042 1999"
    );
    assert_eq!(
        database
            .query(&of_key("step, attempt, outcome", "attempts", &key))
            .await,
        "charge 1 done"
    );
    let fence = record(&status, "charge").fence;
    assert_eq!(
        database.query(&of_key("fence", "attempts", &key)).await,
        fence.to_string()
    );
    let outbox = format!("SELECT order_number, count(*) FROM outbox WHERE receipt = '{receipt}' GROUP BY order_number");
    assert_eq!(database.query(&outbox).await, "1042 1");
    assert_eq!(outputs["summary"]["receipt"], json!(receipt));
    assert!(
        status
            .steps
            .as_ref()
            .unwrap()
            .values()
            .all(|record| record.reason == Some(StepReason::Completed))
    );
    database.script(&["stop"]).await;
    rig.finish(namespace).await;
}
