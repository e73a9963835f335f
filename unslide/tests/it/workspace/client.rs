//! The program for build machines: it links no part of a server, and has few dependencies.

use super::layering::top;
use std::collections::BTreeSet;
use std::process::Command;

/// The maximum number of third-party packages in the program.
const MAX_THIRD_PARTY_PACKAGES: usize = 201;

/// Packages of servers. A name that ends with `-` is the beginning of several.
const SERVER_PACKAGES: [&str; 31] = [
    "rdkafka",
    "rdkafka-sys",
    "sqlx",
    "sqlx-",
    "axum",
    "axum-",
    "aws-",
    "lettre",
    "openidconnect",
    "prometheus",
    "opentelemetry",
    "opentelemetry-",
    "utoipa",
    "askama",
    "ed25519-dalek",
    "unslide-api",
    "unslide-artifacts",
    "unslide-audit",
    "unslide-builder",
    "unslide-console",
    "unslide-dev",
    "unslide-door",
    "unslide-embedded",
    "unslide-feature",
    "unslide-indexer",
    "unslide-runtime",
    "unslide-signatures",
    "unslide-site",
    "unslide-store",
    "unslide-stream",
    "unslide-symbolizer",
];

/// Returns the names and versions of the packages that a program links on this machine.
fn list_packages(program: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--package",
            program,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--offline",
            "--locked",
        ])
        // With this setting every package has the features that any other one needs.
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION")
        .current_dir(top())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let packages = tree.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    packages.filter(|package| !package.is_empty()).collect()
}

fn is_server_package(package: &str) -> bool {
    let name = package.split(' ').next().unwrap_or_default();
    SERVER_PACKAGES.iter().any(|known| match known.strip_suffix('-') {
        Some(_) => name.starts_with(known),
        None => name == *known,
    })
}

#[test]
fn the_client_links_no_part_of_a_server() {
    let packages = list_packages("unslide-client");
    let servers: Vec<&String> = packages.iter().filter(|package| is_server_package(package)).collect();
    assert!(
        servers.is_empty(),
        "`cargo tree -p unslide-client -e normal -i NAME` says which dependency needs each of {servers:?}"
    );
}

#[test]
fn the_client_has_few_third_party_packages() {
    let packages = list_packages("unslide-client");
    let third_party: Vec<&String> =
        packages.iter().filter(|package| !package.starts_with("unslide-")).collect();
    let number = third_party.len();
    assert!(number > 50, "{packages:?}");
    assert!(
        number <= MAX_THIRD_PARTY_PACKAGES,
        "{number} third-party packages are more than {MAX_THIRD_PARTY_PACKAGES}: \
         `cargo tree -p unslide-client -e normal -i NAME` says which dependency needs one of {third_party:#?}"
    );
}

#[test]
fn the_program_with_all_commands_links_servers() {
    let packages = list_packages("unslide");
    let servers: BTreeSet<&str> = packages
        .iter()
        .filter(|package| is_server_package(package))
        .filter_map(|package| package.split(' ').next())
        .collect();
    for name in ["rdkafka", "sqlx", "axum", "unslide-store"] {
        assert!(servers.contains(name), "{name}: the test above would not find it in {servers:?}");
    }
}
