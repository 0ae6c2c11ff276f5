//! An API server on loopback that answers what a test tells it to, also wrongly or never.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::gate::Gate;

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Code, further headers (`name: value`), body.
    Answer(u16, &'static [&'static str], String),
    /// The answer is lost: the connection stays open and silent.
    Silence,
    /// The head, and of a body twice as long only this.
    HalfBody(String),
    /// The head at once, and each line when the gate opens; then the end.
    StreamAfter(Gate, String),
    /// The connection is closed without an answer.
    HangUp,
}

impl Reply {
    pub fn json(code: u16, body: serde_json::Value) -> Reply {
        Reply::Answer(code, &["content-type: application/json"], body.to_string())
    }
}

/// The server; it ends when this is dropped.
pub struct Scripted {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    count: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

impl Scripted {
    /// Answers request number n (from 0) with `script(n, request)`.
    pub async fn start(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (counter, count) = watch::channel(0);
        let script = Arc::new(script);
        let log = seen.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (log, script, counter) = (log.clone(), script.clone(), counter.clone());
                connections.spawn(async move {
                    // A client that goes away in the middle is part of what is tested.
                    let _ = serve(stream, &*script, &log, &counter).await;
                });
            }
        });
        Scripted {
            address,
            seen,
            count,
            _tasks: tasks,
        }
    }

    /// How to reach it.
    pub fn config(&self) -> kube::Config {
        kube::Config::new(format!("http://{}", self.address).parse().unwrap())
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until `n` requests have come.
    pub async fn received(&self, n: usize) {
        let mut count = self.count.clone();
        count.wait_for(|count| *count >= n).await.unwrap();
    }
}

async fn serve(
    stream: TcpStream,
    script: &(dyn Fn(usize, &Seen) -> Reply + Send + Sync),
    log: &Mutex<Vec<Seen>>,
    counter: &watch::Sender<usize>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(request) = read(&mut stream).await? else {
            return Ok(());
        };
        let n = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len() - 1
        };
        counter.send_modify(|count| *count += 1);
        match script(n, &request) {
            Reply::Answer(code, headers, body) => {
                let mut head = format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\n", body.len());
                for header in headers {
                    head += &format!("{header}\r\n");
                }
                stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
            }
            Reply::Silence => std::future::pending().await,
            Reply::HalfBody(body) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", body.len() * 2);
                stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
                std::future::pending().await
            }
            Reply::StreamAfter(gate, line) => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                gate.pass().await;
                let chunk = format!("{:x}\r\n{line}\n\r\n0\r\n\r\n", line.len() + 1);
                stream.write_all(chunk.as_bytes()).await?;
            }
            Reply::HangUp => return Ok(()),
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Seen>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or("").split(' ');
    let (method, path) = (first.next().unwrap_or(""), first.next().unwrap_or(""));
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Seen {
        method: method.to_string(),
        path: path.to_string(),
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }))
}
