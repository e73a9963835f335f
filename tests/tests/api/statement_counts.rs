//! An operation, and a page of the console, costs the same statements however many rows there are.

use crate::cases::{Case, Foreign, attempt, cases, document, operations};
use crate::console::{PAGES, crawl};
use crate::reports::{A, crash, hang, store};
use crate::round_trips::{Passed, counted, with_images};
use crate::signals::{metrics, sessions};
use crate::statements::{Cost, Statements};
use crate::world::Browser;
use crate::world::{World, tenant_id};
use crate::{alerts, dead_letters, symbols};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use unslide_model::{ContentHash, DebugId, Owner, Scope};
use unslide_store::dead_letters::DeadLetterId;
use unslide_store::{UploadId, Uuid};

/// Rows of each kind at first, and later.
const FEW: u8 = 2;
const MANY: u8 = 40;
/// Operations that have no number of statements, with the reason.
const EXEMPT: [(&str, &str); 1] = [("follow_events", "asks the database every second until the client goes")];
/// Pages that cost more for more rows, with the reason.
const EXEMPT_PAGES: [(&str, &str); 2] = [
    ("/console/groups/*/flame", "reads the bodies of a bounded number of reports, one at a time"),
    ("/console/export/", "asks its list for 50 entries at a time"),
];
/// Days of metrics are read 100 at a time. Those of as many versions and hosts are fewer.
const MOST_MEASURED: u8 = 12;
const APP: &str = "com.example.shop";

fn id_of(kind: u32, n: u32) -> String {
    Uuid::from_u128(u128::from(kind) << 64 | u128::from(n) << 8 | 1).to_string()
}

/// The report that has `rows` images and variants.
fn report_of(rows: u8) -> String {
    id_of(1, rows.into())
}

/// What is asked, with the key that asks.
struct Subject {
    world: World,
    key: String,
    cases: BTreeMap<&'static str, Case>,
}

impl Subject {
    /// The last part of a case's path.
    fn named(&self, case: &str) -> &str {
        self.cases[case].path.rsplit('/').next().unwrap()
    }

