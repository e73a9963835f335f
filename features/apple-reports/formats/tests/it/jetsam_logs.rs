//! Jetsam logs as text, and old ones in JSON.

use crate::{readers, stripped, translate};
use unslide_report::{ReadLimits, Report};

/// A log of iOS 7, with a header of JSON or without.
const TEXT: &str = "Incident Identifier: 8F8C5E5A-1111-5222-8333-444444444444
CrashReporter Key:   0123456789abcdef
Hardware Model:      iPhone5,2
OS Version:          iPhone OS 7.0.4 (11B554a)
Kernel Version:      Darwin Kernel Version 14.0.0
Date:                2013-11-27 11:50:50 +0800
Time since snapshot: 214 ms

Free pages:        1204
Active pages:      47421
Wired pages:       89025
Largest process:   Shop

Processes
     Name                    <UUID>                       rpages       recent_max       [reason]          (state)

      Shop <a1b2c3d4000051118222012345678 9ab>        1            1     []  (frontmost)
      Shop <a1b2c3d40000511182220123456789ab>        76543        80000     [vm-pageshortage]  (frontmost) (resume)
      backboardd <b1b2c3d40000311182220123456789ab>        1200        1300     []  (active)

**End**
";

/// Proves: unchanged-bytes
#[test]
fn a_jetsam_log_as_text_is_an_end_out_of_memory() {
    let header = "{\"bug_type\":\"198\",\"os_version\":\"iPhone OS 7.0.4 (11B554a)\"}\n";
    for log in [TEXT.to_owned(), format!("{header}{TEXT}"), TEXT.replace('\n', "\r\n")] {
        let translated = translate(log.as_bytes()).unwrap();
        let report = Report::read_event(&translated.json, &ReadLimits::default()).unwrap();
        assert_eq!(report.id.to_string(), "8f8c5e5a-1111-5222-8333-444444444444");
        let event = report.jetsam.as_deref().unwrap();
        assert_eq!((event.processes.len(), event.pages.len(), event.page_size), (2, 3, 4_096));
        let summary = report.summary();
        assert_eq!(
            [summary.error_type, summary.app, summary.os_version, summary.device_model].map(Option::unwrap),
            ["out_of_memory", "Shop", "7.0.4", "iPhone5,2"]
        );
        assert_eq!(summary.timestamp.unwrap().unix_timestamp(), 1_385_524_250);
        assert_eq!(event.processes[0].footprint, 76_543 * 4_096);
        let document = readers();
        let document = document.open(log.as_bytes(), &ReadLimits::default()).unwrap();
        let own = format!("{{\"version\":1,\"engine\":\"{}1\"}}", unslide_report::ENGINE_PREFIX);
        let json = document.json().strip_suffix(b"}").unwrap();
        let enriched = [json, b",\"symbolication\":", own.as_bytes(), b"}"].concat();
        assert_eq!(stripped(&document.write(enriched).unwrap()), log.as_bytes());
    }
}

#[test]
fn a_jetsam_log_as_text_without_processes_is_refused() {
    let cut = TEXT.split("      Shop").next().unwrap();
    let error = translate(cut.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("without a line for a process"), "{error}");
}

#[test]
fn an_old_jetsam_log_in_json_is_read_like_a_new_one() {
    let body = "{\"memoryStatus\":{\"pageSize\":4096},\"processes\":[{\"name\":\"Shop\",\"rpages\":3,\"states\":\
                [\"frontmost\"],\"reason\":\"highwater\"}]}";
    for bug_type in ["198", "\"198\"", "\"298\""] {
        let log = format!("{{\"bug_type\":{bug_type}}}\n{body}");
        assert!(readers().find(log.as_bytes()).is_none(), "the core reads it");
        let event =
            unslide_report::jetsam::JetsamEvent::read(log.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(event.processes[0].footprint, 3 * 4_096);
    }
}
