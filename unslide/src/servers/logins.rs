//! The rights of each login at Kafka, as commands of Kafka's own tool.

use crate::prelude::*;
use serde::Serialize;
use unslide_model::shell_word;
use unslide_stream::Settings;
use unslide_stream::access::{AccessRule, KafkaLogin, access_rules, passing_rules};

/// Arguments of `unslide migrate --acls`.
#[derive(Args)]
pub struct AclArguments {
    /// Print what each login needs at Kafka, as commands of Kafka's own tool with the client configuration
    /// `kafka-admin.properties`, and do nothing else
    #[arg(long, conflicts_with_all = ["topics", "recover"])]
    pub acls: bool,
    /// The principal of a service, of `migrate`, `audit`, `gateway` or `keda` [default: User:unslide-api and so on]
    #[arg(long, value_name = "NAME=PRINCIPAL", requires = "acls", value_parser = parse_principal)]
    principal: Vec<(KafkaLogin, String)>,
    /// The prefix of another cell's topics, for each cell to which tenants may move: its topics get what this cell passes on
    #[arg(long, value_name = "PREFIX", requires = "acls")]
    cell_prefix: Vec<String>,
    /// Print JSON instead of commands
    #[arg(long, requires = "acls")]
    json: bool,
}

/// Returns the login of this name.
///
/// # Errors
/// Returns the known names if there is none of this name.
pub fn parse(name: &str) -> Result<KafkaLogin, String> {
    let found = KafkaLogin::ALL.into_iter().find(|login| login.name() == name);
    let names = KafkaLogin::ALL.map(KafkaLogin::name);
    found.ok_or_else(|| format!("none of {}", names.join(", ")))
}

fn parse_principal(text: &str) -> Result<(KafkaLogin, String), String> {
    let (name, principal) = text.split_once('=').ok_or("is not NAME=PRINCIPAL, such as api=User:shop-api")?;
    let principal = principal.strip_prefix("User:").unwrap_or(principal);
    if principal.is_empty() {
        return Err("the principal is empty".to_owned());
    }
    Ok((parse(name)?, format!("User:{principal}")))
}

#[derive(Serialize)]
struct PrintedRule {
    principal: String,
    #[serde(flatten)]
    rule: AccessRule,
}

/// Prints the rules, without a connection.
pub fn print_rules(settings: &Settings, arguments: &AclArguments) -> Outcome {
    let principal = |login: KafkaLogin| {
        let chosen = arguments.principal.iter().rfind(|(chosen, _)| *chosen == login);
        chosen.map_or_else(|| format!("User:unslide-{}", login.name()), |(_, principal)| principal.clone())
    };
    let others = arguments.cell_prefix.iter().filter(|prefix| **prefix != settings.topic_prefix);
    let passing = others.flat_map(|prefix| passing_rules(settings, prefix));
    let rules = access_rules(settings).into_iter().chain(passing);
    let rules: Vec<PrintedRule> =
        rules.map(|rule| PrintedRule { principal: principal(rule.login), rule }).collect();
    if arguments.json {
        Console::get().print_json(&rules)?;
    } else {
        for PrintedRule { principal, rule } in &rules {
            say!("{}", acl_command(settings, rule, principal));
        }
    }
    Ok(Exit::Ready)
}

