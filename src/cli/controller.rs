//! `oncilla controller`: runs the controller until it is told to stop.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::client;
use crate::controller::{self, Options};

/// Bytes of stack of each worker: expressions are nested as their authors like, within their bounds.
const STACK: usize = 16 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// Where /livez and /readyz are served.
    #[arg(
        long,
        env = "ONCILLA_HEALTH_ADDRESS",
        default_value = "0.0.0.0:8080",
        value_name = "ADDRESS:PORT"
    )]
    health_address: SocketAddr,
    /// Only runs in this namespace; without it those of all.
    #[arg(long, env = "ONCILLA_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Runs that are looked at at the same time; 0: no limit.
    #[arg(long, env = "ONCILLA_CONCURRENCY", default_value_t = 32, value_name = "RUNS")]
    concurrency: u16,
    /// Longest time that one request to the API server may take, in seconds.
    #[arg(long, env = "ONCILLA_REQUEST_TIMEOUT", default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=300))]
    request_timeout: u64,
    /// How log lines are written. What is logged is said by RUST_LOG; without it, info.
    #[arg(long, env = "ONCILLA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Pretty)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Json,
    Pretty,
}

pub fn run(args: &Args) -> Result<ExitCode, String> {
    log(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(serve(args)).map(|()| ExitCode::SUCCESS)
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are for a terminal; in a pod's log they are noise.
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Pretty => builder.init(),
    }
}

async fn serve(args: &Args) -> Result<(), String> {
    let connection = client::Options {
        deadline: Duration::from_secs(args.request_timeout),
        ..client::Options::default()
    };
    let (client, meter) = client::connect(connection).await.map_err(|error| error.to_string())?;
    let options = Options {
        health_address: Some(args.health_address),
        namespace: args.namespace.clone(),
        concurrency: args.concurrency,
    };
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| format!("cannot watch for SIGTERM: {error}"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| format!("cannot watch for SIGINT: {error}"))?;
    let told = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop; what is under way ends first");
    };
    controller::run(client, meter, options, told)
        .await
        .map_err(|error| error.to_string())
}
