//! How fast metric payloads are read, and their values counted, on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};
use unslide_health_formats::MetricPayload;
use unslide_model::QuantileSketch;
use unslide_proto::event::GatewayEvent;

/// Prints payloads a second, values a second, and sketches that are merged a second.
pub fn print(full: bool) {
    let (rounds, payloads, values) = if full { (5, 20_000, 4_000_000) } else { (1, 20, 1_000) };
    println!("\nMetric payloads are read and counted on one core");
    for requests in [1, 20] {
        let json = payload(requests);
        let read = || {
            for _ in 0..payloads {
                black_box(MetricPayload::from_json(black_box(json.as_bytes())).expect("it is a payload"));
            }
        };
        let rate = f64::from(payloads) / best(rounds, read).as_secs_f64();
        println!("  read, {} bytes with {requests} requests: {rate:.0} payloads a second", json.len());
    }
    let mut sketch = QuantileSketch::default();
    let add = || (0..values).for_each(|n| sketch.add_value(value(n), 1_000));
    let rate = f64::from(values) / best(rounds, add).as_secs_f64() / 1e6;
    println!("  counted in a sketch: {rate:.1} million values a second");
    let bytes = sketch.to_bytes();
    let merges = payloads / 10;
    let merge = || {
        let mut whole = QuantileSketch::default();
        (0..merges).for_each(|_| whole.merge(&QuantileSketch::from_bytes(&bytes).expect("it is a sketch")));
        black_box(whole);
    };
    let rate = f64::from(merges) / best(rounds, merge).as_secs_f64();
    println!("  sketches of {} bytes, read and merged: {rate:.0} a second", bytes.len());
}

fn best(rounds: u32, mut work: impl FnMut()) -> Duration {
    let times = (0..rounds).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    times.min().unwrap_or(Duration::MAX)
}

/// Values over six orders of magnitude, the same in every run.
fn value(n: u32) -> f64 {
    let random = n.wrapping_mul(2_654_435_761) >> 8;
    (f64::from(random) / f64::from(1 << 24) * 14.0).exp()
}

fn payload(requests: u32) -> String {
    let requests: Vec<String> = (0..requests)
        .map(|n| format!(r#"{{"host":"h{n}.example.com","dns":12,"connect":20,"tls":30,"first_byte":90,"total":140.5}}"#))
        .collect();
    format!(
        r#"{{"id":"5b0c6f0e-8d61-4b0c-9a35-1f2e3d4c5b6a","app":"com.example.shop","version":"3.1.4",
            "measured_at":"2026-11-20T08:00:00Z","measurements":[{{"name":"launch_time","unit":"ms","value":812}},
            {{"name":"cpu_time","unit":"s","value":31}},{{"name":"foreground_time","unit":"min","value":12}}],
            "requests":[{}]}}"#,
        requests.join(",")
    )
}
