//! An array of reports, as the HTTP sink of the crash handler sends them, as a record for each element.

use crate::offline::records::input::{InputRecord, describe_error, is_array};
use crate::offline::records::recognition::{check_report, is_other_data, is_report_text, no_report_problem};
use unslide_report::reader::ReportReaders;
use unslide_report::{Element, ReadLimits, split_record};
use unslide_symbolicate::most_bytes;

/// Returns the record, or the elements of the array that it is, so that many are answered at a time. A document that holds
/// several reports becomes a document for each, one a line.
pub fn split_elements(record: InputRecord, readers: &ReportReaders) -> Vec<InputRecord> {
    let InputRecord::Report { line, bytes, ending } = record else { return vec![record] };
    if let Some(parts) = readers.split_document(&bytes, &ReadLimits::default()) {
        return part_records(line, parts, &ending);
    }
    if !is_array(&bytes) {
        return vec![InputRecord::Report { line, bytes, ending }];
    }
    match split_record(&bytes, &ReadLimits::default()) {
        Ok(found) => split_records(line, &bytes, &ending, &found, readers),
        Err(error) => {
            let problem = describe_error(&error);
            let none = InputRecord::NoReport { line, problem, log: None };
            vec![none, InputRecord::Filler([bytes, ending].concat())]
        }
    }
}

/// Describes the problem of an element of an array, with its number from 1.
pub fn element_problem(number: usize, problem: &str) -> String {
    format!("element {number} of the array: {problem}")
}

/// Returns a record for each document, with a line break between two.
fn part_records(line: u64, parts: Vec<Vec<u8>>, ending: &[u8]) -> Vec<InputRecord> {
    let mut records = Vec::with_capacity(parts.len() * 2);
    for (at, bytes) in parts.into_iter().enumerate() {
        if at > 0 {
            records.push(InputRecord::Between(b"\n".to_vec()));
        }
        let room = most_bytes(bytes.len());
        records.push(InputRecord::Element { line, number: at + 1, bytes, room });
    }
    records.push(InputRecord::Between(ending.to_vec()));
    records
}

/// Describes an element that is neither an object nor a report as text.
fn describe_other(found: &str) -> String {
    format!("not_a_report: a report is an object, this is {found}")
}

