//! The contracts between the services: protocol-buffer messages, topic names, message headers and
//! keys. The messages' source is `/proto`, which also lists the messages of each topic.

#![warn(missing_docs)]

pub mod body;
#[cfg(test)]
mod contracts;
pub mod event;
pub mod headers;
mod ids;
pub mod keys;
pub mod lanes;
pub mod refused;
pub mod stacks;
pub mod topics;
pub mod trace;

pub use ids::WrongId;
pub use prost::Message;

/// Messages about symbols and tenants (`unslide.symbol.v1`).
pub mod symbol {
    #![expect(missing_docs, reason = "generated: the proto files hold the descriptions")]
    include!(concat!(env!("OUT_DIR"), "/unslide.symbol.v1.rs"));
}

/// Messages about reports (`unslide.report.v1`).
pub mod report {
    #![expect(missing_docs, reason = "generated: the proto files hold the descriptions")]
    include!(concat!(env!("OUT_DIR"), "/unslide.report.v1.rs"));
}

/// Events about stored reports (`unslide.stored.v1`).
pub mod stored {
    #![expect(missing_docs, reason = "generated: the proto files hold the descriptions")]
    include!(concat!(env!("OUT_DIR"), "/unslide.stored.v1.rs"));
}

/// Messages about what apps tell beside crashes (`unslide.signal.v1`).
pub mod signal {
    #![expect(missing_docs, reason = "generated: the proto files hold the descriptions")]
    include!(concat!(env!("OUT_DIR"), "/unslide.signal.v1.rs"));
}