    /// Adds rows of each kind.
    async fn fill(&self, rows: Range<u8>) {
        let (world, key, now) = (&self.world, &self.key, self.world.host.clock.now());
        let put = async |path: &str, body: Value| {
            let request = world.request(Method::PUT, path, key).body(body.to_string());
            world.send(request).await.expect_status(200);
        };
        let upload = |case: &str| self.named(case).parse::<UploadId>().unwrap();
        for n in 0..rows.end {
            let mut variant = with_images(&report_of(rows.end), rows.end.into());
            variant["user"] = n.into();
            store(world, "acme", &variant, 1, now).await;
        }
        for n in rows.clone() {
            let (version, app) = (format!("2.{n}"), format!("com.example.app{n}"));
            let mut own = with_images(&id_of(2, n.into()), 2);
            own["binary_images"][0]["uuid"] = id_of(3, n.into()).into();
            for (field, value) in
                [("CFBundleShortVersionString", &version), ("machine", &format!("iPhone{n},1"))]
            {
                own["system"][field] = value.as_str().into();
            }
            (own["system"]["system_name"], own["system"]["system_version"]) =
                ("iOS".into(), version.as_str().into());
            own["system"]["app_memory"] = json!({"memory_limit": 2_u64 << 30});
            let name = format!("Exception{n}");
            own["crash"]["error"] =
                json!({"type": "nsexception", "reason": name, "nsexception": {"name": name}});
            store(world, "acme", &own, 1, now).await;
            let mut other = crash(&id_of(4, n.into()), "1.0");
            other["system"]["CFBundleIdentifier"] = app.as_str().into();
            store(world, "acme", &other, 1, now).await;
            store(world, "acme", &hang(&id_of(5, n.into()), "1.0", 900), 1, now).await;

            let mut events =
                [sessions::now(world, &format!("of {n}")), sessions::now(world, &format!("new {n}"))];
            events[1]["version"] = version.as_str().into();
            sessions::store(world, "acme", &events).await;
            let mut payloads =
                [metrics::now(world, &format!("of {n}")), metrics::now(world, &format!("new {n}"))];
            payloads[0]["device"] = format!("iPhone{n},1").into();
            payloads[0]["requests"][0]["host"] = format!("{n}.example.com").into();
            payloads[1]["version"] = version.as_str().into();
            if n < MOST_MEASURED {
                metrics::store(world, "acme", &payloads).await;
            }

            for (owner, case) in
                [(Owner::Tenant(tenant_id("acme")), "get_upload"), (Owner::System, "get_system_upload")]
            {
                symbols::object(world, &owner, upload(case), &DebugId([n + 1; 16]), true).await;
            }
            let capture = format!("/v1/captures?app={APP}&version=1.0&kind=profile&session_id=s1");
            world.post(&capture, key, format!("main;draw {}\n", n + 1)).await.expect_status(202);
            let letter =
                DeadLetterId { topic_id: "0a".repeat(16), partition: 0, offset: 1_000 + i64::from(n) };
            dead_letters::note(world, dead_letters::noted(world, letter, Some("acme"), "not_json")).await;
            dead_letters::skipped::skipped(world, Some("acme"), "panicked", 100 + i64::from(n)).await;
            alerts::rule_with_message(world, "acme").await;
            world.create_key("acme", &[Scope::SymbolsRead]).await;
            world.post_json("/v1/names-keys", key, &json!({"name": "a"})).await.expect_status(201);
            crate::world::add_person(world, &format!("person {n}")).await;
            world.make_tenant(&tenant_id(&format!("tenant{n}"))).await;
            put("/v1/app-settings", json!({"app": app, "source_root": "/ci"})).await;
            let comment = &self.cases["comment_on_group"].path;
            world.post_json(comment, key, &json!({"text": "a"})).await.expect_status(201);
        }
        put("/v1/grouping-rules", json!({"text": format!("ignore function Of{}", rows.end)})).await;
        for (owner, case) in [("acme", "get_symbols"), ("~system", "get_system_symbols")] {
            self.add_objects(owner, self.named(case), rows.end).await;
        }
        self.merge(usize::from(rows.end) / 2).await;
        assert!(self.others().await.len() > rows.len(), "each exception is a group");
    }

    /// Gives a debug id as many more objects.
    async fn add_objects(&self, owner: &str, debug_id: &str, rows: u8) {
        let objects = format!(
            "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, size, status, created_at, updated_at)
             SELECT '{owner}', sha256(('{debug_id}' || n)::bytea), '{debug_id}', 'Shop', 'arm64', 'dsym', 1, 'ready', now(),
                    now()
             FROM generate_series(1, {rows}) AS n ON CONFLICT DO NOTHING;
             INSERT INTO symbol_slots (tenant, debug_id, generation, quality, content_hash, updated_at)
             VALUES ('{owner}', '{debug_id}', 1, 1, sha256(('{debug_id}' || 1)::bytea), now()) ON CONFLICT DO NOTHING"
        );
        self.world.execute(&objects).await;
    }

    /// The other groups of the app, in an order that stays.
    async fn others(&self) -> Vec<String> {
        let group = self.named("get_group");
        let ids = format!(
            "SELECT string_agg(id::text, ' ' ORDER BY first_seen, id) FROM groups
             WHERE tenant = 'acme' AND app = '{APP}' AND id <> '{group}'"
        );
        self.world.text(&ids).await.split(' ').map(str::to_owned).collect()
    }

    /// Merges this number of the other groups into the group of the cases, and splits off the rest.
    async fn merge(&self, number: usize) {
        let (group, others) = (self.named("get_group"), self.others().await);
        let merged = format!(
            "UPDATE groups SET merged_into = NULL WHERE merged_into IS NOT NULL;
             UPDATE groups SET merged_into = '{group}' WHERE id = ANY (string_to_array('{}', ' ')::uuid[])",
            others[..number].join(" ")
        );
        self.world.execute(&merged).await;
    }

