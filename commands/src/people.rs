//! `unslide sso`: the identity provider of a tenant.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use unslide_cli::listing::{ListForm, Listing, item_text};
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, read_secret, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("people")
};

/// The settings in the API.
const SIGN_IN_PATH: &str = "/v1/sign-in";

/// Entries of the list of people.
const PEOPLE_LIMIT: usize = 50;

/// Set, show or remove the identity provider at which people sign in, or list these people
#[derive(Parser)]
#[command(
    name = "sso",
    after_help = "\
The key needs the scope tenant:admin, and each scope that a rule gives.

Examples:
  unslide sso set --issuer https://login.example.com --client-id unslide --rule crash-team=triager --rule '*=reader'
  unslide sso set --issuer https://login.example.com --client-id unslide --client-secret-stdin --rule admins=tenant:admin,reports:read < secret
  unslide sso set --issuer https://login.example.com/realms/acme --client-id unslide --rule /crash-team=triager
  unslide sso people

`show` says why the last sign-ins failed. A group of a rule is written as the provider writes it: Keycloak writes paths such as
/crash-team.

After a person has left, revoke their key with Revoke on the page Keys, or DELETE /v1/keys/KEY?cascade=true. That ends their
sessions, and revokes the keys that they made."
)]
struct Arguments {
    #[command(subcommand)]
    command: SsoCommand,
}

