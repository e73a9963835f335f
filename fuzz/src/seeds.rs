//! Writes the seed corpus from the project's own generators and fixtures: `cargo run --bin seeds`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_symbolicate::object::build_symcache;
use unslide_system_symbols_formats::dyld_cache::DyldCache;
use unslide_testkit::{fixtures, reports};

/// Registers of a seed of `subject`: so many that few names share one.
const REGISTER_SLOTS: usize = 61;

fn save_seed(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("the corpus is writable");
    std::fs::write(folder.join(name), bytes).expect("the corpus is writable");
}

fn read_fixture(path: PathBuf) -> Vec<u8> {
    std::fs::read(path).expect("a fixture")
}

fn main() {
    write_objects();
    write_subjects();
    write_names();
    reports_and_keys();
    write_signals();
    write_archives();
}

/// Objects and the symcaches built from them.
fn write_objects() {
    for name in ["app", "kit", "orb-v0", "watch"] {
        save_seed("object", name, &read_fixture(fixtures::dsym(name)));
    }
    write_caches();
    // A map with sections, a function map, and lines of source.
    let section = r#"{"version":3,"sources":["a.ts"],"sourcesContent":["let a;\n"],"names":["a"],"mappings":"AAAA,IAAIA;AACA",
"x_facebook_sources":[[{"names":["f"],"mappings":"AAA"}]]}"#;
    let map = format!(
        r#"{{"version":3,"debugId":"6f9619ff-8b86-d011-b42d-00c04fc964ff","sections":[{{"offset":{{"line":0,"column":9}},"map":{section}}}]}}"#
    );
    save_seed("object", "source-map", map.as_bytes());
    for name in ["app", "kit-arm64", "deep-5", "orb-v0"] {
        let built = build_symcache(&read_fixture(fixtures::dsym(name))).expect("a fixture builds");
        save_seed("symcache", name, &built.symcache);
    }
}

/// Planned crashes with their tables of variables and their instructions.
fn write_subjects() {
    let cases = include_str!("../../features/fault-analysis/tests/data/subjects.ndjson");
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).expect("a fixture is JSON");
        let name = case["case"].as_str().expect("a case has a name");
        save_seed("subject", name, &subject_input(&case));
    }
}

/// Writes a crash in the form that the check of `subject` reads.
fn subject_input(case: &Value) -> Vec<u8> {
    let mut input = Vec::new();
    for key in ["table", "text"] {
        let digits = case[key].as_str().expect("a fixture has digits").as_bytes();
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).expect("digits are ASCII");
            u8::from_str_radix(digits, 16).expect("digits are hexadecimal")
        };
        let bytes: Vec<u8> = digits.chunks_exact(2).map(byte).collect();
        input.extend(u16::try_from(bytes.len()).expect("a table of the fixture is small").to_le_bytes());
        input.extend(bytes);
    }
    let number = |value: &Value| value.as_u64().or(value.as_i64().map(i64::cast_unsigned)).unwrap_or(0);
    let registers = &case["report"]["crash"]["threads"][0]["registers"];
    let (basic, exception) = (&registers["basic"], &registers["exception"]);
    let start = number(&case["report"]["binary_images"][0]["image_addr"]);
    let address = (number(&basic["pc"]) | number(&basic["rip"])) - start;
    input.extend(u32::try_from(address).expect("an app is small").to_le_bytes());
    input.extend((number(&exception["far"]) | number(&exception["faultvaddr"])).to_le_bytes());
    let mut bits = [0; REGISTER_SLOTS];
    for (name, value) in basic.as_object().expect("a report has registers") {
        bits[name.bytes().map(usize::from).sum::<usize>() % REGISTER_SLOTS] = number(value);
    }
    input.extend(bits.iter().flat_map(|bits| bits.to_le_bytes()));
    input
}

/// A dyld shared cache in one file, and the names of one of its images.
fn write_caches() {
    let main = read_fixture(fixtures::dyld_caches().join("ios14-single/dyld_shared_cache_arm64e"));
    save_seed("dyld_cache", "single", &main);
    let none = |_: &str| Ok(None);
    let cache = DyldCache::open(main.into(), "dyld_shared_cache_arm64e", none).expect("a fixture opens");
    let image = cache.images().first().expect("a fixture has images");
    let names = cache.read_names(image).expect("a fixture is read").to_file();
    save_seed("object", "names", &names.expect("a fixture is written"));
}

/// Mangled names.
fn write_names() {
    for (i, name) in [
        "_ZN3geo4RingINS_5PointELi4EE4pushERKS1_",
        "_ZThn16_N10SkPixelRefD0Ev",
        "_RNvXs_NtC3orb6shapesNtB4_6SquareNtB4_4Area4area",
        "_ZN3orb6shapes3sum17h2d55b0580eae69efE",
        "$s4Shop4CartV3addyySiF",
        "$s4main1xAA3FooVyADyADyS2iGAEGAFGvp",
        "-[Counter add:times:]",
        "_ZN4Shop6größeEi",
        "_RNvCs1234_4shop9u_gre_qya1k",
        "$s4Shop4CartV00B3_dmayyF",
        "-[Корзина 合計👜:]",
    ]
    .into_iter()
    .enumerate()
    {
        save_seed("demangle", &i.to_string(), name.as_bytes());
    }
}

