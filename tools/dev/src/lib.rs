//! `unslide dev` and `unslide demo`: the whole product with embedded servers, for developers and first steps.
//!
//! This crate knows no feature. The binary passes its composition of services and features as a [`Product`].

#![expect(missing_docs, reason = "the fields of arguments and addresses say what they are by their names")]

pub mod demo;
pub mod dev;
mod product;

pub use product::{Product, ServiceConfigs};
