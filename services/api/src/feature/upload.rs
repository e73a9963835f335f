//! Parts for operations of features that take files.

pub use crate::limits::permits::Permit;
pub use crate::limits::transactions::run_detached;
pub use crate::operations::symbols::upload::{announced_length, check_quota};
pub use crate::requests::body::Chunks;
pub use crate::uploads::multipart::{Parts, parse_boundary, pass_over, stream_field};
pub use crate::uploads::receive::{UploadQuota, check_symbol_quota, remove_object};
pub use crate::uploads::unpack::{Packing, Pieces, unpack_file, unpack_limited};
