//! Access to the debug information of a slice, for derived objects.

use super::compressed::Compression;
use super::error::ObjectError;
use super::macho::MachFile;
use unslide_model::CpuType;

/// The debug information of a slice.
pub struct DebugInfo<'a> {
    file: MachFile<'a>,
    /// The address of `__TEXT` in the file.
    pub text_address: u64,
    /// The CPU type of the slice.
    pub cpu: CpuType,
}

impl std::fmt::Debug for DebugInfo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugInfo").field("cpu", &self.cpu).finish_non_exhaustive()
    }
}

impl<'a> DebugInfo<'a> {
    /// Reads the load commands of a slice. Returns `None` for a file without DWARF, or with compressed DWARF.
    ///
    /// # Errors
    /// Returns an error if the slice is damaged.
    pub fn read(slice: &'a [u8]) -> Result<Option<DebugInfo<'a>>, ObjectError> {
        let file = match MachFile::parse(slice) {
            Ok(file) => file,
            Err(ObjectError::NotAnObject) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(text) = file.text.clone() else { return Ok(None) };
        let is_compressed = Compression::from_file(&file)? != Compression::None;
        if is_compressed || file.debug_section("__debug_info")?.is_empty() {
            return Ok(None);
        }
        Ok(Some(DebugInfo { text_address: text.start, cpu: file.cpu, file }))
    }

    /// Returns the contents of a section such as `__debug_info`; empty if the file has none.
    ///
    /// # Errors
    /// Returns an error if the section ends outside the file.
    pub fn section(&self, name: &str) -> Result<&'a [u8], ObjectError> {
        self.file.debug_section(name)
    }
}