    /// A request of an operation. One that takes something away has a thing of its own, with `rows` rows that
    /// depend on it; one that takes a list has a list of as many. Work that is done for one thing after the other is
    /// asked for once: a report that rules are tried on, a file of a form, and of replays of dead letters the dry run.
    async fn request(&self, id: &str, rows: u8, n: u32) -> Case {
        let (world, key, case) = (&self.world, &self.key, &self.cases[id]);
        let (mut path, mut body) = (case.path.replace(A, &report_of(rows)), case.body.clone());
        let unique = u32::from(rows) * 100 + n;
        let hash = || ContentHash(std::array::from_fn(|at| (unique >> (8 * (at % 2))) as u8)).to_string();
        let owner = if id.contains("system") { "~system" } else { "acme" };
        let each = |one: &dyn Fn(u32) -> Value| Some((0..rows.into()).map(one).collect::<Value>());
        match id {
            "upload_symbols" | "upload_system_symbols" | "send_capture" => {
                body = Some(format!("\u{cf}{unique}").into());
            }
            "begin_upload" | "begin_system_upload" => body = Some(json!({"size": 15, "sha256": hash()})),
            "complete_upload" | "complete_system_upload" => {
                let uploads = path.split_once("/uploads/").unwrap().0.to_owned() + "/uploads";
                let wanted = json!({"size": 15, "sha256": hash()});
                let begun = world.post_json(&uploads, key, &wanted).await.expect_status(200)["id"].clone();
                let upload = format!("{uploads}/{}", begun.as_str().unwrap());
                let part = Case {
                    path: format!("{upload}/parts/1"),
                    body: Some("\u{cf}".into()),
                    foreign: Foreign::NotFound,
                };
                attempt(world, &Method::PUT, &part, key).await.expect_status(204);
                path = format!("{upload}/complete");
            }
            "check_symbols" | "check_system_symbols" => {
                body = Some(json!({"debug_ids": each(&|n| id_of(3, n).into())}));
            }
            "send_reports" => body = each(&|n| with_images(&id_of(6, n), rows.into())),
            "symbolicate" => body = Some(with_images(A, rows.into())),
            "send_sessions" => body = each(&|n| sessions::event(&n.to_string(), "2026-11-20T08:00:00Z")),
            "send_metrics" => body = each(&|n| metrics::payload(&n.to_string(), "2026-11-20T08:00:00Z")),
            "try_grouping_rules" => body = Some(json!({"text": "ignore function Log.*", "reports": 1})),
            "set_grouping_rules" => body = Some(json!({"text": format!("ignore function Log{unique}")})),
            // A tenant has few at once.
            "create_reprocess" => world.execute("UPDATE reprocesses SET status = 'done'").await,
            "change_group" => {
                body = Some(json!({"status": if n.is_multiple_of(2) { "resolved" } else { "open" }}));
            }
            "change_groups" => {
                self.merge(0).await;
                let status = if n.is_multiple_of(2) { "resolved" } else { "open" };
                let groups = self.others().await;
                body = Some(json!({"groups": groups[..rows.into()], "change": {"status": status}}));
            }
            "set_build_commit" => {
                body = Some(json!({"debug_ids": each(&|n| id_of(3, n).into()), "commit": "0a1b2c3"}));
            }
            "create_ticket" => self.merge(0).await,
            "create_group_view" => body = Some(json!({"name": format!("view {unique}")})),
            "delete_group_view" => {
                let new = json!({"name": format!("doomed {unique}")});
                let saved = world.post_json("/v1/group-views", key, &new).await.expect_status(201);
                path = format!("/v1/group-views/{}", saved["id"].as_str().unwrap());
            }
            "change_alert_rule" => body = Some(json!({"enabled": n.is_multiple_of(2)})),
            "change_tenant" => body = Some(json!({"limits": {"retention_days": 30 + n}})),
            "create_tenant" => body = Some(json!({"id": format!("stark{unique}")})),
            "merge_groups" => {
                self.merge(0).await;
                body = Some(json!({"groups": self.others().await[..rows.into()]}));
            }
            "split_group" => {
                self.merge(rows.into()).await;
                body = Some(json!({"group": self.others().await[0]}));
            }
            "delete_report" => {
                let doomed = with_images(&id_of(7, unique), rows.into());
                store(world, "acme", &doomed, 1, world.host.clock.now()).await;
                path = format!("/v1/reports/{}", id_of(7, unique));
            }
            "delete_symbols" | "delete_system_symbols" => {
                let debug_id = id_of(8, unique);
                self.add_objects(owner, &debug_id, rows).await;
                path = path.replace(self.named(id), &debug_id);
            }
            "remove_symbol_build" | "remove_system_symbol_build" => {
                let images = json!({"arch": "arm64e", "debug_ids": each(&|n| id_of(3, n).into())});
                path = path.replace(self.named(id), &format!("23B{unique}"));
                let put = world.request(Method::PUT, &path, key).body(images.to_string());
                world.send(put).await.expect_status(200);
            }
            "record_symbol_build" | "record_system_symbol_build" => {
                body = Some(json!({"arch": "arm64e", "debug_ids": each(&|n| id_of(3, n).into())}));
            }
            "delete_capture" => {
                let sent = format!("/v1/captures?app={APP}&version=1.0&kind=profile");
                let sent = world.post(&sent, key, format!("main;delete {unique}\n")).await.expect_status(202);
                path = format!("/v1/captures/{}", sent["id"].as_str().unwrap());
            }
            "revoke_key" | "revoke_tenant_key" => {
                let (made, _) =
                    world.make_key("acme", &crate::cases::key_of(&[Scope::SymbolsRead], None, None)).await;
                for _ in 0..rows {
                    world.create_key("acme", &[Scope::SymbolsRead]).await;
                }
                let below = format!(
                    "UPDATE keys SET made_by = '{made}' WHERE id IN (
                         SELECT id FROM keys WHERE tenant = 'acme' ORDER BY created_at DESC, id DESC LIMIT {rows})"
                );
                world.execute(&below).await;
                // The api forgets all keys when it revokes one. The request's own is looked up again before anything is counted.
                let (other, _) =
                    world.make_key("acme", &crate::cases::key_of(&[Scope::SymbolsRead], None, None)).await;
                world.delete(&format!("/v1/keys/{other}"), &self.key).await.expect_status(200);
                world.get("/v1/keys?limit=1", &self.key).await.expect_status(200);
                path = format!("{}?cascade=true", path.replace(self.named(id), &made.to_string()));
            }
            "delete_tenant" => {
                let slug = format!("wayne{unique}");
                world.make_tenant(&tenant_id(&slug)).await;
                for _ in 0..rows {
                    world.create_key(&slug, &[Scope::SymbolsRead]).await;
                }
                path = format!("/v1/tenants/{slug}");
            }
            "delete_group_comment" => {
                let comments = self.cases["comment_on_group"].path.clone();
                let added = world.post_json(&comments, key, &json!({"text": "a"})).await.expect_status(201);
                path = format!("{comments}/{}", added["id"].as_str().unwrap());
            }
            "delete_names_key" => {
                let made =
                    world.post_json("/v1/names-keys", key, &json!({"name": "a"})).await.expect_status(201);
                path = format!("/v1/names-keys/{}", made["id"].as_str().unwrap());
            }
            "delete_scim_token" => {
                let made =
                    world.post_json("/v1/scim-tokens", key, &json!({"name": "a"})).await.expect_status(201);
                path = format!("/v1/scim-tokens/{}", made["id"].as_str().unwrap());
            }
            "remove_audit_receiver" => {
                let mut receiver = self.cases["set_audit_receiver"].body.clone().unwrap();
                receiver["name"] = "removed".into();
                let set =
                    world.request(Method::PUT, "/v1/audit-log/receivers", key).body(receiver.to_string());
                world.send(set).await.expect_status(200);
                path = "/v1/audit-log/receivers/removed".to_owned();
            }
            "remove_symbol_source" => {
                let mut source = self.cases["set_symbol_source"].body.clone().unwrap();
                source["name"] = "removed".into();
                let set = world.request(Method::PUT, "/v1/symbol-sources", key).body(source.to_string());
                world.send(set).await.expect_status(200);
                path = "/v1/symbol-sources/removed".to_owned();
            }
            "remove_parquet_export" => {
                let lake = self.cases["set_parquet_export"].body.clone().unwrap();
                let set = world.request(Method::PUT, "/v1/parquet-export", key).body(lake.to_string());
                world.send(set).await.expect_status(200);
            }
            "remove_slack" => {
                let slack = self.cases["set_slack"].body.clone().unwrap();
                let set = world.request(Method::PUT, "/v1/chat/slack", key).body(slack.to_string());
                world.send(set).await.expect_status(200);
            }
            "remove_tracker" => {
                let mut tracker = self.cases["set_tracker"].body.clone().unwrap();
                tracker["name"] = "removed".into();
                let set = world.request(Method::PUT, "/v1/trackers", key).body(tracker.to_string());
                world.send(set).await.expect_status(200);
                path = "/v1/trackers/removed".to_owned();
            }
            // The first file of a version: another of the same one is compared with it.
            "upload_owners" => path = format!("/v1/owners?app=com.acme.shop&version={unique}"),
            "set_owner_paths" => {
                body = Some(
                    json!({"app": "com.acme.shop", "paths": [{"from": format!("/{unique}"), "to": ""}]}),
                );
            }
            "delete_owners" => {
                let file =
                    world.post("/v1/owners?app=com.acme.doomed", key, "* @acme/all").await.expect_status(200);
                path = format!("/v1/owners/{}", file["id"].as_str().unwrap());
            }
            "delete_alert_rule" => {
                let (rule, _) = alerts::rule_with_message(world, "acme").await;
                path = format!("/v1/alert-rules/{rule}");
            }
            _ => {}
        }
        Case { path, body, foreign: Foreign::NotFound }
    }

    /// Waits until the owners of all groups were looked for, which is done beside requests.
    async fn wait_for_looks(&self) {
        let due = "SELECT (EXISTS (SELECT FROM owner_apps WHERE tenant = 'acme' AND swept_epoch < epoch)
                           OR EXISTS (SELECT FROM group_owners WHERE tenant = 'acme' AND needed > done AND failures = 0))::text";
        while self.world.text(due).await == "true" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The statements of each operation and of each page.
    async fn costs(
        &self,
        passed: &Passed,
        rows: u8,
        pages: &BTreeMap<String, String>,
        before: &Costs,
    ) -> Costs {
        let mut operations = operations(&document());
        assert!(EXEMPT.iter().all(|(exempt, _)| operations.iter().any(|(id, ..)| id == exempt)));
        operations.retain(|(id, ..)| EXEMPT.iter().all(|(exempt, _)| exempt != id));
        operations.sort_by_key(|(_, method, ..)| (*method == Method::DELETE, *method != Method::GET));
        let mut costs = self.page_costs(passed, rows, pages, before).await;
        for (id, method, ..) in &operations {
            let mut cost = Cost::new(before.get(id));
            while let Some(n) = cost.next_try() {
                let case = self.request(id, rows, n).await;
                self.wait_for_looks().await;
                // After a long wait the next request would read its key again.
                attempt(&self.world, &Method::GET, &self.cases["list_apps"], &self.key)
                    .await
                    .expect_status(200);
                let request = async {
                    let answer = attempt(&self.world, method, &case, &self.key).await;
                    assert!(answer.status.is_success(), "{id}: {}", answer.text);
                };
                cost.add(passed.trace_request(request).await);
            }
            costs.insert(id.clone(), cost.least);
        }
        costs
    }

    async fn page_costs(
        &self,
        passed: &Passed,
        rows: u8,
        pages: &BTreeMap<String, String>,
        before: &Costs,
    ) -> Costs {
        let browser = Browser::signed_in(&self.world, &self.key).await;
        let mut costs = Costs::new();
        for (shape, path) in pages {
            let path = path.replace(A, &report_of(rows));
            let mut cost = Cost::new(before.get(shape));
            while cost.next_try().is_some() {
                let request = async { drop(browser.fetch_page(&path).await) };
                cost.add(passed.trace_request(request).await);
            }
            costs.insert(shape.clone(), cost.least);
        }
        costs
    }
}

