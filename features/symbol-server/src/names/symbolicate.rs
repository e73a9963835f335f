//! `POST /symbols/{key}/symbolicate/v5`: addresses of a profile to functions, files and lines.

use super::key::NamesCaller;
use super::{fetch_symbols, visible_ids};
use crate::layouts::parse_breakpad_id;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use unslide_api::feature::Symbolication;
use unslide_api::feature::intake::Chunks;
use unslide_api::feature::operation::{
    Charge, Kind, Problem, ReservedAnswer, SymbolsOfReport, reserve_bytes,
};
use unslide_model::{DebugId, RelativeAddress, json};
use unslide_report::Text;
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::{CodeCall, CodeLookup};

/// The most bytes of a request.
const MAX_BODY_BYTES: u64 = 4 << 20;
/// The most jobs of a request, as Mozilla's server allows.
const MAX_JOBS: usize = 10;
/// The most modules of all jobs.
const MAX_MODULES: usize = 1_000;
/// The most bytes of a module's name.
const MAX_MODULE_NAME_BYTES: usize = 1_024;
/// The most frames of all jobs.
const MAX_FRAMES: usize = 100_000;
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;

#[derive(Deserialize)]
struct SymbolicationRequest {
    jobs: Option<Vec<Job>>,
    #[serde(rename = "memoryMap")]
    memory_map: Option<Vec<Module>>,
    stacks: Option<Vec<Vec<ModuleOffset>>>,
}

/// Names and Breakpad ids of modules, and stacks of addresses in them.
#[derive(Deserialize)]
struct Job {
    #[serde(rename = "memoryMap")]
    memory_map: Vec<Module>,
    stacks: Vec<Vec<ModuleOffset>>,
}

/// The name and the Breakpad id of a module.
#[derive(Deserialize)]
struct Module(String, String);

/// The index of a module, -1 for none, and an offset from its start.
#[derive(Clone, Copy, Deserialize)]
struct ModuleOffset(i64, u64);

#[derive(Serialize)]
struct JobAnswer<'a> {
    stacks: Vec<Vec<AnsweredFrame<'a>>>,
    /// True for a module that was found, false for one that was not, null for one that no frame needs.
    found_modules: BTreeMap<String, Option<bool>>,
}

#[derive(Serialize)]
struct AnsweredFrame<'a> {
    frame: usize,
    module_offset: String,
    module: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_offset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// Functions that were inlined here, the innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlines: Vec<InlinedFunction<'a>>,
}

#[derive(Serialize)]
struct InlinedFunction<'a> {
    function: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidBody, detail)
}

impl SymbolicationRequest {
    /// Reads the jobs of a body within the limits.
    fn read_jobs(body: &[u8]) -> Result<Vec<Job>, Problem> {
        let request: SymbolicationRequest =
            json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        let jobs = match (request.jobs, request.memory_map, request.stacks) {
            (Some(jobs), None, None) => jobs,
            (None, Some(memory_map), Some(stacks)) => vec![Job { memory_map, stacks }],
            _ => return Err(invalid("either jobs, or memoryMap and stacks")),
        };
        if jobs.is_empty() || jobs.len() > MAX_JOBS {
            return Err(invalid(format!("jobs: 1 to {MAX_JOBS}")));
        }
        if jobs.iter().map(|job| job.memory_map.len()).sum::<usize>() > MAX_MODULES {
            return Err(invalid(format!("memoryMap: at most {MAX_MODULES} modules")));
        }
        if jobs.iter().flat_map(|job| &job.stacks).map(Vec::len).sum::<usize>() > MAX_FRAMES {
            return Err(invalid(format!("stacks: at most {MAX_FRAMES} frames")));
        }
        for (index, job) in jobs.iter().enumerate() {
            job.check_job().map_err(|wrong| invalid(format!("jobs.{index}: {wrong}")))?;
        }
        Ok(jobs)
    }
}

