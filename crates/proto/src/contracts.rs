//! The wire format: names of headers, topics, groups and keys, and the bytes of one example of each
//! message, with the version that they belong to.
//!
//! If this fails, something that other programs read was changed. Topics contain records of earlier releases,
//! compacted topics for as long as a tenant exists, and during an update both releases run.
//! * Add a new header, topic, group or key to `contracts.txt`. Never rename an existing one, and never
//!   remove it while any program may read or write it: add a new one beside it.
//! * Give a new field a number that was never used, and add the field to its example. The bytes of the
//!   earlier fields stay unchanged; only a length around them may grow.
//! * Any other change needs a new version: a package `v2` beside `v1`, and readers of both.
//!
//! `docs/output.md` and `proto/README.md` explain the names; change them at the same time.

use crate::report::{
    BatchAccount, LedgerRecord, Need, Outcome, OutcomeCount, PartitionBatch, RecordRef, Resymbolicate,
    SegmentRef, TerminalOutcome, ledger_record, resymbolicate,
};
use crate::signal::{
    MemoryClass, MemoryClassKind, MemoryGraph, MemoryGraphEnd, MemoryGraphHeader, MemoryImage, MemoryMember,
    MemoryNodes, MemoryReferenceKind, MemoryReferences, MemoryRegion, MemoryRootKind, MemoryRoots,
    MemoryZone, StackImage, StackNode, StackSet,
};
use crate::stored::StoredEvent;
use crate::symbol::{SymbolEvent, TenantConfig, TenantLimits, TenantState, UsedSymbol, UsedSymbols};
use crate::{Message, keys, lanes, topics};
use std::fmt::Write;
use unslide_model::{DebugId, ReportId, TenantId};

const PINNED: &str = include_str!("contracts.txt");
const SYMBOL: &str = include_str!("../../../proto/unslide/symbol/v1/symbol.proto");
const REPORT_PROTO: &str = include_str!("../../../proto/unslide/report/v1/report.proto");
const SIGNAL: &str = include_str!("../../../proto/unslide/signal/v1/signal.proto");
const STORED_PROTO: &str = include_str!("../../../proto/unslide/stored/v1/stored.proto");
const HEADERS_SOURCE: &str = include_str!("headers.rs");

fn format_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the package of a source of messages, with its version.
fn find_package(source: &str) -> &str {
    let line = source.lines().find_map(|line| line.strip_prefix("package "));
    line.and_then(|line| line.strip_suffix(';')).expect("a package")
}

/// Returns a line for a message, after checking that its bytes decode to the same message.
fn format_message<M: Message + Default + PartialEq + std::fmt::Debug>(
    source: &str,
    name: &str,
    example: &M,
) -> String {
    let bytes = example.encode_to_vec();
    assert_eq!(&M::decode(bytes.as_slice()).expect("its own bytes"), example, "{name}");
    format!("{}.{name} {}", find_package(source), format_hex(&bytes))
}

fn example_record(topic: &str, partition: i32, offset: i64) -> RecordRef {
    RecordRef { topic: topic.to_owned(), partition, offset }
}

/// Returns a snapshot of memory with every field set.
fn memory_graph() -> MemoryGraph {
    let (name, path) = ("Cart".to_owned(), "/Shop.app/Shop".to_owned());
    let region = MemoryRegion {
        address: 0x6000_0000,
        size: 0x4000,
        tag: 7,
        dirty: 0x3000,
        swapped: 0x1000,
        resident: 0x2000,
        protection: 3,
        path: path.clone(),
    };
    MemoryGraph {
        header: Some(MemoryGraphHeader {
            format: "unslide.memory-graph".to_owned(),
            process: "Shop".to_owned(),
            at_micros: 1_764_000_000_000_005,
        }),
        images: vec![MemoryImage {
            debug_id: vec![1; 16].into(),
            path,
            address: 0x1_0000_0000,
            size: 0x8000,
        }],
        classes: vec![MemoryClass {
            name,
            kind: MemoryClassKind::Swift.into(),
            address: 0x1_0000_4000,
            members: vec![MemoryMember {
                offset: 16,
                name: "items".to_owned(),
                r#type: "Item".to_owned(),
                stride: 8,
            }],
        }],
        zones: vec![MemoryZone { name: "DefaultMallocZone".to_owned() }],
        regions: vec![region],
        nodes: vec![MemoryNodes {
            address_deltas: vec![0x6000_0000, 64],
            sizes: vec![48, 300],
            classes: vec![1, 0],
            zones: vec![1, 1],
        }],
        references: vec![MemoryReferences {
            source_deltas: vec![0, 1],
            target_deltas: vec![1, -1],
            kinds: vec![MemoryReferenceKind::Strong.into(), MemoryReferenceKind::Conservative.into()],
            offsets: vec![8, 16],
        }],
        roots: vec![MemoryRoots {
            node_deltas: vec![0],
            kinds: vec![MemoryRootKind::Stack.into()],
            addresses: vec![0x1_6000_0000],
        }],
        end: Some(MemoryGraphEnd { nodes: 2, references: 2, roots: 1 }),
    }
}

