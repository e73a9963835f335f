//! `unslide metrics`: shows the metrics of payloads, without any server.

use clap::{ArgMatches, FromArgMatches, Parser};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use time::Date;
use unslide_cli::input::read_input;
use unslide_cli::{CommandError, Console, Exit, Outcome, Table, note};
use unslide_health_formats::{MetricName, MetricPayload, WEIGHT_UNIT};
use unslide_model::QuantileSketch;
use unslide_model::figures::{format_decimals, format_significant};
use unslide_proto::event::{EventError, GatewayEvent};
use unslide_report::text::escape_line;

/// Bytes of a file, unpacked.
const MOST_BYTES: usize = 256 << 20;

/// Digits that people are shown of a figure that may be 1 % off.
const TRUE_DIGITS: u8 = 3;

/// Show the metrics of payloads, such as those of MetricKit, without any server
#[derive(Parser)]
#[command(
    name = "metrics",
    after_help = "\
Examples:
  unslide metrics payload.json
  unslide metrics --json MetricKit/*.json"
)]
pub struct Arguments {
    /// Payloads of MetricKit, or of Unslide's own form: one or an array in each file, also packed with gzip or zstd;
    /// `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

type AppVersion = (String, String);

/// The sums of requests by one of their dimensions.
type RequestTotals = BTreeMap<(AppVersion, String), MetricTotals>;

/// The sums of one metric or host over the payloads.
#[derive(Default)]
struct MetricTotals {
    /// In thousandths, as weights are.
    weight: u64,
    failed: u64,
    values: QuantileSketch,
}

impl MetricTotals {
    fn add_value(&mut self, value: Option<f64>, weight: u64) {
        self.weight = self.weight.saturating_add(weight);
        if let Some(value) = value {
            self.values.add_value(value, weight);
        }
    }

    /// Returns a quantile, which is off by 1 % at most: the value itself if all are equal.
    fn quantile(&self, share: f64) -> Option<f64> {
        self.values.quantile(share)
    }

    /// Returns the same as text, with the digits that are true.
    fn quantile_text(&self, share: f64) -> String {
        let Some(value) = self.quantile(share) else { return String::new() };
        let is_exact = self.values.exact_value().is_some();
        if is_exact { value.to_string() } else { format_significant(value, TRUE_DIGITS) }
    }
}

/// The tables of all payloads.
#[derive(Default)]
struct PayloadTables {
    payloads: usize,
    /// Payloads with an id that was there before, of the same app and day, or of a day of a device that was there before.
    repeated: usize,
    seen: BTreeSet<(String, String, Date)>,
    device_days: BTreeSet<(String, Date, [u8; 16])>,
    metrics: BTreeMap<(AppVersion, MetricName), MetricTotals>,
    hosts: RequestTotals,
    /// By method, host and template of the path.
    endpoints: RequestTotals,
    /// By status or error.
    results: RequestTotals,
    protocols: RequestTotals,
    /// By facts about the connection.
    connections: RequestTotals,
    unread: BTreeMap<String, usize>,
}

impl PayloadTables {
    fn add_payload(&mut self, payload: &MetricPayload) {
        self.payloads += 1;
        let day = payload.event_day();
        let is_known = !self.seen.insert((payload.app.clone(), payload.id.clone(), day))
            || payload
                .device_day
                .is_some_and(|of| !self.device_days.insert((payload.app.clone(), day, of.key)));
        if is_known {
            self.repeated += 1;
            return;
        }
        let version = (payload.app.clone(), payload.version.clone());
        for sample in &payload.samples {
            let weight = payload.weight.saturating_mul(sample.count.into());
            self.metrics
                .entry((version.clone(), sample.metric))
                .or_default()
                .add_value(Some(sample.value), weight);
        }
        for request in &payload.requests {
            let failed = if request.failed { payload.weight } else { 0 };
            let add = |totals: &mut RequestTotals, value: &str| {
                let totals = totals.entry((version.clone(), value.to_owned())).or_default();
                totals.add_value(request.total_time(), payload.weight);
                totals.failed = totals.failed.saturating_add(failed);
            };
            add(&mut self.hosts, &request.host);
            let named = [
                (&mut self.endpoints, &request.endpoint),
                (&mut self.results, &request.result),
                (&mut self.protocols, &request.protocol),
            ];
            for (totals, value) in named {
                value.iter().for_each(|value| add(totals, value));
            }
            request.connection.iter().for_each(|fact| add(&mut self.connections, fact));
        }
        for key in &payload.unread {
            *self.unread.entry(key.clone()).or_default() += 1;
        }
    }
}

/// Reads the payloads, and shows what they say.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    let mut tables = PayloadTables::default();
    for path in &arguments.files {
        let bytes = read_input(path, MOST_BYTES).map_err(|error| CommandError::cannot_read(path, error))?;
        read_payloads(path, &bytes, &mut tables)?;
    }
    if arguments.json {
        Console::get().print_json(&tables_to_json(&tables))?;
    } else {
        print_tables(&tables);
    }
    Ok(Exit::Ready)
}

/// Reads one payload or an array of them.
fn read_payloads(path: &Path, bytes: &[u8], tables: &mut PayloadTables) -> Result<(), CommandError> {
    if !bytes.trim_ascii_start().starts_with(b"[") {
        let payload = MetricPayload::from_json(bytes.trim_ascii())
            .map_err(|error| CommandError::cannot_read(path, error))?;
        tables.add_payload(&payload);
        return Ok(());
    }
    let payloads: Vec<&RawValue> = serde_json::from_slice(bytes)
        .map_err(|error| CommandError::cannot_read(path, EventError::Json(error.to_string())))?;
    for (place, payload) in payloads.into_iter().enumerate() {
        let payload = MetricPayload::from_json(payload.get().as_bytes()).map_err(|error| {
            let error = EventError::Json(format!("payload {place}: {error}"));
            CommandError::cannot_read(path, error)
        })?;
        tables.add_payload(&payload);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn to_observations(weight: u64) -> f64 {
    weight as f64 / WEIGHT_UNIT as f64
}

fn tables_to_json(tables: &PayloadTables) -> Value {
    let metrics = tables.metrics.iter().map(|(((app, version), metric), totals)| {
        json!({
            "app": app, "version": version, "metric": metric.as_str(), "unit": metric.unit().as_str(),
            "observations": to_observations(totals.weight), "p50": totals.quantile(0.5), "p95": totals.quantile(0.95),
        })
    });
    let requests_by = |name: &str, tables: &RequestTotals| {
        let rows = tables.iter().map(|(((app, version), value), totals)| {
            json!({
                "app": app, "version": version, name: value, "requests": to_observations(totals.weight),
                "failed": to_observations(totals.failed), "p50": totals.quantile(0.5), "p95": totals.quantile(0.95),
            })
        });
        rows.collect::<Vec<_>>()
    };
    json!({
        "payloads": tables.payloads, "repeated": tables.repeated, "metrics": metrics.collect::<Vec<_>>(),
        "hosts": requests_by("host", &tables.hosts), "endpoints": requests_by("endpoint", &tables.endpoints),
        "results": requests_by("result", &tables.results), "protocols": requests_by("protocol", &tables.protocols),
        "connections": requests_by("connection", &tables.connections), "unread": tables.unread,
    })
}

fn print_tables(tables: &PayloadTables) {
    let mut metrics = Table::new(&["APP", "VERSION", "METRIC", "VALUES", "P50", "P95", "UNIT"]);
    for (((app, version), metric), totals) in &tables.metrics {
        metrics.add_row([
            app.clone(),
            version.clone(),
            metric.as_str().to_owned(),
            format_whole(to_observations(totals.weight)),
            totals.quantile_text(0.5),
            totals.quantile_text(0.95),
            metric.unit().as_str().to_owned(),
        ]);
    }
    metrics.print();
    print_requests(&["APP", "VERSION", "HOST", "REQUESTS", "FAILED", "P50 MS", "P95 MS"], &tables.hosts);
    print_requests(
        &["APP", "VERSION", "ENDPOINT", "REQUESTS", "FAILED", "P50 MS", "P95 MS"],
        &tables.endpoints,
    );
    print_requests(&["APP", "VERSION", "RESULT", "REQUESTS", "FAILED", "P50 MS", "P95 MS"], &tables.results);
    print_requests(
        &["APP", "VERSION", "CONNECTION", "REQUESTS", "FAILED", "P50 MS", "P95 MS"],
        &tables.connections,
    );
    if tables.repeated > 0 {
        note!(
            "{} of {} payloads have the id of an earlier one, or tell of its day, and count once",
            tables.repeated,
            tables.payloads
        );
    }
    for (key, payloads) in &tables.unread {
        note!("{} was not understood in {payloads} payloads and is not counted", escape_line(key));
    }
}

fn print_requests(heads: &'static [&'static str], requests: &RequestTotals) {
    if requests.is_empty() {
        return;
    }
    let mut rows = Table::new(heads);
    for (((app, version), value), totals) in requests {
        rows.add_row([
            app.clone(),
            version.clone(),
            value.clone(),
            format_whole(to_observations(totals.weight)),
            format_whole(to_observations(totals.failed)),
            totals.quantile_text(0.5),
            totals.quantile_text(0.95),
        ]);
    }
    rows.print();
}

fn format_whole(value: f64) -> String {
    format_decimals(value, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_exact_and_quantiles_have_the_digits_that_are_true() {
        let totals = |values: &[f64]| {
            let mut totals = MetricTotals::default();
            values.iter().for_each(|value| totals.add_value(Some(*value), WEIGHT_UNIT));
            totals
        };
        for (values, median) in [
            (&[100_000.0][..], "100000"),
            (&[204_800_000.0, 204_800_000.0], "204800000"),
            (&[0.25], "0.25"),
            (&[-3.0], "0"),
            (&[], ""),
        ] {
            let totals = totals(values);
            assert_eq!(totals.quantile_text(0.5), median, "{values:?}");
            assert_eq!(totals.quantile(0.95), values.first().map(|value| value.max(0.0)));
        }
        let many = totals(&[99_000.0, 100_000.0, 101_000.0]);
        let median = many.quantile_text(0.5);
        assert!(median.ends_with("00") && median.len() <= 6, "{median}");
        assert_eq!(many.quantile(1.0).map(|value| value <= 101_000.0), Some(true));
    }
}
