//! One request and its answer, with the headers that kube's typed calls do not show.

use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::NOT_A_STATUS;

/// An answer.
pub(super) struct Reply<T> {
    pub object: T,
    /// The API server's clock when it answered, in whole seconds; None if it did not say.
    pub date: Option<Timestamp>,
}

/// Sends `body` (none for null) and reads the answer. A no is [`kube::Error::Api`], as from kube's typed calls.
pub(super) async fn send<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    uri: &str,
    content_type: &str,
    body: &Value,
) -> Result<Reply<T>, kube::Error> {
    let bytes = match body {
        Value::Null => Vec::new(),
        body => serde_json::to_vec(body).map_err(kube::Error::SerdeError)?,
    };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(CONTENT_TYPE, content_type)
        .body(Body::from(bytes))
        .map_err(kube::Error::HttpError)?;
    let (head, body) = client.send(request).await?.into_parts();
    let bytes = body.collect().await?.to_bytes();
    if !head.status.is_success() {
        return Err(refusal(head.status.as_u16(), &head.headers, &bytes));
    }
    Ok(Reply {
        object: serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?,
        date: date(&head.headers),
    })
}

fn refusal(code: u16, headers: &HeaderMap, bytes: &[u8]) -> kube::Error {
    let mut status = serde_json::from_slice::<Status>(bytes)
        .ok()
        .filter(|status| status.is_failure())
        .unwrap_or_else(|| Status::failure(&String::from_utf8_lossy(bytes), NOT_A_STATUS));
    // Whoever answered, the code of the answer is the one that counts.
    status.code = code;
    // Priority and fairness says when to come again in the header only.
    if let Some(seconds) = retry_after(headers) {
        let details = status.details.get_or_insert_with(|| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    }
    kube::Error::Api(status.boxed())
}

fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn the_date_is_read_as_http_writes_it() {
        let read = |text| date(&headers(DATE, text)).map(|date| date.to_string());
        assert_eq!(
            read("Sun, 29 Nov 2026 20:00:34 GMT").as_deref(),
            Some("2026-11-29T20:00:34Z")
        );
        assert_eq!(read("yesterday"), None);
        assert_eq!(date(&HeaderMap::new()), None);
    }

    #[test]
    fn when_to_come_again_is_read_from_the_header() {
        let kube::Error::Api(status) = refusal(429, &headers(RETRY_AFTER, "3"), b"Too many requests") else {
            panic!("a refusal is an Api error");
        };
        assert_eq!(status.code, 429);
        assert_eq!(status.message, "Too many requests");
        assert_eq!(status.details.unwrap().retry_after_seconds, 3);
    }

    #[test]
    fn an_object_with_an_error_code_is_no_status() {
        let kube::Error::Api(status) = refusal(404, &HeaderMap::new(), br#"{"kind":"Pod"}"#) else {
            panic!("a refusal is an Api error");
        };
        assert_eq!(status.reason, NOT_A_STATUS);
    }
}