/// Reports, and keys of object storage.
fn reports_and_keys() {
    for (name, report) in reports::shapes() {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        save_seed("report", &name, &report.bytes());
        save_seed("enrich", &name, &report.bytes());
    }
    for seed in 0..8 {
        let bytes = reports::random(seed).bytes();
        if bytes.len() < 16 << 10 {
            save_seed("report", &format!("random-{seed}"), &bytes);
            save_seed("splice", &format!("random-{seed}"), &bytes);
            save_seed("enrich", &format!("random-{seed}"), &bytes);
        }
    }
    for seed in 0..12 {
        let bytes = reports::scripts(seed).bytes();
        save_seed("report", &format!("scripts-{seed}"), &bytes);
        save_seed("enrich", &format!("scripts-{seed}"), &bytes);
    }
    for (name, key) in [
        ("segment", "t/acme/segments/2026-11-20/01890a5d-ac96-774b-bcce-b302099a8057"),
        ("outside", "t/acme/../other/x"),
    ] {
        save_seed("key", name, key.as_bytes());
    }
}

/// Metric payloads and images of profiles.
fn write_signals() {
    let metrics = r#"{"id":"m1","app":"com.acme.shop","measured_at":"2026-11-20T08:00:00Z","sampled":0.1,
"measurements":[{"name":"launch_time","unit":"s","value":1.5},{"name":"hang_time","unit":"ms","histogram":[{"from":250,"to":500,"count":3}]}],
"requests":[{"host":"api.example.com","dns":12,"total":140,"failed":true}],
"metric_kit":{"timeStampEnd":"2026-11-20 08:00:00 +0000","appVersion":"1.0","metaData":{"regionFormat":"US"},
"cpuMetrics":{"cumulativeCPUTime":"1,100 sec"},"applicationLaunchMetrics":{"histogrammedTimeToFirstDrawKey":
{"histogramNumBuckets":1,"histogramValue":{"0":{"bucketCount":5,"bucketStart":"1,000 ms","bucketEnd":"1,010 ms"}}}}}}"#;
    save_seed("metrics", "both", metrics.as_bytes());
    let images = r#"{"crash":{},"binary_images":[{"name":"/Applications/Shop.app/Shop","uuid":"A1B2C3D4-0000-3111-8222-0123456789AB",
"image_addr":18446744069414584320,"image_size":"0x100","cpu_type":1},{"name":"no address"},{"image_addr":[]}]}"#;
    save_seed("profile", "images", images.as_bytes());
    let ips = r#"{"app_name":"Shop","bug_type":"309"}
{"usedImages":[{"source":"P","base":4096,"size":16,"name":"Shop","path":"/x/Shop","uuid":"a1b2c3d4-0000-3111-8222-0123456789ab"}]}"#;
    save_seed("profile", "images-ips", ips.as_bytes());
}

fn write_archives() {
    let archives = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/archive");
    std::fs::create_dir_all(&archives).expect("the corpus is writable");
    let done =
        Command::new("python3").arg("-c").arg(ARCHIVES).arg(fixtures::dsym("orb-v0")).arg(&archives).status();
    assert!(done.expect("python3").success());
}

const ARCHIVES: &str = "
import gzip, io, os, sys, tarfile, zipfile
source, folder = sys.argv[1:]
data = open(source, 'rb').read()
name = 'orb.dSYM/Contents/Resources/DWARF/orb'
def save(n, b): open(os.path.join(folder, n), 'wb').write(b)
def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as t:
        for n, b in entries:
            i = tarfile.TarInfo(n); i.size = len(b); t.addfile(i, io.BytesIO(b))
    return out.getvalue()
def zip(entries, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', method) as z:
        for n, b in entries: z.writestr(zipfile.ZipInfo(n), b, method)
    return out.getvalue()
small = tar([(name, data[:2048]), ('../outside', b'x'), ('README', b'text')])
save('tar', small)
save('tar.gz', gzip.compress(small, mtime=0))
save('zip', zip([(name, data)], zipfile.ZIP_DEFLATED))
save('zip-stored', zip([(name, data[:2048])], zipfile.ZIP_STORED))
save('nested.zip', zip([('inner.tar.gz', gzip.compress(small, mtime=0))], zipfile.ZIP_DEFLATED))
save('bare', data[:4096])
# Sparse files, in pax 1.0 and in GNU's old form with a block of its map behind the header.
out = io.BytesIO()
with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as t:
    i = tarfile.TarInfo('GNUSparseFile.7/orb')
    b = bytes('2\\n0\\n512\\n1024\\n600\\n', 'ascii').ljust(512, bytes(1)) + data[:1112]
    i.size = len(b)
    i.pax_headers = {'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': name,
                     'GNU.sparse.realsize': '2048'}
    t.addfile(i, io.BytesIO(b))
save('sparse-pax.tar', out.getvalue())
parts = b''.join(b'%011o\\0%011o\\0' % (2 * n * 512, 512) for n in range(6))
i = tarfile.TarInfo(name)
i.type, i.size = b'S', 6 * 512
h = bytearray(i.tobuf(tarfile.GNU_FORMAT))
h[386:482], h[482], h[483:495] = parts[:96], 1, b'%011o\\0' % 6144
h[148:156] = b' ' * 8
h[148:156] = b'%06o\\0 ' % sum(h)
save('sparse-old.tar', bytes(h) + parts[96:].ljust(512, bytes(1)) + data[:6 * 512] + bytes(1024))
";
