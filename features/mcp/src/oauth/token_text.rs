//! The texts of codes and tokens. Each names its tenant, so that it is looked up within it, and has 256 random bits or twice as many.

use sha2::{Digest, Sha256};
use unslide_api::entropy::{read_token, write_token};
use unslide_model::TenantId;

/// The beginning of a code.
const CODE_PREFIX: &str = "mcpc_";
/// The beginning of an access token.
const ACCESS_PREFIX: &str = "mcpa_";
/// The beginning of a refresh token.
const REFRESH_PREFIX: &str = "mcpr_";
/// Characters of 256 bits.
const TOKEN_DIGITS: usize = 64;

/// A code or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OAuthSecret {
    Code([u8; 32]),
    Access([u8; 32]),
    /// The first half is the same in each token of a grant: so a token that was replaced is known again.
    Refresh {
        family: [u8; 32],
        own: [u8; 32],
    },
}

impl OAuthSecret {
    /// Returns the text, for the client.
    pub fn write_text(self, tenant: &TenantId) -> String {
        let (prefix, digits) = match self {
            OAuthSecret::Code(token) => (CODE_PREFIX, write_token(&token)),
            OAuthSecret::Access(token) => (ACCESS_PREFIX, write_token(&token)),
            OAuthSecret::Refresh { family, own } => {
                (REFRESH_PREFIX, write_token(&family) + &write_token(&own))
            }
        };
        format!("{prefix}{tenant}.{digits}")
    }

    /// Reads a text. Returns None for any other text.
    pub fn parse(text: &str) -> Option<(TenantId, OAuthSecret)> {
        let (named, digits) = text.split_once('.')?;
        let (prefix, tenant) = named.split_at_checked(CODE_PREFIX.len())?;
        let tenant = TenantId::new(tenant).ok()?;
        let secret = match prefix {
            CODE_PREFIX => OAuthSecret::Code(read_token(digits)?),
            ACCESS_PREFIX => OAuthSecret::Access(read_token(digits)?),
            REFRESH_PREFIX => {
                let (family, own) = digits.split_at_checked(TOKEN_DIGITS)?;
                OAuthSecret::Refresh { family: read_token(family)?, own: read_token(own)? }
            }
            _ => return None,
        };
        Some((tenant, secret))
    }
}

/// Returns the hash by which bytes of a code, a token, or the id of a client are stored.
pub fn hash_bytes(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written_and_nothing_else_is() {
        let acme = TenantId::new("acme").unwrap();
        for secret in [
            OAuthSecret::Code([1; 32]),
            OAuthSecret::Access([2; 32]),
            OAuthSecret::Refresh { family: [3; 32], own: [4; 32] },
        ] {
            let text = secret.write_text(&acme);
            assert_eq!(OAuthSecret::parse(&text), Some((acme.clone(), secret)), "{text}");
            assert_eq!(OAuthSecret::parse(&format!("{text}0")), None);
            assert_eq!(OAuthSecret::parse(text.get(..text.len() - 1).unwrap()), None);
            assert_eq!(OAuthSecret::parse(&text.replace("acme", "A")), None);
        }
        for wrong in ["", "mcpa_", "mcpa_acme", "unslide_aaaaaaaa_x.y", "ä.b"] {
            assert_eq!(OAuthSecret::parse(wrong), None, "{wrong}");
        }
    }
}
