//! Every signal of an app, from the way that it comes in to its picture on the console. Symbols come late: what had
//! no names before has them afterwards.

mod allocation_logs;
mod hangs;
mod javascript;
mod jetsam_events;
mod memory_graphs;
mod memory_warnings;
mod metrics;
mod out_of_memory;
mod profiles;

use futures::future::{LocalBoxFuture, join_all};
use serde_json::{Value, json};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::browser::Browser;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// One installation for all signals. Each is of an app of its own.
struct World {
    installation: Installation,
    client: Client,
    console: Browser,
    app: App,
}

impl World {
    async fn start() -> World {
        let mut installation = Installation::start().await;
        let scopes = "symbols:write,symbols:read,reports:write,reports:read,tenant:admin";
        let key = installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", scopes]);
        key.trim().clone_into(&mut installation.key);
        let client = installation.client();
        let console = Browser::sign_in(&installation.url, &installation.key).await;
        World { client, console, app: App::from_fixture("app"), installation }
    }

    /// Writes a record to a topic, as a gateway does.
    async fn send(&self, topic: &str, record: &str) {
        let topic = self.installation.topic_name(topic);
        self.installation.topics.produce_record(&topic, None, &[("tenant", TENANT)], record.as_bytes()).await;
    }

    /// The id of the app's only report and its body, once it has this revision.
    async fn report(&self, app: &str, revision: u32) -> (String, Value) {
        let one = |_, page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
        let list = self.client.wait_for(&format!("/v1/reports?app={app}"), EVENTUAL_TIMEOUT, one).await;
        let id = list["items"][0]["id"].as_str().expect("an id").to_owned();
        let stored = |_, report: &Value| report["symbolication"]["revision"] == revision;
        let body = self.client.wait_for(&format!("/v1/reports/{id}"), EVENTUAL_TIMEOUT, stored).await;
        (id, body)
    }

    /// The app's only group, once it is no guess any more.
    async fn group(&self, app: &str) -> Value {
        let one = |_, page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
        let path = format!("/v1/groups?app={app}&provisional=false");
        self.client.wait_for(&path, EVENTUAL_TIMEOUT, one).await["items"][0].take()
    }

    /// Sends a capture of an app with the command; its id.
    fn capture(&self, app: &str, arguments: &[&str]) -> String {
        let command = [&["capture", "send", "--app", app], arguments].concat();
        let told = tokio::task::block_in_place(|| self.installation.command_succeeds(&command));
        told.split_whitespace().next().expect("an id").to_owned()
    }

    /// The analysis of a capture in which `lacking` images of the app have no symbols.
    async fn analysis(&self, id: &str, lacking: u32) -> Value {
        let ready =
            |_, capture: &Value| capture["state"] == "ready" && capture["summary"]["lacking"] == lacking;
        self.client.wait_for(&format!("/v1/captures/{id}"), EVENTUAL_TIMEOUT, ready).await["analysis"].take()
    }

    /// Deletes what the api and the console have under the same path, and finds it gone from both.
    async fn delete(&self, path: &str) {
        let (api, console) = (format!("/v1{path}"), format!("/console{path}"));
        assert_eq!(self.console.get(&console).await.0, 200, "{console}");
        assert_eq!(self.client.delete(&api).await, 204, "{api}");
        assert_eq!((self.client.get(&api).await.0, self.console.get(&console).await.0), (404, 404), "{api}");
    }

    /// Deletes the tenant, of which no row and no object is left.
    fn delete_tenant(&self) {
        let delete = ["tenant", "delete", TENANT, "--wait", "--yes"];
        let told = tokio::task::block_in_place(|| self.installation.command_succeeds(&delete));
        for table in ["reports", "groups", "captures", "sessions", "metric_payloads", "objects"] {
            assert!(told.lines().any(|line| line.starts_with(&format!("{table}\t"))), "{table}: {told}");
        }
        assert!(told.ends_with("\nleft\t0\n"), "{told}");
    }
}

/// The names of a call tree, callers before what they call.
fn names(tree: &Value) -> Vec<&str> {
    let nodes = tree["nodes"].as_array().expect("nodes");
    nodes.iter().map(|node| node["name"].as_str().expect("a name")).collect()
}

/// A report about memory of a run of the app, with the stack of the allocations that held most of it.
fn about_memory(app: &App, number: u32, run: &str) -> Value {
    let report = app.build_report(number).set("report.run_id", run).without("crash").bytes();
    let mut report: Value = serde_json::from_slice(&report).expect("a report");
    let [leaf, caller] = app.stack();
    // All of them are return addresses.
    let frames =
        [leaf + 4, caller].map(|distance| json!({"instruction_addr": app.load_address() + distance}));
    report["stack_oom"] = json!([{"frames": frames, "size": 734_003_200, "count": 1_400}]);
    report
}

/// The functions of that stack's frames, innermost first.
fn allocating_functions(report: &Value) -> Vec<Vec<&str>> {
    let frames = report["stack_oom"][0]["frames"].as_array().expect("frames");
    let calls = frames.iter().map(|frame| frame["symbolication"]["calls"].as_array().into_iter().flatten());
    calls.map(|calls| calls.map(|call| call["function"].as_str().unwrap_or_default()).collect()).collect()
}

/// The functions of [`App::stack`] with its symbols, the outermost first.
const FUNCTIONS: [&str; 5] = ["do_work", "level_one", "level_two", "level_three", "leaf_crash"];
/// How the box of the innermost of them begins in a flame graph, and that of a function without a name.
const LEAF_BOX: &str = "<title>leaf_crash (Shop, app)";
const UNNAMED_BOX: &str = "<title>Shop + ";

#[tokio::test(flavor = "multi_thread")]
async fn each_signal_has_its_picture_and_goes_with_its_tenant() {
    let world = World::start().await;
    let signals: [LocalBoxFuture<'_, ()>; 10] = [
        Box::pin(allocation_logs::a_log_shows_who_allocated(&world)),
        Box::pin(hangs::a_hang_that_was_sampled_has_a_flame_graph(&world)),
        Box::pin(hangs::a_diagnostic_of_metric_kit_has_a_flame_graph(&world)),
        Box::pin(javascript::an_error_shows_the_line_of_its_source(&world)),
        Box::pin(jetsam_events::an_event_shows_who_was_killed(&world)),
        Box::pin(memory_graphs::a_graph_shows_classes_that_keep_memory_alive(&world)),
        Box::pin(memory_warnings::a_warning_leads_to_the_graph_of_its_run(&world)),
        Box::pin(metrics::requests_are_shown_by_host_and_phase(&world)),
        Box::pin(out_of_memory::sessions_and_a_report_say_why_the_app_ended(&world)),
        Box::pin(profiles::files_of_samples_have_a_flame_graph(&world)),
    ];
    join_all(signals).await;
    world.delete_tenant();
    world.installation.stop().await;
}
