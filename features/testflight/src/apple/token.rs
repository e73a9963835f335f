//! Tokens for Apple's API: JSON Web Tokens, signed by ES256 (RFC 7515, RFC 7518).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use unslide_model::Secret;

/// How long a token is valid. Apple takes at most 20 minutes.
const TOKEN_LIFETIME: Duration = Duration::minutes(15);
/// How long before now a token begins, for clocks that differ.
const CLOCK_TOLERANCE: Duration = Duration::seconds(30);
const PEM_HEAD: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// A private key that App Store Connect has given.
pub struct AppleKey {
    issuer_id: Option<String>,
    key_id: String,
    pair: EcdsaKeyPair,
}

/// The failure to read a private key or to sign with it.
#[derive(Debug, thiserror::Error)]
pub enum AppleKeyError {
    #[error("not a file AuthKey_….p8 of App Store Connect, which begins with {PEM_HEAD}")]
    NoPem,
    #[error("not a private key of the curve P-256, as App Store Connect gives it")]
    NoP256,
    #[error("the operating system gives no random bytes")]
    Random,
}

impl AppleKey {
    /// Reads a private key (PKCS #8 in PEM). Without an issuer it is a key of one person.
    ///
    /// # Errors
    /// [`AppleKeyError`].
    pub fn from_pem(issuer_id: Option<&str>, key_id: &str, pem: &Secret) -> Result<AppleKey, AppleKeyError> {
        let (_, body) = pem.reveal().split_once(PEM_HEAD).ok_or(AppleKeyError::NoPem)?;
        let (body, _) = body.split_once(PEM_END).ok_or(AppleKeyError::NoPem)?;
        let body: String = body.split_ascii_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_| AppleKeyError::NoPem)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
        let pair = pair.map_err(|_| AppleKeyError::NoP256)?;
        Ok(AppleKey { issuer_id: issuer_id.map(str::to_owned), key_id: key_id.to_owned(), pair })
    }

    /// Returns a new token.
    ///
    /// # Errors
    /// [`AppleKeyError::Random`].
    pub fn sign_token(&self, now: OffsetDateTime) -> Result<Secret, AppleKeyError> {
        let begin = now - CLOCK_TOLERANCE;
        let mut claims = json!({
            "iat": begin.unix_timestamp(),
            "exp": (begin + TOKEN_LIFETIME).unix_timestamp(),
            "aud": "appstoreconnect-v1",
        });
        match &self.issuer_id {
            Some(issuer) => claims["iss"] = issuer.as_str().into(),
            None => claims["sub"] = "user".into(),
        }
        let head = json!({"alg": "ES256", "kid": self.key_id, "typ": "JWT"});
        let [head, claims] = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{head}.{claims}");
        let signature =
            self.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| AppleKeyError::Random)?;
        Ok(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, UnparsedPublicKey};
    use serde_json::Value;

    /// A key for this test alone.
    fn make_pem() -> (Secret, Vec<u8>) {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
        let pem = format!("{PEM_HEAD}\n{}\n{PEM_END}\n", STANDARD.encode(der.as_ref()));
        (Secret::new(pem), pair.public_key().as_ref().to_vec())
    }

    #[test]
    fn a_token_says_who_asks_for_less_than_20_minutes_and_is_signed_in_64_bytes() {
        let (pem, public) = make_pem();
        let now = OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap();
        let read = |issuer: Option<&str>| {
            let token = AppleKey::from_pem(issuer, "2X9R4HXF34", &pem).unwrap().sign_token(now).unwrap();
            let parts: Vec<String> = token.reveal().split('.').map(str::to_owned).collect();
            let signature = URL_SAFE_NO_PAD.decode(&parts[2]).unwrap();
            assert_eq!(signature.len(), 64);
            let signed = format!("{}.{}", parts[0], parts[1]);
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &public);
            key.verify(signed.as_bytes(), &signature).unwrap();
            let part = |at: usize| {
                serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(&parts[at]).unwrap()).unwrap()
            };
            assert_eq!(part(0), json!({"alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"}));
            part(1)
        };
        let team = read(Some("57246542-96fe-1a63-e053-0824d011072a"));
        assert_eq!(
            (team["iss"].as_str(), team.get("sub")),
            (Some("57246542-96fe-1a63-e053-0824d011072a"), None)
        );
        assert_eq!(team["aud"], "appstoreconnect-v1");
        let (begin, end) = (team["iat"].as_i64().unwrap(), team["exp"].as_i64().unwrap());
        assert!(begin < now.unix_timestamp() && end > now.unix_timestamp() && end - begin <= 20 * 60);
        let person = read(None);
        assert_eq!((person["sub"].as_str(), person.get("iss")), (Some("user"), None));
    }

    #[test]
    fn a_text_that_is_no_key_of_app_store_connect_is_refused() {
        let read = |text: &str| AppleKey::from_pem(None, "A", &Secret::new(text)).err().unwrap().to_string();
        assert!(read("secret").contains("AuthKey_"));
        assert!(read(&format!("{PEM_HEAD}\n!\n{PEM_END}")).contains("AuthKey_"));
        assert!(
            read(&format!(
                "{PEM_HEAD}\nMC4CAQAwBQYDK2VwBCIEIPWLI2m6vJxspbO9iF4BVJ1QUnB7qd5QtuSDueT7KO8i\n{PEM_END}"
            ))
            .contains("P-256")
        );
    }
}