#[derive(Subcommand)]
enum SsoCommand {
    /// Set the identity provider, and which groups have which scopes
    Set(Box<SetArguments>),
    /// Show the identity provider, without its secret
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// List the people who have signed in, with the keys that they act by
    People {
        #[command(flatten)]
        server: ApiServer,
        #[command(flatten)]
        form: ListForm,
    },
    /// Remove the identity provider. The sessions of its people end; on a terminal it asks first
    Remove {
        #[command(flatten)]
        server: ApiServer,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
struct SetArguments {
    #[command(flatten)]
    server: ApiServer,
    /// URL of the issuer
    #[arg(long)]
    issuer: String,
    /// The client as the provider knows it
    #[arg(long)]
    client_id: String,
    /// Read the client's secret from standard input. Without it, the secret of the same issuer and client stays
    #[arg(long)]
    client_secret_stdin: bool,
    /// The client has no secret
    #[arg(long, conflicts_with = "client_secret_stdin")]
    public_client: bool,
    /// The claim of tokens that names a person's groups; a dot leads into an object, as in realm_access.roles
    #[arg(long, default_value = "groups")]
    group_claim: String,
    /// The claim of tokens with the externalId of users that come by SCIM, such as oid of Microsoft Entra [default: sub]
    #[arg(long, value_name = "CLAIM")]
    directory_claim: Option<String>,
    /// The groups that come by SCIM decide, and not those of tokens
    #[arg(long)]
    directory_groups: bool,
    /// The provider leads people back after a sign-out there; its client needs the address that `show` names
    #[arg(long)]
    return_after_sign_out: bool,
    /// A scope to request, besides `openid`; several times for several. Without it, the provider's document decides
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Option<Vec<String>>,
    /// A group, and the preset or scopes of its members, such as crash-team=triager; `*` is every person
    #[arg(long = "rule", value_name = "GROUP=PRESET|SCOPES", required = true)]
    rules: Vec<String>,
    /// Hours from a sign-in to the end of its session
    #[arg(long, default_value_t = 12)]
    session_hours: u32,
    /// Set it even if the provider's document cannot be read now
    #[arg(long)]
    force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            SsoCommand::Set(set) => set_provider(&set).await,
            SsoCommand::Show { server, json } => {
                let state: Value = Client::new(&server)?.get(SIGN_IN_PATH).await?;
                print_state(&state, json)
            }
            SsoCommand::People { server, form } => {
                form.print_list(people_list(), &Client::new(&server)?).await
            }
            SsoCommand::Remove { server, yes } => {
                confirm_action("This ends the sessions of all people who signed in at the provider.", yes)?;
                Client::new(&server)?.delete(SIGN_IN_PATH).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

fn people_list() -> Listing<6> {
    Listing {
        path: "/v1/people",
        query: Vec::new(),
        limit: PEOPLE_LIMIT,
        head: &["KEY", "NAME", "SUBJECT", "LAST SIGN-IN", "KEYS MADE", "STATE"],
        row: |person| {
            let state = if person["revoked_at"].is_null() { "in force" } else { "revoked" };
            [
                item_text(person, "key_id"),
                item_text(person, "name"),
                item_text(person, "subject"),
                item_text(person, "last_sign_in_at"),
                person["keys_in_force"].to_string(),
                state.to_owned(),
            ]
        },
        empty: "no one has signed in yet",
    }
}

async fn set_provider(arguments: &SetArguments) -> Outcome {
    let rules = arguments.rules.iter().map(|rule| parse_rule(rule));
    let rules: Vec<Value> = rules.collect::<Result<_, _>>()?;
    let mut body = json!({
        "issuer": arguments.issuer,
        "client_id": arguments.client_id,
        "group_claim": arguments.group_claim,
        "directory_groups": arguments.directory_groups,
        "return_after_sign_out": arguments.return_after_sign_out,
        "rules": rules,
        "session_hours": arguments.session_hours,
        "force": arguments.force,
    });
    if let Some(claim) = &arguments.directory_claim {
        body["directory_claim"] = json!(claim);
    }
    if let Some(scopes) = &arguments.scopes {
        body["scopes"] = json!(scopes);
    }
    if arguments.client_secret_stdin {
        body["client_secret"] = read_secret("Client secret")?.reveal().into();
    } else if arguments.public_client {
        body["client_secret"] = "".into();
    }
    let state: Value = Client::new(&arguments.server)?.put(SIGN_IN_PATH, &body).await?;
    print_state(&state, arguments.json)
}

/// Reads a rule such as `crash-team=triager` or `admins=tenant:admin,reports:read`.
fn parse_rule(text: &str) -> Result<Value, CommandError> {
    let Some((group, granted)) = text.rsplit_once('=') else {
        return Err(CommandError::usage(format!("--rule {text}: write a group, =, and a preset or scopes")));
    };
    if granted.contains(':') {
        let scopes: Vec<&str> = granted.split(',').map(str::trim).collect();
        return Ok(json!({ "group": group, "scopes": scopes }));
    }
    Ok(json!({ "group": group, "preset": granted }))
}

fn print_state(state: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(state)?;
        return Ok(Exit::Ready);
    }
    let provider = &state["provider"];
    if provider.is_null() {
        say!("the tenant has no identity provider: `unslide sso set` sets one");
        return Ok(Exit::Ready);
    }
    say!("issuer         {}", item_text(provider, "issuer"));
    say!("client         {}", item_text(provider, "client_id"));
    say!("group claim    {}", item_text(provider, "group_claim"));
    say!("directory      externalId is the claim {}", provider["directory_claim"].as_str().unwrap_or("sub"));
    if provider["directory_groups"] == true {
        say!("groups         those that come by SCIM");
    }
    let scopes: Vec<&str> = list_texts(&provider["scopes"]).filter(|scope| *scope != "openid").collect();
    let scopes = match provider["scopes"].as_array() {
        Some(_) => format!("openid {}", scopes.join(" ")),
        None => {
            "openid, and profile and the group claim as far as the provider's document names them".to_owned()
        }
    };
    say!("scopes         {scopes}");
    say!("session        {} hours", provider["session_hours"]);
    say!("people open    {} at the address of the console", item_text(state, "sign_in_path"));
    say!("redirect URI   {} at the address of the console", item_text(state, "callback_path"));
    say!(
        "sign-outs      {} at the address of the console (back-channel logout)",
        item_text(state, "sign_out_notice_path")
    );
    let is_led_back =
        if provider["return_after_sign_out"] == true { "" } else { ", if --return-after-sign-out is set" };
    say!("signed out     {} at the address of the console{is_led_back}", item_text(state, "signed_out_path"));
    for rule in provider["rules"].as_array().into_iter().flatten() {
        let scopes: Vec<&str> = list_texts(&rule["scopes"]).collect();
        let granted = rule["preset"].as_str().map_or_else(|| scopes.join(","), str::to_owned);
        say!("rule           {}: {granted}", item_text(rule, "group"));
    }
    if let Some(problem) = state["problem"].as_str() {
        say!("problem        people cannot sign in now: {problem}");
    }
    for failure in state["failures"].as_array().into_iter().flatten() {
        let [at, outcome, reason] = ["at", "outcome", "reason"].map(|member| item_text(failure, member));
        let subject = failure["subject"].as_str().map(|subject| format!(" {subject}")).unwrap_or_default();
        say!("failed         {at} {outcome}{subject}: {reason}");
    }
    Ok(Exit::Ready)
}

fn list_texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_preset_or_scopes() {
        let rule = |text: &str| parse_rule(text).ok();
        assert_eq!(rule("crash-team=triager"), Some(json!({"group": "crash-team", "preset": "triager"})));
        let scopes = json!({"group": "a=b", "scopes": ["tenant:admin", "reports:read"]});
        assert_eq!(rule("a=b=tenant:admin, reports:read"), Some(scopes));
        assert_eq!(rule("crash-team"), None);
    }
}
