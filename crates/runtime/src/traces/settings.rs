//! The settings of traces: the standard `OTEL_…` variables of OpenTelemetry.

use crate::ConfigProblem;
use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::{Sampler, ShouldSample};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use unslide_model::Secret;

/// The path of traces below `OTEL_EXPORTER_OTLP_ENDPOINT`.
const TRACES_PATH: &str = "v1/traces";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// The default sampler.
const DEFAULT_SAMPLER: &str = "parentbased_always_on";

/// Settings of the span export: the collector, the sampler and the queue.
#[derive(Clone)]
pub struct TraceSettings {
    pub(super) endpoint: Url,
    pub(super) headers: HashMap<String, Secret>,
    pub(super) request_timeout: Duration,
    pub(super) is_compressed: bool,
    pub(super) sampler: Box<dyn ShouldSample>,
    sampler_name: String,
    pub(super) service_name: Option<String>,
    pub(super) resource: Vec<KeyValue>,
    pub(super) queue_spans: usize,
    pub(super) batch_spans: usize,
    pub(super) schedule_delay: Duration,
}

impl fmt::Debug for TraceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceSettings({self})")
    }
}

/// Shows the collector and the sampler to people, without headers and other secrets of the URL.
impl fmt::Display for TraceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sampler {})", self.shown_endpoint(), self.sampler_name)
    }
}

impl TraceSettings {
    /// Reads the variables of the process. Returns `None` if no spans are exported.
    ///
    /// # Errors
    /// Returns a problem for every variable with an invalid value.
    pub fn from_environment() -> Result<Option<TraceSettings>, Vec<ConfigProblem>> {
        TraceSettings::from_variables(|name| std::env::var(name).ok())
    }

    /// Works as [`TraceSettings::from_environment`], with the given variables.
    ///
    /// # Errors
    /// Returns a problem for every variable with an invalid value.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<TraceSettings>, Vec<ConfigProblem>> {
        // An empty variable counts as unset.
        let get =
            |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut variables = Variables { get: &get, problems: Vec::new() };
        let settings = variables.read_settings();
        if variables.problems.is_empty() { Ok(settings) } else { Err(variables.problems) }
    }

    /// Returns the collector's address without user, password and query.
    pub(super) fn shown_endpoint(&self) -> String {
        let port = self.endpoint.port().map_or_else(String::new, |port| format!(":{port}"));
        let host = self.endpoint.host_str().unwrap_or_default();
        format!("{}://{host}{port}{}", self.endpoint.scheme(), self.endpoint.path())
    }
}

/// Reads variables and collects their problems.
struct Variables<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<ConfigProblem>,
}

