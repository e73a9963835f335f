use super::*;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

fn settings(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, Vec<crate::ConfigProblem>> {
    let value =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    TraceSettings::from_variables(value)
}

fn collector(address: SocketAddr, further: &[(&str, &str)]) -> TraceSettings {
    let endpoint = format!("http://{address}");
    let variables = [&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())], further].concat();
    settings(&variables).unwrap().unwrap()
}

fn span(tracer: &Tracer, ids: &Ids, traceparent: Option<&str>) -> FinishedSpan {
    let context = tracer.continue_trace(traceparent, ids);
    let times = SpanTimes { began_micros: 5, ended_micros: 7 };
    FinishedSpan::new(SpanKind::Consumer, "process reports", context, times).with_remote_parent(traceparent)
}

fn counted(registry: &Registry, outcome: &str) -> u64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == "unslide_trace_spans_total").unwrap();
    let of_outcome = |metric: &&prometheus::proto::Metric| metric.get_label()[0].value() == outcome;
    family.get_metric().iter().find(of_outcome).unwrap().get_counter().get_value() as u64
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn spans_are_exported_only_to_a_named_collector_and_unless_turned_off() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
    assert!(settings(&[]).unwrap().is_none());
    assert!(settings(&[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap().is_none());
    assert!(settings(&[endpoint, ("OTEL_SDK_DISABLED", "True")]).unwrap().is_none());
    assert!(settings(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().is_none());
    let shown = settings(&[endpoint]).unwrap().unwrap().to_string();
    assert_eq!(shown, "http://collector:4318/v1/traces (sampler parentbased_always_on)");
    let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:p@collector/otlp?key=k");
    let sampler = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")];
    let shown = settings(&[&[endpoint, whole], &sampler[..]].concat()).unwrap().unwrap().to_string();
    assert_eq!(shown, "https://collector/otlp (sampler traceidratio 0.25)");
}

#[test]
fn every_variable_that_cannot_be_used_is_named_and_no_secret_is_repeated() {
    let problems = settings(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hidden%0A,hidden"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
    ]);
    let problems = problems.unwrap_err();
    let names: std::collections::BTreeSet<&str> =
        problems.iter().map(|problem| problem.key.as_str()).collect();
    let wanted = [
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_TRACES_SAMPLER_ARG",
    ];
    assert_eq!(names, wanted.into());
    assert!(problems.iter().all(|problem| !problem.to_string().contains("hidden")), "{problems:?}");
    let other = settings(&[("OTEL_TRACES_EXPORTER", "zipkin")]).unwrap_err();
    assert_eq!(
        other[0].to_string(),
        "OTEL_TRACES_EXPORTER: \"zipkin\" is not supported: set it to otlp or none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_the_spans_that_were_queued_before_a_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (got, mut requests) = mpsc::unbounded_channel();
    let take = move |body: Bytes| async move { drop(got.send(body)) };
    let router = axum::Router::new().route("/v1/traces", post(take));
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a%20b,service.name=other");
    // The stop sends what no batch and no schedule has sent.
    let settings = collector(address, &[attributes, ("OTEL_BSP_SCHEDULE_DELAY", "3600000")]);
    let (registry, ids) = (Registry::new(), Ids::default());
    let tracer = Tracer::start(&settings, "indexer", &registry).unwrap();
    let parent = span(&tracer, &ids, Some(PARENT)).with_attribute("unslide.tenant", "acme");
    let id = parent.data.span_context.span_id();
    tracer.export_span(parent.create_child("commit", SpanTimes { began_micros: 6, ended_micros: 7 }, &ids));
    tracer.export_span(parent);
    tracer.stop().await;
    let request = ExportTraceServiceRequest::decode(requests.recv().await.unwrap()).unwrap();
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    let named = format!("{:?}", resource.attributes);
    assert!(
        named.contains("\"a b\"") && named.contains("\"other\"") && !named.contains("unslide-indexer"),
        "{named}"
    );
    let spans = &request.resource_spans[0].scope_spans[0].spans;
    assert_eq!((spans.len(), counted(&registry, "exported")), (2, 2));
    assert_eq!(spans[0].parent_span_id, id.to_bytes());
    assert_eq!(spans[1].parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!((spans[1].start_time_unix_nano, spans[1].end_time_unix_nano), (5_000, 7_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_costs_the_spans_that_the_queue_does_not_hold() {
    // It takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bounds = [("OTEL_BSP_MAX_QUEUE_SIZE", "4"), ("OTEL_BSP_SCHEDULE_DELAY", "1")];
    let settings = collector(listener.local_addr().unwrap(), &bounds);
    let (registry, ids) = (Registry::new(), Ids::default());
    let tracer = Tracer::start(&settings, "symbolizer", &registry).unwrap();
    for _ in 0..20 {
        tracer.export_span(span(&tracer, &ids, Some(PARENT)));
    }
    assert_eq!((counted(&registry, "dropped"), counted(&registry, "exported")), (16, 0));
    // Within its bound, as no request ends by then.
    tokio::time::timeout(FLUSH_TIMEOUT * 3, tracer.stop()).await.unwrap();
    tracer.export_span(span(&tracer, &ids, Some(PARENT)));
    assert_eq!(counted(&registry, "dropped"), 17);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_the_spans_of_the_time() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let settings = collector(address, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "100")]);
    let (registry, ids) = (Registry::new(), Ids::default());
    let tracer = Tracer::start(&settings, "symbolizer", &registry).unwrap();
    tracer.export_span(span(&tracer, &ids, Some(PARENT)));
    tracer.stop().await;
    assert_eq!((counted(&registry, "failed"), counted(&registry, "exported")), (1, 0));
}

#[tokio::test]
async fn the_header_decides_by_default_and_a_sampler_for_new_traces() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let unsampled = PARENT.replace("-01", "-00");
    let is_sampled = |sampler: &str, ratio: &str, traceparent: Option<&str>| {
        let sampler = [("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
        let tracer = Tracer::start(&collector(address, &sampler), "api", &Registry::new()).unwrap();
        tracer.continue_trace(traceparent, &Ids::default()).is_sampled()
    };
    let (sampled, unsampled) = (Some(PARENT), Some(unsampled.as_str()));
    for (sampler, ratio, wanted) in [
        ("", "", [true, false, true]),
        ("parentbased_always_on", "", [true, false, true]),
        ("parentbased_always_off", "", [true, false, false]),
        ("parentbased_traceidratio", "0", [true, false, false]),
        ("parentbased_traceidratio", "1", [true, false, true]),
        ("always_on", "", [true, true, true]),
        ("always_off", "", [false, false, false]),
        ("traceidratio", "0", [false, false, false]),
    ] {
        let decided = [sampled, unsampled, None].map(|header| is_sampled(sampler, ratio, header));
        assert_eq!(decided, wanted, "{sampler} {ratio}");
    }
    let off = Tracer::default();
    assert!(!off.is_on() && !off.continue_trace(unsampled, &Ids::default()).is_sampled());
}
