//! An installation whose people sign in at an identity provider, and an assistant that asks them for access.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use unslide_mcp::Config;
use unslide_model::Scope;
use unslide_world::{Answer, Browser, World, encode_form};

/// The address by which the installation names itself.
pub const SERVICE: &str = "https://crashes.example.com";
/// Where the assistant waits for its code.
pub const REDIRECT: &str = "http://127.0.0.1:7777/callback";

/// Starts an api with these settings, and the console.
pub async fn start_world(mut config: Config) -> World {
    config.api.public_url = SERVICE.to_owned();
    let features = [unslide_mcp::feature(config), unslide_console::feature()];
    Box::pin(World::start(unslide_feature::for_api(&features), |_| {})).await
}

/// Starts an api on which the people of both tenants sign in at an identity provider.
pub async fn start_with_sign_in() -> World {
    let world = Box::pin(start_world(Config::default())).await;
    for tenant in ["acme", "umbrella"] {
        set_provider(&world, tenant).await;
    }
    world
}

/// Sets the identity provider of a tenant.
pub async fn set_provider(world: &World, tenant: &str) {
    let statement = format!(
        "INSERT INTO sign_in_providers (tenant, issuer, client_id, client_secret, group_claim, rules, session_hours, changed_at)
         VALUES ('{tenant}', 'https://login.example.com', 'unslide', '', 'groups', '[]', 8, now())"
    );
    world.execute(&statement).await;
}

/// A key of a person who reads and changes groups.
pub async fn person_key(world: &World, tenant: &str) -> String {
    world.create_key(tenant, &[Scope::ReportsRead, Scope::GroupsWrite]).await
}

/// An assistant that has registered.
pub struct Assistant<'w> {
    pub world: &'w World,
    pub id: String,
    pub redirect: String,
    pub verifier: String,
    pub resource: String,
}

/// The tokens of an assistant.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub access: String,
    pub refresh: String,
    pub scope: String,
}

impl Tokens {
    pub fn read(answer: Answer) -> Tokens {
        assert_eq!(answer.headers["cache-control"], "no-store");
        let json = answer.expect_status(200);
        assert_eq!(json["token_type"], "Bearer");
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        Tokens { access: text("access_token"), refresh: text("refresh_token"), scope: text("scope") }
    }
}

/// Sends a form as a client does it.
pub async fn send_form(world: &World, path: &str, fields: &[(&str, &str)]) -> Answer {
    let request =
        world.request(Method::POST, path, "").header("content-type", "application/x-www-form-urlencoded");
    world.send(request.body(encode_form(fields))).await
}

/// Checks that a request of a client was refused with an error of OAuth.
pub fn expect_refusal(answer: Answer, error: &str) {
    let json = answer.expect_status(400);
    assert_eq!(json["error"], error, "{json}");
}

/// Sends a message to a resource.
pub async fn send_message(world: &World, path: &str, token: &str, method: &str) -> Answer {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
    let request = world.request(Method::POST, path, token).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    world.send(request.body(message.to_string())).await
}

/// Returns the status of a message to `/mcp/acme`.
pub async fn message_status(world: &World, token: &str) -> u16 {
    send_message(world, "/mcp/acme", token, "tools/list").await.status.as_u16()
}

pub async fn register(world: &World, body: &Value) -> Answer {
    world.post_json("/oauth/register", "", body).await
}

impl<'w> Assistant<'w> {
    pub async fn register(world: &'w World) -> Assistant<'w> {
        let body = json!({"client_name": "Editor", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_post",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"]});
        let made = register(world, &body).await.expect_status(201);
        assert_eq!(made["token_endpoint_auth_method"], "none");
        assert!(made.get("client_secret").is_none(), "{made}");
        Assistant {
            world,
            id: made["client_id"].as_str().unwrap().to_owned(),
            redirect: REDIRECT.to_owned(),
            verifier: "a".repeat(43),
            resource: format!("{SERVICE}/mcp/acme"),
        }
    }

    /// Returns the parameters with which the browser comes.
    pub fn parameters(&self) -> BTreeMap<&'static str, String> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier));
        BTreeMap::from([
            ("response_type", "code".to_owned()),
            ("client_id", self.id.clone()),
            ("redirect_uri", self.redirect.clone()),
            ("state", "s&1".to_owned()),
            ("scope", "reports:read groups:write offline_access".to_owned()),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256".to_owned()),
            ("resource", self.resource.clone()),
        ])
    }

    /// Returns the path of the page with the consent.
    pub fn consent_path(&self) -> String {
        format!("/console/oauth/authorize?{}", encode(&self.parameters()))
    }

    /// Decides as a person, and returns the address that leads back to the assistant.
    pub async fn decide(&self, browser: &Browser<'_>, decision: &str, changes: bool) -> Url {
        let query = encode(&self.parameters());
        let mut fields = vec![("request", query.as_str()), ("decision", decision)];
        if changes {
            fields.push(("change", "yes"));
        }
        let answer = browser.post("/console/oauth/authorize", encode_form(&fields)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let link = answer.text.split("0;url=").nth(1).and_then(|rest| rest.split('"').next());
        Url::parse(&link.unwrap().replace("&#38;", "&").replace("&amp;", "&")).unwrap()
    }

    /// Has a person allow the access, and returns the code.
    pub async fn get_code(&self, browser: &Browser<'_>, changes: bool) -> String {
        let back = self.decide(browser, "allow", changes).await;
        assert!(back.as_str().starts_with(&format!("{}?", self.redirect)), "{back}");
        let answer: BTreeMap<String, String> = back.query_pairs().into_owned().collect();
        assert_eq!((answer["iss"].as_str(), answer["state"].as_str()), (SERVICE, "s&1"));
        answer["code"].clone()
    }

    /// Exchanges a code.
    pub async fn exchange(&self, code: &str) -> Answer {
        self.exchange_with(code, &[]).await
    }

    /// Exchanges a code with some fields changed; an empty value leaves the field out.
    pub async fn exchange_with(&self, code: &str, changed: &[(&'static str, &str)]) -> Answer {
        let mut fields = BTreeMap::from([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("client_id", &self.id),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &self.verifier),
            ("resource", &self.resource),
        ]);
        fields.extend(changed.iter().copied());
        let fields: Vec<(&str, &str)> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        send_form(self.world, "/oauth/token", &fields).await
    }

    pub async fn refresh(&self, token: &str) -> Answer {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token),
            ("client_id", &self.id),
            ("resource", &self.resource),
        ];
        send_form(self.world, "/oauth/token", &fields).await
    }

    /// Has a person allow the access, and returns tokens.
    pub async fn get_tokens(&self, browser: &Browser<'_>, changes: bool) -> Tokens {
        let code = self.get_code(browser, changes).await;
        Tokens::read(self.exchange(&code).await)
    }
}

/// Encodes parameters as a query.
pub fn encode(parameters: &BTreeMap<&'static str, String>) -> String {
    let pairs: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    encode_form(&pairs)
}
