//! The console as a browser without script has it.

use reqwest::redirect::Policy;
use std::time::Duration;

/// A user who has signed in to the console. No redirect is followed.
pub struct Browser {
    http: reqwest::Client,
    url: String,
    cookie: String,
}

impl Browser {
    /// Signs in to the console of the api at `url` with an API key.
    ///
    /// # Panics
    /// If the key is refused.
    pub async fn sign_in(url: &str, key: &str) -> Browser {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(Duration::from_secs(300)).redirect(Policy::none());
        let http = http.build().expect("a client");
        let request = http.post(format!("{url}/console/sign-in")).header("sec-fetch-site", "same-origin");
        let answer = request.body(format!("key={key}&name=Robin&next=")).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 303, "the console refuses the key");
        let cookie = answer.headers()["set-cookie"].to_str().expect("a cookie");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Browser { http, url: url.to_owned(), cookie }
    }

    /// GETs a page; the status and the HTML.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let request = self.http.get(format!("{}{path}", self.url)).header("cookie", &self.cookie);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    /// GETs a page that has all of these texts, and returns its HTML.
    ///
    /// # Panics
    /// If it is not found or lacks one of them.
    pub async fn page_with(&self, path: &str, texts: &[&str]) -> String {
        let (status, html) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {html}");
        for text in texts {
            assert!(html.contains(text), "{path} lacks {text}: {html}");
        }
        html
    }
}
