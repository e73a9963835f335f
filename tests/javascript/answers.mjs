// Bundles src/ with esbuild, and prints what Mozilla's source-map says of the bundle.
// Usage: node answers.mjs FOLDER     writes FOLDER/plain.js, FOLDER/small.js and their maps
// Printed, as one JSON document: for each bundle every mapping as [line, column, source, line, column] with lines from 1
// and columns from 0, the source null where the code comes from none; and the stack of the error that the bundle ends in.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { SourceMapConsumer } from "source-map";

const folder = process.argv[2];
const source = new URL("./src/main.ts", import.meta.url).pathname;
const bundles = {};
for (const [name, minify] of [["plain", false], ["small", true]]) {
  const file = `${folder}/${name}.js`;
  await build({ entryPoints: [source], bundle: true, minify, sourcemap: true, target: "es2017", outfile: file, logLevel: "error" });
  const map = JSON.parse(readFileSync(`${file}.map`, "utf8"));
  const mappings = await SourceMapConsumer.with(map, null, (consumer) => {
    const seen = [];
    consumer.eachMapping((one) => {
      const { source, line, column } = consumer.originalPositionFor({ line: one.generatedLine, column: one.generatedColumn });
      seen.push([one.generatedLine, one.generatedColumn, source, line, column]);
    });
    return seen;
  });
  const stack = execFileSync(process.execPath, [file], { encoding: "utf8" });
  bundles[name] = { mappings, stack };
}
console.log(JSON.stringify(bundles));
