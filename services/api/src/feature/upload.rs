//! Parts for operations of features that take files.

pub use crate::limits::pace::ClientPace;
pub use crate::limits::permits::Permit;
pub use crate::operations::symbols::for_both_owners;
pub use crate::operations::symbols::upload::{announced_length, check_quota};
pub use crate::requests::access::{SymbolsWrite, admit_request, authenticate_key};
pub use crate::requests::body::{Chunks, packed_limit};
pub use crate::storage::transactions::run_detached;
pub use crate::uploads::multipart::{Parts, parse_boundary, pass_over, stream_field};
pub use crate::uploads::receive::{
    AcceptedFile, File, UploadQuota, check_symbol_quota, receive_file, remove_object,
};
pub use crate::uploads::unpack::{Packing, Pieces, decode_body, unpack_file, unpack_limited};
