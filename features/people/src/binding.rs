//! Binds a sign-in to the browser and the tenant that began it: a cookie holds random bytes, from which the state, the
//! nonce and the verifier are derived. Nothing is stored, and an answer of a provider is of no use in another browser.
//! Each sign-in has a cookie of its own, so that two tabs do not disturb each other, and the cookie holds what its end
//! needs to know.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unslide_api::entropy::{read_token, write_token};
use unslide_model::TenantId;
use unslide_site::{BrowserCookie, BrowserSession, RETURN_PATH_BYTES_LIMIT, RequestOrigin};

/// The cookies of sign-ins that have begun. A suffix from the state tells them apart.
pub const SIGN_IN_COOKIE: BrowserCookie = BrowserCookie::for_navigation("unslide_sign_in");
/// Digits of the state in the name of a cookie.
const SUFFIX_DIGITS: usize = 8;
/// Sign-ins that one browser may have begun. The cookies of older ones are removed.
const MAX_BEGUN: usize = 5;

/// What the end of a sign-in needs to know of its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct SignInNote {
    /// The page of the console to open.
    pub next: Option<String>,
    /// How often the provider has refused the requested scopes.
    pub refusals: u8,
    /// True if the person wants to choose an account.
    pub chooses_account: bool,
    /// The session that the browser had. Browsers do not send its cookie when the provider leads back here.
    pub before: Option<(TenantId, String)>,
}

impl SignInNote {
    /// Notes the session that the browser has.
    #[must_use]
    pub fn with_session(self, session: Option<&BrowserSession>) -> SignInNote {
        SignInNote { before: session.map(|own| (own.tenant.clone(), write_token(&own.hash))), ..self }
    }

    /// Returns the session that the browser had.
    #[must_use]
    pub fn session(&self) -> Option<BrowserSession> {
        let (tenant, hash) = self.before.as_ref()?;
        Some(BrowserSession { tenant: tenant.clone(), hash: read_token(hash)? })
    }
}

/// A sign-in that a browser has begun.
pub struct BegunSignIn {
    pub secret: SignInSecret,
    pub note: SignInNote,
}

impl BegunSignIn {
    /// Returns the cookie's name and text.
    #[must_use]
    pub fn to_cookie(&self) -> (BrowserCookie, String) {
        let next = self.note.next.clone().filter(|next| next.len() <= RETURN_PATH_BYTES_LIMIT);
        let note = serde_json::to_vec(&SignInNote { next, ..self.note.clone() }).unwrap_or_default();
        let text = format!("{}.{}", write_token(&self.secret.token), URL_SAFE_NO_PAD.encode(note));
        (cookie_for_state(&self.secret.derive_state()), text)
    }

    /// Returns the sign-in that an answer of a provider belongs to, if this browser has begun it.
    #[must_use]
    pub fn find(origin: &RequestOrigin, tenant: &TenantId, state: &str) -> Option<BegunSignIn> {
        let (token, note) = cookie_for_state(state).find_text(origin)?.split_once('.')?;
        let secret = SignInSecret::new(read_token(token)?, tenant);
        let note = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(note).ok()?).ok()?;
        secret.matches_state(state).then_some(BegunSignIn { secret, note })
    }
}

/// Returns the cookie of the sign-in with a state.
#[must_use]
pub fn cookie_for_state(state: &str) -> BrowserCookie {
    let suffix = state.chars().take(SUFFIX_DIGITS).filter(char::is_ascii_hexdigit);
    SIGN_IN_COOKIE.with_suffix(&suffix.collect::<String>())
}

/// Returns the cookies of sign-ins that one more leaves no space for.
#[must_use]
pub fn outdated_cookies(origin: &RequestOrigin) -> Vec<BrowserCookie> {
    let suffixes = SIGN_IN_COOKIE.list_suffixes(origin);
    let excess = (suffixes.len() + 1).saturating_sub(MAX_BEGUN);
    suffixes.iter().take(excess).map(|suffix| SIGN_IN_COOKIE.with_suffix(suffix)).collect()
}

/// The secret of one sign-in.
pub struct SignInSecret {
    token: [u8; 32],
    /// A provider of another tenant, which knows its own state, cannot send the browser here with it.
    tenant: TenantId,
}

