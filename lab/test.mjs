// Runs the tests of modules that need no page: bundled as the page is, by Node's own test runner.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const tests = fileURLToPath(new URL("tests/", import.meta.url));
const out = await mkdtemp(join(tmpdir(), "lab-"));
const files = (await readdir(tests)).filter((name) => name.endsWith(".test.mjs"));
await build({
  entryPoints: files.map((name) => join(tests, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  loader: { ".toml": "text" },
  logLevel: "warning",
});
const built = (await readdir(out)).map((name) => join(out, name));
const { status } = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" });
await rm(out, { recursive: true });
process.exit(status ?? 1);
