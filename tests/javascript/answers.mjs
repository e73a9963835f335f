// Bundles src/main.ts with esbuild, and prints what other readers say of the bundle.
// Usage: node answers.mjs FOLDER     writes FOLDER/plain.js, FOLDER/small.js and their maps
// Printed, as one JSON document: for each bundle its map as a text, its mappings as readers.mjs has them, and the stack
// of the error that it ends in.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mappings } from "./readers.mjs";

const folder = process.argv[2];
const source = new URL("./src/main.ts", import.meta.url).pathname;
const bundles = {};
for (const [name, minify] of [["plain", false], ["small", true]]) {
  const file = `${folder}/${name}.js`;
  await build({ entryPoints: [source], bundle: true, minify, sourcemap: true, target: "es2017", outfile: file, logLevel: "error" });
  const map = readFileSync(`${file}.map`, "utf8");
  const stack = execFileSync(process.execPath, [file], { encoding: "utf8" });
  bundles[name] = { file: `${name}.js`, map, mappings: await mappings(JSON.parse(map)), stack };
}
console.log(JSON.stringify(bundles));
