// Bundles src/app.ts with Metro and Hermes as React Native does, runs the bundles, and prints what other readers say.
// Usage: node metro.mjs FOLDER     writes a folder for each bundle, with the bundle and its source map
// Printed, as one JSON document: for each bundle its file name, its map as a text, its mappings and the stacks of its
// errors with their frames, as readers.mjs has them.
import Metro from "metro";
import { composeSourceMaps } from "metro-source-map";
import unbundle from "metro/private/shared/output/unbundle";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { frames, mappings } from "./readers.mjs";

const folder = process.argv[2];
const root = realpathSync(fileURLToPath(new URL(".", import.meta.url)));
const packages = realpathSync(`${root}/node_modules`);
const bundles = {};

const config = await Metro.loadConfig({}, {
  projectRoot: root,
  watchFolders: [packages],
  cacheStores: [],
  maxWorkers: 1,
  resolver: { useWatchman: false, platforms: ["ios", "android"] },
  reporter: { update() {} },
});
// Modules of a RAM bundle are loaded where they are first used, and those of a group together.
const lazy = {
  transform: { inlineRequires: true },
  preloadedModules: { [`${root}/src/app.ts`]: true },
  ramGroups: [`${root}/src/cart.ts`],
};
const ramConfig = { ...config, transformer: { ...config.transformer, getTransformOptions: async () => lazy } };

const shop = (file) => (file === "shop.bundle" ? 0 : undefined);
const inNode = [process.execPath, [`${root}/run.cjs`, "shop.bundle"]];

await bundle("ios", { platform: "ios", minify: true });
await describe("ios", inNode, shop);
await bundle("android", { platform: "android", minify: false });
await describe("android", inNode, shop);

await bundle("ram", { platform: "ios", minify: true, output: unbundle }, ramConfig);
const { x_facebook_offsets: offsets } = readMap("ram");
await describe("ram", inNode, (file) => offsets[/^(\d+)\.js$/.exec(file)?.[1]] ?? shop(file));

// There are no programs of Hermes for Linux on ARM.
if (process.platform === "darwin" || process.arch === "x64") {
  const system = process.platform === "darwin" ? "osx-bin" : "linux64-bin";
  const engine = `${packages}/hermes-engine-cli/${system}`;
  compile("hermes", `${engine}/hermesc`);
  await describe("hermes", [`${engine}/hermes`, ["-b", "shop.bundle"]], shop);
  // The newest compiler has no engine beside it.
  compile("hermes_newest", `${packages}/hermes-compiler/hermesc/${system}/hermesc`);
  await describe("hermes_newest", null, shop);
}
console.log(JSON.stringify(bundles));

function readMap(name) {
  return JSON.parse(readFileSync(`${folder}/${name}/shop.bundle.map`, "utf8"));
}

async function bundle(name, options, own = config) {
  mkdirSync(`${folder}/${name}`);
  const bundleOut = `${folder}/${name}/shop.bundle`;
  const output = { bundleOut, sourceMap: true, sourceMapUrl: "shop.bundle.map", sourceMapOut: `${bundleOut}.map` };
  await Metro.runBuild(own, { entry: "src/app.ts", dev: false, ...output, ...options });
}

// Compiles the bundle for Android, and puts its two maps together as React Native's compose-source-maps does.
function compile(name, compiler) {
  mkdirSync(`${folder}/${name}`);
  const bytecode = `${folder}/${name}/shop.bundle`;
  const options = ["-w", "-O", "-emit-binary", "-output-source-map", "-out", bytecode];
  execFileSync(compiler, [...options, `${folder}/android/shop.bundle`]);
  writeFileSync(`${bytecode}.map`, JSON.stringify(composeSourceMaps([readMap("android"), readMap(name)])));
}

// Runs a bundle, which prints the stacks of its errors, and adds what other readers say of it.
async function describe(name, engine, linesAbove) {
  const printed = engine && execFileSync(...engine, { cwd: `${folder}/${name}`, encoding: "utf8" });
  const map = readMap(name);
  const read = corrected(map);
  const stacks = [];
  for (const stack of JSON.parse(printed ?? "[]")) {
    stacks.push({ stack, frames: await frames(read, stack, linesAbove) });
  }
  bundles[name] = { file: "shop.bundle", map: JSON.stringify(map), mappings: await mappings(read), stacks };
}

// Metro counts the wrapper of a RAM bundle's module in its mappings, and once more as the column of its section.
function corrected(map) {
  const sections = map.sections?.map(({ offset, map }) => ({ offset: { ...offset, column: 0 }, map }));
  return sections ? { ...map, sections } : map;
}