/// Returns an event of a stored report with every field set.
fn stored_event() -> StoredEvent {
    StoredEvent {
        tenant: "acme".to_owned(),
        report_id: "02020202-0202-0202-0202-020202020202".to_owned(),
        variant: 1,
        revision: 3,
        version: 70_001,
        deleted: true,
        app: "com.acme.shop".to_owned(),
        app_version: "2.1".to_owned(),
        app_build: "210".to_owned(),
        kind: "mach".to_owned(),
        fatal: true,
        status: "complete".to_owned(),
        exception: "EXC_BAD_ACCESS".to_owned(),
        signal: "SIGSEGV".to_owned(),
        fault: "trap".to_owned(),
        group_id: "03030303-0303-0303-0303-030303030303".to_owned(),
        received_at_micros: 1_764_000_000_000_006,
        occurred_at_micros: 1_764_000_000_000_007,
        stored_at_micros: 1_764_000_000_000_008,
        os_name: "iOS".to_owned(),
        os_version: "27.0".to_owned(),
        os_build: "24A300".to_owned(),
        model: "iPhone17,1".to_owned(),
        cpu_arch: "arm64".to_owned(),
        teller: "handler".to_owned(),
        weight: 10,
        same_crash_as: "04040404-0404-0404-0404-040404040404".to_owned(),
        frames: 300,
        frames_symbolicated: 200,
        frames_missing: 20,
        own_frames: 130,
        own_frames_symbolicated: 129,
        symbols_missing: true,
    }
}

/// Returns one example of every message with every field set. A new field must be added here.
fn list_messages() -> Vec<String> {
    let event = SymbolEvent {
        tenant: "acme".to_owned(),
        debug_id: vec![1; 16].into(),
        generation: 300,
        quality: 3,
        symcache_version: 2,
        deleted: true,
        at_micros: 1_764_000_000_000_001,
    };
    let limits = TenantLimits {
        report_bytes: 1 << 20,
        upload_bytes: 1 << 32,
        symbol_bytes: 1 << 40,
        retention_days: 90,
        units_per_second: 800,
    };
    let config = TenantConfig {
        tenant: "acme".to_owned(),
        version: 7,
        state: TenantState::Suspended.into(),
        limits: Some(limits),
        at_micros: 1_764_000_000_000_002,
        grouping_rules: "ignore function Log.*".to_owned(),
        analysis_switches: [("crash_analysis".to_owned(), false), ("variables".to_owned(), true)].into(),
        moved_to: Some("east.".to_owned()),
    };
    let used = UsedSymbol { tenant: "acme".to_owned(), debug_id: vec![1; 16].into() };
    let used = UsedSymbols { symbols: vec![used], tenants: vec!["acme".to_owned(), "stark".to_owned()] };
    let request = |body| Resymbolicate {
        tenant: "acme".to_owned(),
        report_id: vec![2; 16].into(),
        revision: 4,
        supersedes: 3,
        needs: vec![Need { debug_id: vec![1; 16].into(), generation: 300, system: true }],
        requested_at_micros: 1_764_000_000_000_003,
        origin: Some(example_record("crash.reports", 5, 70_000)),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        variant: 1,
        content_hash: vec![3; 32].into(),
        body: Some(body),
    };
    let segment = SegmentRef {
        key: "t/acme/segments/x".to_owned(),
        offset: 4_096,
        length: 512,
        body_key: vec![2; 32].into(),
        revision: 1,
    };
    let ledger = |entry| LedgerRecord {
        lane: "live".to_owned(),
        worker: "symbolizer-0".to_owned(),
        at_micros: 1_764_000_000_000_004,
        entry: Some(entry),
    };
    let count = OutcomeCount { tenant: "acme".to_owned(), outcome: Outcome::DeadLetter.into(), count: 2 };
    let partition = PartitionBatch {
        topic: "crash.reports".to_owned(),
        partition: 5,
        first_offset: 70_000,
        next_offset: 70_003,
        records: 3,
        outcomes: vec![count],
    };
    let terminal = TerminalOutcome {
        tenant: "acme".to_owned(),
        report_id: vec![2; 16].into(),
        revision: 4,
        outcome: Outcome::SourceGone.into(),
        origin: Some(example_record("crash.reports", 5, 70_000)),
        source: Some(example_record("unslide.resymbolicate", 1, 9)),
        segment: "t/acme/segments/x".to_owned(),
        requested_at_micros: 1_764_000_000_000_003,
        passed_to: "east.crash.reports".to_owned(),
    };
    let stacks = StackSet {
        images: vec![StackImage { debug_id: vec![1; 16].into(), name: "Shop".to_owned() }],
        nodes: vec![
            StackNode { image: 1, address: 0x1234, ..StackNode::default() },
            StackNode { parent: 1, image: 1, address: 0x5678, count: 300, exact: true },
        ],
    };
    vec![
        format_message(SYMBOL, "SymbolEvent", &event),
        format_message(SYMBOL, "TenantConfig", &config),
        format_message(SYMBOL, "UsedSymbols", &used),
        format_message(
            REPORT_PROTO,
            "Resymbolicate",
            &request(resymbolicate::Body::InlineLz4(vec![2, 0, 0, 0, 0x20, b'{', b'}'].into())),
        ),
        format_message(REPORT_PROTO, "Resymbolicate", &request(resymbolicate::Body::Segment(segment))),
        format_message(
            REPORT_PROTO,
            "LedgerRecord",
            &ledger(ledger_record::Entry::Batch(BatchAccount { partitions: vec![partition] })),
        ),
        format_message(REPORT_PROTO, "LedgerRecord", &ledger(ledger_record::Entry::Terminal(terminal))),
        format_message(SIGNAL, "StackSet", &stacks),
        format_message(STORED_PROTO, "StoredEvent", &stored_event()),
        format_message(SIGNAL, "MemoryGraph", &memory_graph()),
    ]
}

