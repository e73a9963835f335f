//! Tests of signatures and claims.

use super::*;
use serde_json::json;
use time::OffsetDateTime;

/// Tokens that openssl signed, written by `tests/fixtures/sign-tokens`.
fn signed_tokens() -> Vec<Value> {
    serde_json::from_str(include_str!("../../tests/fixtures/signed-tokens.json")).unwrap()
}

fn all_keys(tokens: &[Value]) -> KeySet {
    let odd = [
        json!({"kty": "oct", "k": "AAAA"}),
        json!({"kty": "OKP", "crv": "Ed448", "x": "AA"}),
        json!({"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "new", "alg": ["x"]}),
        json!("no key"),
    ];
    let keys: Vec<Value> = odd.into_iter().chain(tokens.iter().map(|token| token["key"].clone())).collect();
    KeySet::from_json(&json!({ "keys": keys }))
}

#[test]
fn tokens_of_each_algorithm_are_verified_beside_keys_of_all_kinds() {
    let tokens = signed_tokens();
    let keys = all_keys(&tokens);
    for token in &tokens {
        let (algorithm, text) = (token["algorithm"].as_str().unwrap(), token["token"].as_str().unwrap());
        if algorithm == "ES512" {
            assert_eq!(read_signed(text, &keys).unwrap_err(), TokenError::Algorithm("ES512".to_owned()));
            continue;
        }
        let claims = read_signed(text, &keys).unwrap_or_else(|error| panic!("{algorithm}: {error}"));
        assert_eq!(claims.read_subject().unwrap(), "robin", "{algorithm}");
        // One character of the claims differs.
        let (head, rest) = text.split_once('.').unwrap();
        let forged = format!("{head}.{}", rest.replacen('y', "z", 1));
        let refused = read_signed(&forged, &keys).unwrap_err();
        assert!(matches!(refused, TokenError::Signature | TokenError::Malformed), "{algorithm}: {refused}");
        let without =
            tokens.iter().filter(|other| other["algorithm"] != *algorithm).cloned().collect::<Vec<_>>();
        assert_eq!(read_signed(text, &all_keys(&without)).unwrap_err(), TokenError::NoKey, "{algorithm}");
    }
}

#[test]
fn a_token_without_a_signature_of_a_public_key_is_refused() {
    let keys = all_keys(&signed_tokens());
    let token = |header: Value, signature: &str| {
        format!("{}.{}.{signature}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode("{}"))
    };
    let refusal = |token: &str| read_signed(token, &keys).unwrap_err();
    for algorithm in ["none", "HS256", "HS512", "RSA1_5", "rs256", ""] {
        assert!(
            matches!(refusal(&token(json!({ "alg": algorithm }), "AAAA")), TokenError::Algorithm(_)),
            "{algorithm}"
        );
    }
    assert_eq!(
        refusal(&token(json!({"alg": "RS256", "crit": ["b64"]}), "")),
        TokenError::Header("crit".to_owned())
    );
    assert_eq!(refusal(&token(json!({"alg": 1}), "")), TokenError::Malformed);
    assert_eq!(refusal("a.b.c.d.e"), TokenError::Encrypted);
    for text in ["", "a", "a.b", "..", "a.b.c", "e30.e30.", "bnVsbA.e30."] {
        assert_eq!(refusal(text), TokenError::Malformed, "{text}");
    }
}

fn check(change: &Value, purpose: TokenPurpose<'_>) -> Result<(), TokenError> {
    let mut claims = json!({"iss": "https://a", "aud": "us", "exp": 1_100, "iat": 1_000, "nonce": "n"});
    claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let now = OffsetDateTime::from_unix_timestamp(1_000).unwrap();
    let expected = Expected { issuer: "https://a", client_id: "us", now };
    Claims::new(claims.as_object().unwrap().clone()).check(&expected, purpose)
}

#[test]
fn claims_are_for_this_client_and_time() {
    let sign_in = |change: Value| check(&change, TokenPurpose::SignIn { nonce: "n" });
    assert_eq!(sign_in(json!({})), Ok(()));
    assert_eq!(sign_in(json!({"aud": ["us"]})), Ok(()));
    assert_eq!(sign_in(json!({"aud": ["us", "them"], "azp": "us"})), Ok(()));
    assert_eq!(sign_in(json!({"aud": ["us", "them"]})), Err(TokenError::Claim("azp")));
    assert_eq!(sign_in(json!({"azp": "them"})), Err(TokenError::AuthorizedParty("them".to_owned())));
    assert_eq!(sign_in(json!({"aud": ["them"]})), Err(TokenError::Audience("them".to_owned())));
    assert_eq!(sign_in(json!({"aud": {"us": 1}})), Err(TokenError::Claim("aud")));
    assert_eq!(sign_in(json!({"iss": "https://a/"})), Err(TokenError::Issuer("https://a/".to_owned())));
    assert_eq!(sign_in(json!({"exp": 941})), Ok(()), "clocks may differ by a minute");
    assert_eq!(sign_in(json!({"exp": 940})), Err(TokenError::Expired(60)));
    assert_eq!(sign_in(json!({"exp": 1e300, "iat": -1e300})), Ok(()));
    assert_eq!(sign_in(json!({"iat": 1_060, "nbf": 1_060.9})), Ok(()));
    assert_eq!(sign_in(json!({"iat": 1_061})), Err(TokenError::Ahead { claim: "iat", seconds: 61 }));
    assert_eq!(sign_in(json!({"nbf": 4_600})), Err(TokenError::Ahead { claim: "nbf", seconds: 3_600 }));
    assert_eq!(sign_in(json!({"nonce": "m"})), Err(TokenError::Nonce));
}

#[test]
fn a_notice_of_a_sign_out_has_its_event_and_no_nonce() {
    let event = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    let notice = |change: Value| {
        let mut claims = json!({"events": event});
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        check(&claims, TokenPurpose::SignOut)
    };
    assert_eq!(notice(json!({})), Err(TokenError::NoSignOut), "a nonce is of an ID token");
    let claims = |claims: Value| Claims::new(claims.as_object().unwrap().clone());
    let now = OffsetDateTime::from_unix_timestamp(1_000).unwrap();
    let expected = Expected { issuer: "https://a", client_id: "us", now };
    let old = json!({"iss": "https://a", "aud": "us", "iat": 700, "events": event});
    assert_eq!(claims(old.clone()).check(&expected, TokenPurpose::SignOut), Ok(()), "without an end");
    let mut older = old.clone();
    older["iat"] = 1.into();
    assert_eq!(claims(older).check(&expected, TokenPurpose::SignOut), Err(TokenError::Expired(399)));
    let mut long = old.clone();
    (long["iat"], long["exp"]) = (1.into(), 9_000.into());
    assert_eq!(claims(long).check(&expected, TokenPurpose::SignOut), Err(TokenError::Expired(399)));
    let without_id = claims(json!({"sub": "s-1"}));
    assert_eq!(without_id.read_signed_out(), Err(TokenError::Claim("jti")));
    assert_eq!(
        claims(old).read_signed_out(),
        Err(TokenError::NoSignOut),
        "it names neither person nor session"
    );
}
