// Answers questions to the engine as WebAssembly: one line of JSON in, one line out. A run's columns become hashes of
// their bytes, so that a test can compare them with those of the native engine.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const exports = new WebAssembly.Instance(module, {
  page: {
    now_ms: () => performance.now(),
    hear_panic: (pointer, length) => {
      console.error(new TextDecoder().decode(new Uint8Array(exports.memory.buffer, pointer >>> 0, length)));
    },
  },
}).exports;

function hashOf({ kind, pointer, length, words }) {
  const hash = createHash("sha256");
  const size = { flags: 1, integers: 8, numbers: 8, text: 4 }[kind];
  const bytes = Buffer.from(exports.memory.buffer, pointer >>> 0, length === 0 ? 0 : length * size);
  if (kind === "text") {
    const rows = new Uint32Array(length);
    new Uint8Array(rows.buffer).set(bytes);
    for (const row of rows) hash.update(words[row] + "\n");
  } else hash.update(bytes);
  return [kind, length, hash.digest("hex")];
}

for await (const line of createInterface({ input: process.stdin })) {
  const question = Buffer.from(line);
  // Making room may move the memory, so it comes first.
  const place = exports.request(question.length) >>> 0;
  new Uint8Array(exports.memory.buffer, place, question.length).set(question);
  const start = process.cpuUsage();
  const length = exports.answer() >>> 0;
  const { user, system } = process.cpuUsage(start);
  const reply = JSON.parse(Buffer.from(exports.memory.buffer, exports.reply() >>> 0, length).toString());
  for (const table of Object.values(reply.tables ?? {}))
    for (const [name, place] of Object.entries(table)) table[name] = hashOf(place);
  process.stdout.write(JSON.stringify({ ...reply, cpu_s: (user + system) / 1e6 }) + "\n");
}
