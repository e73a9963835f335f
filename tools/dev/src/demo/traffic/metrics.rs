//! The metrics of the week's devices: the broken release launches slower, writes more and fails more
//! requests.

use super::{BUILDS, BoxError, Build, Client, DAY_MILLIS, DEVICES, Run, SYSTEMS, days};
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const PAYLOADS: u32 = 8;
/// The share of a device's sessions that measures.
const SAMPLED: f64 = 0.25;

/// Sends the metric payloads of the week, one of them of each run that a report is of; returns their number.
pub async fn send(client: &Client, runs: &[Run], now: i64, random: &mut SmallRng) -> Result<usize, BoxError> {
    let mut payloads = Vec::new();
    for run in runs {
        let mut payload = payload(run.build, &format!("of-{}", run.id), run.at_millis, random)?;
        payload["session"] = json!(run.id);
        payloads.push(payload);
    }
    for build in &BUILDS {
        for (begin, count) in days(build, now) {
            for number in count..count * PAYLOADS {
                let at = random.random_range(begin..(begin + DAY_MILLIS).min(now));
                payloads.push(payload(build, &format!("{}-{begin}-{number}", build.uuid), at, random)?);
            }
        }
    }
    for page in payloads.chunks(500) {
        let _: Value = client.post("/v1/metrics", &json!(page)).await?;
        // Within the tenant's rate.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(payloads.len())
}

fn payload(build: &Build, id: &str, at: i64, random: &mut SmallRng) -> Result<Value, BoxError> {
    let broken = if build.version == "2.5.0" { 1.6 } else { 1.0 };
    let mut near = |middle: f64| middle * (0.5 + random.random_range(0.0..1.0_f64));
    let measured = |name: &str, unit: &str, value: f64| json!({"name": name, "unit": unit, "value": value});
    let launch = near(700.0 * broken);
    let measurements = [
        measured("launch_time", "ms", launch),
        measured("hang_time", "ms", near(400.0 * broken)),
        measured("foreground_time", "min", near(40.0)),
        measured("cpu_time", "s", near(40.0)),
        measured("energy", "J", near(90.0)),
        measured("disk_writes", "MB", near(12.0 * broken)),
        measured("frame_rate", "fps", near(58.0).min(60.0)),
    ];
    let mut request = |host: &str, path: &str, total: f64, fails: f64| {
        let failed = near(1.0) > 1.5 - fails;
        json!({"host": host, "path": path, "method": "GET", "status": if failed { 503 } else { 200 }, "protocol": "h2",
            "sent": 420, "received": total * 200.0, "dns": near(9.0), "connect": near(25.0), "tls": near(40.0),
            "first_byte": near(total * 0.7), "total": near(total)})
    };
    let requests = [
        request("api.example.com", "/orders/1041", 180.0, 0.01 * broken * broken * broken),
        request("images.example.com", "/menu/7c1f/large", 90.0, 0.01),
    ];
    let measured_at = OffsetDateTime::from_unix_timestamp(at / 1_000)?.format(&Rfc3339)?;
    let made_on = random.random_range(0..DEVICES.len() * SYSTEMS.len());
    let device = DEVICES[made_on % DEVICES.len()];
    let os = format!("iOS {}", SYSTEMS[made_on / DEVICES.len()]);
    Ok(json!({"id": id, "app": build.app, "version": build.version, "device": device, "os": os,
        "measured_at": measured_at, "sampled": SAMPLED, "measurements": measurements, "requests": requests,
        "launches": [{"type": "cold", "before_main": launch * 0.4, "first_frame": launch * 0.6}],
        "battery": {"start": {"level": 0.8, "state": "unplugged"}, "end": {"level": 0.8 - 0.04 * broken, "state": "unplugged"}}}))
}
