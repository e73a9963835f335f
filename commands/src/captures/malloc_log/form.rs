//! The files of a log, and how they are laid out: options that several commands have.

use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use unslide_captures_formats::malloc::{EventLayout, EventLog, SlotForm, StackTable};
use unslide_captures_formats::profile::{ProfileImage, read_images};
use unslide_cli::{CommandError, map_unpacked, note};

/// How the files of a log are laid out.
#[derive(Args)]
pub struct LogForm {
    /// The slots of the table count references, as those of the lite mode do
    #[arg(long)]
    pub lite: bool,
    /// How the events are laid out; without it, as their records show. An option that they contradict is an error
    #[arg(long, value_enum)]
    pub layout: Option<LogLayout>,
    /// Bytes of a pointer of the process, for the layout disk
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u8).range(4..=8))]
    pub pointer_size: u8,
    /// The binary images: a KSCrash report of the run, or its `binary_images`; also `usedImages` of an .ips file
    #[arg(long, value_name = "FILE")]
    pub images: Option<PathBuf>,
}

/// The layouts of events; `docs/captures.md` has their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLayout {
    /// 24 bytes, or 16 of a 32-bit process
    Disk,
    /// 32 bytes with the type first, as the API enumerates them
    Enumerator,
    /// 32 bytes with the type last, of newer systems
    Index,
}

impl LogForm {
    /// Returns true if one of the options is given.
    pub fn is_used(&self) -> bool {
        self.lite || self.layout.is_some() || self.pointer_size != 8 || self.images.is_some()
    }

    /// Returns the layout that is stated; `None` if it is to be detected.
    pub fn event_layout(&self) -> Result<Option<EventLayout>, CommandError> {
        match (self.layout, self.pointer_size) {
            (None, 8) => Ok(None),
            (Some(LogLayout::Disk), 8) => Ok(Some(EventLayout::Disk64)),
            (Some(LogLayout::Disk), 4) => Ok(Some(EventLayout::Disk32)),
            (Some(LogLayout::Enumerator), 8) => Ok(Some(EventLayout::Enumerator)),
            (Some(LogLayout::Index), 8) => Ok(Some(EventLayout::Index)),
            (_, size) => {
                Err(CommandError::usage(format!("--pointer-size {size}: use 8, or 4 with --layout disk")))
            }
        }
    }

    /// Reads the images of the run; none if no file has them.
    pub fn read_image_list(&self) -> Result<Vec<ProfileImage>, CommandError> {
        let Some(path) = &self.images else { return Ok(Vec::new()) };
        read_images(read_file(path)?.as_ref()).map_err(|error| CommandError::cannot_read(path, error))
    }

    /// Reads a log in the stated layout, or in the one that its records have.
    pub fn read_log<'a>(&self, path: &Path, events: &'a [u8]) -> Result<EventLog<'a>, CommandError> {
        let layout = match self.event_layout()? {
            Some(layout) => layout,
            None => {
                let layout = EventLayout::detect_layout(events)
                    .map_err(|error| CommandError::cannot_read(path, error))?;
                note!("the events have the layout {}", layout.as_str());
                layout
            }
        };
        EventLog::from_bytes(events, layout).map_err(|error| CommandError::cannot_read(path, error))
    }

    /// Reads a table of stacks.
    pub fn read_table<'a>(&self, path: &Path, stacks: &'a [u8]) -> Result<StackTable<'a>, CommandError> {
        let form = if self.lite { SlotForm::Counted } else { SlotForm::Plain };
        StackTable::from_bytes(stacks, form).map_err(|error| CommandError::cannot_read(path, error))
    }
}

/// Maps a file, or unpacks it.
pub fn read_file(path: &Path) -> Result<impl AsRef<[u8]> + use<>, CommandError> {
    map_unpacked(path).map_err(|error| CommandError::cannot_read(path, error))
}

/// Reads an address in hexadecimal.
pub fn parse_address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("it begins with 0x")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}
