//! The commit of a build, from its upload to the suspects of a bug.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::IN_BUNDLE;
use unslide_tests::installation::{Installation, TENANT};

const SOURCE: &str = "
extern void show(int value);
__attribute__((noinline)) int discounted(int price) {
  int cut = price / 10;
  return price - cut;
}
__attribute__((noinline)) int largest(const int *prices, int count) {
  int best = 0;
  for (int i = 0; i < count; i++)
    if (prices[i] > best)
      best = prices[i];
  return best;
}
__attribute__((noinline)) int cart_total(const int *prices, int count) {
  int sum = 0;
  for (int i = 0; i < count; i++)
    sum += discounted(prices[i]);
  return sum;
}
__attribute__((noinline)) void cart_clear(int *prices, int count) {
  for (int i = 0; i < count; i++)
    prices[i] = 0;
}
__attribute__((noinline)) void cart_show(const int *prices, int count) {
  show(largest(prices, count));
  show(count);
}
int cart_open(int *prices, int count) {
  cart_show(prices, count);
  int total = cart_total(prices, count);
  show(total);
  cart_clear(prices, count);
  return total;
}
";
/// Load address of the program.
const LOAD: u64 = 0x1_0750_0000;

/// A build of the app, with the commit that it was made of.
struct Build {
    commit: String,
    dsym: std::path::PathBuf,
    symcache: SymCache,
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let person =
        ["-c", "user.name=Ada Lovelace", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"];
    let done = Command::new("git").arg("-C").arg(folder).args(person).args(arguments).output().expect("git");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn commit_source(repository: &Path, author: &str, subject: &str, source: &str) -> String {
    std::fs::create_dir_all(repository.join("Sources")).expect("a folder");
    std::fs::write(repository.join("Sources/shop.c"), source).expect("written");
    git(repository, &["add", "Sources"]);
    git(repository, &["commit", "--quiet", "--author", author, "-m", subject]);
    git(repository, &["rev-parse", "HEAD"])
}

/// Builds the sources of a repository as they are now.
fn build_app(repository: &Path, commit: String, folder: &Path) -> Build {
    let dsym = folder.join("Shop.dSYM/Contents/Resources/DWARF/Shop");
    std::fs::create_dir_all(dsym.parent().expect("a folder")).expect("a folder");
    let run = |tool: &str, arguments: &[&str]| {
        let program = fixtures::find_tool(tool);
        fixtures::run(Command::new(program).current_dir(repository).args(arguments));
    };
    let object = folder.join("shop.o");
    let image = folder.join("Image");
    let [object, image] = [&object, &image].map(|path| path.to_str().expect("UTF-8"));
    let target = ["-target", "arm64-apple-ios14.0", "-g", "-O1", "-c", "Sources/shop.c", "-o", object];
    run("clang-19", &target);
    let library = fixtures::recipe().join("src/libSystem.tbd");
    let link = [
        "-arch",
        "arm64",
        "-platform_version",
        "ios",
        "14.0",
        "14.0",
        "-dylib",
        "-install_name",
        "@rpath/Shop",
    ];
    let rest = [
        "-undefined",
        "dynamic_lookup",
        "-no_adhoc_codesign",
        library.to_str().expect("UTF-8"),
        object,
        "-o",
        image,
    ];
    run("ld64.lld-19", &[&link[..], &rest].concat());
    run("dsymutil-19", &["-f", "-o", dsym.to_str().expect("UTF-8"), image]);
    let bytes = std::fs::read(&dsym).expect("a dSYM");
    let range = object::list_objects(&bytes).expect("an object").remove(0).range;
    let built = object::build_symcache(&bytes[range]).expect("a symcache");
    Build { commit, dsym, symcache: SymCache::parse(built.symcache).expect("a symcache") }
}

/// A report of a crash in `crashed`, called by `cart_open`.
fn build_report(id: &str, version: &str, build: &Build, crashed: &str) -> String {
    let address = |function: &str| {
        let mut ranges = build.symcache.ranges();
        let start = ranges.find_map(|(start, answer)| {
            (answer?.calls().next()?.function.decode() == function).then_some(start.0)
        });
        LOAD + start.expect(function)
    };
    let frames = [address(crashed), address("cart_open") + 8];
    let report = json!({
        "report": {"id": id, "version": "3.6.0"},
        "system": {"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": version},
        "binary_images": [{"name": IN_BUNDLE, "image_addr": LOAD, "image_size": 0x8000,
            "uuid": build.symcache.debug_id().to_string(), "cpu_type": 16_777_228, "cpu_subtype": 0}],
        "crash": {
            "error": {"type": "mach", "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1}},
            "threads": [{"index": 0, "crashed": true,
                "backtrace": {"contents": frames.map(|frame| json!({"instruction_addr": frame})), "skipped": 0}}],
        },
    });
    report.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_author_of_the_change_is_named_from_uploads_and_reports_of_two_builds() {
    let installation = Installation::start().await;
    let client = installation.client();
    let folder = tempfile::tempdir().expect("a folder");
    let repository = folder.path().join("repository");
    std::fs::create_dir(&repository).expect("a folder");
    git(&repository, &["init", "--quiet"]);
    let commit = commit_source(&repository, "Ada Lovelace <ada@example.com>", "Add the cart", SOURCE);
    let before = build_app(&repository, commit, &folder.path().join("2.4.0"));
    let capped = SOURCE.replace("price / 10;\n", "price / 10;\n  if (cut > 50)\n    cut = 50;\n");
    commit_source(&repository, "Grace Hopper <grace@example.com>", "Cap the discount", &capped);
    let cleared = capped.replace("    prices[i] = 0;", "    prices[i] = -1;");
    let commit =
        commit_source(&repository, "Alan Turing <alan@example.com>", "Mark what is cleared", &cleared);
    let after = build_app(&repository, commit, &folder.path().join("2.4.1"));

    let input = installation.topic_name("crash.reports");
    for (number, (version, build, crashed)) in
        [("2.4.0", &before, "largest"), ("2.4.1", &after, "discounted")].into_iter().enumerate()
    {
        let (code, output, error) = installation.run_command(&[
            "upload",
            "--commit",
            &build.commit,
            "--repository",
            "https://github.com/example/shop",
            build.dsym.to_str().expect("UTF-8"),
        ]);
        assert!(code == 0 && output.contains("is kept with 1 build"), "{output}{error}");
        let id = format!("00000000-0000-4000-8000-00000000000{number}");
        let report = build_report(&id, version, build, crashed);
        installation.topics.produce_record(&input, None, &[("tenant", TENANT)], report.as_bytes()).await;
        client.wait_for(&format!("/v1/reports/{id}"), EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    }
    let groups = "/v1/groups?app=com.example.shop&new_in=2.4.1";
    let found = client.wait_for(groups, EVENTUAL_TIMEOUT, |_, body| body["items"][0]["id"].is_string()).await;
    let group = found["items"][0]["id"].as_str().expect("an id");
    let (_, changes) = client.get(&format!("/v1/groups/{group}/changes")).await;
    let compare = format!("https://github.com/example/shop/compare/{}...{}", before.commit, after.commit);
    assert_eq!(changes["images"][0]["commits"]["compare_url"], Value::from(compare.as_str()), "{changes}");
    // The group as Markdown has the link, and so has a ticket.
    let (_, text) = client.get_text(&format!("/v1/groups/{group}?format=markdown")).await;
    assert!(text.contains(&format!("({compare})")), "{text}");

    let checkout = repository.to_str().expect("UTF-8");
    let suspects = installation.command_succeeds(&["suspects", group, "--checkout", checkout]);
    assert!(suspects.contains("Grace Hopper <grace@example.com>: Cap the discount"), "{suspects}");
    assert!(suspects.contains(&compare) && suspects.contains("discounted (Sources/shop.c:"), "{suspects}");
    assert!(!suspects.contains("Alan Turing") && !suspects.contains("Ada Lovelace"), "{suspects}");
    installation.stop().await;
}
