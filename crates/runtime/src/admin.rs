//! The admin port: liveness, readiness and metrics. For operators, not for tenants.

use crate::Host;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// The section `admin` of a configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Address of the admin server; port 0 takes a free one. Probes and scrapes from other machines need another
    /// address than the default, such as `0.0.0.0:9464`. The port has no authentication.
    pub listen: SocketAddr,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)) }
    }
}

/// The reason why the admin server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not available.
    #[error("the admin server cannot listen on {0}")]
    Bind(SocketAddr, #[source] std::io::Error),
}

/// Opens the admin port and serves it in the background until the process ends, even while the services
/// drain. Returns the listening address.
///
/// # Errors
/// Returns [`Error::Bind`] if the address is not available.
pub async fn start_server(settings: &Settings, host: &Host) -> Result<SocketAddr, Error> {
    let bind = |error| Error::Bind(settings.listen, error);
    let listener = TcpListener::bind(settings.listen).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let router = build_router(host.clone());
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the admin server has ended");
        }
    });
    Ok(address)
}

/// Returns the admin server's routes: `/livez`, `/readyz`, `/dependencies` and `/metrics`.
pub fn build_router(host: Host) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(serve_readiness))
        .route("/dependencies", get(serve_dependencies))
        .route("/metrics", get(serve_metrics))
        .with_state(host)
}

async fn serve_readiness(State(host): State<Host>) -> Response {
    let answer = host.health.check_readiness().await;
    let status = if answer.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(answer)).into_response()
}

async fn serve_dependencies(State(host): State<Host>) -> Response {
    let answer = host.health.check_dependencies().await;
    let status = if answer.is_complete() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(answer)).into_response()
}

async fn serve_metrics(State(host): State<Host>) -> Response {
    host.count_probes(&host.health.check_dependencies().await);
    match host.process_metrics().render_page() {
        Ok(page) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], page).into_response(),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn it_says_what_is_not_ready_and_measures_jobs() {
        let host = Host::local().unwrap();
        let settings = Settings { listen: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let address = start_server(&settings, &host).await.unwrap();
        host.health.with_prefix("api").register_probe("database", || async { Err("refused".to_owned()) });
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let answer = get(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("\"api.database\":{\"ok\":false"), "{answer}");
        assert!(answer.contains("\"reason\":\"refused\""), "{answer}");
        host.health.with_prefix("api").register_dependency("objects", || async { Ok(()) });
        assert!(!get(address, "/readyz").await.contains("api.objects"));
        assert!(get(address, "/dependencies").await.contains("\"api.objects\":{\"ok\":true"));
        host.cpu.run(|| ()).await.unwrap();
        let page = get(address, "/metrics").await;
        assert!(page.contains("unslide_cpu_job_seconds"), "{page}");
        for line in [
            "unslide_ready 0\n",
            "unslide_probe_ok{probe=\"api.database\"} 0\n",
            "unslide_probe_ok{probe=\"api.objects\"} 1\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
    }
}
