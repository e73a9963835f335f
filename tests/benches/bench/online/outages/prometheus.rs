//! A real Prometheus that reads the processes' metrics and evaluates the alerts that the project ships.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_embedded::free_port;
use unslide_tests::binary::Process;
use unslide_tests::client::Client;

/// All durations of the rules are divided by this, so that minutes of an outage pass in seconds.
pub const SPEED: u64 = 20;

/// Prometheus with the shipped rules, sped up. Dropped, it is killed.
pub struct Prometheus {
    _process: Process,
    client: Client,
    targets: PathBuf,
}

impl Prometheus {
    /// Starts it.
    pub fn start(folder: &Path) -> Prometheus {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/observability/alerts.yaml");
        let rules = std::fs::read_to_string(rules).expect("the rules");
        let (port, targets) = (free_port().expect("a port"), folder.join("targets.json"));
        let config = "global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs: [{job_name: unslide, file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]}]
";
        std::fs::write(folder.join("rules.yaml"), faster(&rules)).expect("the folder can be written");
        std::fs::write(folder.join("prometheus.yml"), config).expect("the folder can be written");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = Process::start("prometheus", command, &folder.join("prometheus.log"));
        let client = Client::new(&format!("http://127.0.0.1:{port}"), "");
        Prometheus { _process: process, client, targets }
    }

    /// Says which processes there are, by the addresses of their metrics.
    pub fn set_targets(&self, addresses: &[String]) {
        let text = serde_json::json!([{ "targets": addresses }]).to_string();
        std::fs::write(&self.targets, text).expect("the folder can be written");
    }

    /// Returns the names of the alerts that fire now.
    pub async fn firing(&self) -> BTreeSet<String> {
        let Some((200, answer)) = self.client.try_request("/api/v1/alerts", None).await else {
            return BTreeSet::new();
        };
        let alerts = answer["data"]["alerts"].as_array().into_iter().flatten();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        firing.filter_map(|alert| alert["labels"]["alertname"].as_str()).map(str::to_owned).collect()
    }
}

/// Divides the durations of rules by [`SPEED`]: those of `for`, and the ranges in brackets.
fn faster(rules: &str) -> String {
    let mut text = String::with_capacity(rules.len());
    for line in rules.lines() {
        let is_for = line.trim_start().starts_with("for: ");
        let (mut in_range, mut number) = (false, String::new());
        for character in line.chars() {
            match character {
                '0'..='9' if is_for || in_range => {
                    number.push(character);
                    continue;
                }
                _ if !number.is_empty() => {
                    let count: u64 = number.parse().expect("digits");
                    let unit = match character {
                        's' => 1,
                        'm' => 60,
                        'h' => 3_600,
                        'd' => 86_400,
                        other => panic!("{number}{other} is no duration: {line}"),
                    };
                    number.clear();
                    text.push_str(&format!("{}ms", count * unit * 1_000 / SPEED));
                    continue;
                }
                '[' => in_range = true,
                ']' => in_range = false,
                _ => {}
            }
            text.push(character);
        }
        text.push('\n');
    }
    text
}
