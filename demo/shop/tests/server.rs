//! `demo/postgres.sh` itself: its server must come back with its data from whatever state a kill left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A server in a folder of its own, which goes with the value.
struct Server(PathBuf);

impl Server {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("oncilla-postgres-{name}-{}", std::process::id())))
    }

    fn call(&self, arguments: &[&str]) -> Output {
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../postgres.sh"))
            .args(arguments)
            .env("ONCILLA_POSTGRES_DIR", &self.0)
            .env("ONCILLA_POSTGRES_ADDRESS", "127.0.0.1")
            .output()
            .expect("demo/postgres.sh can be started")
    }

    fn must(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert!(
            output.status.success(),
            "demo/postgres.sh {arguments:?} failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("plain text").trim().to_owned()
    }

    /// The server's main process.
    fn pid(&self) -> String {
        let lock = fs::read_to_string(self.0.join("data/postmaster.pid")).expect("the server runs");
        lock.lines().next().unwrap_or_default().to_owned()
    }

    fn kill(&self) {
        let status = Command::new("kill")
            .args(["-KILL", &self.pid()])
            .status()
            .expect("kill");
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.call(&["destroy"]);
    }
}

#[test]
fn a_killed_server_comes_back_with_its_data_and_passwords() {
    let server = Server::new("kill");
    server.must(&["start"]);
    server.must(&["psql", "-qc", "INSERT INTO stock VALUES ('KEPT', 7)"]);
    let before = server.must(&["env"]);
    server.kill();
    server.must(&["start"]);
    assert_eq!(
        server.must(&["psql", "-qtAc", "SELECT available FROM stock WHERE sku = 'KEPT'"]),
        "7"
    );
    let password = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("PGPASSWORD="))
            .map(str::to_owned)
    };
    assert_eq!(password(&server.must(&["env"])), password(&before));
}

#[test]
fn a_start_that_was_killed_half_way_is_made_anew() {
    let server = Server::new("half");
    fs::create_dir_all(server.0.join("data.new/base")).expect("a folder");
    fs::write(server.0.join("data.new/PG_VERSION"), "15").expect("a file");
    server.must(&["start"]);
    assert_eq!(server.must(&["psql", "-qtAc", "SELECT count(*) FROM charges"]), "0");
    assert!(!server.0.join("data.new").exists());
}

#[test]
fn starting_twice_leaves_the_server_alone_and_stopping_ends_it() {
    let server = Server::new("twice");
    server.must(&["start"]);
    let pid = server.pid();
    server.must(&["start"]);
    assert_eq!(server.pid(), pid);
    server.must(&["stop"]);
    let refused = server.call(&["psql", "-c", "SELECT 1"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("does not run: demo/postgres.sh start"));
    server.must(&["destroy"]);
    assert!(!server.0.exists());
}

#[test]
fn a_step_may_write_what_it_writes_and_nothing_else() {
    let server = Server::new("rights");
    server.must(&["start"]);
    for (statement, allowed) in [
        (
            "SET ROLE shop; INSERT INTO charges (idempotency_key, order_number, cents) VALUES (gen_random_uuid(), '1', 1)",
            true,
        ),
        ("SET ROLE shop; UPDATE charges SET cents = 2", false),
        ("SET ROLE shop; DELETE FROM attempts", false),
        ("SET ROLE shop; UPDATE stock SET sku = 'X'", false),
        ("SET ROLE shop; CREATE TABLE more (n int)", false),
    ] {
        assert_eq!(
            server.call(&["psql", "-qc", statement]).status.success(),
            allowed,
            "{statement}"
        );
    }
}
