//! Many records at a time, their answers in the order in which they came.
//!
//! For each record the reader puts a slot into a bounded queue to the writer and the record, with
//! the slot's other end, into a bounded queue to the workers. The writer waits for the slots in
//! order, so that no more than the window is in memory however long one record takes.

use crate::offline::records::AnsweredRecord;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Records in flight for each thread.
const RECORDS_PER_THREAD: usize = 4;

/// Why not everything was answered.
#[derive(Debug)]
pub enum Stopped {
    Read(io::Error),
    Write(io::Error),
}

type Work<R, N> = (R, SyncSender<AnsweredRecord<N>>);

/// Answers every record with `threads` workers and writes the answers in order, with a separator between two
/// that have bytes. `written` receives each answer after it was written.
///
/// # Errors
/// Returns an error if the input or the output fails. Answers to records that were read before a failure of
/// the input are written.
pub fn run<R: Send, N: Send>(
    records: impl Iterator<Item = io::Result<R>> + Send,
    threads: usize,
    work: impl Fn(R) -> AnsweredRecord<N> + Sync,
    out: &mut impl Write,
    separator: &str,
    written: &mut impl FnMut(AnsweredRecord<N>),
) -> Result<(), Stopped> {
    let (to_workers, from_reader) = sync_channel::<Work<R, N>>(threads * RECORDS_PER_THREAD);
    let (to_writer, slots) = sync_channel::<Receiver<AnsweredRecord<N>>>(threads * RECORDS_PER_THREAD);
    let from_reader = Mutex::new(from_reader);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || feed_workers(records, &to_workers, &to_writer));
        for _ in 0..threads {
            scope.spawn(|| answer_all(&from_reader, &work));
        }
        let done = write_answers(&slots, out, separator, written);
        // Without the slots' receiver the reader stops at its next record.
        drop(slots);
        done.map_err(Stopped::Write)?;
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(Stopped::Read)
    })
}

fn feed_workers<R, N>(
    records: impl Iterator<Item = io::Result<R>>,
    to_workers: &SyncSender<Work<R, N>>,
    to_writer: &SyncSender<Receiver<AnsweredRecord<N>>>,
) -> io::Result<()> {
    for record in records {
        let record = record?;
        let (answer, slot) = sync_channel(1);
        if to_writer.send(slot).is_err() || to_workers.send((record, answer)).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer_all<R, N>(from_reader: &Mutex<Receiver<Work<R, N>>>, work: &impl Fn(R) -> AnsweredRecord<N>) {
    loop {
        let next = from_reader.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, answer)) = next else { return };
        // No thread waits for the answer once the output has failed.
        let _ = answer.send(work(job));
    }
}

fn write_answers<N>(
    slots: &Receiver<Receiver<AnsweredRecord<N>>>,
    out: &mut impl Write,
    separator: &str,
    written: &mut impl FnMut(AnsweredRecord<N>),
) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 18, out);
    let mut is_first = true;
    loop {
        let slot = match slots.try_recv() {
            Ok(slot) => slot,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // A reader gets all finished answers while the input pauses.
                out.flush()?;
                match slots.recv() {
                    Ok(slot) => slot,
                    Err(_) => break,
                }
            }
        };
        let Ok(answer) = slot.recv() else { break };
        if !answer.bytes.is_empty() && !std::mem::take(&mut is_first) {
            out.write_all(separator.as_bytes())?;
        }
        out.write_all(&answer.bytes)?;
        written(answer);
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::records::input::InputRecord;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn record(line: u64) -> InputRecord {
        InputRecord::Report { line, bytes: line.to_string().into_bytes(), ending: b"\n".to_vec() }
    }

    fn echo(job: InputRecord) -> AnsweredRecord<()> {
        let InputRecord::Report { line, bytes, ending } = job else { unreachable!() };
        let problem = (line % 100 == 0).then(|| "hundred".to_owned());
        AnsweredRecord { line, bytes: [bytes, ending].concat(), problem, ..AnsweredRecord::default() }
    }

    #[test]
    fn answers_come_in_order_and_never_more_than_the_window_is_in_flight() {
        let read = AtomicUsize::new(0);
        let answered = AtomicUsize::new(0);
        let ahead = AtomicUsize::new(0);
        let records = (0..2000).map(|line| {
            let in_flight = read.fetch_add(1, Ordering::SeqCst) - answered.load(Ordering::SeqCst).min(2000);
            ahead.fetch_max(in_flight, Ordering::SeqCst);
            Ok(record(line))
        });
        let work = |job: InputRecord| {
            if let InputRecord::Report { line, .. } = &job {
                // Later records are quicker.
                (0..(2000 - line) * 10).for_each(|n| _ = std::hint::black_box(n));
            }
            answered.fetch_add(1, Ordering::SeqCst);
            echo(job)
        };
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let mut note = |answer: AnsweredRecord<()>| notes.extend(answer.problem.map(|_| answer.line));
        run(records, 3, work, &mut out, "", &mut note).unwrap();
        let expected: String = (0..2000).map(|line| format!("{line}\n")).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(notes.iter().copied().eq((0..2000).step_by(100)));
        assert!(ahead.load(Ordering::SeqCst) <= 3 * RECORDS_PER_THREAD + 3 + 2, "{ahead:?}");
    }

    #[test]
    fn two_records_are_answered_at_the_same_time() {
        // Neither returns before the other was begun.
        let both = Barrier::new(2);
        let work = |job| {
            both.wait();
            echo(job)
        };
        let mut out = Vec::new();
        run([Ok(record(1)), Ok(record(2))].into_iter(), 2, work, &mut out, "", &mut |_| {}).unwrap();
        assert_eq!(out, b"1\n2\n");
    }

    #[test]
    fn a_failing_output_stops_an_endless_input() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let stopped = run((0..).map(|line| Ok(record(line))), 2, echo, &mut Full(2), "", &mut |_| {});
        assert!(matches!(stopped, Err(Stopped::Write(error)) if error.kind() == io::ErrorKind::StorageFull));
    }

    #[test]
    fn what_was_read_before_the_input_failed_is_written() {
        let records = [Ok(record(1)), Ok(record(2)), Err(io::ErrorKind::BrokenPipe.into())];
        let mut out = Vec::new();
        let stopped = run(records.into_iter(), 2, echo, &mut out, "", &mut |_| {});
        assert!(matches!(stopped, Err(Stopped::Read(_))));
        assert_eq!(out, b"1\n2\n");
    }

    #[test]
    fn a_separator_is_between_two_answers_that_have_bytes() {
        let work = |job| match echo(job) {
            answer if answer.line % 2 == 0 => AnsweredRecord { bytes: Vec::new(), ..answer },
            answer => answer,
        };
        let mut out = Vec::new();
        run((0..7).map(|line| Ok(record(line))), 2, work, &mut out, "-\n", &mut |_| {}).unwrap();
        assert_eq!(out, b"1\n-\n3\n-\n5\n");
    }
}
