//! Binds a sign-in to the browser and the tenant that began it: a cookie holds random bytes, from which the state, the
//! nonce and the verifier are derived. Nothing is stored, and an answer of a provider is of no use in another browser.

use sha2::{Digest, Sha256};
use unslide_model::TenantId;

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

    /// Returns true if the provider's answer belongs to this sign-in. Digests are compared, so that the time of the
    /// comparison says nothing about the state.
    pub fn matches_state(&self, state: &str) -> bool {
        Sha256::digest(state) == Sha256::digest(self.derive_state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
