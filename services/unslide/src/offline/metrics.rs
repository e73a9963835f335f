//! `unslide metrics`: what metric payloads say, without any server.

use crate::offline::packed::read_input;
use crate::prelude::*;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use time::Date;
use unslide_model::QuantileSketch;
use unslide_report::text::escaped;
use unslide_signals::event::{EventError, GatewayEvent};
use unslide_signals::metrics::{MetricName, MetricPayload, WEIGHT_UNIT};

/// Bytes of a file, unpacked.
const MOST_BYTES: usize = 256 << 20;

/// Arguments of `unslide metrics`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  unslide metrics payload.json
  unslide metrics --json MetricKit/*.json")]
pub struct Arguments {
    /// Payloads of MetricKit, or of Unslide's own form: one or an array in each file, also packed with gzip or zstd;
    /// standard input where it is `-`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// App and version.
type AppVersion = (String, String);

/// What the payloads say of one metric or host.
#[derive(Default)]
struct MetricTotals {
    /// In thousandths, as weights are.
    weight: u64,
    failed: u64,
    values: QuantileSketch,
}

impl MetricTotals {
    fn add(&mut self, value: Option<f64>, weight: u64) {
        self.weight = self.weight.saturating_add(weight);
        if let Some(value) = value {
            self.values.add(value, weight);
        }
    }

    fn quantile(&self, share: f64) -> Option<f64> {
        self.values.quantile(share)
    }
}

/// What all payloads say.
#[derive(Default)]
struct PayloadTables {
    payloads: usize,
    /// Payloads with an id that was there before, of the same app and day.
    repeated: usize,
    seen: BTreeSet<(String, String, Date)>,
    metrics: BTreeMap<(AppVersion, MetricName), MetricTotals>,
    hosts: BTreeMap<(AppVersion, String), MetricTotals>,
    unread: BTreeMap<String, usize>,
}

impl PayloadTables {
    fn add(&mut self, payload: &MetricPayload) {
        self.payloads += 1;
        if !self.seen.insert((payload.app.clone(), payload.id.clone(), payload.day())) {
            self.repeated += 1;
            return;
        }
        let version = (payload.app.clone(), payload.version.clone());
        for sample in &payload.samples {
            let weight = payload.weight.saturating_mul(sample.count.into());
            self.metrics.entry((version.clone(), sample.metric)).or_default().add(Some(sample.value), weight);
        }
        for request in &payload.requests {
            let total = request.phases.last().copied().flatten();
            let host = self.hosts.entry((version.clone(), request.host.clone())).or_default();
            host.add(total, payload.weight);
            host.failed = host.failed.saturating_add(if request.failed { payload.weight } else { 0 });
        }
        for key in &payload.unread {
            *self.unread.entry(key.clone()).or_default() += 1;
        }
    }
}

/// Reads the payloads, and shows what they say.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut tables = PayloadTables::default();
    for path in &arguments.files {
        let bytes = read_input(path, MOST_BYTES).map_err(|error| CommandError::cannot_read(path, error))?;
        read(path, &bytes, &mut tables)?;
    }
    if arguments.json {
        Console::get().json(&answer(&tables))?;
    } else {
        print(&tables);
    }
    Ok(Exit::Ready)
}

/// Reads one payload or an array of them.
fn read(path: &Path, bytes: &[u8], tables: &mut PayloadTables) -> Result<(), CommandError> {
    if !bytes.trim_ascii_start().starts_with(b"[") {
        let payload = MetricPayload::read(bytes.trim_ascii())
            .map_err(|error| CommandError::cannot_read(path, error))?;
        tables.add(&payload);
        return Ok(());
    }
    let payloads: Vec<&RawValue> = serde_json::from_slice(bytes)
        .map_err(|error| CommandError::cannot_read(path, EventError::from(error)))?;
    for (place, payload) in payloads.into_iter().enumerate() {
        let payload = MetricPayload::read(payload.get().as_bytes()).map_err(|error| {
            let error = EventError::Json(format!("payload {place}: {error}"));
            CommandError::cannot_read(path, error)
        })?;
        tables.add(&payload);
    }
    Ok(())
}

/// Observations of a weight.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn observations(weight: u64) -> f64 {
    weight as f64 / WEIGHT_UNIT as f64
}

fn answer(tables: &PayloadTables) -> Value {
    let metrics = tables.metrics.iter().map(|(((app, version), metric), totals)| {
        json!({
            "app": app, "version": version, "metric": metric.as_str(), "unit": metric.unit().as_str(),
            "observations": observations(totals.weight), "p50": totals.quantile(0.5), "p95": totals.quantile(0.95),
        })
    });
    let hosts = tables.hosts.iter().map(|(((app, version), host), totals)| {
        json!({
            "app": app, "version": version, "host": host, "requests": observations(totals.weight),
            "failed": observations(totals.failed), "p50": totals.quantile(0.5), "p95": totals.quantile(0.95),
        })
    });
    json!({
        "payloads": tables.payloads, "repeated": tables.repeated, "metrics": metrics.collect::<Vec<_>>(),
        "hosts": hosts.collect::<Vec<_>>(), "unread": tables.unread,
    })
}

fn print(tables: &PayloadTables) {
    let mut metrics = Table::new(&["APP", "VERSION", "METRIC", "VALUES", "P50", "P95", "UNIT"]);
    for (((app, version), metric), totals) in &tables.metrics {
        metrics.row([
            app.clone(),
            version.clone(),
            metric.as_str().to_owned(),
            whole(observations(totals.weight)),
            figure(totals.quantile(0.5)),
            figure(totals.quantile(0.95)),
            metric.unit().as_str().to_owned(),
        ]);
    }
    metrics.print();
    if !tables.hosts.is_empty() {
        let mut hosts = Table::new(&["APP", "VERSION", "HOST", "REQUESTS", "FAILED", "P50 MS", "P95 MS"]);
        for (((app, version), host), totals) in &tables.hosts {
            hosts.row([
                app.clone(),
                version.clone(),
                host.clone(),
                whole(observations(totals.weight)),
                whole(observations(totals.failed)),
                figure(totals.quantile(0.5)),
                figure(totals.quantile(0.95)),
            ]);
        }
        hosts.print();
    }
    if tables.repeated > 0 {
        note!(
            "{} of {} payloads have the id of an earlier one and count once",
            tables.repeated,
            tables.payloads
        );
    }
    for (key, payloads) in &tables.unread {
        note!(
            "{} was not understood in {payloads} payloads: its language or unit is not known",
            escaped(key)
        );
    }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// A value with as many decimals as say something.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(
        String::new,
        |value| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") },
    )
}
