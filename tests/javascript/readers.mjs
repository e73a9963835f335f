// What Mozilla's source-map and Metro's reader of function maps say of a bundle.
import { SourceMetadataMapConsumer } from "metro-symbolicate/private/Symbolication";
import { SourceMapConsumer } from "source-map";

// A frame as V8 and Hermes write it. V8 counts columns from 1; an offset in bytecode is from 0.
const FRAME = /^ +at (?:.*? \()?(address at )?([^()]+):(\d+):(\d+)\)?$/;

// Every mapping as [line, column, source, line, column, function], with lines from 1 and columns from 0. What the map does
// not know is null.
export function mappings(map) {
  return withReaders(map, (original, consumer) => {
    const seen = [];
    consumer.eachMapping(({ generatedLine, generatedColumn }) => {
      const { source, line, column, name } = original(generatedLine, generatedColumn);
      seen.push([generatedLine, generatedColumn, source, line, column, name]);
    });
    return seen;
  });
}

// For each frame of a stack where its code comes from, with the line that was written there unless it is a library's:
// {} where it comes from no source, null for a file that is not the bundle's. linesAbove gives the number of the
// bundle's lines above those of a file.
export function frames(map, stack, linesAbove) {
  const libraries = librariesOf(map);
  return withReaders(map, (original, consumer) => {
    const lines = stack.split("\n").filter((line) => /^ +at /.test(line));
    return lines.map((text) => {
      const [, address, file, row, place] = FRAME.exec(text) ?? [];
      const above = file && linesAbove(file);
      if (above === undefined) return null;
      const { source, line, column, name } = original(above + Number(row), Number(place) - (address ? 0 : 1));
      if (source === null) return {};
      const library = libraries.has(source);
      const written = library ? null : consumer.sourceContentFor(source).split("\n")[line - 1];
      return { file: source, line, column, function: name, library, written };
    });
  });
}

function withReaders(map, read) {
  const functions = new SourceMetadataMapConsumer(map, (source) => source);
  return SourceMapConsumer.with(map, null, (consumer) => {
    const original = (generatedLine, generatedColumn) => {
      const place = consumer.originalPositionFor({ line: generatedLine, column: generatedColumn });
      return { ...place, name: functions.functionNameFor(place) };
    };
    return read(original, consumer);
  });
}

// The sources that a map, or one of its sections, says are of libraries.
function librariesOf(map) {
  const own = (map.x_google_ignoreList ?? []).map((at) => map.sources[at]);
  return new Set([...own, ...(map.sections ?? []).flatMap((section) => [...librariesOf(section.map)])]);
}
