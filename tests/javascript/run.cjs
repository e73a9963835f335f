// Runs a bundle, or an indexed RAM bundle, under its file name, as an engine of React Native does.
// Usage: node run.cjs BUNDLE
const { readFileSync } = require("node:fs");
const vm = require("node:vm");
const RamBundleParser = require("metro/private/lib/RamBundleParser").default;

const [, , file] = process.argv;
const bytes = readFileSync(file);
const run = (code, filename) => vm.runInThisContext(code, { filename });
if (bytes.readUInt32LE(0) === 0xfb0bd1e5) {
  const bundle = new RamBundleParser(bytes);
  globalThis.nativeRequire = (module) => run(bundle.getModule(module), `${module}.js`);
  run(bundle.getStartupCode(), file);
} else {
  run(bytes.toString("utf8"), file);
}