impl Job {
    fn check_job(&self) -> Result<(), String> {
        for (index, Module(name, id)) in self.memory_map.iter().enumerate() {
            if name.len() > MAX_MODULE_NAME_BYTES || name.chars().any(char::is_control) {
                return Err(format!("memoryMap.{index}: a name of at most {MAX_MODULE_NAME_BYTES} bytes"));
            }
            if id.len() > 64 || !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(format!("memoryMap.{index}: a debug id of 32 hexadecimal digits and an age"));
            }
        }
        let modules = i64::try_from(self.memory_map.len()).unwrap_or(i64::MAX);
        let mut frames = self.stacks.iter().flatten();
        match frames.find(|ModuleOffset(module, _)| !(-1..modules).contains(module)) {
            Some(ModuleOffset(module, _)) => Err(format!("stacks: there is no module {module}")),
            None => Ok(()),
        }
    }

    /// Returns the indexes of modules that frames refer to.
    fn needed_modules(&self) -> BTreeSet<usize> {
        let frames = self.stacks.iter().flatten();
        frames.filter_map(|ModuleOffset(module, _)| usize::try_from(*module).ok()).collect()
    }
}

/// Answers a request of a profiler. It has taken one off return addresses already.
///
/// # Errors
/// The body is wrong or too large, or the tenant uses too much.
pub async fn answer_request(
    symbolication: &Symbolication,
    caller: &NamesCaller,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let tenant = &caller.tenant;
    let mut charge = Charge::for_symbolication(&symbolication.capacity, tenant)?;
    let mut reserved = symbolication.capacity.permits.reserve_public_body(tenant)?;
    let most = MAX_BODY_BYTES.min(symbolication.capacity.limits.report_bytes as u64);
    let body = Chunks::new(headers, body, most, symbolication.capacity.limits.client_pace())?
        .collect_body(&mut reserved)
        .await?;
    charge.charge_received(body.len() as u64)?;
    let jobs =
        symbolication.capacity.cpu.run_for(tenant, move || SymbolicationRequest::read_jobs(&body)).await??;
    let needed = jobs.iter().flat_map(|job| {
        job.needed_modules().into_iter().filter_map(|index| parse_breakpad_id(&job.memory_map.get(index)?.1))
    });
    let visible = visible_ids(&symbolication.storage, caller, needed.collect()).await?;
    let symbols = fetch_symbols(symbolication, tenant, visible).await?;
    let bytes = symbolication.capacity.cpu.run_for(tenant, move || write_answer(&jobs, &symbols)).await??;
    let reservation = reserve_bytes(&symbolication.capacity.permits, tenant, bytes.len() as u64)?;
    drop(reserved);
    let answer = ReservedAnswer { bytes: bytes.into(), reservation };
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], answer).into_response())
}

/// Writes the answers of jobs, one after another, so that the answer's size is known before it is all in memory.
fn write_answer(jobs: &[Job], symbols: &SymbolsOfReport) -> Result<Vec<u8>, Problem> {
    let mut bytes = b"{\"results\":[".to_vec();
    for (index, job) in jobs.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut bytes, &answer_job(job, symbols)).map_err(Problem::internal)?;
        if bytes.len() > MAX_ANSWER_BYTES {
            let detail = format!("the answer is larger than {MAX_ANSWER_BYTES} bytes; ask for fewer frames");
            return Err(Problem::new(Kind::TooLarge, detail));
        }
    }
    bytes.extend_from_slice(b"]}");
    Ok(bytes)
}

