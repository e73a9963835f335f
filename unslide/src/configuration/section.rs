//! Sections of the configuration that only some services read.

use unslide_stream::access::KafkaLogin;

/// A section that not everyone reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Postgres,
    Objects,
    History,
}

impl Section {
    /// Returns true if this service or command connects to the server of the section.
    pub fn is_read_by(self, login: KafkaLogin) -> bool {
        match login {
            KafkaLogin::Api | KafkaLogin::Builder | KafkaLogin::Indexer => true,
            KafkaLogin::Symbolizer => self == Section::Objects,
            KafkaLogin::Migrate => self != Section::Objects,
            KafkaLogin::Audit | KafkaLogin::Gateway | KafkaLogin::Keda => false,
        }
    }
}
