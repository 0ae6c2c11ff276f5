//! Reads that ask for the most recent state, past every cache. Absence in a cache proves nothing (R5); absence here does.
//!
//! Objects come as whatever view the caller deserializes. Each read is sent again when its answer is unknown.

use http::Method;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::retry::Retry;
use super::send::send;
use super::{JOBS, NODES, PODS, RUNS, Resource};
use crate::answer::{self, Answer};

/// The object of that name, None if the API server says that this very object is not there. A 404 that does not name it,
/// as from a proxy or where the resource is not served, is an error: it proves nothing.
pub async fn get<K: DeserializeOwned>(
    client: &Client,
    resource: Resource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<K>, kube::Error> {
    let uri = resource.object(namespace, name)?;
    let result = Retry::default()
        .run(&uri, || async {
            let reply = send::<K>(client, Method::GET, &uri, JSON, &Value::Null).await?;
            Ok(reply.object)
        })
        .await;
    match answer::classify(&result) {
        Answer::Gone => Ok(None),
        _ => result.map(Some),
    }
}

pub async fn get_job<K: DeserializeOwned>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, kube::Error> {
    get(client, JOBS, Some(namespace), name).await
}

pub async fn get_pod<K: DeserializeOwned>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, kube::Error> {
    get(client, PODS, Some(namespace), name).await
}

pub async fn get_run<K: DeserializeOwned>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, kube::Error> {
    get(client, RUNS, Some(namespace), name).await
}

pub async fn get_node<K: DeserializeOwned>(client: &Client, name: &str) -> Result<Option<K>, kube::Error> {
    get(client, NODES, None, name).await
}

/// Every object that `selector` (a label selector; empty: all) finds, in the namespace or, without one, in all. It is the
/// state at one moment, read in pages.
pub async fn list<K: DeserializeOwned>(
    client: &Client,
    resource: Resource,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<K>, kube::Error> {
    let base = format!(
        "{}?limit={PAGE}&labelSelector={}",
        resource.collection(namespace)?,
        escape(selector)
    );
    let mut items = Vec::new();
    let mut uri = base.clone();
    loop {
        let page = Retry::default()
            .run(&uri, || async {
                let reply = send::<Page<K>>(client, Method::GET, &uri, JSON, &Value::Null).await?;
                Ok(reply.object)
            })
            .await?;
        items.extend(page.items.unwrap_or_default());
        match page.metadata.next {
            Some(next) if !next.is_empty() => uri = format!("{base}&continue={}", escape(&next)),
            _ => return Ok(items),
        }
    }
}

pub async fn list_pods<K: DeserializeOwned>(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<K>, kube::Error> {
    list(client, PODS, namespace, selector).await
}

const JSON: &str = "application/json";
const PAGE: usize = 500;

#[derive(Deserialize)]
struct Page<K> {
    #[serde(default)]
    metadata: PageMeta,
    // A list without elements may be written as null.
    items: Option<Vec<K>>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// `text` as a value in a query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte as char),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_keeps_its_meaning_in_a_query() {
        assert_eq!(
            escape("oncilla.dev/run-uid=a,x in (b)&y"),
            "oncilla.dev%2Frun-uid%3Da%2Cx%20in%20%28b%29%26y"
        );
    }

    #[test]
    fn a_list_without_elements_is_empty() {
        for text in [
            r#"{"items":null,"metadata":{}}"#,
            r#"{"items":[]}"#,
            r#"{"metadata":{"continue":""}}"#,
        ] {
            let page: Page<Value> = serde_json::from_str(text).unwrap();
            assert_eq!(page.items.unwrap_or_default().len(), 0, "{text}");
        }
    }
}
