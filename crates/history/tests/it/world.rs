//! A database of one test, and reports of which the rows are.

use reqwest::Client;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::datetime;
use unslide_history::{History, HistoryRow, HistorySettings};
use unslide_model::{ReportId, Secret, TenantId};
use unslide_testkit::servers;
use uuid::Uuid;

/// A client with a database of its own.
pub struct World {
    pub history: History,
    pub settings: HistorySettings,
}

/// The settings of the server that tests share: that of `make test`, or the one that `scripts/check-history` names.
fn read_settings() -> HistorySettings {
    let variable = |name: &str| std::env::var(format!("UNSLIDE_TEST_CLICKHOUSE_{name}")).ok();
    HistorySettings {
        url: Some(servers::clickhouse()),
        user: variable("USER").unwrap_or_else(|| "default".into()),
        password: Secret::new(variable("PASSWORD").unwrap_or_default()),
        database: servers::unique("history").replace('-', "_"),
        cluster: variable("CLUSTER"),
        ..HistorySettings::default()
    }
}

impl World {
    pub async fn start() -> World {
        let settings = read_settings();
        let history = History::new(&settings).unwrap();
        history.create_schema().await.unwrap();
        World { history, settings }
    }

    /// Runs a statement as somebody who writes to the server by hand; returns what it answers.
    pub async fn run(&self, statement: &str) -> String {
        let (status, text) =
            self.try_run(&self.settings.user, self.settings.password.reveal(), statement).await;
        assert_eq!(status, 200, "{statement}: {text}");
        text
    }

    pub async fn try_run(&self, user: &str, password: &str, statement: &str) -> (u16, String) {
        let url = format!("{}/?database={}", self.settings.url.as_ref().unwrap(), self.settings.database);
        let request = Client::new().post(url).basic_auth(user, Some(password)).body(statement.to_owned());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub async fn count(&self, condition: &str) -> u64 {
        self.run(&format!("SELECT count() FROM reports WHERE {condition}")).await.trim().parse().unwrap()
    }

    pub fn on_cluster(&self) -> String {
        self.settings.cluster.as_ref().map(|cluster| format!(" ON CLUSTER {cluster}")).unwrap_or_default()
    }

    pub async fn stop(self) {
        let everywhere = self.on_cluster();
        self.run(&format!("DROP DATABASE {}{everywhere} SYNC", self.settings.database)).await;
    }
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub const BEGIN: OffsetDateTime = datetime!(2026-11-20 12:00:00.123_456 UTC);

/// The id of the report with this number. Its halves are in contrary orders.
pub fn report_id(number: u64) -> ReportId {
    ReportId::from_uuid(Uuid::from_u64_pair(number, u64::MAX - number))
}

/// A row as PostgreSQL's `to_jsonb` writes it, of the report with this number.
pub fn row(number: u64, version: u32, fields: &Value) -> HistoryRow {
    let received_at = BEGIN + time::Duration::microseconds(i64::try_from(number / 2).unwrap());
    let mut document = json!({
        "app": "com.example.shop", "version": "1.0", "build": "7", "type": "mach", "status": "complete", "fatal": true,
        "model": null, "os_name": "iOS", "os_version": "18.1", "device": null, "symbols_missing": false, "group_id": null,
        "same_crash_as": null, "run_id": null, "process_identity": null, "sender_key": null, "system_images": [],
        "context": {"keys": {}}, "reason": "sent \"nil\"\\ \u{1F600}\n", "revision": version,
    });
    document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    HistoryRow { received_at, report_id: report_id(number), variant: 0, version, row: document.to_string() }
}
