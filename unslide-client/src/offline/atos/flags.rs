//! The flags of atos. They have one dash and whole words, as those of Apple's other tools.

use super::lines::{AddressBase, LineStyle, parse_hexadecimal};
use std::ffi::OsString;
use std::path::PathBuf;
use unslide_cli::quantity;
use unslide_cli::symbols::BuildArguments;

/// The help of the flags.
pub const FLAGS: &str = "\
Flags:
  -o PATH                 a dSYM, the DWARF file in it, a program or a library; may be given more than once
  -arch NAME              the architecture, such as arm64; without it that of this machine, or the file's only one
  -l ADDRESS              load address of the image, hexadecimal
  -s SLIDE                slide of the image, hexadecimal; excludes -l
  -offset                 the addresses are offsets from the image's start; excludes -l and -s
  -i, -inlineFrames       every inlined function, the innermost first, and an empty line after each address
  -d, -delimiter STRING   with -i, the text between the functions of one address instead of a line feed
  -fullPath               whole paths of source files
  -f FILE                 read addresses from a file, separated by white space
  -buildMemory SIZE       memory that the symbols of one file may take, such as 8GiB (default 4GiB)
  -h, -help               print this help

An address is hexadecimal with 0x, or with a digit a to f, and decimal otherwise. It is looked up as it is: subtract one
from a return address. The output has the form of Apple's atos.

Examples:
  unslide atos -o Shop.app.dSYM -arch arm64 -l 0x104c80000 0x104c84034
  unslide atos -o Shop.app.dSYM -arch arm64 -i -offset 0x4034
  unslide atos -o Shop.app.dSYM -arch arm64 -l 0x104c80000 < addresses.txt";

/// A request of flags that go together.
#[derive(Debug)]
pub struct AtosRequest {
    pub files: Vec<PathBuf>,
    pub architecture: Option<String>,
    pub base: AddressBase,
    pub style: LineStyle,
    pub input_file: Option<PathBuf>,
    /// Addresses of the command line.
    pub addresses: Vec<String>,
    pub build: BuildArguments,
}

/// The command that arguments ask for.
#[derive(Debug)]
pub enum ParsedArguments {
    Help,
    Request(AtosRequest),
}

/// Why arguments are no request. Apple's tool ends with 1 on them, so this one does too.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUsage {
    #[error("[invalid usage]: no processes or executables specified; give a dSYM with -o PATH")]
    NoFile,
    #[error("[invalid usage]: {0} needs a value after it; see unslide atos -h")]
    NoValue(String),
    #[error("[invalid usage]: {flag} {value}: {problem}")]
    WrongValue { flag: String, value: String, problem: String },
    #[error("[invalid usage]: -l, -s and -offset exclude each other; give one of them")]
    SeveralBases,
    #[error("[invalid usage]: {0} cannot be done here: it needs a running process of a Mac")]
    NeedsMac(String),
    #[error("[invalid usage]: {0} is not a flag of this command; see unslide atos -h")]
    UnknownFlag(String),
}

/// Flags as they were read, before it is checked that they go together.
#[derive(Default)]
struct ReadFlags {
    files: Vec<PathBuf>,
    architecture: Option<String>,
    bases: Vec<AddressBase>,
    style: LineStyle,
    input_file: Option<PathBuf>,
    addresses: Vec<String>,
    build: BuildArguments,
}