fn answer_job<'a>(job: &'a Job, symbols: &'a SymbolsOfReport) -> JobAnswer<'a> {
    let ids: Vec<Option<DebugId>> =
        job.memory_map.iter().map(|module| parse_breakpad_id(&module.1)).collect();
    let find = |module: i64| {
        let id = ids.get(usize::try_from(module).ok()?)?.as_ref()?;
        match symbols.get(id)? {
            ImageSymbols::Found { symcache, .. } => Some(symcache),
            _ => None,
        }
    };
    let answer = |index: usize, frame: &ModuleOffset| {
        let ModuleOffset(module, offset) = *frame;
        let name = usize::try_from(module).ok().and_then(|module| job.memory_map.get(module));
        let unknown = AnsweredFrame {
            frame: index,
            module_offset: format!("{offset:#x}"),
            module: name.map_or("<unknown>", |module| module.0.as_str()),
            function: None,
            function_offset: None,
            file: None,
            line: None,
            inlines: Vec::new(),
        };
        match find(module).map(|symcache| symcache.lookup(RelativeAddress(offset))) {
            Some(CodeLookup::Found(answer)) => {
                let start = answer.symbol_address.map(|start| offset.saturating_sub(start.0));
                let mut calls: Vec<CodeCall<'a>> = answer.calls().collect();
                let Some(owner) = calls.pop() else { return unknown };
                AnsweredFrame {
                    function: Some(owner.function.decode()),
                    function_offset: start.map(|offset| format!("{offset:#x}")),
                    file: owner.file.map(Text::decode),
                    line: owner.line,
                    inlines: calls.iter().map(to_inlined).collect(),
                    ..unknown
                }
            }
            _ => unknown,
        }
    };
    let stacks = job
        .stacks
        .iter()
        .map(|stack| stack.iter().enumerate().map(|(index, frame)| answer(index, frame)).collect());
    let needed = job.needed_modules();
    let found_modules = job.memory_map.iter().enumerate().map(|(index, Module(name, id))| {
        let is_found = || find(i64::try_from(index).unwrap_or(-1)).is_some();
        (format!("{name}/{id}"), needed.contains(&index).then(is_found))
    });
    JobAnswer { stacks: stacks.collect(), found_modules: found_modules.collect() }
}

fn to_inlined<'a>(call: &CodeCall<'a>) -> InlinedFunction<'a> {
    InlinedFunction { function: call.function.decode(), file: call.file.map(Text::decode), line: call.line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        let problem = SymbolicationRequest::read_jobs(body.as_bytes()).err().unwrap();
        assert_eq!(problem.kind(), Kind::InvalidBody);
        problem.detail().unwrap().to_owned()
    }

    #[test]
    fn a_request_has_jobs_or_is_one() {
        let one =
            r#"{"memoryMap":[["app","4C4C442C55553144A13CCB08E4DDCB6B0"]],"stacks":[[[0,16436],[-1,3]]]}"#;
        let several = format!("{{\"jobs\":[{one},{one}]}}");
        let count = |body: &str| SymbolicationRequest::read_jobs(body.as_bytes()).ok().unwrap().len();
        assert_eq!((count(one), count(&several)), (1, 2));
    }

    #[test]
    fn a_wrong_request_is_refused_with_the_place() {
        let job = r#"{"memoryMap":[],"stacks":[[[0,1]]]}"#;
        assert!(!problem("[").is_empty());
        assert!(problem("{}").contains("either jobs"));
        assert!(problem("{\"jobs\":[]}").contains("jobs: 1 to 10"));
        assert!(problem(job).contains("jobs.0: stacks: there is no module 0"));
        let jobs = [r#"{"memoryMap":[],"stacks":[]}"#; 11].join(",");
        assert!(problem(&format!("{{\"jobs\":[{jobs}]}}")).contains("jobs: 1 to 10"));
        let module = r#"{"memoryMap":[["app","x"]],"stacks":[]}"#;
        assert!(problem(module).contains("memoryMap.0: a debug id"));
        let frames = ["[-1,1]"; MAX_FRAMES + 1].join(",");
        assert!(problem(&format!("{{\"memoryMap\":[],\"stacks\":[[{frames}]]}}")).contains("at most 100000"));
    }
}
