// SPDX-License-Identifier: Apache-2.0
// Makes dist/ from src/, and sources.sha256, by which scripts/check-web sees without any package whether dist/ is old.
// With --check it changes nothing, and fails if dist/ is not what the sources give.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const DIST = join(HERE, "dist");
const SOURCES = join(HERE, "sources.sha256");
const BROWSERS = ["chrome123", "firefox128", "safari17.5"]; // the first with light-dark() and all else that is used
const MOST_GZIP_BYTES = 70 * 1024;

async function bundle(entry) {
  const result = await build({
    absWorkingDir: HERE,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: BROWSERS,
    legalComments: "none",
    charset: "utf8",
    logLevel: "warning",
  });
  return result.outputFiles[0].text;
}

/** Our notice, and those of what is in the file. */
async function notice() {
  const license = await readFile(join(HERE, "node_modules/uplot/LICENSE"), "utf8");
  const lines = license.trim().replaceAll("*/", "* /");
  return `/* Weir's dashboard. SPDX-License-Identifier: Apache-2.0\n\nIt contains uPlot:\n\n${lines}\n*/\n`;
}

async function files() {
  const text = (name) => readFile(join(HERE, "src", name), "utf8");
  const head = await notice();
  return new Map([
    ["index.html", await text("index.html")],
    ["app.js", head + (await bundle("src/main.ts"))],
    ["app.css", head + (await bundle("src/app.css"))],
    ["icon.svg", await text("icon.svg")],
  ]);
}

/** The hash of everything that dist/ is made of: for each file its path, a zero, its size, a zero, its bytes. */
async function hashOfSources() {
  const names = ["build.mjs", "package-lock.json"];
  const walk = async (folder) => {
    for (const entry of await readdir(join(HERE, folder), { withFileTypes: true })) {
      const name = `${folder}/${entry.name}`;
      if (entry.isDirectory()) await walk(name);
      else names.push(name);
    }
  };
  await walk("src");
  const hash = createHash("sha256");
  for (const name of names.sort()) {
    const bytes = await readFile(join(HERE, name));
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex") + "\n";
}

async function check(wanted) {
  const there = await readdir(DIST).catch(() => []);
  const faults = there.filter((name) => !wanted.has(name)).map((name) => `dist/${name} should not be there`);
  for (const [name, text] of wanted) {
    const present = there.includes(name) ? await readFile(join(DIST, name), "utf8") : null;
    if (present !== text) faults.push(`dist/${name} ${present === null ? "is missing" : "differs from its sources"}`);
  }
  const noted = await readFile(SOURCES, "utf8").catch(() => "");
  if (noted !== (await hashOfSources())) faults.push("sources.sha256 is not that of the sources");
  return faults;
}

const wanted = await files();
const gzip = [...wanted.values()].reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0);
const faults = gzip > MOST_GZIP_BYTES ? [`the page has ${gzip} bytes compressed, ${MOST_GZIP_BYTES} at most`] : [];
if (process.argv.includes("--check")) {
  faults.push(...(await check(wanted)));
  if (faults.length > 0) faults.push("run 'node build.mjs' and commit dist/ and sources.sha256");
} else {
  await rm(DIST, { recursive: true, force: true });
  await mkdir(DIST);
  for (const [name, text] of wanted) await writeFile(join(DIST, name), text);
  await writeFile(SOURCES, await hashOfSources());
}
for (const fault of faults) console.error(`build: ${fault}`);
for (const [name, text] of wanted)
  console.log(`${name.padEnd(12)} ${String(Buffer.byteLength(text)).padStart(7)} bytes`);
console.log(`all          ${String(gzip).padStart(7)} bytes compressed`);
process.exit(faults.length > 0 ? 1 : 0);
