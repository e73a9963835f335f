//! A person with a browser, and an api at which they sign in.

use crate::people::provider::{CLIENT, NextToken, Provider};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_people::{Config, PeopleApiSettings, SignInSettings};
use unslide_world::{Answer, World};

/// Starts an api with an operator who allows providers on this machine.
pub async fn start_world(providers: &[&Provider]) -> World {
    start_world_on(providers.iter().map(|provider| provider.port).collect()).await
}

/// Starts an api with an operator who allows providers on these ports of this machine.
pub async fn start_world_on(ports: Vec<u16>) -> World {
    let sign_in = SignInSettings { networks: vec!["127.0.0.0/8".to_owned()], ports };
    let config = Config { api: PeopleApiSettings { public_url: String::new(), sign_in } };
    let features = [unslide_people::feature(config), unslide_console::feature()];
    World::start(unslide_feature::for_api(&features), |_| {}).await
}

/// Settings of a provider with a rule for a team and one for its leads.
pub fn settings_for(provider: &Provider) -> Value {
    json!({"issuer": provider.issuer, "client_id": CLIENT, "session_hours": 8, "rules": [
        {"group": "crash-team", "preset": "triager"}, {"group": "leads", "scopes": ["tenant:admin"]}]})
}

pub async fn put_settings(world: &World, key: &str, body: &Value) -> Answer {
    world.send(world.request(Method::PUT, "/v1/sign-in", key).json(body)).await
}

/// A browser: it keeps cookies, and follows no redirects.
pub struct Person<'w> {
    world: &'w World,
    client: Client,
    cookies: BTreeMap<String, String>,
    tenant: &'static str,
    /// How the browser says that it comes to the next page; empty as of a program.
    pub comes_from: &'static str,
}

/// A page that a person sees.
pub struct SeenPage {
    pub status: StatusCode,
    pub location: String,
    pub text: String,
}

impl Person<'_> {
    pub fn new<'w>(world: &'w World, tenant: &'static str) -> Person<'w> {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        Person { world, client, cookies: BTreeMap::new(), tenant, comes_from: "" }
    }

    pub async fn open_page(&mut self, path: &str) -> SeenPage {
        let request = self.client.get(format!("{}{path}", self.world.url));
        let request = match self.comes_from {
            "" => request,
            site => request.header("sec-fetch-site", site),
        };
        self.send_request(request).await
    }

    /// Returns the names of the cookies with a value.
    pub fn list_cookies(&self) -> Vec<&str> {
        let valued = self.cookies.iter().filter(|(_, value)| !value.is_empty());
        valued.map(|(name, _)| name.as_str()).collect()
    }

    /// Sends a form of the console's own.
    pub async fn send_form(&mut self, path: &str, fields: &[(&str, &str)]) -> SeenPage {
        let request = self.client.post(format!("{}{path}", self.world.url));
        let form = unslide_world::encode_form(fields);
        self.send_request(request.header("sec-fetch-site", "same-origin").body(form)).await
    }

    async fn send_request(&mut self, request: RequestBuilder) -> SeenPage {
        // As browsers do: the session's cookie stays away if another site leads here.
        let is_sent = |name: &str| self.comes_from != "cross-site" || !name.ends_with("unslide_console");
        let own = self.cookies.iter().filter(|(name, value)| is_sent(name) && !value.is_empty());
        let cookies: Vec<String> = own.map(|(name, value)| format!("{name}={value}")).collect();
        let answer = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        for cookie in answer.headers().get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let location = answer.headers().get("location").map(|location| location.to_str().unwrap().to_owned());
        SeenPage {
            status: answer.status(),
            location: location.unwrap_or_default(),
            text: answer.text().await.unwrap(),
        }
    }

    /// Begins a sign-in, and returns the parameters of the address at the provider.
    pub async fn begin_sign_in(&mut self, provider: &Provider) -> BTreeMap<String, String> {
        self.begin_with(provider, "").await
    }

    /// Begins a sign-in with parameters.
    pub async fn begin_with(&mut self, provider: &Provider, query: &str) -> BTreeMap<String, String> {
        let sent = self.open_page(&format!("/console/sso/{}{query}", self.tenant)).await;
        assert!(sent.location.starts_with(&format!("{}/authorize?", provider.issuer)), "{}", sent.text);
        reqwest::Url::parse(&sent.location).unwrap().query_pairs().into_owned().collect()
    }

    /// Comes back from the provider with a code.
    pub async fn return_with_code(&mut self, state: &str) -> SeenPage {
        self.open_page(&format!("/console/sso/{}/callback?code=c1&state={state}", self.tenant)).await
    }

    /// Signs in as a person of these groups.
    pub async fn sign_in(&mut self, provider: &Provider, subject: &str, groups: &[&str]) -> SeenPage {
        self.sign_in_with(provider, subject, groups, |_| {}).await
    }

    /// Signs in with a token that was changed.
    pub async fn sign_in_with(
        &mut self,
        provider: &Provider,
        subject: &str,
        groups: &[&str],
        change: impl FnOnce(&mut NextToken),
    ) -> SeenPage {
        let asked = self.begin_sign_in(provider).await;
        let mut token = provider.token_for(&asked, subject, groups);
        change(&mut token);
        provider.expect_code(token);
        self.return_with_code(&asked["state"]).await
    }

    /// Returns true if a page of the console leads to the sign-in.
    pub async fn is_signed_out(&mut self) -> bool {
        self.open_page("/console/groups").await.status == StatusCode::SEE_OTHER
    }
}

impl<'w> Person<'w> {
    /// Returns a browser with the same session and no other cookie.
    pub fn copy_session(&self) -> Person<'w> {
        let cookies = self.cookies.iter().filter(|(name, _)| name.ends_with("unslide_console"));
        let cookies = cookies.map(|(name, value)| (name.clone(), value.clone())).collect();
        Person { cookies, client: self.client.clone(), ..*self }
    }
}
