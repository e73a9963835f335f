// Prints what Babel's parser says of the functions of real sources, and bundles that terser has minified.
// Usage: node names.mjs FOLDER     writes FOLDER/kept.js and FOLDER/mangled.js
// Printed, as one JSON document: `sources` with a map of many sources and the function at each column of its only line,
// null for none; `kept` and `mangled` with the map of a bundle and the stacks of the two errors of src/shop.js.
import { parse } from "@babel/parser";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { SourceMapGenerator } from "source-map";
import { minify } from "terser";

const folder = process.argv[2];
const here = (path) => new URL(path, import.meta.url).pathname;

// What a function is assigned to is its name, without the objects that say nothing.
const BARE = new Set(["this", "exports", "module", "window", "self", "globalThis"]);
const ANONYMOUS = ".<anonymous>";

console.log(JSON.stringify({ sources: sources(), kept: await bundle("kept", true), mangled: await bundle("mangled", false) }));

async function bundle(name, keep) {
  const file = `${folder}/${name}.js`;
  const source = readFileSync(here("./src/shop.js"), "utf8");
  const options = { toplevel: true, keep_fnames: keep, compress: { inline: false, reduce_funcs: false } };
  const { code, map } = await minify({ "src/shop.js": source }, { ...options, sourceMap: { includeSources: true } });
  writeFileSync(file, code);
  const stacks = ["buy", "login"].map((bug) => execFileSync(process.execPath, [file, bug], { encoding: "utf8" }));
  return { file: `${name}.js`, map, stacks };
}

function sources() {
  const generator = new SourceMapGenerator();
  const functions = [];
  for (const path of files()) {
    const text = readFileSync(here(path), "utf8");
    const ast = parsed(path, text);
    if (!ast) continue;
    const name = path.replace(/\.flow$/, ".flow.js");
    generator.setSourceContent(name, text);
    for (const [start, around] of insides(ast.program, text)) {
      const before = text.slice(0, start).split(/\r\n|[\n\r\u2028\u2029]/);
      const original = { line: before.length, column: before.at(-1).length };
      generator.addMapping({ generated: { line: 1, column: functions.length }, original, source: name });
      functions.push(around);
    }
  }
  return { map: generator.toString(), functions };
}

// Sources as people write them: CommonJS, modules, Flow with types, TypeScript and JSX.
function files() {
  const folders = ["metro/src/lib", "metro/src/DeltaBundler", "metro-config/src", "@jridgewell/trace-mapping/src", "ws/lib",
    "@jridgewell/gen-mapping/src", "metro-file-map/src/lib", "react-refresh/cjs", "acorn/dist"];
  const inFolder = (folder) => {
    const names = readdirSync(here(`./node_modules/${folder}`)).sort();
    return names.filter((name) => /\.(js|mjs|ts|flow)$/.test(name) && !/\.d\.m?ts$/.test(name)).map((name) => `./node_modules/${folder}/${name}`);
  };
  const own = readdirSync(here("./src")).sort().map((name) => `./src/${name}`);
  return [...folders.flatMap(inFolder), ...own];
}

function parsed(path, text) {
  const types = /\.m?tsx?$/.test(path) ? ["typescript", "decorators"] : [["flow", { all: true }]];
  const plugins = /\.ts$/.test(path) ? types : [...types, "jsx"];
  try {
    return parse(text, { sourceType: "unambiguous", plugins, allowReturnOutsideFunction: true });
  } catch {
    // The newest Flow.
    return null;
  }
}

// A place inside each function and behind its begin, and the name of the function there.
function insides(program, text) {
  const found = [];
  visit(program, [], null);
  return found;

  function visit(node, parents, around) {
    let own = around;
    const isClass = /^Class(Declaration|Expression)$/.test(node.type);
    if (isClass || (/Function|Method/.test(node.type) && node.body && node.params)) {
      const name = isClass ? className(node, parents) : functionName(node, parents);
      own = name ?? (around && (around.endsWith(ANONYMOUS) ? around : around + ANONYMOUS));
      const isBlock = node.body.type !== "ArrowFunctionExpression" && !/Class/.test(node.body.type);
      if (isBlock) found.push([node.body.type.endsWith("Body") || node.body.type === "BlockStatement" ? node.body.end - 1 : node.body.start, own]);
    }
    for (const child of children(node)) {
      const isBody = !isClass || child === node.body;
      visit(child, [node, ...parents], isBody ? own : around);
    }
  }

  function functionName(node, parents) {
    if (node.id) return node.id.name;
    if (!node.key) return placeName(node, parents);
    const key = keyName(node);
    return node.type === "ObjectMethod" ? key : member(className(parents[1], parents.slice(2)), key);
  }

  function className(node, parents) {
    return node.id ? node.id.name : placeName(node, parents);
  }

  function member(className, key) {
    if (key === null || !className) return key;
    return key === "constructor" ? `new ${className}` : `${className}.${key}`;
  }

  function placeName(node, parents) {
    let [parent, ...others] = parents;
    // `(function () {}) as Handler`
    while (parent.type === "TSAsExpression") [node, parent, ...others] = [parent, ...others];
    // `function () {}.bind(this)`
    while (parent.type === "MemberExpression" && parent.object === node && others[0].callee === parent) {
      [node, parent, ...others] = others;
    }
    if (node.extra?.parenthesized) return null;
    switch (parent.type) {
      case "VariableDeclarator": return parent.id.name ?? null;
      case "AssignmentPattern": return parent.right === node ? parent.left.name ?? null : null;
      case "AssignmentExpression": return parent.right === node ? assigned(parent.left) : null;
      case "ObjectProperty": return parent.value === node ? keyName(parent) : null;
      case "ClassProperty":
      case "ClassPrivateProperty": return parent.value === node ? member(className(others[1], others.slice(2)), keyName(parent)) : null;
      case "ExportDefaultDeclaration": return "default";
      case "JSXExpressionContainer": return others[0].type === "JSXAttribute" ? others[0].name.name : null;
      default: return null;
    }
  }

  function keyName({ key, computed }) {
    if (key.type === "StringLiteral") return key.value || null;
    if (computed) return path(key) === null ? null : `[${text.slice(key.start, key.end)}]`;
    return key.type === "PrivateName" ? `#${key.id.name}` : text.slice(key.start, key.end);
  }

  function path(node) {
    if (node.type === "ThisExpression") return "this";
    if (node.type === "Identifier") return node.name;
    const isPlain = node.type === "MemberExpression" && !node.computed && path(node.object) !== null;
    return isPlain ? `${path(node.object)}.${text.slice(node.property.start, node.property.end)}` : null;
  }

  function assigned(left) {
    const parts = path(left)?.split(".") ?? [];
    if (parts.length > 1) while (BARE.has(parts[0])) parts.shift();
    return parts.filter((part) => part !== "prototype").join(".") || null;
  }
}

function children(node) {
  const isNode = (value) => value && typeof value.type === "string" && typeof value.start === "number";
  return Object.entries(node).filter(([key]) => !/Comments$/.test(key) && key !== "loc").flatMap(([, value]) => value).filter(isNode);
}