/// Returns the command that gives a principal the rights of a rule.
pub fn acl_command(settings: &Settings, rule: &AccessRule, principal: &str) -> String {
    let brokers: Vec<&str> = settings.bootstrap.split(',').map(str::trim).collect();
    let mut words = ["kafka-acls.sh", "--bootstrap-server", &brokers.join(",")].map(shell_word).to_vec();
    words.extend(["--command-config", "kafka-admin.properties"].map(str::to_owned));
    words.extend(rule.tool_arguments(principal).iter().map(|argument| shell_word(argument)));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use unslide_stream::access::NamePattern;

    /// The table of docs/install.md.
    fn table() -> String {
        let settings = Settings { tenant_topics: true, ..Settings::default() };
        let mut table = "| login | may | topics, groups and transactional ids |\n|---|---|---|\n".to_owned();
        for rule in access_rules(&settings) {
            let end = if rule.pattern == NamePattern::Prefixed { "*" } else { "" };
            let plural = if rule.names.len() == 1 { "" } else { "s" };
            let names: Vec<String> = rule.names.iter().map(|name| format!("`{name}{end}`")).collect();
            let operations: Vec<String> =
                rule.operations.iter().map(|operation| format!("`{}`", operation.name())).collect();
            let (login, resource) = (rule.login.name(), rule.resource.display_name());
            let _ = writeln!(
                table,
                "| {login} | {} | {resource}{plural} {} |",
                operations.join(", "),
                names.join(", ")
            );
        }
        table
    }

    fn page(name: &str) -> String {
        std::fs::read_to_string(format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn the_table_of_the_documentation_is_the_list() {
        let table = table();
        assert!(page("docs/install.md").contains(&table), "the table of logins has to be:\n{table}");
    }

    #[test]
    fn the_page_on_security_names_the_writers_of_the_list() {
        let security = page("SECURITY.md");
        let section = security.split("## Who may write to which topic").nth(1).unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let words = [("api", "the api"), ("builder", "builders"), ("symbolizer", "symbolizers")];
        let (mut named, settings) = (0, Settings::default());
        for row in rows {
            let cells: Vec<&str> = row.split('|').collect();
            for topic in cells[1].split(", ").map(|topic| topic.trim().trim_matches('`')) {
                if topic.contains('<') {
                    continue;
                }
                named += 1;
                for (login, word) in words {
                    let writes = access_rules(&settings).iter().any(|rule| {
                        rule.login.name() == login
                            && rule.names.iter().any(|name| name == topic)
                            && rule.operations.iter().any(|operation| operation.name() == "Write")
                    });
                    assert_eq!(cells[2].contains(word), writes, "{topic}: {word}");
                }
            }
        }
        assert_eq!(named, settings.topic_names().all().len());
    }

    #[test]
    fn a_command_is_one_that_kafkas_tool_and_a_shell_take() {
        let settings = Settings {
            topic_prefix: "staging.".to_owned(),
            ..Settings::single_broker("kafka-1:9092, kafka-2:9092")
        };
        let rules = access_rules(&settings);
        let printed: Vec<String> =
            rules.iter().map(|rule| acl_command(&settings, rule, "User:CN=it's")).collect();
        let start = "kafka-acls.sh --bootstrap-server kafka-1:9092,kafka-2:9092 --command-config kafka-admin.properties --add \
                     --allow-principal 'User:CN=it'\\''s' ";
        for (rule, end) in [
            ("relay", "--operation Write --transactional-id staging.unslide.relay"),
            (
                "unslide.live.",
                "--operation Write --resource-pattern-type prefixed --transactional-id staging.unslide.live. \
                 --transactional-id staging.unslide.retry. --transactional-id staging.unslide.resymbolicate.",
            ),
            (
                "--group staging.unslide.positioned",
                "--operation Describe --group staging.unslide.positioned --group staging.unslide.scan \
                 --group staging.unslide.live",
            ),
        ] {
            let command = printed.iter().find(|command| command.contains(rule)).unwrap();
            assert_eq!(command, &format!("{start}{end}"));
        }
    }

    #[test]
    fn a_principal_may_be_named_with_and_without_its_type() {
        let api = |text: &str| parse_principal(text).map(|(login, principal)| (login.name(), principal));
        assert_eq!(api("api=shop"), Ok(("api", "User:shop".to_owned())));
        assert_eq!(api("audit=User:CN=audit,O=Shop"), Ok(("audit", "User:CN=audit,O=Shop".to_owned())));
        for wrong in ["api", "api=", "api=User:", "web=User:x"] {
            assert!(parse_principal(wrong).is_err(), "{wrong}");
        }
    }
}
