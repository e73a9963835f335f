//! The services that one configuration is for.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Api,
    Builder,
    Indexer,
    Symbolizer,
    /// The one for several cells. It belongs to none of them.
    Door,
}

impl Service {
    /// The services of one cell.
    #[cfg(feature = "dev")]
    pub const ALL: [Service; 4] = [Service::Builder, Service::Symbolizer, Service::Indexer, Service::Api];

    pub fn name(self) -> &'static str {
        match self {
            Service::Api => "api",
            Service::Builder => "builder",
            Service::Indexer => "indexer",
            Service::Symbolizer => "symbolizer",
            Service::Door => "door",
        }
    }
}
