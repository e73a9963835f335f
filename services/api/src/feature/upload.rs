//! Parts for operations of features that take files.

pub use crate::limits::permits::Permit;
pub use crate::limits::transactions::detached;
pub use crate::operations::symbols::upload::{announced_length, check_quota};
pub use crate::requests::access::{SymbolsWrite, admit, authenticate};
pub use crate::requests::body::Chunks;
pub use crate::uploads::multipart::{Parts, boundary, pass_over, pieces};
pub use crate::uploads::receive::{AcceptedFile, File, UploadQuota, fits, receive, remove_object};
pub use crate::uploads::unpack::{Packing, Pieces, unpack, unpack_file};