/// Statements by operation or page.
type Costs = BTreeMap<String, Statements>;

/// A page's address without the names and the values in it.
fn shape(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_name = |part: &str| part.chars().any(|c| c.is_ascii_digit());
    let parts: Vec<&str> = path.split('/').map(|part| if is_name(part) { "*" } else { part }).collect();
    let names: BTreeSet<&str> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    format!("{} {}", parts.join("/"), names.into_iter().collect::<Vec<_>>().join(" ")).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_and_page_costs_the_same_statements_however_many_rows_there_are() {
    // Nothing relays here what workers are to learn.
    let (world, passed) = counted(|limits| limits.announce_seconds = 0).await;
    let key = world.create_master_key("acme").await;
    let cases = cases(&world, &key).await;
    let subject = Subject { world, key, cases };
    subject.fill(0..FEW).await;
    let browser = Browser::signed_in(&subject.world, &subject.key).await;
    // With more rows, the other groups are merged into the one of the cases: their pages and lists of new ones get shorter.
    let group = subject.named("get_group");
    let is_stable = |path: &String| {
        !path.contains("new_in=") && (!path.starts_with("/console/groups/") || path.contains(group))
    };
    let crawled = crawl(&browser).await.into_iter().map(|(path, _)| path).filter(is_stable);
    let mut pages: BTreeMap<String, String> = crawled.map(|path| (shape(&path), path)).collect();
    pages.retain(|shape, _| EXEMPT_PAGES.iter().all(|(exempt, _)| !shape.starts_with(exempt)));
    pages.extend(PAGES.map(|(path, _)| (path.to_owned(), path.to_owned())));
    for case in ["get_group", "get_capture", "compare_captures", "explain_report", "get_report"] {
        let path = subject.cases[case].path.replace("/v1/", "/console/");
        pages.insert(path.clone(), path);
    }
    for part in ["json", "text", "threads/0"] {
        let path = format!("/console/reports/{A}/{part}");
        pages.insert(path.clone(), path);
    }
    let few = subject.costs(&passed, FEW, &pages, &Costs::new()).await;
    // A verdict reads the counts of a resolved group: it is open at the beginning of both measurements.
    let open = subject.request("change_group", FEW, 1).await;
    let answer = attempt(&subject.world, &Method::PATCH, &open, &subject.key).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    subject.fill(FEW..MANY).await;
    let many = subject.costs(&passed, MANY, &pages, &few).await;
    let mut grown: BTreeMap<&str, Vec<String>> =
        few.iter().map(|(name, cost)| (name.as_str(), many[name].grown_since(cost))).collect();
    grown.retain(|_, lines| !lines.is_empty());
    assert!(grown.is_empty(), "statements with few rows and with many: {grown:#?}");
    // The work of this one is done for one report after the other.
    let trial_of = async |reports: u8| {
        let mut trial = subject.request("try_grouping_rules", MANY, 0).await;
        trial.body.as_mut().unwrap()["reports"] = reports.into();
        let request = async {
            attempt(&subject.world, &Method::POST, &trial, &subject.key).await.expect_status(200);
        };
        passed.trace_request(request).await
    };
    let (one, several) = (trial_of(1).await, trial_of(FEW * 4).await);
    assert!(!several.grown_since(&one).is_empty(), "growth is seen: {several:?}");
    for counted in ["get_report", "/console/groups"] {
        assert!(few[counted].count_all() > 1, "the proxy counts: {:?}", few[counted]);
    }
    subject.world.stop().await;
}