/// Returns the values of enumerations, which are numbers in messages and in the store.
fn list_values() -> Vec<String> {
    let states = (0..).map_while(|n| Some((n, TenantState::try_from(n).ok()?.as_str_name())));
    let outcomes = (0..).map_while(|n| Some((n, Outcome::try_from(n).ok()?.as_str_name())));
    states.chain(outcomes).map(|(number, name)| format!("value {number} {name}")).collect()
}

/// Returns each header's name from its source.
fn list_headers() -> Vec<String> {
    let value = |line: &str| Some(line.strip_prefix("pub const ")?.split('"').nth(1)?.to_owned());
    let mut names: Vec<String> = HEADERS_SOURCE.lines().filter_map(value).collect();
    assert_eq!(
        names.len(),
        HEADERS_SOURCE.matches("pub const").count(),
        "each name stands in its constant's line"
    );
    names.sort();
    names.iter().map(|name| format!("header {name}")).collect()
}

fn list_names() -> Vec<String> {
    let tenant = TenantId::new("acme").expect("a slug");
    let all = topics::TopicNames::with_prefix("");
    let mut lines: Vec<String> = all.all().iter().map(|topic| format!("topic {topic}")).collect();
    lines.push(format!("topic {}", all.tenant_input(&tenant)));
    lines.push(format!("topic {}", all.tenant_output(&tenant)));
    for lane in [lanes::LIVE, lanes::RETRY, lanes::RESYMBOLICATE] {
        lines.push(format!("group {}", lanes::consumer_group("", lane)));
    }
    let report = tenant.scope(ReportId([2; 16]));
    lines.push(format!("key of an input record {}", keys::for_input(&report, Some("com.acme.shop"), 8)));
    lines.push(format!("key of a report {}", keys::for_report(&report)));
    lines.push(format!("key of symbols {}", keys::for_symbols(Some(&tenant), &DebugId([1; 16]))));
    lines.push(format!("key of a system's symbols {}", keys::for_symbols(None, &DebugId([1; 16]))));
    lines.push(format!("key of a tenant {}", keys::for_tenant(&tenant)));
    lines.push(format!("key of a partition {}", keys::for_partition(topics::INPUT, 7)));
    lines
}

#[test]
fn nothing_on_the_wire_changes_unseen() {
    let mut now = String::new();
    for line in [list_headers(), list_names(), list_values(), list_messages()].concat() {
        writeln!(now, "{line}").expect("a string");
    }
    assert!(now == PINNED, "the head of contracts.rs says what to do. It is now:\n{now}");
}