/// Returns the record of an array without any report: one problem, and the texts in it, which are logs.
fn find_no_report(line: u64, found: &[Element<'_>], readers: &ReportReaders) -> Option<InputRecord> {
    let limits = ReadLimits::default();
    let (mut first, mut logs) = (None, Vec::new());
    for element in found {
        let problem = match element {
            Element::Report(bytes) => match check_report(bytes, readers, &limits) {
                Err(error) if is_other_data(&error) => describe_error(&error),
                _ => return None,
            },
            Element::Text(text) if is_report_text(&text.decode_bytes(), readers, &limits) => return None,
            Element::Text(text) => {
                logs.push(text.decode().into_owned());
                describe_other("a string")
            }
            Element::Other { found, .. } => describe_other(found),
        };
        first.get_or_insert(problem);
    }
    let more = found.len().checked_sub(1).filter(|more| *more > 0)?;
    let problem = no_report_problem(&element_problem(1, &first?), more);
    let log = (!logs.is_empty()).then(|| logs.join("\n"));
    Some(InputRecord::NoReport { line, problem, log })
}

fn split_records(
    line: u64,
    bytes: &[u8],
    ending: &[u8],
    found: &[Element<'_>],
    readers: &ReportReaders,
) -> Vec<InputRecord> {
    if let Some(none) = find_no_report(line, found, readers) {
        return vec![none, InputRecord::Between([bytes, ending].concat())];
    }
    let mut records = Vec::with_capacity(found.len() * 2 + 1);
    let mut copied = 0;
    for (at, element) in found.iter().enumerate() {
        let number = at + 1;
        let none = |found: &str, log| InputRecord::NoReport {
            line,
            problem: element_problem(number, &describe_other(found)),
            log,
        };
        match element {
            Element::Report(element) => {
                // The element is a part of the record, so its offset is that of its first byte.
                let start = element.as_ptr() as usize - bytes.as_ptr() as usize;
                records.push(InputRecord::Between(bytes[copied..start].to_vec()));
                copied = start + element.len();
                let room = element_room(element.len(), bytes.len());
                records.push(InputRecord::Element { line, number, bytes: element.to_vec(), room });
            }
            Element::Text(text) if is_report_text(&text.decode_bytes(), readers, &ReadLimits::default()) => {
                let start = text.raw().as_ptr() as usize - bytes.as_ptr() as usize;
                // The quotes belong to the text.
                records.push(InputRecord::Between(bytes[copied..start - 1].to_vec()));
                copied = start + text.raw().len() + 1;
                let room = element_room(text.raw().len(), bytes.len());
                records.push(InputRecord::Element {
                    line,
                    number,
                    bytes: text.decode_bytes().into_owned(),
                    room,
                });
            }
            // Another text is a log already.
            Element::Text(log) => records.push(none("a string", Some(log.decode().into_owned()))),
            Element::Other { found, .. } => records.push(none(found, None)),
        }
    }
    records.push(InputRecord::Between([&bytes[copied..], ending].concat()));
    records
}

/// Returns the most bytes of an element's answer. Together the elements have the limit of one report of their
/// size.
fn element_room(element: usize, array: usize) -> usize {
    let share = most_bytes(array) as u128 * element as u128 / array.max(1) as u128;
    usize::try_from(share).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_of_an_array_is_a_record_and_nothing_is_lost() {
        let array = b"\xEF\xBB\xBF[ {\"crash\":{\"threads\":[]}} , \"text\", 3,{} ]";
        let record = InputRecord::Report { line: 7, bytes: array.to_vec(), ending: b"\n".to_vec() };
        let records = split_elements(record, &ReportReaders::default());
        let reports: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                InputRecord::Element { line: 7, number, bytes, .. } => Some((*number, bytes.as_slice())),
                _ => None,
            })
            .collect();
        assert_eq!(reports, [(1, &b"{\"crash\":{\"threads\":[]}}"[..]), (4, b"{}")]);
        let rest: Vec<u8> = records
            .iter()
            .flat_map(|record| match record {
                InputRecord::Element { bytes, .. } | InputRecord::Between(bytes) => bytes.clone(),
                _ => Vec::new(),
            })
            .collect();
        assert_eq!(rest, [&array[..], b"\n"].concat());
    }

    #[test]
    fn an_array_without_any_report_has_one_problem() {
        let split = |array: &str| {
            let record = InputRecord::Report { line: 1, bytes: array.into(), ending: b"\n".to_vec() };
            split_elements(record, &ReportReaders::default())
        };
        for array in [
            "[{\"a\":1},{},{\"b\":[]}]",
            "[1,null,{}]",
            "[\"a log\",\"another\",7]",
            "[{\"level\":\"info\"}, 3,4]",
        ] {
            let records = split(array);
            let [InputRecord::NoReport { line: 1, problem, .. }, InputRecord::Between(bytes)] = &records[..]
            else {
                panic!("{array}: {records:?}")
            };
            assert_eq!(*bytes, format!("{array}\n").into_bytes());
            assert!(problem.starts_with("element 1 of the array: not_a_report: "), "{problem}");
            assert!(problem.ends_with("; this is no file of reports: 2 more could not be read"), "{problem}");
        }
        let InputRecord::NoReport { log, .. } = &split("[\"a log\",7,\"another\"]")[0] else {
            panic!("no problem")
        };
        assert_eq!(log.as_deref(), Some("a log\nanother"));
        // One element has its own problem, and so has each beside a report that is damaged.
        let problems = |array: &str| {
            let of_element = |record: &InputRecord| {
                matches!(record, InputRecord::Element { .. } | InputRecord::NoReport { .. })
            };
            split(array).iter().filter(|record| of_element(record)).count()
        };
        assert_eq!(problems("[7]"), 1);
        let deep = format!("[{{}},{}{},7]", "{\"a\":".repeat(300), "0".to_owned() + &"}".repeat(300));
        assert_eq!(problems(&deep), 3);
    }

    #[test]
    fn the_answers_of_an_array_are_together_no_larger_than_that_of_one_report() {
        let lengths = [700, 20, 3_000_000];
        let array = lengths.iter().sum::<usize>() + 4;
        assert!(
            lengths.iter().map(|length| element_room(*length, array)).sum::<usize>() <= most_bytes(array)
        );
    }
}
