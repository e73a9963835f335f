//! Checks of claims (OpenID Connect Core 3.1.3.7 and Back-Channel Logout 2.6).

use super::TokenError;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use time::OffsetDateTime;

/// Seconds by which the clocks of a provider and of this service may differ.
const CLOCK_LEEWAY: i64 = 60;
/// Seconds for which a notice of a sign-out is taken.
const SIGN_OUT_LIFETIME: i64 = 600;
/// The most characters of a subject, as the protocol has it.
const MAX_SUBJECT: usize = 255;
/// The member of a notice's events that makes it one.
const SIGN_OUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// What the claims of a token must say.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e> {
    pub issuer: &'e str,
    pub client_id: &'e str,
    pub now: OffsetDateTime,
}

/// The use of a token.
#[derive(Clone, Copy, Debug)]
pub enum TokenPurpose<'p> {
    /// A sign-in with this nonce.
    SignIn {
        nonce: &'p str,
    },
    SignOut,
}

/// The claims of a token with a valid signature.
#[derive(Clone, Debug)]
pub struct Claims(Map<String, Value>);

/// The person or the session that a notice of a sign-out names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedOut {
    /// The provider's id of the notice.
    pub notice: String,
    pub subject: Option<String>,
    pub session: Option<String>,
}

impl Claims {
    pub fn new(claims: Map<String, Value>) -> Claims {
        Claims(claims)
    }

    /// Returns a claim.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns a claim that is a text with more than spaces.
    pub fn find_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Returns the provider's id of its own session, if it names one.
    pub fn find_session(&self) -> Option<&str> {
        self.find_text("sid").filter(|session| is_id(session))
    }

    /// Checks that the token is for this client, now, and for this purpose.
    ///
    /// # Errors
    /// Returns the first claim that is wrong.
    pub fn check(&self, expected: &Expected<'_>, purpose: TokenPurpose<'_>) -> Result<(), TokenError> {
        let issuer = self.find_text("iss").ok_or(TokenError::Claim("iss"))?;
        if issuer != expected.issuer {
            return Err(TokenError::Issuer(shorten(issuer)));
        }
        self.check_audience(expected.client_id)?;
        self.check_times(expected.now.unix_timestamp(), purpose)?;
        match purpose {
            TokenPurpose::SignIn { nonce } => {
                let own = self.find_text("nonce").ok_or(TokenError::Claim("nonce"))?;
                // Digests are compared, so that the time of the comparison says nothing about the nonce.
                if Sha256::digest(own) == Sha256::digest(nonce) { Ok(()) } else { Err(TokenError::Nonce) }
            }
            TokenPurpose::SignOut => {
                let event = self.get("events").and_then(|events| events.get(SIGN_OUT_EVENT));
                // An ID token has a nonce, and is no notice of a sign-out.
                let is_notice = event.is_some_and(Value::is_object) && self.get("nonce").is_none();
                if is_notice { Ok(()) } else { Err(TokenError::NoSignOut) }
            }
        }
    }

    /// With several audiences, the token must name this client as the one that it was issued to.
    fn check_audience(&self, client: &str) -> Result<(), TokenError> {
        let audiences: BTreeSet<&str> = match self.get("aud") {
            Some(Value::String(audience)) => BTreeSet::from([audience.as_str()]),
            Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).collect(),
            _ => return Err(TokenError::Claim("aud")),
        };
        if !audiences.contains(client) {
            let named: Vec<&str> = audiences.into_iter().collect();
            return Err(TokenError::Audience(shorten(&named.join(", "))));
        }
        match self.find_text("azp") {
            Some(party) if party != client => Err(TokenError::AuthorizedParty(shorten(party))),
            None if audiences.len() > 1 => Err(TokenError::Claim("azp")),
            _ => Ok(()),
        }
    }

    fn check_times(&self, now: i64, purpose: TokenPurpose<'_>) -> Result<(), TokenError> {
        let issued = self.find_time("iat");
        let ends = match (self.find_time("exp"), purpose) {
            (end, TokenPurpose::SignIn { .. }) => end.ok_or(TokenError::Claim("exp"))?,
            // Notices have had an end only since the final version of the protocol. None is taken after it was forgotten.
            (end, TokenPurpose::SignOut) => {
                let latest = issued.ok_or(TokenError::Claim("iat"))?.saturating_add(SIGN_OUT_LIFETIME);
                end.map_or(latest, |end| end.min(latest))
            }
        };
        if ends.saturating_add(CLOCK_LEEWAY) <= now {
            return Err(TokenError::Expired(now.saturating_sub(ends)));
        }
        for (claim, time) in [("iat", issued), ("nbf", self.find_time("nbf"))] {
            let seconds = time.unwrap_or(now).saturating_sub(now);
            if seconds > CLOCK_LEEWAY {
                return Err(TokenError::Ahead { claim, seconds });
            }
        }
        Ok(())
    }

    /// Returns a claim with a time in whole seconds.
    fn find_time(&self, name: &str) -> Option<i64> {
        let number = self.get(name)?;
        #[expect(clippy::cast_possible_truncation, reason = "a float is cut to the range of the integer")]
        number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64))
    }

    /// Returns the issuer's id of the person.
    ///
    /// # Errors
    /// [`TokenError::Subject`]
    pub fn read_subject(&self) -> Result<String, TokenError> {
        match self.get("sub") {
            Some(Value::String(subject)) if is_id(subject) => Ok(subject.clone()),
            // Some providers number their accounts.
            Some(Value::Number(number)) if number.is_u64() => Ok(number.to_string()),
            _ => Err(TokenError::Subject),
        }
    }

    /// Returns the person or the session of a checked notice.
    ///
    /// # Errors
    /// [`TokenError::NoSignOut`] if it names neither, or [`TokenError::Claim`] if the notice has no id.
    pub fn read_signed_out(&self) -> Result<SignedOut, TokenError> {
        let subject = self.read_subject().ok();
        let session = self.find_session().map(str::to_owned);
        if subject.is_none() && session.is_none() {
            return Err(TokenError::NoSignOut);
        }
        let notice = self.find_text("jti").ok_or(TokenError::Claim("jti"))?.to_owned();
        Ok(SignedOut { notice, subject, session })
    }
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_SUBJECT && !text.chars().any(char::is_control)
}

/// Returns a claim's text for a message.
fn shorten(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(200).collect()
}
