//! `unslide suspects` in real repositories, before an API that answers as the test says.

use crate::api::Api;
use crate::commands::unslide;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const FIRST: &str =
    "int total(int n) {\n  int sum = n;\n  return sum;\n}\n\nint largest(int n) {\n  return n;\n}\n";

/// A repository with three commits after the first: of two functions and of another file.
struct Repository {
    folder: tempfile::TempDir,
    before: String,
    after: String,
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let person =
        ["-c", "user.name=Ada Lovelace", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"];
    let done = Command::new("git").arg("-C").arg(folder).args(person).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

impl Repository {
    fn create() -> Repository {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "--quiet"]);
        let commit = |subject: &str, author: &str, file: &str, text: &str| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            git(folder.path(), &["add", "."]);
            git(folder.path(), &["commit", "--quiet", "--author", author, "-m", subject]);
            git(folder.path(), &["rev-parse", "HEAD"])
        };
        let ada = "Ada Lovelace <ada@example.com>";
        let before = commit("Add the cart", ada, "Sources/cart.c", FIRST);
        let edited = FIRST.replace("  int sum = n;", "  int sum = n;\n  sum -= sum / 10;");
        commit("Take a tenth off", "Grace Hopper <grace@example.com>", "Sources/cart.c", &edited);
        let other = edited.replace("  return n;", "  return n + 1;");
        commit("Count from one", "Alan Turing <alan@example.com>", "Sources/cart.c", &other);
        let after = commit("Say more", ada, "README.md", "A shop\n");
        Repository { folder, before, after }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// The answer about a bug with `total` in its stack, edited, and `largest`, which is called the same.
    fn changes(&self, file: &str, path: Option<&str>) -> Value {
        let function = |name: &str, state: &str, lines: [u32; 2]| {
            json!({"name": name, "state": state, "text": format!("`{name}` {state}."), "file": file, "line": lines[0],
                "last_line": lines[1], "lines_more": 1})
        };
        let files: Vec<Value> = path.iter().map(|path| json!({"file": file, "path": path})).collect();
        json!({
            "group": "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10", "text": "`total` changed in 2.4.1.", "version": "2.4.1",
            "version_before": "2.4.0", "app": "com.example.shop", "outcome": "compared", "not_compared": [],
            "images": [{
                "name": "Shop", "functions": [function("total", "changed", [1, 4]), function("largest", "same", [7, 8])],
                "commits": {"before": {"commit": self.before}, "after": {"commit": self.after}, "files": files,
                    "compare_url": "https://github.com/example/shop/compare/a...b"},
            }],
        })
    }
}

