// SPDX-License-Identifier: Apache-2.0
// What browser_test.mjs counts and waits with.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PATIENCE_MS = 8000;

export function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

/** Waits until `holds` gives true. */
export async function until(holds, what, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within ${patience / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class Checks {
  passed = 0;
  failed = 0;

  constructor(only = "") {
    this.only = new RegExp(only);
  }

  /** A check that fails does not end the others. */
  async run(name, check) {
    if (!this.only.test(name)) return;
    try {
      await check();
      this.passed += 1;
      console.log(`ok ${name}`);
    } catch (error) {
      this.failed += 1;
      console.log(`FAILED ${name}: ${error.message}`);
    }
  }

  /** Fails where the page breaks a rule of accessibility. */
  async axe(page, where) {
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
    const broken = await page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
      return violations.map(
        (one) =>
          `${one.id}: ${one.help}: ${one.nodes
            .slice(0, 3)
            .map((node) => `${node.target} (${node.failureSummary})`)
            .join("; ")}`,
      );
    });
    expect(broken.length === 0, `axe, ${where}: ${broken.join("\n   ")}`);
  }

  end() {
    console.log(`${this.passed} passed, ${this.failed} failed`);
    process.exitCode = this.failed > 0 || this.passed === 0 ? 1 : 0;
  }
}
