// Makes the page: modules into two files, styles into one, and the engine beside them where it has been built.
import { copyFile, cp, mkdir, rm, access } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = here("../python/anabranch/lab/static/");
const engine = here("../target/wasm32-unknown-unknown/wasm/anabranch_wasm.wasm");

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here("."),
  entryPoints: { lab: "src/main.ts", worker: "src/worker.ts", style: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  loader: { ".toml": "text" },
  legalComments: "inline",
  logLevel: "warning",
});
await cp(here("src/index.html"), out + "index.html");
const wasm = process.env.ANABRANCH_WASM ?? engine;
try {
  await access(wasm);
} catch {
  console.error(`the page is there, its engine is not: ${wasm} has not been built (make lab)`);
  process.exit(1);
}
await copyFile(wasm, out + "engine.wasm");
