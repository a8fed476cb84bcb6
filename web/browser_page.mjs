// SPDX-License-Identifier: Apache-2.0
// What a person does on the page: goes somewhere, presses a button, types into a field. Names are those that are seen.

/** Of Chromium: nothing is asked of the network but what the page asks. */
export const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

export const text = (page, selector) => page.$eval(selector, (element) => element.textContent);
export const go = async (page, where) => {
  await page.evaluate((to) => (location.hash = to), where);
  await page.waitForFunction(() => document.querySelector("main h1"));
};
/** The button with that name that can be seen, in the uppermost dialog if one is open. */
export async function press(page, name) {
  const button = await page.waitForFunction(
    (wanted) => {
      const root = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
      return [...root.querySelectorAll("button")].find(
        (one) =>
          (one.getAttribute("aria-label") ?? one.textContent).trim() === wanted &&
          !one.disabled &&
          one.checkVisibility(),
      );
    },
    { timeout: 5000 },
    name,
  );
  await button.asElement().evaluate((element) => element.scrollIntoView({ block: "center" }));
  await button.asElement().click();
}
export async function type(page, label, value) {
  const input = await page.waitForFunction(
    (wanted) => {
      const root = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
      const found = [...root.querySelectorAll("label")].find((one) => one.textContent === wanted);
      return found && document.getElementById(found.htmlFor);
    },
    { timeout: 5000 },
    label,
  );
  await input.asElement().click({ count: 3 });
  await input.asElement().type(value);
}
export const firstRow = (page) => page.waitForSelector("tbody tr td.name", { timeout: 10_000 });
