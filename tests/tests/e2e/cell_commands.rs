//! `unslide cells`, and the creation of tenants in one of several cells.

use serde_json::Value;
use std::path::{Path, PathBuf};
use unslide_model::Secret;
use unslide_testkit::{databases, servers};
use unslide_tests::binary;

/// A database of a cell with its settings file.
struct CellFiles {
    database: String,
    settings: PathBuf,
}

async fn make_database(name: &str) -> String {
    let migrate = async |url| {
        unslide_store::apply_migrations(&Secret::new(url)).await.expect("migrated");
    };
    databases::create(name, "migrated", migrate).await
}

/// Makes a cell with a database, whose settings name the directory and the files of other cells.
async fn make_cell(folder: &Path, name: &str, directory: &str, others: &[(&str, &Path)]) -> CellFiles {
    let database = servers::unique(name).replace('-', "_");
    let url = make_database(&database).await;
    let settings = folder.join(format!("{name}.toml"));
    write_settings(&settings, name, &url, directory, others);
    CellFiles { database, settings }
}

fn write_settings(file: &Path, name: &str, url: &str, directory: &str, others: &[(&str, &Path)]) {
    let files: Vec<String> =
        others.iter().map(|(name, file)| format!("{name} = {:?}", file.display().to_string())).collect();
    let text = format!(
        "[postgres]\nurl = {url:?}\nany_login = true\n[kafka]\nbootstrap = '127.0.0.1:1'\ntopic_prefix = '{name}.'\n\
         [cells]\nname = '{name}'\ndirectory = {directory:?}\n[cells.files]\n{}\n",
        files.join("\n")
    );
    std::fs::write(file, text).expect("written");
}

/// Runs a command, and returns its exit code with all that it said.
fn run(cell: &CellFiles, arguments: &[&str]) -> (i32, String) {
    let mut command = binary::build_command(arguments);
    let done = command.env("UNSLIDE_CONFIG", &cell.settings).output().expect("starts");
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    (done.status.code().expect("a code"), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_commands_run_for_each_cell_and_a_name_is_given_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = servers::unique("directory").replace('-', "_");
    let url = make_database(&directory).await;
    let us = make_cell(folder.path(), "us", &url, &[]).await;
    let eu = make_cell(folder.path(), "eu", &url, &[("us", &us.settings)]).await;
    tokio::task::block_in_place(|| {
        let (code, said) = run(&eu, &["cells", "set", "eu", "--url", "http://eu:8080", "--claim-tenants"]);
        assert_eq!(code, 0, "{said}");
        let (code, said) = run(&eu, &["cells", "set", "us", "--url", "http://us:8080"]);
        assert!(code == 2 && said.contains("--topic-prefix"), "{said}");
        let prefix =
            ["cells", "set", "us", "--url", "http://us:8080", "--topic-prefix", "us.", "--region", "Ohio"];
        assert_eq!(run(&eu, &prefix).0, 0);

        // No builder runs that could announce them.
        let (code, said) = run(&eu, &["tenant", "create", "wayne", "--wait", "1s"]);
        assert!(code == 1 && said.contains("no builder has announced"), "{said}");
        let (code, said) = run(&us, &["tenant", "create", "wayne", "--wait", "1s"]);
        assert!(code == 1 && said.contains("the cell eu has a tenant of that name"), "{said}");
        assert!(!run(&us, &["tenant", "list"]).1.contains("wayne"));
        let (code, said) = run(&us, &["tenant", "create", "stark", "--wait", "1s"]);
        assert!(code == 1 && said.contains("no builder has announced"), "{said}");

        let (code, said) = run(&eu, &["cells", "list", "--json"]);
        assert_eq!(code, 0, "{said}");
        let listed: Value = serde_json::from_str(&said).expect("JSON");
        let shown = |cell: &Value| format!("{} {} {}", cell["name"], cell["tenants"], cell["topic_prefix"]);
        let shown: Vec<String> = listed.as_array().expect("a list").iter().map(shown).collect();
        assert_eq!(shown, [r#""eu" 1 "eu.""#, r#""us" 1 "us.""#]);

        let (code, said) = run(&eu, &["cells", "run", "--", "tenant", "list"]);
        assert_eq!(code, 0, "{said}");
        let places =
            ["cell eu:", "wayne", "cell us:", "stark", "2 cells: 2 done"].map(|text| said.find(text));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{said}");
        let (code, said) = run(&eu, &["cells", "run", "tenant", "show", "wayne"]);
        assert!(code == 1 && said.contains("2 cells: 1 done, 1 failed (us)"), "{said}");
        // The directory has a cell of which these settings know no file.
        let (code, said) = run(&us, &["cells", "run", "tenant", "list"]);
        assert!(code == 1 && said.contains("cell eu: cells.files has no settings of it"), "{said}");
    });
    for database in [&directory, &eu.database, &us.database] {
        databases::drop(database).await;
    }
}
