//! The console as a browser sees it.

use crate::{Answer, World};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use std::collections::BTreeSet;
use std::time::Duration;

/// A browser without a memory: it follows no redirect and keeps no cookie.
pub struct Browser<'w> {
    /// The api that it talks to.
    pub world: &'w World,
    client: reqwest::Client,
    /// The cookie; empty for none.
    pub cookie: String,
}

impl<'w> Browser<'w> {
    /// One without a cookie.
    pub fn new(world: &'w World) -> Browser<'w> {
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .timeout(Duration::from_secs(60))
            .build()
            .unwrap();
        Browser { world, client, cookie: String::new() }
    }

    /// The same with a cookie.
    pub fn with_cookie(world: &'w World, cookie: &str) -> Browser<'w> {
        Browser { cookie: cookie.to_owned(), ..Browser::new(world) }
    }

    /// One that has signed in with a key.
    pub async fn signed_in(world: &'w World, key: &str) -> Browser<'w> {
        let mut browser = Browser::new(world);
        let answer = browser.sign_in(key, "").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        browser
    }

    /// Sends the form of the sign-in.
    pub async fn sign_in(&self, key: &str, next: &str) -> Answer {
        let form = encode_form(&[("key", key), ("name", "Robin"), ("next", next)]);
        self.post("/console/sign-in", form).await
    }

    /// The text of a page.
    pub async fn fetch_page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        answer.text
    }

    /// Sends a form without fields, which leads to another page.
    pub async fn submit_form(&self, path: &str) {
        redirect_location(&self.post(path, String::new()).await);
    }

    /// Asks for a page.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a form of the console's own.
    pub async fn post(&self, path: &str, body: String) -> Answer {
        self.send(self.request(Method::POST, path).header("sec-fetch-site", "same-origin").body(body)).await
    }

    /// A request with the cookie.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.world.url));
        if self.cookie.is_empty() { request } else { request.header("cookie", &self.cookie) }
    }

    /// Sends a request, and checks what holds for every answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = self.world.send(request).await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(answer.headers[name], value, "{name}");
        }
        for inline in [" style=", "<style", " onclick=", "javascript:"] {
            assert!(!answer.text.contains(inline), "{inline} in {}", answer.text);
        }
        answer
    }
}

/// The body of a form.
pub fn encode_form(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Returns the path that an answer redirects to.
pub fn redirect_location(answer: &Answer) -> &str {
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    answer.headers["location"].to_str().unwrap()
}

/// Every address that a page leads to.
pub fn list_links(page: &str) -> BTreeSet<String> {
    let attributes = ["href=\"", "action=\"", "src=\"", "data-copy-from=\""];
    let found = attributes.iter().flat_map(|attribute| page.split(attribute).skip(1));
    let found = found.filter_map(|rest| rest.split('"').next()).filter(|link| link.starts_with('/'));
    let found = found.map(|link| link.replace("&amp;", "&").replace("&#38;", "&"));
    found.map(|link| link.split('#').next().unwrap().to_owned()).collect()
}
