//! A small identity provider. It signs tokens with a real key, and checks the code and the verifier as providers do.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use openidconnect::core::{
    CoreEdDsaPrivateSigningKey, CoreHmacKey, CoreJsonWebKeySet, CoreJwsSigningAlgorithm,
};
use openidconnect::{JsonWebKeyId, PrivateSigningKey};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use unslide_model::{Clock, SystemClock};

/// A key for these tests alone.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPWLI2m6vJxspbO9iF4BVJ1QUnB7qd5QtuSDueT7KO8i\n-----END PRIVATE KEY-----\n";
/// Another one, which the provider does not publish before it changes its keys.
const FOREIGN_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n";
/// The client of the tests.
pub const CLIENT: &str = "unslide";

/// How a token is signed.
#[derive(Clone, Copy, Debug)]
pub enum Signing {
    /// With the key that the provider publishes.
    Published,
    /// With another key of the same kind.
    Foreign,
    /// Not at all.
    Unsigned,
    /// As if the published key were a shared secret.
    PublicKeyAsSecret,
}

/// The next token, and the verifier's challenge that the browser came with.
#[derive(Clone, Debug)]
pub struct NextToken {
    pub claims: Value,
    pub challenge: String,
    pub signing: Signing,
}

/// A provider that runs on this machine.
pub struct Provider {
    pub issuer: String,
    pub port: u16,
    state: Arc<Issuing>,
}

struct Issuing {
    issuer: String,
    next: Mutex<Option<NextToken>>,
    /// Members of the document that differ from the usual ones.
    document: Mutex<Value>,
    /// True once the keys were changed.
    is_rotated: AtomicBool,
    /// True while it answers no request for a token.
    is_silent: AtomicBool,
    /// Requests for its document.
    documents_read: AtomicUsize,
}

type SharedState = State<Arc<Issuing>>;

impl Provider {
    pub async fn start() -> Provider {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let issuer = format!("http://127.0.0.1:{port}");
        let state = Arc::new(Issuing {
            issuer: issuer.clone(),
            next: Mutex::default(),
            document: Mutex::new(json!({})),
            is_rotated: AtomicBool::default(),
            is_silent: AtomicBool::default(),
            documents_read: AtomicUsize::default(),
        });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(show_document))
            .route("/keys", get(show_keys))
            .route("/token", post(give_token))
            .with_state(state.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Provider { issuer, port, state }
    }

    /// Sets the token that the next code is exchanged for.
    pub fn expect_code(&self, token: NextToken) {
        *self.state.next.lock() = Some(token);
    }

    /// Changes members of the provider's document.
    pub fn change_document(&self, members: Value) {
        *self.state.document.lock() = members;
    }

    /// Signs with another key from now on, and publishes only that one.
    pub fn rotate_keys(&self) {
        self.state.is_rotated.store(true, Ordering::Relaxed);
    }

    /// Answers no request for a token from now on, or again.
    pub fn set_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Ordering::Relaxed);
    }

    pub fn documents_read(&self) -> usize {
        self.state.documents_read.load(Ordering::Relaxed)
    }

    /// Signs claims with the key that is published.
    pub fn sign(&self, claims: &Value) -> String {
        let token =
            NextToken { claims: claims.clone(), challenge: String::new(), signing: Signing::Published };
        self.state.sign_token(&token)
    }

    /// Returns a valid token for the parameters of an address at the provider.
    pub fn token_for(&self, asked: &BTreeMap<String, String>, subject: &str, groups: &[&str]) -> NextToken {
        let now = SystemClock.now().unix_timestamp();
        NextToken {
            claims: json!({"iss": self.issuer, "sub": subject, "aud": CLIENT, "iat": now, "exp": now + 300,
                "nonce": asked["nonce"], "name": "Robin Ito", "email": "robin@example.com", "groups": groups}),
            challenge: asked["code_challenge"].clone(),
            signing: Signing::Published,
        }
    }
}

async fn show_document(State(state): SharedState) -> Json<Value> {
    state.documents_read.fetch_add(1, Ordering::Relaxed);
    let issuer = &state.issuer;
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "end_session_endpoint": format!("{issuer}/logout"),
        "response_types_supported": ["code"],
        "scopes_supported": ["openid", "profile", "groups"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA", "HS256", "none"],
    });
    let changed = state.document.lock().clone();
    document.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    Json(document)
}

fn signing_key(pem: &str, id: &str) -> CoreEdDsaPrivateSigningKey {
    CoreEdDsaPrivateSigningKey::from_ed25519_pem(pem, Some(JsonWebKeyId::new(id.to_owned()))).unwrap()
}

async fn show_keys(State(state): SharedState) -> Json<CoreJsonWebKeySet> {
    Json(state.published_keys())
}

impl Issuing {
    fn own_key(&self) -> (&'static str, &'static str) {
        if self.is_rotated.load(Ordering::Relaxed) { (FOREIGN_KEY, "two") } else { (KEY, "one") }
    }

    fn published_keys(&self) -> CoreJsonWebKeySet {
        let (pem, id) = self.own_key();
        CoreJsonWebKeySet::new(vec![signing_key(pem, id).as_verification_key()])
    }

    fn sign_token(&self, token: &NextToken) -> String {
        let word = match token.signing {
            Signing::Published | Signing::Foreign => "EdDSA",
            Signing::Unsigned => "none",
            Signing::PublicKeyAsSecret => "HS256",
        };
        let (pem, id) = self.own_key();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": word, "kid": id})), encode(&token.claims));
        let algorithm = CoreJwsSigningAlgorithm::EdDsa;
        let signature = match token.signing {
            Signing::Published => signing_key(pem, id).sign(&algorithm, signed.as_bytes()).unwrap(),
            Signing::Foreign => signing_key(FOREIGN_KEY, id).sign(&algorithm, signed.as_bytes()).unwrap(),
            Signing::Unsigned => Vec::new(),
            Signing::PublicKeyAsSecret => {
                let keys = serde_json::to_value(self.published_keys()).unwrap();
                let public = URL_SAFE_NO_PAD.decode(keys["keys"][0]["x"].as_str().unwrap()).unwrap();
                let secret = CoreHmacKey::new(public);
                secret.sign(&CoreJwsSigningAlgorithm::HmacSha256, signed.as_bytes()).unwrap()
            }
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

async fn give_token(
    State(state): SharedState,
    body: String,
) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
    if state.is_silent.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    // A code is good once.
    let refusal = || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"})));
    let next = state.next.lock().take().ok_or_else(refusal)?;
    let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    if challenge != next.challenge || form["grant_type"] != "authorization_code" {
        return Err(refusal());
    }
    Ok(Json(json!({"access_token": "unused", "token_type": "Bearer", "id_token": state.sign_token(&next)})))
}