/// Runs the command before an API with this answer: exit code, standard output, standard error.
fn run_suspects(answer: &Value, checkout: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let (changes, groups) = (answer.to_string(), json!({"items": [{"short_id": "SHOP-1A2B"}]}).to_string());
    let api = Api::start(move |line| match line.split_once(' ').unwrap() {
        ("GET", "/v1/groups/SHOP-1A2B/changes") => (200, changes.clone()),
        ("GET", path) if path.starts_with("/v1/groups?app=com.example.shop&new_in=2.4.1&") => {
            (200, groups.clone())
        }
        _ => (404, r#"{"title":"Not found"}"#.to_owned()),
    });
    let arguments = [&["suspects", "--checkout", checkout.to_str().unwrap()], more].concat();
    let done = unslide(&arguments, &[("UNSLIDE_URL", &api.url), ("UNSLIDE_API_KEY", "x")]);
    // Nothing of the checkout is sent.
    assert!(api.asked().iter().all(|asked| asked.line.starts_with("GET ") && asked.body.is_empty()));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn the_commit_that_changed_the_function_is_named_with_its_author_and_no_other() {
    let repository = Repository::create();
    // Below a folder of another machine, and where the upload has named the root.
    for (file, path) in [("/Users/ci/work/Sources/cart.c", None), ("/ci/x.c", Some("Sources/cart.c"))] {
        let changes = repository.changes(file, path);
        let (code, output, error) =
            run_suspects(&changes, &repository.path().join("Sources"), &["SHOP-1A2B"]);
        assert_eq!(code, Some(0), "{error}");
        assert!(output.contains("Grace Hopper <grace@example.com>: Take a tenth off"), "{output}");
        assert!(output.contains("total (Sources/cart.c:1)") && output.contains("compare/a...b"), "{output}");
        for other in ["Alan Turing", "Ada Lovelace", "largest"] {
            assert!(!output.contains(other), "{other}: {output}");
        }
    }
    let changes = repository.changes("/Users/ci/work/Sources/cart.c", None);
    let since = ["--since", "2.4.1", "--app", "com.example.shop", "--json"];
    let (code, output, error) = run_suspects(&changes, &repository.path(), &since);
    assert_eq!(code, Some(0), "{error}");
    let found: Value = serde_json::from_str(&output).unwrap();
    let function = &found["groups"][0]["images"][0]["functions"][0];
    assert_eq!(function["commits"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(function["commits"][0]["author"], "Grace Hopper");
    assert_eq!(function["commits"][0]["email"], "grace@example.com");
}

#[test]
fn a_shallow_checkout_is_told_what_to_do() {
    let repository = Repository::create();
    let shallow = tempfile::tempdir().unwrap();
    let source = format!("file://{}", repository.path().display());
    git(shallow.path(), &["clone", "--quiet", "--depth", "1", &source, "."]);
    let changes = repository.changes("/Users/ci/work/Sources/cart.c", None);
    let (code, output, error) = run_suspects(&changes, shallow.path(), &["SHOP-1A2B"]);
    assert_eq!(code, Some(3), "{error}");
    let said = format!("the commit {} is not in the checkout: run git fetch --unshallow", repository.before);
    assert!(output.contains(&said), "{output}");
    git(shallow.path(), &["fetch", "--quiet", "--unshallow"]);
    let (code, output, _) = run_suspects(&changes, shallow.path(), &["SHOP-1A2B"]);
    assert!(code == Some(0) && output.contains("Grace Hopper"), "{output}");
    let outside = tempfile::tempdir().unwrap();
    let (code, _, error) = run_suspects(&changes, outside.path(), &["SHOP-1A2B"]);
    assert!(code == Some(1) && error.contains("is in no checkout that git can read"), "{error}");
}

#[test]
fn an_answer_cannot_make_git_run_or_read_something_else() {
    let repository = Repository::create();
    let marker = repository.path().join("marker");
    let commits = [format!("--output={}", marker.display()), "HEAD".to_owned()];
    for commit in commits {
        let mut changes = repository.changes("/Users/ci/work/Sources/cart.c", None);
        changes["images"][0]["commits"]["after"]["commit"] = commit.into();
        let (code, output, _) = run_suspects(&changes, &repository.path(), &["SHOP-1A2B"]);
        assert!(code == Some(0) && output.contains("no upload named the commits of both builds"), "{output}");
    }
    for path in ["../../etc/passwd", "/etc/passwd", "-x", "Sources/no.c"] {
        let changes = repository.changes("/Users/ci/work/other.c", Some(path));
        let (code, output, _) = run_suspects(&changes, &repository.path(), &["SHOP-1A2B"]);
        assert!(
            code == Some(0) && output.contains("no file of the repository has its path"),
            "{path}: {output}"
        );
    }
    assert!(!marker.exists());
    // A program that the repository's own settings name is not started.
    let hook = format!("touch {}", marker.display());
    for setting in ["core.fsmonitor", "diff.external", "core.pager", "gpg.program"] {
        git(&repository.path(), &["config", setting, &hook]);
    }
    git(&repository.path(), &["config", "log.showSignature", "true"]);
    let changes = repository.changes("/Users/ci/work/Sources/cart.c", None);
    let (_, output, error) = run_suspects(&changes, &repository.path(), &["SHOP-1A2B"]);
    assert!(output.contains("Grace Hopper"), "{output}{error}");
    assert!(!marker.exists(), "git started a program of the repository");
    // Lines that the file does not have.
    let mut long = repository.changes("/Users/ci/work/Sources/cart.c", None);
    long["images"][0]["functions"][0]["line"] = 5_000.into();
    let (code, output, _) = run_suspects(&long, &repository.path(), &["SHOP-1A2B"]);
    assert!(code == Some(0) && output.contains("git cannot follow its lines"), "{output}");
}
