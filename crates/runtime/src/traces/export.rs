//! Export of finished spans to the collector: a bounded queue, a thread that sends batches, and counts of the
//! results.

use super::settings::TraceSettings;
use super::span::{FinishedSpan, span_context};
use crate::MetricFactory;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry::trace::{SpanKind, TraceContextExt as _, TraceId};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    Compression, ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SamplingDecision, ShouldSample, SpanData, SpanProcessor as _,
};
use parking_lot::Mutex;
use prometheus::{IntCounter, Registry};
use reqwest::Client;
use reqwest::redirect::Policy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use unslide_model::format_causes;
use unslide_proto::trace::TraceContext;

/// The maximum number of bytes read from a collector's answer.
const LONGEST_ANSWER: usize = 64 << 10;

/// The reason why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client of traces")]
    Client(#[from] reqwest::Error),
    /// The exporter rejects its settings.
    #[error("cannot create the exporter of traces")]
    Exporter(#[from] ExporterBuildError),
    /// A metric could not be registered.
    #[error("cannot register the metrics of traces")]
    Metrics(#[from] prometheus::Error),
}

/// The exporter of one service.
#[derive(Debug)]
pub(super) struct SpanExport {
    sampler: Box<dyn ShouldSample>,
    scope: InstrumentationScope,
    processor: BatchSpanProcessor,
    queue_spans: usize,
    account: Arc<Account>,
}

/// The counts of spans by result, and the state of the collector.
#[derive(Debug)]
struct Account {
    /// Spans in the queue and in the current request.
    queued: AtomicUsize,
    /// True while the collector does not accept spans.
    is_failing: AtomicBool,
    /// True if no more spans are queued.
    is_stopped: AtomicBool,
    /// The client's error of the last failed request.
    failure: Mutex<Option<String>>,
    collector: String,
    exported: IntCounter,
    failed: IntCounter,
    dropped: IntCounter,
}

impl SpanExport {
    pub(super) fn start(
        settings: &TraceSettings,
        service: &str,
        registry: &Registry,
    ) -> Result<SpanExport, ExportError> {
        let spans = MetricFactory(registry).register_counters(
            "unslide_trace_spans_total",
            "Spans of traces, by their end: exported, failed if the collector did not take them, dropped if the queue was full.",
            &["outcome"],
        )?;
        let [exported, failed, dropped] =
            ["exported", "failed", "dropped"].map(|outcome| spans.with_label_values(&[outcome]));
        let account = Arc::new(Account {
            queued: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
            collector: settings.shown_endpoint(),
            exported,
            failed,
            dropped,
        });
        let exporter = CountingExporter {
            inner: build_exporter(settings, service, &account)?,
            account: account.clone(),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(settings.queue_spans)
            .with_max_export_batch_size(settings.batch_spans)
            .with_scheduled_delay(settings.schedule_delay)
            .build();
        Ok(SpanExport {
            sampler: settings.sampler.clone(),
            scope: InstrumentationScope::builder("unslide").with_version(env!("CARGO_PKG_VERSION")).build(),
            processor: BatchSpanProcessor::new(exporter, batches),
            queue_spans: settings.queue_spans,
            account,
        })
    }

    /// Returns true if the spans of a trace are recorded.
    pub(super) fn is_sampled(&self, parent: Option<TraceContext>, context: TraceContext) -> bool {
        let parent = parent.map(|parent| Context::new().with_remote_span_context(span_context(parent, true)));
        let (trace, kind) = (TraceId::from(context.trace), SpanKind::Consumer);
        let result = self.sampler.should_sample(parent.as_ref(), trace, "", &kind, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    pub(super) fn queue_span(&self, span: FinishedSpan) {
        let account = &self.account;
        let has_capacity = account.queued.fetch_add(1, Ordering::Relaxed) < self.queue_spans;
        if !has_capacity || account.is_stopped.load(Ordering::Relaxed) {
            account.queued.fetch_sub(1, Ordering::Relaxed);
            account.dropped.inc();
            return;
        }
        self.processor.on_end(SpanData { instrumentation_scope: self.scope.clone(), ..span.data });
    }

    /// Sends the queued spans and ends the thread. Blocks for at most `timeout`.
    pub(super) fn stop(&self, timeout: Duration) {
        self.account.is_stopped.store(true, Ordering::Relaxed);
        let stopped = self.processor.shutdown_with_timeout(timeout);
        let left = self.account.queued.load(Ordering::Relaxed);
        if stopped.is_err() && left > 0 && !self.account.is_failing.load(Ordering::Relaxed) {
            tracing::warn!(
                collector = self.account.collector,
                spans = left,
                "the last spans were not sent in time"
            );
        }
    }
}

fn build_exporter(
    settings: &TraceSettings,
    service: &str,
    account: &Arc<Account>,
) -> Result<SpanExporter, ExportError> {
    // A provider may already be installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = Client::builder()
        // Redirects are off because the headers are only for the collector.
        .redirect(Policy::none())
        .no_proxy()
        .timeout(settings.request_timeout)
        .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")))
        .build()?;
    let client = CollectorClient { http, runtime: Handle::current(), account: account.clone() };
    let headers = settings.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let mut builder = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(settings.endpoint.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(settings.request_timeout)
        .with_headers(headers.collect());
    if settings.is_compressed {
        builder = builder.with_compression(Compression::Gzip);
    }
    let mut exporter = builder.build()?;
    opentelemetry_sdk::trace::SpanExporter::set_resource(&mut exporter, &build_resource(settings, service));
    Ok(exporter)
}

/// Describes the process that produces the spans. Later attributes override earlier ones.
fn build_resource(settings: &TraceSettings, service: &str) -> Resource {
    let named = settings.service_name.iter().map(|name| KeyValue::new("service.name", name.clone()));
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.name", format!("unslide-{service}")))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(settings.resource.iter().cloned())
        .with_attributes(named)
        .build()
}

/// The library's exporter, with counts of its batches' results.
#[derive(Debug)]
struct CountingExporter {
    inner: SpanExporter,
    account: Arc<Account>,
}

impl opentelemetry_sdk::trace::SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.inner.export(batch).await;
        let account = &self.account;
        account.queued.fetch_sub(spans, Ordering::Relaxed);
        match &result {
            Ok(()) => {
                account.exported.inc_by(spans as u64);
                if account.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!(collector = account.collector, "the collector accepts spans again");
                }
            }
            Err(error) => {
                account.failed.inc_by(spans as u64);
                let reason = account.failure.lock().take().unwrap_or_else(|| error.to_string());
                if !account.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        collector = account.collector,
                        error = reason,
                        "the collector accepts no spans: they are lost until it does"
                    );
                }
            }
        }
        result
    }
}

/// The HTTP client. It sends on the async runtime, because the exporter's thread has no timers and sockets.
#[derive(Debug)]
struct CollectorClient {
    http: Client,
    runtime: Handle,
    account: Arc<Account>,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move { send_request(&http, request).await }).await?;
        sent.map_err(|error| {
            let error = error.without_url();
            *self.account.failure.lock() = Some(format_causes(&error));
            error.into()
        })
    }
}

async fn send_request(http: &Client, request: Request<Bytes>) -> Result<Response<Bytes>, reqwest::Error> {
    let mut answer = http.execute(request.try_into()?).await?;
    let mut body = BytesMut::new();
    while body.len() < LONGEST_ANSWER
        && let Some(chunk) = answer.chunk().await?
    {
        let left = LONGEST_ANSWER - body.len();
        body.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
    }
    let mut response = Response::new(body.freeze());
    *response.status_mut() = answer.status();
    *response.headers_mut() = std::mem::take(answer.headers_mut());
    Ok(response)
}