impl SignInSecret {
    pub fn new(token: [u8; 32], tenant: &TenantId) -> SignInSecret {
        SignInSecret { token, tenant: tenant.clone() }
    }

    fn derive_text(&self, purpose: &str) -> String {
        let parts = [purpose, "\0", self.tenant.as_str()].concat();
        let digest = Sha256::new().chain_update(self.token).chain_update(parts).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the state, which the provider sends back.
    pub fn derive_state(&self) -> String {
        self.derive_text("state")
    }

    /// Returns the nonce, which the token must have.
    pub fn derive_nonce(&self) -> String {
        self.derive_text("nonce")
    }

    /// Returns the verifier of the code (PKCE).
    pub fn derive_verifier(&self) -> String {
        self.derive_text("verifier")
    }

    /// Returns the challenge of the verifier (S256).
    pub fn derive_challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.derive_verifier()))
    }

    /// Returns true if the provider's answer belongs to this sign-in. Digests are compared, so that the time of the
    /// comparison says nothing about the state.
    pub fn matches_state(&self, state: &str) -> bool {
        Sha256::digest(state) == Sha256::digest(self.derive_state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::COOKIE;
    use http::{Extensions, HeaderMap};
    use time::Duration;

    fn secret(byte: u8, tenant: &str) -> SignInSecret {
        SignInSecret::new([byte; 32], &TenantId::new(tenant).unwrap())
    }

    #[test]
    fn state_nonce_and_verifier_differ_by_browser_and_tenant() {
        let own = secret(1, "acme");
        assert!(own.matches_state(&secret(1, "acme").derive_state()));
        for foreign in
            [secret(2, "acme").derive_state(), secret(1, "umbrella").derive_state(), own.derive_nonce()]
        {
            assert!(!own.matches_state(&foreign));
        }
        assert!(!own.matches_state(""));
        assert_ne!(own.derive_nonce(), own.derive_verifier());
        assert_ne!(own.derive_nonce(), secret(1, "umbrella").derive_nonce());
        assert_eq!(own.derive_verifier().len(), 64, "PKCE takes 43 to 128 characters");
    }

    fn browser_with(cookies: &[(BrowserCookie, String)]) -> RequestOrigin {
        let mut origin = RequestOrigin { headers: HeaderMap::new(), extensions: Extensions::new() };
        for (cookie, text) in cookies {
            let header = cookie.build_text_header(text, Duration::MINUTE, &origin).unwrap();
            let pair = header.to_str().unwrap().split(';').next().unwrap().to_owned();
            origin.headers.append(COOKIE, pair.try_into().unwrap());
        }
        origin
    }

    #[test]
    fn each_of_several_sign_ins_of_a_browser_is_found_by_its_state() {
        let acme = TenantId::new("acme").unwrap();
        let next = Some("/console/groups?app=x".to_owned());
        let before = BrowserSession { tenant: acme.clone(), hash: [9; 32] };
        let begin = |byte| BegunSignIn {
            secret: secret(byte, "acme"),
            note: SignInNote { next: next.clone(), refusals: byte, ..SignInNote::default() }
                .with_session(Some(&before)),
        };
        let begun: Vec<BegunSignIn> = (0..7).map(begin).collect();
        let origin = browser_with(&begun.iter().map(BegunSignIn::to_cookie).collect::<Vec<_>>());
        for (byte, own) in (0..).zip(&begun) {
            let found = BegunSignIn::find(&origin, &acme, &own.secret.derive_state()).unwrap();
            assert_eq!((found.note.refusals, &found.note.next), (byte, &next));
            assert_eq!(found.note.session(), Some(before.clone()));
        }
        let elsewhere = secret(0, "umbrella").derive_state();
        assert!(BegunSignIn::find(&origin, &acme, &elsewhere).is_none());
        assert!(BegunSignIn::find(&origin, &acme, "").is_none());
        assert_eq!(outdated_cookies(&origin).len(), 3, "the oldest of eight");
        let long = BegunSignIn {
            secret: secret(1, "acme"),
            note: SignInNote {
                next: Some("/console?q=".to_owned() + &"a".repeat(2_000)),
                ..SignInNote::default()
            },
        };
        assert!(long.to_cookie().1.len() < 1_000, "a cookie is small");
    }
}
