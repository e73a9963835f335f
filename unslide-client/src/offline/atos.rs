//! `unslide atos`: addresses to names, with the flags and the output of Apple's tool of this name.

mod flags;
mod image;
mod lines;

use flags::{AtosRequest, FLAGS, ParsedArguments};
use image::AtosImage;
use lines::AddressAnswering;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use unslide_cli::{CommandError, Console, Exit, Outcome, map_unpacked};

/// Bytes of answers that are collected before they are written.
const OUTPUT_BUFFER_BYTES: usize = 64 << 10;
/// Longest line of standard input, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Arguments of atos, which begin with one dash. clap does not know this form, so [`flags`] reads them.
#[derive(clap::Args)]
#[command(after_help = FLAGS)]
pub struct Arguments {
    /// Flags and addresses, see below. Without addresses they are read from standard input, one a line
    #[arg(value_name = "FLAG|ADDRESS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Answers every address on a line of its own, in the order of the input.
pub fn run(arguments: &Arguments) -> Outcome {
    let request = match flags::parse_arguments(&arguments.arguments)? {
        ParsedArguments::Help => {
            Console::get().say_lines(FLAGS);
            return Ok(Exit::Ready);
        }
        ParsedArguments::Request(request) => request,
    };
    let images = open_images(&request)?;
    let mut answering = AddressAnswering::new(images, request.base, request.style);
    if let Some(file) = &request.input_file {
        answer_file(&mut answering, file)?;
    } else if request.addresses.is_empty() {
        answer_standard_input(&mut answering)?;
    } else {
        let addresses = request.addresses.iter().map(String::as_str);
        addresses.for_each(|address| answer_and_write(&mut answering, address));
    }
    answering.write_output();
    Ok(Exit::Ready)
}

fn open_images(request: &AtosRequest) -> Result<Vec<AtosImage>, image::CannotLoad> {
    let architecture = request.architecture.as_deref();
    request.files.iter().map(|file| AtosImage::open(file, architecture, request.build)).collect()
}

fn answer_and_write(answering: &mut AddressAnswering, address: &str) {
    answering.answer_address(address);
    if answering.output.len() >= OUTPUT_BUFFER_BYTES {
        answering.write_output();
    }
}

fn answer_file(answering: &mut AddressAnswering, file: &Path) -> Result<(), CommandError> {
    let bytes = map_unpacked(file).map_err(|error| CommandError::cannot_read(file, error))?;
    let addresses = bytes.split(u8::is_ascii_whitespace).filter(|address| !address.is_empty());
    for address in addresses.take_while(|_| !Console::get().is_closed()) {
        answer_and_write(answering, &String::from_utf8_lossy(address));
    }
    Ok(())
}

/// Answers each line as soon as it is read: scripts keep one process and write one address at a time. Answers are written
/// together only while more lines are waiting.
fn answer_standard_input(answering: &mut AddressAnswering) -> Result<(), CommandError> {
    let failed = |error: io::Error| CommandError::caused("cannot read standard input", error);
    let mut input = BufReader::with_capacity(OUTPUT_BUFFER_BYTES, io::stdin());
    let mut line = Vec::new();
    while !Console::get().is_closed() {
        if !input.buffer().contains(&b'\n') {
            answering.write_output();
        }
        line.clear();
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            break;
        }
        if read as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            let problem = format!("a line has more than {MAX_LINE_BYTES} bytes; write one address a line");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, problem)));
        }
        answer_and_write(answering, String::from_utf8_lossy(&line).trim());
    }
    Ok(())
}
