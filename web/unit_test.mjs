// SPDX-License-Identifier: Apache-2.0
// Bundles unit/*.test.ts and runs them with node's own test runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "../build/web/unit");
rmSync(OUT, { recursive: true, force: true });
const names = readdirSync(join(HERE, "unit")).filter((name) => name.endsWith(".test.ts"));
await build({
  absWorkingDir: HERE,
  entryPoints: names.map((name) => `unit/${name}`),
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node18",
  outdir: OUT,
  outExtension: { ".js": ".mjs" },
  sourcemap: "inline",
  logLevel: "warning",
});
const files = names.map((name) => join(OUT, name.replace(/\.ts$/, ".mjs")));
process.exit(spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit", cwd: HERE }).status ?? 1);