/// Parses the arguments of the command line.
///
/// # Errors
/// [`InvalidUsage`].
pub fn parse_arguments(arguments: &[OsString]) -> Result<ParsedArguments, InvalidUsage> {
    let mut flags = ReadFlags::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if !text.starts_with('-') || text.len() == 1 {
            flags.addresses.push(text.into_owned());
            continue;
        }
        // Each flag is also known with two dashes.
        let name = text.trim_start_matches('-');
        let mut value = || rest.next().ok_or_else(|| InvalidUsage::NoValue(text.to_string()));
        match name {
            "h" | "help" => return Ok(ParsedArguments::Help),
            "o" => flags.files.push(value()?.into()),
            "arch" => flags.architecture = Some(to_text(value()?)),
            "l" => flags.bases.push(AddressBase::Load(hexadecimal_value(&text, value()?)?)),
            "s" => flags.bases.push(AddressBase::Slide(hexadecimal_value(&text, value()?)?)),
            "offset" => flags.bases.push(AddressBase::Offset),
            "i" | "inlineFrames" => flags.style.has_inline_frames = true,
            "d" | "delimiter" => flags.style.delimiter = Some(to_text(value()?)),
            "fullPath" => flags.style.has_full_paths = true,
            "f" => flags.input_file = Some(value()?.into()),
            "buildMemory" => {
                let size = to_text(value()?);
                let wrong = |problem| wrong_value(&text, &size, problem);
                flags.build = BuildArguments::with_memory(quantity::bytes(&size).map_err(wrong)?);
            }
            // It changes the output for processes alone.
            "printHeader" => {}
            "p" | "textExecAddress" => return Err(InvalidUsage::NeedsMac(text.into_owned())),
            _ => return Err(InvalidUsage::UnknownFlag(text.into_owned())),
        }
    }
    flags.check_combination().map(ParsedArguments::Request)
}

impl ReadFlags {
    fn check_combination(mut self) -> Result<AtosRequest, InvalidUsage> {
        if self.files.is_empty() {
            return Err(InvalidUsage::NoFile);
        }
        if self.bases.len() > 1 {
            return Err(InvalidUsage::SeveralBases);
        }
        Ok(AtosRequest {
            files: self.files,
            architecture: self.architecture,
            base: self.bases.pop().unwrap_or(AddressBase::File),
            style: self.style,
            input_file: self.input_file,
            addresses: self.addresses,
            build: self.build,
        })
    }
}

fn to_text(value: &OsString) -> String {
    value.to_string_lossy().into_owned()
}

fn hexadecimal_value(flag: &str, value: &OsString) -> Result<u64, InvalidUsage> {
    let value = value.to_string_lossy();
    let wrong = || wrong_value(flag, &value, "it is no hexadecimal address, such as 0x104c80000".to_owned());
    parse_hexadecimal(&value).ok_or_else(wrong)
}

fn wrong_value(flag: &str, value: &str, problem: String) -> InvalidUsage {
    InvalidUsage::WrongValue { flag: flag.to_owned(), value: value.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::super::lines::parse_address;
    use super::*;

    fn parse(line: &str) -> Result<AtosRequest, InvalidUsage> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse_arguments(&arguments)? {
            ParsedArguments::Request(request) => Ok(request),
            ParsedArguments::Help => panic!("help"),
        }
    }

    #[test]
    fn flags_have_one_dash_or_two() {
        let request = parse("-o a.dSYM --fullPath -inlineFrames -l 104c80000 -d ; 0x1 12 ff").unwrap();
        assert_eq!(request.base, AddressBase::Load(0x1_04c8_0000));
        assert!(request.style.has_full_paths && request.style.has_inline_frames);
        assert_eq!(request.style.delimiter.as_deref(), Some(";"));
        assert_eq!(request.addresses, ["0x1", "12", "ff"]);
        assert_eq!(parse("-o a --offset 0x4004").unwrap().base, AddressBase::Offset);
        assert_eq!(parse("-o a -s 10 1").unwrap().base, AddressBase::Slide(16));
    }

    #[test]
    fn an_address_without_0x_is_decimal_unless_it_has_other_digits() {
        let expected = [("0x10", Some(16)), ("10", Some(10)), ("1f", Some(31)), ("0X1F", Some(31))];
        for (text, number) in expected {
            assert_eq!(parse_address(text), number, "{text}");
        }
        for wrong in ["", "0x", "+1", "-1", "main", "99999999999999999999", "0x11111111111111111"] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn wrong_flags_are_named() {
        let problem = |line: &str| parse(line).unwrap_err().to_string();
        assert!(problem("0x1").contains("no processes or executables specified"));
        assert!(problem("-o").contains("-o needs a value"));
        assert!(problem("-o a -l here").contains("-l here: it is no hexadecimal address"));
        assert!(problem("-o a -l 1 -offset").contains("exclude each other"));
        assert!(problem("-o a -p 12").contains("-p cannot be done here"));
        assert!(problem("-o a --scope").contains("--scope is not a flag"));
        assert!(problem("-o a -buildMemory much").contains("-buildMemory much"));
    }
}