impl Variables<'_> {
    fn read_settings(&mut self) -> Option<TraceSettings> {
        let is_disabled =
            self.read_variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        if is_disabled || !self.is_exporter_otlp() {
            return None;
        }
        let endpoint = self.read_endpoint()?;
        let (sampler_name, sampler) = self.read_sampler();
        self.check_protocol();
        Some(TraceSettings {
            endpoint,
            headers: self.read_headers(),
            request_timeout: self.request_timeout(),
            is_compressed: self.is_compressed(),
            sampler,
            sampler_name,
            service_name: self.read_variable("OTEL_SERVICE_NAME"),
            resource: self.read_resource(),
            queue_spans: self.read_positive("OTEL_BSP_MAX_QUEUE_SIZE", 2_048),
            batch_spans: self.read_positive("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
            schedule_delay: Duration::from_millis(self.read_positive("OTEL_BSP_SCHEDULE_DELAY", 5_000)),
        })
    }

    fn read_variable(&self, name: &str) -> Option<String> {
        (self.get)(name)
    }

    /// Returns the first of these variables that is set.
    fn find_first_set<const N: usize>(&self, names: [&'static str; N]) -> Option<&'static str> {
        names.into_iter().find(|name| self.read_variable(name).is_some())
    }

    fn record_problem(&mut self, name: &str, message: impl Into<String>) {
        self.problems.push(ConfigProblem::new(name, message));
    }

    fn is_exporter_otlp(&mut self) -> bool {
        let name = "OTEL_TRACES_EXPORTER";
        match self.read_variable(name).as_deref() {
            None | Some("otlp") => true,
            Some("none") => false,
            Some(other) => {
                self.record_problem(name, format!("\"{other}\" is not supported: set it to otlp or none"));
                false
            }
        }
    }

    /// Returns the URL for posting spans.
    fn read_endpoint(&mut self) -> Option<Url> {
        let name = self.find_first_set([TRACES_ENDPOINT, ENDPOINT])?;
        let mut text = self.read_variable(name)?;
        if name == ENDPOINT {
            // The variable for traces alone is a complete URL and is not changed.
            text = format!("{}/{TRACES_PATH}", text.trim_end_matches('/'));
        }
        let url =
            Url::parse(&text).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
        if url.is_none() {
            self.record_problem(name, "is not a URL such as http://collector:4318");
        }
        url
    }

    /// Returns the time limit of one export, including its retries.
    fn request_timeout(&mut self) -> Duration {
        let name = self.find_first_set(["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
        let request = name.map_or(10_000, |name| self.read_positive(name, 10_000));
        Duration::from_millis(request.min(self.read_positive("OTEL_BSP_EXPORT_TIMEOUT", 30_000)))
    }

    fn check_protocol(&mut self) {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        let Some(name) = self.find_first_set(names) else { return };
        let protocol = self.read_variable(name).unwrap_or_default();
        if protocol != "http/protobuf" {
            self.record_problem(
                name,
                format!(
                    "\"{protocol}\" is not supported: set it to http/protobuf, and {ENDPOINT} to the collector's port for HTTP, \
                     usually 4318"
                ),
            );
        }
    }

    fn is_compressed(&mut self) -> bool {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];
        let Some(name) = self.find_first_set(names) else { return false };
        match self.read_variable(name).as_deref() {
            Some("gzip") => true,
            None | Some("none") => false,
            Some(other) => {
                self.record_problem(name, format!("\"{other}\" is not supported: set it to gzip or none"));
                false
            }
        }
    }

    /// Reads the headers. They may be secrets, so no problem repeats them.
    fn read_headers(&mut self) -> HashMap<String, Secret> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        let Some(name) = self.find_first_set(names) else { return HashMap::new() };
        let pairs = self.parse_pairs(name).into_iter();
        let fits = |(header, value): &(String, String)| {
            http::HeaderName::from_str(header).is_ok() && http::HeaderValue::from_str(value).is_ok()
        };
        let (fit, unfit): (Vec<_>, Vec<_>) = pairs.partition(fits);
        if !unfit.is_empty() {
            self.record_problem(name, "has a name or a value (not shown) that no HTTP header may have");
        }
        fit.into_iter().map(|(header, value)| (header, Secret::new(value))).collect()
    }

    fn read_resource(&mut self) -> Vec<KeyValue> {
        let pairs = self.parse_pairs("OTEL_RESOURCE_ATTRIBUTES").into_iter();
        pairs.map(|(key, value)| KeyValue::new(key, value)).collect()
    }

    /// Reads `key=value,key=value`, with percent-encoded values.
    fn parse_pairs(&mut self, name: &str) -> Vec<(String, String)> {
        let text = self.read_variable(name).unwrap_or_default();
        let mut pairs = Vec::new();
        let mut is_malformed = false;
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let read = pair.split_once('=').and_then(|(key, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                Some((key.trim().to_owned(), value.into_owned())).filter(|(key, _)| !key.is_empty())
            });
            is_malformed |= read.is_none();
            pairs.extend(read);
        }
        if is_malformed {
            self.record_problem(
                name,
                "is not a list (not shown) such as key=value,key=value with percent-encoded values",
            );
        }
        pairs
    }

    fn read_sampler(&mut self) -> (String, Box<dyn ShouldSample>) {
        let name = "OTEL_TRACES_SAMPLER";
        let sampler = self.read_variable(name).unwrap_or_else(|| DEFAULT_SAMPLER.to_owned());
        let (is_parent_based, root) = match sampler.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, sampler.as_str()),
        };
        let (root, argument) = match root {
            "always_on" => (Sampler::AlwaysOn, String::new()),
            "always_off" => (Sampler::AlwaysOff, String::new()),
            "traceidratio" => {
                let ratio = self.read_ratio();
                (Sampler::TraceIdRatioBased(ratio), format!(" {ratio}"))
            }
            _ => {
                self.record_problem(
                    name,
                    format!(
                        "\"{sampler}\" is not supported: set it to always_on, always_off or traceidratio, with or without \
                         parentbased_ before it"
                    ),
                );
                (Sampler::AlwaysOff, String::new())
            }
        };
        let shown = format!("{sampler}{argument}");
        if is_parent_based { (shown, Box::new(Sampler::parent_based(root))) } else { (shown, Box::new(root)) }
    }

    fn read_ratio(&mut self) -> f64 {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = self.read_variable(name) else { return 1.0 };
        let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        if ratio.is_none() {
            self.record_problem(name, format!("\"{text}\" is not a number between 0 and 1"));
        }
        ratio.unwrap_or(0.0)
    }

    fn read_positive<N: FromStr + PartialOrd + From<u8>>(&mut self, name: &str, default: N) -> N {
        let Some(text) = self.read_variable(name) else { return default };
        match text.parse::<N>() {
            Ok(number) if number >= N::from(1) => number,
            _ => {
                self.record_problem(name, format!("\"{text}\" is not a whole number above 0"));
                default
            }
        }
    }
}
