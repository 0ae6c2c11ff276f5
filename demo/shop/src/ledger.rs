//! The shop's database: how a step connects, and how it does its work once.

use std::time::Duration;

use postgres::{Client, Config, NoTls, Transaction};

use crate::attempt::{Attempt, Variables};
use crate::fault::Fault;
use crate::say;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// No step waits longer for the database than this; a dead connection must not hold a pod until its deadline.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects as the `PG*` variables say.
pub fn connect(variables: &Variables) -> Result<Client, Fault> {
    config(variables)?.connect(NoTls).map_err(Fault::from)
}

fn config(variables: &Variables) -> Result<Config, Fault> {
    let mut faults = Vec::new();
    let mut require = |name| {
        variables
            .require(name)
            .map_err(|fault| faults.push(fault))
            .unwrap_or_default()
    };
    let (host, user, password) = (require("PGHOST"), require("PGUSER"), require("PGPASSWORD"));
    let port = variables.get("PGPORT").unwrap_or("5432");
    let port: Option<u16> = port
        .parse()
        .map_err(|_| faults.push(format!("PGPORT is {port:?}, not a port")))
        .ok();
    let Some(port) = port.filter(|_| faults.is_empty()) else {
        faults.push("the database is named by PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE".to_owned());
        return Err(Fault::Input(faults));
    };
    let mut config = Config::new();
    config
        .host(host)
        .port(port)
        .user(user)
        .password(password)
        .dbname(variables.get("PGDATABASE").unwrap_or(user))
        .application_name("shop")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(ANSWER_TIMEOUT)
        .options("-c statement_timeout=15s -c lock_timeout=10s -c idle_in_transaction_session_timeout=15s");
    Ok(config)
}

/// What an attempt found when it came to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This attempt made the effect.
    Done,
    /// An earlier attempt with the same key had made it.
    Found,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Found => "found done",
        }
    }
}

/// Does `work` in one transaction with the two things that make it safe to be called again: the fence, which keeps an
/// older attempt from writing after a newer one, and the entry in `attempts`, which exists if and only if the effect does.
///
/// `work` is to make its effect under the attempt's key and to say whether it was there already. When it fails, nothing
/// of it stays, and the attempt is recorded with its fault.
pub fn once<T>(
    client: &mut Client,
    attempt: &Attempt,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<(Outcome, T), Fault>,
) -> Result<T, Fault> {
    match try_once(client, attempt, work) {
        Ok(result) => Ok(result),
        Err(fault) => {
            if let Err(second) = record(client, attempt, fault.outcome()) {
                say(&format!("the failed attempt could not be recorded: {second}"));
            }
            Err(fault)
        }
    }
}

fn try_once<T>(
    client: &mut Client,
    attempt: &Attempt,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<(Outcome, T), Fault>,
) -> Result<T, Fault> {
    let mut transaction = client.transaction()?;
    raise_fence(&mut transaction, attempt)?;
    let (outcome, result) = work(&mut transaction)?;
    record(&mut transaction, attempt, outcome.word())?;
    // A commit whose answer is lost may or may not have happened. The next attempt has the same key and finds out.
    transaction.commit()?;
    Ok(result)
}

/// Takes the key's fence up to ours, and with it the row's lock: two attempts at the same time go one after the other.
fn raise_fence(transaction: &mut Transaction<'_>, attempt: &Attempt) -> Result<(), Fault> {
    let row = transaction.query_one(
        "INSERT INTO fences AS f (idempotency_key, fence) VALUES ($1::text::uuid, $2)
         ON CONFLICT (idempotency_key) DO UPDATE SET fence = greatest(f.fence, excluded.fence)
         RETURNING fence",
        &[&attempt.key.to_string(), &attempt.fence],
    )?;
    let newest: i64 = row.get(0);
    if newest > attempt.fence {
        return Err(Fault::Fenced {
            ours: attempt.fence,
            newest,
        });
    }
    Ok(())
}

fn record(database: &mut impl postgres::GenericClient, attempt: &Attempt, outcome: &str) -> Result<(), Fault> {
    database.execute(
        "INSERT INTO attempts (idempotency_key, run, step, attempt, fence, pod, outcome)
         VALUES ($1::text::uuid, $2, $3, $4, $5, $6, $7)",
        &[
            &attempt.key.to_string(),
            &attempt.run,
            &attempt.step,
            &attempt.number,
            &attempt.fence,
            &attempt.pod,
            &outcome,
        ],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_part_of_the_address_is_named() {
        let Err(Fault::Input(faults)) = config(&Variables::from([("PGHOST", "10.0.0.1"), ("PGPORT", "many")])) else {
            panic!("accepted")
        };
        assert_eq!(
            faults[..3],
            [
                "PGUSER is not set",
                "PGPASSWORD is not set",
                r#"PGPORT is "many", not a port"#
            ]
        );
    }

    #[test]
    fn the_database_is_named_like_the_user_unless_told_otherwise() {
        let variables = [("PGHOST", "10.0.0.1"), ("PGUSER", "shop"), ("PGPASSWORD", "secret")];
        let config = config(&Variables::from(variables)).unwrap();
        assert_eq!((config.get_dbname(), config.get_ports()), (Some("shop"), &[5432][..]));
    }
}
