//! The HTTP endpoint that Prometheus reads: `GET /metrics`, on this machine alone.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::exporter::Exporter;

/// How many may read at once. One more waits in the system's own queue until another is done.
const CONNECTIONS: usize = 4;

/// How long a reader may take over one request, and may stay without one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The endpoint, listening.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    exporter: Arc<Exporter>,
}

impl Endpoint {
    /// Listens there. Fails as the system does: a taken port, an address that this machine does not have.
    pub async fn open(listen: SocketAddr, exporter: Exporter) -> io::Result<Endpoint> {
        Ok(Endpoint { listener: TcpListener::bind(listen).await?, exporter: Arc::new(exporter) })
    }

    /// The address that it listens on, with the port that a 0 was given.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let serve = async {
            loop {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let exporter = Arc::clone(&self.exporter);
                        let stop = stop.clone();
                        tokio::spawn(async move {
                            let _place = place;
                            let _ = stop.run_until_cancelled(serve(stream, exporter)).await;
                        });
                    }
                    Err(err) => {
                        // Most likely no file descriptor is free, which passes.
                        debug!(error = %err, "a reader of metrics could not connect");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        };
        let _ = stop.run_until_cancelled(serve).await;
    }
}

async fn serve(stream: TcpStream, exporter: Arc<Exporter>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.method(), request.uri().path(), &exporter);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
    let served = server.serve_connection(TokioIo::new(stream), answer);
    if let Ok(Err(err)) = tokio::time::timeout(PATIENCE, served).await {
        debug!(error = %err, "a reader of metrics went away");
    }
}

fn respond(method: &Method, path: &str, exporter: &Exporter) -> Response<Full<Bytes>> {
    let text = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut response = Response::new(Full::new(Bytes::from(exporter.text())));
            let format = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, format);
            response
        }
        (_, "/metrics") => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
            response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            response
        }
        _ => text(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"),
    }
}
